//! Groups of tasks that the device runs without a task switch.

use super::order::reads_bytes;
use super::{Place, Residency, Resident};
use crate::ir::*;
use crate::options::Convention;

/// Groups as 9.509 forms them: a new group starts before constant coefficients, unless the layer before has some too, and where the
/// neural engine starts to read memory after the planar one; with `single_rows`, also before the reduction of a row that was turned, and not before coefficients whose operand the
/// planar engine has just computed (`chain_pair_mul_mm_d256_s64`).
/// A reader of a resident result continues the group. By the book's sample of three tasks, coefficients start no group if the planar
/// engine has just computed their other operand.
pub fn groups(graph: &Graph, convention: Convention, single_rows: bool) -> Vec<usize> {
    let computed =
        |layer: &Layer| graph.buffer(layer.sources[0].buffer).role == Role::Scratch && layer.source_interleave == 1;
    let (mut group, mut opened) = (0, 0);
    graph
        .layers
        .iter()
        .enumerate()
        .map(|(i, layer)| {
            let cut = i.checked_sub(1).is_some_and(|before| {
                let before = &graph.layers[before];
                // A copy of a copied input (`env_mm_r2rb_m32_k4096_n4096_tx1_ty1`) or of a table's result (`chain_ffn_d512_s128_biasfull`).
                let brought = |layer: &Layer| {
                    let writer = graph.layers[..i].iter().rfind(|l| l.result.buffer == layer.sources[0].buffer);
                    layer.kind.is_copy() && writer.is_some_and(|l| matches!(l.kind, Kind::Neuron { .. }))
                };
                let made = !before.is_neural() && before.result.buffer == layer.sources[0].buffer;
                // A task of the group has brought the same rows (`chain_resattn_s64_d256`: its input is both matrices and the values;
                // `candidate_select_rrb_1x1024x375_bcast_cond`: its condition).
                let here = single_rows
                    && layer.source_interleave == 1
                    && (matches!(layer.kind, Kind::Product { .. })
                        || layer.kind.is_copy()
                        || reads_bytes(graph, layer))
                    && graph.buffer(layer.sources[0].buffer).role == Role::Input
                    && graph.layers[opened..i].iter().any(|l| l.sources[0].elements() == layer.sources[0].elements());
                // The task before has read the same rows, which the group has computed (`chain_block_d512_s128_proj0`).
                let computed_here = single_rows
                    && layer.kind.is_copy()
                    && before.sources[0].elements() == layer.sources[0].elements()
                    && graph.layers[opened..i].iter().any(|l| l.result.buffer == layer.sources[0].buffer);
                match &layer.kind {
                    _ if here || computed_here => false,
                    _ if (convention == Convention::Book || single_rows) && layer.convolves() && made => false,
                    // The result of the copy is read again (`chain_pair_add_ln_d256_s64`).
                    _ if single_rows && layer.convolves() && before.kind.is_copy() && read_again(graph, i - 1) => false,
                    // Others read other channels of the copy (`conv_probe_k3_c1024_n1024_s16_st1_g4_bias1_same`).
                    _ if single_rows && layer.convolves() && before.kind.is_copy() && read_in_parts(graph, i) => false,
                    // Copies have brought its pairs of channels side by side (`less_bool_rr_750x1x1`).
                    Kind::Conv { connect: Connect::Unicast { .. }, .. }
                        if single_rows
                            && before.kind.is_copy()
                            && before.result.buffer == layer.sources[0].buffer
                            && before.result.count() < layer.sources[0].count() =>
                    {
                        false
                    }
                    // Both operands have been staged, the source just now (`env_mm_r2rr_m128_k2048_n2048_tx1_ty1`).
                    Kind::Product { .. }
                        if single_rows
                            && before.result.buffer == layer.sources[0].buffer
                            && graph.buffer(layer.sources[1].buffer).role == Role::Scratch =>
                    {
                        false
                    }
                    // Rows of an input or constant are its coefficients as they are (`rrmm_r2rr_m16_k64_n64_tx0_ty1`).
                    Kind::Product { .. }
                        if single_rows && before.kind.is_copy() && before.result.buffer == layer.sources[0].buffer =>
                    {
                        true
                    }
                    // A product with constants has just written its coefficients (`chain_block_d256_s64_proj1`), and nothing else of the
                    // group is read later (`chain_stack2_d256_s128_proj1`: a sum is).
                    Kind::Product { .. }
                        if single_rows && before.convolves() && before.result.buffer == layer.sources[1].buffer =>
                    {
                        !others_read(graph, opened, i)
                    }
                    Kind::Product { .. } => !before.convolves() && !computed(layer),
                    _ if layer.convolves() => {
                        !(before.convolves() || before.is_neural() && computed(before) && !brought(before))
                    }
                    // A single row that was turned, to be reduced (`reduce_probe_sum_ax1_1x8x1x64`).
                    Kind::Reduce { .. } => {
                        let row = before.result.height() == 1 && before.result.buffer == layer.sources[0].buffer;
                        before.kind.is_copy() && before.transpose && row && layer.transpose && single_rows
                    }
                    // A result of the planar engine that is read unchanged.
                    Kind::Neuron { .. } if before.result.buffer == layer.sources[0].buffer => {
                        !before.is_neural() && before.transpose
                    }
                    // Coefficients that go to memory end their group.
                    _ => layer.is_neural() && (!before.is_neural() || before.interleave > 1 && !computed(layer)),
                }
            });
            if cut {
                (group, opened) = (group + 1, i);
            }
            group
        })
        .collect()
}

/// Returns true if a computation of two sources reads the source of a copy later, also with other axes
/// (`chain_resffn_d512_s128`: rows that were channels; `chain_resffn_d512_s64`: rows that were folded).
fn read_again(graph: &Graph, copy: usize) -> bool {
    let source = &graph.layers[copy].sources[0];
    let same =
        |s: &View4| s.buffer == source.buffer && s.offset_bytes == source.offset_bytes && s.count() == source.count();
    let reads = |layer: &Layer| !layer.is_neural() && layer.sources.len() == 2 && layer.sources.iter().any(same);
    graph.layers[copy + 1..].iter().any(reads)
}

/// Returns true if that layer, or one behind it, reads a result of the layers from `first` on that is no operand of it.
fn others_read(graph: &Graph, first: usize, index: usize) -> bool {
    let reads = |layer: &Layer, buffer: BufferId| layer.sources.iter().any(|s| s.buffer == buffer);
    let results = graph.layers[first..index].iter().map(|l| l.result.buffer);
    let mut others = results.filter(|&buffer| !reads(&graph.layers[index], buffer));
    others.any(|buffer| graph.layers[index..].iter().any(|l| reads(l, buffer)))
}

/// Returns true if a later convolution reads other channels than a layer does of the result of the layer before it.
fn read_in_parts(graph: &Graph, index: usize) -> bool {
    let source = &graph.layers[index].sources[0];
    let other = |layer: &Layer| {
        let read = &layer.sources[0];
        layer.convolves() && read.buffer == source.buffer && read.offset_bytes != source.offset_bytes
    };
    graph.layers[index - 1].result.buffer == source.buffer && graph.layers[index + 1..].iter().any(other)
}

/// Groups as 4.2.1 forms them: the first task alone, then pairs.
pub fn groups_in_pairs(layers: usize) -> Vec<usize> {
    (0..layers).map(|i| i.div_ceil(2)).collect()
}

impl Residency {
    /// Divides the tasks of a group that read one source from memory: into pairs where it is a matrix in scratch memory with interleaved
    /// channels (`env_mm_r2rb_m512_k2048_n2048_tx0_ty1`, `env_mm_r3rb_m256_k4096_n2048_tx0_ty1_b1`), or where each reads one of several
    /// matrices (`chain_attn_s128_dh64_h4`). The tasks that read a matrix which stays are a group (`bmm_r3rr_m375_k128_n375_tx0_ty0_b8`).
    pub(in crate::memory) fn pair_readers(&mut self, graph: &Graph) {
        let (mut more, mut run, mut again) = (0, 0, 0);
        for i in 1..graph.layers.len() {
            let [before, own] = [i - 1, i].map(|at| &graph.layers[at].sources[0]);
            let same = before.buffer == own.buffer;
            let paired = |at: usize| {
                let interleaved = graph.layers[at].convolves() && graph.layers[at].source_interleave > 1;
                interleaved || self.loads_matrix(graph, at) && !self.keeps[at]
            };
            run = if same && paired(i - 1) && paired(i) { run + 1 } else { 0 };
            // Another matrix than that of the task before, or one of several that it has staged (`encoder_bmm_m375_k1024_n128_ty1_b8`).
            let staged = graph.layers[i - 1].result.buffer == own.buffer && graph.layers[i].source_interleave > 1;
            let other = (staged || same && before.offset_bytes != own.offset_bytes)
                && self.loads_matrix(graph, i)
                && self.keeps[i];
            // The first that loads it alone, then two by two (`env_mm_r2rb_m256_k4096_n4096_tx1_ty1`).
            again = if self.loads_again(graph, i) { again + 1 } else { 0 };
            more += usize::from(run > 0 && run % 2 == 0 || other || again % 2 == 1);
            self.groups[i] += more;
        }
    }

    /// Ends the group of a task whose next one, an elementwise task of the other engine, reads from memory what is stored there while
    /// nothing stays in tile memory; and chains planar tasks that exchange channels in sets (`select_rrb_1x8x375x375`: the second table, and
    /// the product before the sum; `env_chain_softmax_h12_s256`: the difference).
    pub(in crate::memory) fn part_exchanges(&mut self, graph: &Graph) {
        let mut more = 0;
        for i in 1..graph.layers.len() {
            let (before, own) = (&graph.layers[i - 1], &graph.layers[i]);
            let scratch = |s: &View4| graph.buffer(s.buffer).role == Role::Scratch && !self.stays(s.buffer.0 as usize);
            let exchange = before.is_elementwise() && own.is_elementwise() && own.sources.iter().any(scratch);
            let other = before.is_neural() != own.is_neural();
            more += usize::from(exchange && other && self.groups[i - 1] == self.groups[i] + more && !self.holds(i));
            self.groups[i] += more;
            let sets = before.interleave > 1 && own.sources[0].buffer == before.result.buffer;
            if exchange && !before.is_neural() && !other && sets && self.groups[i - 1] == self.groups[i] {
                self.allocations.chain(i - 1);
            }
        }
    }

    /// Returns true if something in tile memory from before a task is read by it or behind it.
    fn holds(&self, layer: usize) -> bool {
        let resident = |r: &Resident| r.writer < layer && layer <= r.last;
        let kept = |(at, place): (usize, &Place)| place.from < layer && layer <= at + 1;
        let mut places = self.kept.iter().enumerate().filter_map(|(at, kept)| Some((at, &kept.as_ref()?.0)));
        self.residents.iter().flatten().any(resident) || places.any(kept)
    }

    fn loads_matrix(&self, graph: &Graph, at: usize) -> bool {
        matches!(graph.layers[at].kind, Kind::Product { .. })
            && self.source(at, 0, &graph.layers[at].sources[0]).is_none()
    }

    /// Returns true for a convolution that loads the source of the convolution before it again, which does not fit tile memory
    /// (`conv_probe_k3_c256_n256_s64_st1_g1_bias0_same`, `conv_probe_k3_c256_n256_s64_st2_g1_bias1_valid`).
    fn loads_again(&self, graph: &Graph, layer: usize) -> bool {
        let streams = |at: usize| {
            let layer = &graph.layers[at];
            let plain = layer.convolves() && layer.source_interleave == 1;
            plain && !self.keeps[at] && self.source(at, 0, &layer.sources[0]).is_none()
        };
        let [before, own] = [layer - 1, layer].map(|at| &graph.layers[at].sources[0]);
        let other = self.loads_matrix(graph, layer) && before.offset_bytes != own.offset_bytes;
        before.buffer == own.buffer && !other && streams(layer - 1) && streams(layer)
    }
}
