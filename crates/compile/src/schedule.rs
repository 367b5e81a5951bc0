//! Phase 3: one order of layers.
//!
//! Lowering already emits producers before consumers; this stage states it as a checked order that placement relies on.

use crate::anec::*;
use crate::legalize::Legal;
use std::fmt;

/// Layers in execution order, and when each buffer lives.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(crate) graph: Graph,
    /// First and last position at which each buffer is touched; `None` for buffers that no layer touches.
    pub(crate) live: Vec<Option<(usize, usize)>>,
}

/// Keeps the lowered order.
pub fn schedule(legal: Legal) -> Schedule {
    let graph = legal.into_graph();
    let mut live: Vec<Option<(usize, usize)>> = vec![None; graph.buffers.len()];
    for (i, layer) in graph.layers.iter().enumerate() {
        for view in layer.sources.iter().chain([&layer.result]) {
            let range = live[view.buffer.0 as usize].get_or_insert((i, i));
            range.1 = i;
        }
    }
    Schedule { graph, live }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, layer) in self.graph.layers.iter().enumerate() {
            writeln!(f, "{i:5} {} ; {}", layer.kind, layer.name)?;
        }
        for (i, live) in self.live.iter().enumerate() {
            if let Some((first, last)) = live {
                writeln!(f, "  %{i} lives {first}..={last} ; {}", self.graph.buffers[i].name)?;
            }
        }
        Ok(())
    }
}
