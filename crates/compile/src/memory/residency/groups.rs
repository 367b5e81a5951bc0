//! Groups of tasks that the device runs without a task switch.

use crate::ir::*;
use crate::options::Convention;

/// Groups as 9.509 cuts them: before constant coefficients unless the layer before has some too, and where the neural engine
/// begins to read memory after the planar one. What reads a result that stays goes on in the group. By the book's sample of three
/// tasks, coefficients alone do not cut where the planar engine has just made what they are multiplied by.
pub fn groups(graph: &Graph, convention: Convention) -> Vec<usize> {
    let computed =
        |layer: &Layer| graph.buffer(layer.sources[0].buffer).role == Role::Scratch && layer.source_interleave == 1;
    let mut group = 0;
    graph
        .layers
        .iter()
        .enumerate()
        .map(|(i, layer)| {
            let cut = i.checked_sub(1).is_some_and(|before| {
                let before = &graph.layers[before];
                let made = !before.is_neural() && before.result.buffer == layer.sources[0].buffer;
                match &layer.kind {
                    _ if convention == Convention::Book && layer.convolves() && made => false,
                    Kind::Product { .. } => !before.convolves() && !computed(layer),
                    _ if layer.convolves() => !(before.convolves() || before.is_neural() && computed(before)),
                    // What the planar engine has just made, as it made it.
                    Kind::Neuron { .. } if before.result.buffer == layer.sources[0].buffer => {
                        !before.is_neural() && before.transpose
                    }
                    // Coefficients that go to memory end theirs.
                    _ => layer.is_neural() && (!before.is_neural() || before.interleave > 1 && !computed(layer)),
                }
            });
            group += usize::from(cut);
            group
        })
        .collect()
}

/// Groups as 4.2.1 cuts them: the first task alone, then two by two.
pub fn groups_in_pairs(layers: usize) -> Vec<usize> {
    (0..layers).map(|i| i.div_ceil(2)).collect()
}
