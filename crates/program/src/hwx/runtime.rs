//! Task streams of a container, and the runtime graph of those that are compiled for one engine and for two.

use anemone_facts::Layout;
use anemone_facts::formats::hwx as rows;
use anemone_facts::formats::hwx::runtime;

use super::defs::{Container, Symbol};
use crate::StreamError;
use crate::task::{Task, decode_what_stands};

/// What symbols say of a container's runtime graph. The graph's own bytes have no known form; they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeGraph {
    /// Procedures: name and address.
    pub procedures: Vec<(String, u64)>,
    /// Operations of the procedures: name and address.
    pub operations: Vec<(String, u64)>,
    /// Task streams: whose they are and where they begin.
    pub streams: Vec<(String, u64)>,
}

impl RuntimeGraph {
    /// Operations that start an engine.
    pub fn kicks(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().map(|(name, _)| name.as_str()).filter(|n| n.starts_with(runtime::KICK))
    }

    /// Name of the stream that an address of the task section belongs to.
    pub fn stream_at(&self, address: u64) -> Option<&str> {
        let before = self.streams.iter().filter(|(_, at)| *at <= address);
        before.max_by_key(|(_, at)| *at).map(|(name, _)| name.as_str())
    }
}

impl Container {
    /// The tasks of the container's stream, as far as they can be followed, with the layout they are read by; `None` where
    /// the descriptor version is not known, or there is no stream.
    pub fn tasks(&self) -> Option<(&'static Layout, Vec<Task>, Option<StreamError>)> {
        let layout = self.layout()?;
        let text = self.section(rows::TEXT.segment, rows::TEXT.section)?;
        let first = self.run_state().map_or(0, |(_, run)| run.first_task_words());
        let (tasks, error) = decode_what_stands(layout, &text.data, first);
        Some((layout, tasks, error))
    }

    /// The runtime graph, where the container has one.
    pub fn runtime(&self) -> Option<RuntimeGraph> {
        let section = self.section(rows::RUNTIME.segment, rows::RUNTIME.section)?;
        let end = section.address.saturating_add(section.bytes);
        let mut graph = RuntimeGraph::default();
        let Some(table) = self.symtab() else { return Some(graph) };
        let inside = |s: &Symbol| (section.address..end).contains(&s.value);
        for symbol in table.symbols.iter().filter(|s| s.kind & runtime::KIND_BITS == runtime::KIND_BITS) {
            let name = table.name(symbol);
            if let Some(whose) = name.strip_prefix(runtime::STREAM_START) {
                graph.streams.push((whose.to_string(), symbol.value));
            } else if inside(symbol) && name.starts_with(runtime::OPERATION) {
                graph.operations.push((name, symbol.value));
            } else if inside(symbol) {
                graph.procedures.push((name, symbol.value));
            }
        }
        Some(graph)
    }
}
