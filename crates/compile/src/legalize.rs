//! Phase 2: every layer fits the chip. Only this stage makes a [`Legal`] graph.
//!
//! Splitting of layers that one task cannot hold happens where they are lowered; what is left here is the proof, and
//! the split by kernel memory.

use crate::anec::*;
use crate::error::{Error, Result};
use crate::pack::Packing;
use crate::passes::Reasons;
use anemone_facts::Field;
use anemone_facts::chips::Chip;
use std::sync::Arc;

/// A graph in which every layer is one task that the chip's fields and memories hold.
#[derive(Clone, Debug)]
pub struct Legal {
    graph: Graph,
}

impl Legal {
    /// The graph, to look at.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph.
    pub fn into_graph(self) -> Graph {
        self.graph
    }
}

impl std::fmt::Display for Legal {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.graph.fmt(f)
    }
}

/// Splits what exceeds kernel memory, then checks every layer against the chip's limits.
pub fn legalize(mut graph: Graph, chip: &'static Chip, reasons: &mut Reasons) -> Result<Legal> {
    split_kernels(&mut graph, chip, reasons);
    for layer in &graph.layers {
        check(layer, chip)?;
    }
    Ok(Legal { graph })
}

/// Output channels are divided over several tasks when their coefficients exceed kernel memory.
fn split_kernels(graph: &mut Graph, chip: &Chip, reasons: &mut Reasons) {
    let Some(cap) = chip.hal.kmem_cap_streamed else { return };
    let layers = std::mem::take(&mut graph.layers);
    for layer in layers {
        let name = layer.name.clone();
        let pieces = split_kernel(layer, cap);
        if pieces.len() > 1 {
            reasons.say(|| format!("{name} split into {}: its coefficients exceed {cap} bytes", pieces.len()));
        }
        graph.layers.extend(pieces);
    }
}

fn split_kernel(layer: Layer, cap: u64) -> Vec<Layer> {
    let Kind::Conv { window, connect: Connect::Dense, weights, bias, post_scale, nonlinear } = &layer.kind else {
        return vec![layer];
    };
    let axis = if layer.transpose { None } else { Some(1) };
    let outputs = if layer.transpose { layer.result.width } else { layer.result.channels() };
    let groups = layer.sources[0].groups();
    let bytes = weights.len() as u64 * ELEMENT_BYTES;
    if bytes <= cap || groups > 1 || outputs < 2 {
        return vec![layer];
    }
    let taps = weights.len() / outputs;
    // Whole passes of sixteen engines, so that the pieces pack densely; columns of a transposed result stay aligned.
    let pieces = bytes.div_ceil(cap) as usize;
    let step = outputs.div_ceil(pieces).next_multiple_of(32);
    (0..outputs)
        .step_by(step)
        .map(|start| {
            let n = step.min(outputs - start);
            let mut piece = layer.clone();
            piece.kind = Kind::Conv {
                window: *window,
                connect: Connect::Dense,
                weights: Arc::new(weights[start * taps..(start + n) * taps].to_vec()),
                bias: bias.as_ref().map(|b| Arc::new(b[start..start + n].to_vec())),
                post_scale: *post_scale,
                nonlinear: nonlinear.clone(),
            };
            match axis {
                Some(axis) => {
                    piece.result.offset_bytes += start as u64 * piece.result.axes[axis].stride_bytes;
                    piece.result.axes[axis].extent = n;
                }
                None => {
                    piece.result.offset_bytes += start as u64 * ELEMENT_BYTES;
                    piece.result.width = n;
                }
            }
            piece
        })
        .collect()
}

fn check(layer: &Layer, chip: &'static Chip) -> Result<()> {
    let hal = &chip.hal;
    let limit = |what, found: usize, limit: Option<u64>| match limit {
        Some(limit) if found as u64 > limit => {
            Err(Error::Limit { op: layer.name.clone(), what, found: found as u64, limit, chip: chip.target })
        }
        _ => Ok(()),
    };
    let groups = chip.layout.and_then(|l| l.row(Field::NumGroups)).map(|row| row.max() as u64);
    // The second source of a product is streams, not a tensor.
    let tensors = if matches!(layer.kind, Kind::Product { .. }) { 1 } else { layer.sources.len() };
    for view in layer.sources[..tensors].iter().chain([&layer.result]) {
        limit("width", view.width, hal.max_tensor_width)?;
        limit("height", view.height(), hal.max_tensor_height)?;
        limit("channels", view.channels(), hal.max_tensor_channels)?;
        limit("groups", view.groups(), groups)?;
        for axis in view.axes {
            if !axis.stride_bytes.is_multiple_of(ROW_ALIGN) {
                return Err(Error::Net(format!("layer {}: a stride of {} bytes", layer.name, axis.stride_bytes)));
            }
        }
    }
    if let Kind::Conv { window, .. } = &layer.kind {
        limit("kernel height", window.kernel[0], hal.max_kernel_height)?;
        limit("kernel width", window.kernel[1], hal.max_kernel_width_fp16)?;
        let packing = Packing::of(layer);
        limit("kernel bytes", packing.total_bytes() as usize, hal.kmem_cap_streamed)?;
    }
    Ok(())
}
