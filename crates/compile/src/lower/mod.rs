//! Lowering of network operations to layers.
//!
//! Every value is a [`View`] with the network's own axes: the last axis is columns, all others are strided. An operation
//! that needs another arrangement of its data (a reduced axis in columns, an operand in channels) requests a view of that
//! form, and a transposing copy is made only if strides cannot express it.

mod around;
mod attention;
mod bytes;
mod compare;
mod conv;
mod elementwise;
mod gather;
mod integers;
mod joined;
mod layout;
mod links;
mod means;
mod native;
mod norm;
mod pad;
mod pending;
mod ports;
mod power;
mod product;
mod rearrange;
mod reduce;
mod resample;
mod roots;
mod runtime_product;
mod select;
mod softmax;
mod strided;
mod transposed;
mod unary;

use crate::error::{Error, Result};
use crate::ir::*;
use crate::lut::Knots;
use crate::options::{Later, Options};
use crate::rewrite::magnitudes::{Magnitude, magnitudes};
use anemone_facts::chips::Chip;
use anemone_net::{Binary, Net, Op, OpKind, ReduceKind, Tensor, Unary, ValueId};
use half::f16;
use half::vec::HalfFloatVecExt;
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use links::Links;
use roots::InverseRoots;
pub use strided::Strided;

/// Lowers a rewritten network (see `rewrite`).
pub fn lower(net: &Net, chip: &'static Chip, options: &Options) -> Result<Graph> {
    let resident = options.most_resident(chip);
    let attention = options.conventions().attention_turned.then(|| attention::computed_transposed(net, resident));
    let links = Links::of(net);
    let mut lowerer = Lowerer {
        net,
        chip,
        options,
        graph: Graph { name: net.name.clone(), ..Graph::default() },
        views: HashMap::new(),
        bytes: HashMap::new(),
        pending: HashMap::new(),
        reserved: HashMap::new(),
        placed_around: HashSet::new(),
        placed: HashSet::new(),
        uses: net.read_counts(),
        outputs: net.outputs.iter().copied().collect(),
        roots: if options.conventions().whole_epilogues { InverseRoots::of(net) } else { InverseRoots::default() },
        products: product::products(net, resident),
        knots: Knots::On,
        operands_alone: product::operands_alone(net, resident),
        stay_turned: attention::kept_transposed(
            net,
            resident,
            attention.as_ref(),
            options.conventions().whole_epilogues,
        ),
        attention_turned: attention.unwrap_or_default(),
        by_rows: product::by_rows(net, resident),
        summed_for_norms: product::summed_for_norms(net, &links),
        links,
        turned: HashMap::new(),
        inverses: HashMap::new(),
        half_turns: Vec::new(),
        weights: weights(net),
        masks: HashMap::new(),
        most: f32::INFINITY,
        magnitudes: if options.conventions().functions_fitted && bends(net) { magnitudes(net) } else { Vec::new() },
        op: String::new(),
        kind: String::new(),
    };
    lowerer.bind_ports()?;
    lowerer.constant_outputs()?;
    if options.conventions().concatenations_in_place && !options.disabled.leaves(Later::Concatenations) {
        lowerer.reserve_parts();
    }
    for op in &net.ops {
        lowerer.op = op.name.clone();
        lowerer.kind = op.kind.name().into();
        lowerer.most = f32::INFINITY;
        lowerer.numbers_alone(op)?;
        lowerer.lower_op(op)?;
    }
    lowerer.store_bytes()?;
    if !options.conventions().weights_are_bits {
        numbers_only(&lowerer.graph)?;
    }
    lowerer.usual_sizes();
    Ok(lowerer.graph)
}

/// Coefficients of the products with constants, converted by several threads.
fn weights(net: &Net) -> HashMap<ValueId, Weights> {
    let of = |op: &Op| matches!(op.kind, OpKind::Linear | OpKind::Conv { .. }).then(|| op.inputs[1]);
    let read: HashSet<ValueId> = net.ops.iter().filter_map(of).collect();
    read.into_par_iter().filter_map(|id| Some((id, Weights::shared(net.value(id).data.as_ref()?)))).collect()
}

/// Returns true for a network with functions that may become tables, or with norms.
fn bends(net: &Net) -> bool {
    let bends = |f: Unary| !matches!(f, Unary::Identity | Unary::Relu | Unary::Relu6 | Unary::Abs | Unary::Neg);
    let norms = |kind: &OpKind| matches!(kind, OpKind::Reduce { kind: ReduceKind::L2, .. } | OpKind::LayerNorm { .. });
    net.ops.iter().any(|op| matches!(op.kind, OpKind::Unary(f) if bends(f)) || norms(&op.kind))
}

/// Refuses weights that are no finite numbers in fp16: nothing that they are multiplied with would be one.
fn numbers_only(graph: &Graph) -> Result<()> {
    for layer in &graph.layers {
        let Kind::Conv { weights, .. } = &layer.kind else { continue };
        let finite = |part: &[f16]| part.iter().fold(true, |all, w| all & w.is_finite());
        // A loop without exit takes whole vectors.
        if weights.values.chunks(4096).all(finite) {
            continue;
        }
        if let Some(at) = weights.values.iter().position(|w| !w.is_finite()) {
            let nan = weights.values[at].is_nan();
            let (what, suggestion) = match nan {
                true => ("NaN", "repair the model's weights"),
                false => (
                    "values beyond fp16 (65504)",
                    "scale the weights into the range of fp16, or compute this on the host",
                ),
            };
            return Err(Error::Unsupported {
                op: layer.name.clone(),
                kind: "product".into(),
                reason: format!("weights hold {what}, first at element {at}"),
                suggestion,
            });
        }
    }
    Ok(())
}

/// Quantity that programs have few of.
pub const PORTS: &str = "number of inputs and outputs";

pub(crate) struct Lowerer<'a> {
    net: &'a Net,
    chip: &'static Chip,
    options: &'a Options,
    graph: Graph,
    /// View of each value that has one.
    views: HashMap<ValueId, View>,
    /// Inputs and outputs of booleans of one byte.
    bytes: HashMap<ValueId, View>,
    /// Values that lie in others' memory as no view can say; copied when an operation wants them.
    pending: HashMap<ValueId, pending::Pending>,
    /// Destination views of concatenations and their parts, reserved before anything computes them.
    reserved: HashMap<ValueId, View>,
    /// Values with memory around them for concatenations with their slices: computed or copied there, never views of others.
    placed_around: HashSet<ValueId>,
    /// Reciprocal roots of means of squares.
    roots: InverseRoots,
    /// Parts of concatenations that were copied to a place.
    placed: HashSet<(ValueId, BufferId, u64)>,
    /// Read count of each value, by value id.
    uses: Vec<usize>,
    links: Links<'a>,
    outputs: HashSet<ValueId>,
    /// Results of products with one constant matrix.
    products: HashSet<ValueId>,
    /// Knot placement of the tables that the current operation makes.
    knots: Knots,
    /// Values that nothing but products with one constant matrix reads.
    operands_alone: HashSet<ValueId>,
    /// Values that only products read, so that their channels may stay channels.
    stay_turned: HashSet<ValueId>,
    /// Values whose rows are channels: products of two computed matrices, perhaps through functions of one number.
    by_rows: HashSet<ValueId>,
    /// Products of computed matrices that are computed transposed.
    attention_turned: HashSet<ValueId>,
    /// Sums whose rows are channels because only norms of them read them.
    summed_for_norms: HashSet<ValueId>,
    /// Views of values as a matrix with its columns as channels.
    turned: HashMap<ValueId, product::TransposedMatrix>,
    /// Reciprocals of divisors, for reuse.
    inverses: HashMap<ValueId, View>,
    /// Arguments of sines and cosines with their rests in half turns, for reuse.
    half_turns: Vec<(View, View)>,
    /// Coefficients that several operations read.
    weights: HashMap<ValueId, Weights>,
    /// Masks made from the conditions of choices, for reuse.
    masks: HashMap<select::MaskKey, View>,
    /// Bound of the operand of the current function.
    most: f32,
    /// Magnitude of every value, by its id; none where nothing depends on it.
    magnitudes: Vec<Magnitude>,
    /// Name and kind of the operation at hand, for layers and errors.
    op: String,
    kind: String,
}

impl Lowerer<'_> {
    /// States the usual sizes of values for the choice of tables.
    fn usual_sizes(&mut self) {
        if self.magnitudes.is_empty() {
            return;
        }
        for (id, view) in &self.views {
            let size = self.graph.usual.entry(view.buffer).or_insert(f32::INFINITY);
            *size = size.min(self.magnitudes[id.0 as usize].usual);
        }
    }

    fn lower_op(&mut self, op: &Op) -> Result<()> {
        let Some(&out) = op.outputs.first() else { return Ok(()) };
        if self.inverse_root(out)? {
            return Ok(());
        }
        match &op.kind {
            OpKind::Unary(f) => self.unary(*f, op.inputs[0], out),
            OpKind::Binary(Binary::Greater | Binary::GreaterEqual) if self.is_only_threshold(op) => Ok(()),
            OpKind::Binary(f) => self.binary(*f, op.inputs[0], op.inputs[1], out),
            OpKind::Conv { strides, pads, dilations, groups } => self.conv(op, strides, pads, dilations, *groups),
            OpKind::Linear => self.linear(op),
            OpKind::MatMul { transpose_x, transpose_y } => self.matmul(op, *transpose_x, *transpose_y),
            OpKind::Pool { kind, kernel, strides, pads, .. } => self.pool(op, *kind, kernel, strides, pads),
            OpKind::Reduce { kind, axes, .. } => self.reduce(*kind, axes, op.inputs[0], out),
            OpKind::Softmax { axis } => self.softmax(*axis, op.inputs[0], out),
            OpKind::Concat { axis } => self.concat(*axis, &op.inputs, out),
            OpKind::Reshape => self.reshape(op.inputs[0], out),
            OpKind::Cast => self.cast(op.inputs[0], out),
            OpKind::Transpose { perm } => self.transpose(perm, op.inputs[0], out),
            OpKind::Slice { begin, end, stride } => self.slice(begin, end, stride, op.inputs[0], out),
            OpKind::Pad { pads, value } => self.pad(pads, *value, op.inputs[0], out),
            OpKind::LayerNorm { axes, epsilon } if self.options.conventions().layer_norm_on_device => {
                self.layer_norm(axes, *epsilon, op.inputs[0], out)
            }
            OpKind::BatchNorm { .. } | OpKind::LayerNorm { .. } | OpKind::InstanceNorm { .. } => {
                Err(self.unsupported("normalization is decomposed before lowering", "report this as a defect"))
            }
            OpKind::Broadcast => self.broadcast(op.inputs[0], out),
            OpKind::ConvTranspose { strides, pads, dilations, groups, .. } => {
                self.conv_transpose(op, strides, pads, dilations, *groups)
            }
            OpKind::Resize { .. } => self.resample(op.inputs[0], out, |_| op.kind.clone()),
            OpKind::PadEdge { pads, mode } => {
                self.resample(op.inputs[0], out, |axis| OpKind::PadEdge { pads: vec![pads[axis], (0, 0)], mode: *mode })
            }
            OpKind::Native(native) => self.native(op, native),
            OpKind::Select => self.select(op.inputs[0], op.inputs[1], op.inputs[2], out),
            OpKind::Gather { axis } => self.gather(*axis, op.inputs[0], op.inputs[1], out),
            OpKind::GatherAlong { axis } => self.gather_along(*axis, op.inputs[0], op.inputs[1], out),
            OpKind::GatherNd { batch_dims } => self.gather_nd(*batch_dims, op.inputs[0], op.inputs[1], out),
            OpKind::Loop(_) => Err(self.unsupported("loops are unrolled before lowering", "report this as a defect")),
            OpKind::Combine => {
                Err(self.unsupported("combinations are products before lowering", "report this as a defect"))
            }
            OpKind::ScatterAlong { .. }
            | OpKind::ScatterNd { .. }
            | OpKind::ArgReduce { .. }
            | OpKind::ArgSort { .. }
            | OpKind::Suppress { .. }
            | OpKind::Sample { .. } => {
                Err(self.unsupported("this operation is not lowered yet", "keep it on the host for now"))
            }
        }
    }

    pub(crate) fn unsupported(&self, reason: impl Into<String>, suggestion: &'static str) -> Error {
        Error::Unsupported { op: self.op.clone(), kind: self.kind.clone(), reason: reason.into(), suggestion }
    }

    fn limit(&self, what: &'static str, found: usize, limit: Option<u64>) -> Result<()> {
        match limit {
            Some(limit) if found as u64 > limit => {
                Err(Error::Limit { op: self.op.clone(), what, found: found as u64, limit, chip: self.chip.target })
            }
            _ => Ok(()),
        }
    }

    /// Refuses an operation with a constant that is not a number where the engine would take it for one.
    fn numbers_alone(&self, op: &Op) -> Result<()> {
        // Choices, comparisons and powers are made of steps that tell NaN from numbers.
        let tells = match op.kind {
            OpKind::Select | OpKind::Binary(Binary::Pow) => true,
            OpKind::Binary(binary) => binary.is_comparison(),
            _ => false,
        };
        if tells {
            return Ok(());
        }
        let product = matches!(
            op.kind,
            OpKind::Conv { .. } | OpKind::ConvTranspose { .. } | OpKind::Linear | OpKind::MatMul { .. }
        );
        for (at, &id) in op.inputs.iter().enumerate() {
            // Coefficients are looked at in the layers.
            let Some(constant) = self.constant(id).filter(|_| !product || at > 1) else { continue };
            let place = match constant.data.as_f16() {
                Some(values) => values.iter().position(|x| x.is_nan()),
                None if constant.data.dtype().is_float() => constant.data.to_f32().iter().position(|x| x.is_nan()),
                None => None,
            };
            if let Some(place) = place {
                let what = format!("the constant {} holds NaN, first at element {place}", self.net.value(id).name);
                return Err(self.unsupported(what, "repair the model's weights"));
            }
        }
        Ok(())
    }

    /// Data of a constant operand.
    fn constant(&self, id: ValueId) -> Option<&Arc<Tensor>> {
        self.net.value(id).data.as_ref()
    }

    /// The coefficients of a constant; those that several operations read, such as the steps of a recurrent layer, are converted once.
    fn weights(&mut self, id: ValueId) -> Option<Weights> {
        let tensor = self.net.value(id).data.as_ref()?;
        if self.uses[id.0 as usize] < 2 {
            return Some(self.weights.remove(&id).unwrap_or_else(|| tensor.into()));
        }
        Some(self.weights.entry(id).or_insert_with(|| Weights::shared(tensor)).clone())
    }

    /// Extents of a value; a scalar counts as one column.
    fn shape(&self, id: ValueId) -> Vec<usize> {
        let shape = self.net.value(id).ty.shape.clone();
        if shape.is_empty() { vec![1] } else { shape }
    }

    /// View of a value. Constants are laid out in the kernel section, and pending moves copied, on first use.
    fn view(&mut self, id: ValueId) -> Result<View> {
        if let Some(view) = self.views.get(&id) {
            return Ok(view.clone());
        }
        if let Some(view) = self.widened(id)? {
            return Ok(view);
        }
        if let Some(pending) = self.pending.remove(&id) {
            let to = self.result(id);
            self.materialize(&pending, &to)?;
            return Ok(to);
        }
        let value = self.net.value(id);
        let Some(tensor) = &value.data else {
            return Err(Error::Net(format!("value {} is used before it is defined", value.name)));
        };
        let (shape, tensor, name) = (self.shape(id), tensor.clone(), value.name.clone());
        // The bits of fp16 constants stay, also those of NaN (`bmm_r3rb_m375_k128_n749_tx0_ty0_b2_idx`).
        let view = match tensor.data.as_f16() {
            Some(elements) => self.constant_halves(&name, &shape, elements),
            None => self.constant_view(&name, &shape, &tensor.data.to_f32()),
        };
        self.views.insert(id, view.clone());
        Ok(view)
    }

    /// A constant in memory, rows padded, of numbers that are rounded to fp16.
    fn constant_view(&mut self, name: &str, shape: &[usize], elements: &[f32]) -> View {
        self.constant_halves(name, shape, &Vec::from_f32_slice(elements))
    }

    /// A constant in memory, rows padded.
    fn constant_halves(&mut self, name: &str, shape: &[usize], elements: &[f16]) -> View {
        let (lead, bytes) = dense_axes(shape);
        let width = shape.last().copied().unwrap_or(1);
        let row_bytes = (width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN) as usize;
        let mut data = Vec::with_capacity(bytes as usize);
        for row in elements.chunks(width.max(1)) {
            data.extend(row.iter().flat_map(|x| x.to_le_bytes()));
            data.resize(data.len().next_multiple_of(row_bytes.max(1)), 0);
        }
        let role = Role::Constant(Arc::new(data));
        let buffer = self.graph.add_buffer(Buffer {
            name: name.into(),
            role,
            bytes,
            port: None,
            element_bytes: ELEMENT_BYTES,
            constant: None,
        });
        let view = View { buffer, offset_bytes: 0, lead, width };
        self.graph.buffers[buffer.0 as usize].constant = Some(view.clone());
        view
    }

    /// Dense scratch memory.
    fn scratch(&mut self, suffix: &str, shape: &[usize]) -> View {
        let (lead, bytes) = dense_axes(shape);
        let name = if suffix.is_empty() { self.op.clone() } else { format!("{}.{suffix}", self.op) };
        let buffer = self.graph.add_scratch(name, bytes);
        View { buffer, offset_bytes: 0, lead, width: shape.last().copied().unwrap_or(1) }
    }

    fn scratch_of(&mut self, suffix: &str, bytes: u64) -> BufferId {
        self.graph.add_scratch(format!("{}.{suffix}", self.op), bytes)
    }

    /// Memory for an operation's result: the port of a network output, else scratch.
    fn result(&mut self, id: ValueId) -> View {
        if let Some(view) = self.views.get(&id) {
            return view.clone();
        }
        let view = match self.reserved.remove(&id) {
            Some(view) => view,
            None => {
                let shape = self.shape(id);
                self.scratch("", &shape)
            }
        };
        self.views.insert(id, view.clone());
        view
    }

    /// Makes `view` the result of an operation: for free, unless the result is a network output and must be copied.
    fn alias(&mut self, id: ValueId, view: View) -> Result<()> {
        if self.outputs.contains(&id) || self.placed_around.contains(&id) {
            let out = self.result(id);
            return self.copy(&view, &out);
        }
        self.views.insert(id, view);
        Ok(())
    }

    fn push(&mut self, kind: Kind, sources: Vec<View4>, broadcast: Vec<[bool; 3]>, result: View4, transpose: bool) {
        let name = self.op.clone();
        self.graph.layers.push(Layer {
            name,
            kind,
            sources,
            broadcast,
            result,
            transpose,
            interleave: 1,
            source_interleave: 1,
            second_relu: false,
            turned: [false; 2],
        });
    }
}
