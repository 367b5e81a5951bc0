//! Translation of each operation of the net to MIL calls.

use super::{Arg, Value, Writer, flag, float, integers, sizes, text, value_type};
use crate::error::Error;
use crate::graph::{DType, Op, TensorType, ValueId};
use crate::mil::proto::name_of;
use crate::native::{Kind, Native, Param};
use crate::ops::{
    Binary, Coordinates, EdgeMode, GeluMode, OpKind, Outside, PoolKind, ReduceKind, ResizeMode, ScatterMode, Unary,
};

type Arguments<'n> = Vec<(&'n str, Arg)>;

/// Operand names of the scatter operations.
const SCATTERED: &[&str] = &["data", "indices", "updates"];

/// Reason why a suppression is not written: MIL's operation returns the boxes and their scores too.
const SUPPRESSED: &str = "the places of the boxes that stay, without the boxes";

/// A call of a MIL operation: its name, and its arguments in order.
struct Call<'n> {
    name: &'n str,
    arguments: Arguments<'n>,
}

impl<'n> Call<'n> {
    fn value(mut self, key: &'n str, value: Value) -> Self {
        self.arguments.push((key, Arg::Value(value)));
        self
    }

    fn sizes(self, key: &'n str, values: &[usize]) -> Self {
        self.value(key, sizes(values))
    }

    fn integer(self, key: &'n str, value: usize) -> Self {
        self.value(key, integers(&[value as i32], true))
    }

    fn flag(self, key: &'n str, value: bool) -> Self {
        self.value(key, flag(value))
    }

    fn text(self, key: &'n str, value: &str) -> Self {
        self.value(key, text(value))
    }

    /// Transposition flags of a product's operands.
    fn transposed(self, x: bool, y: bool) -> Self {
        self.flag("transpose_x", x).flag("transpose_y", y)
    }

    /// Strides and padding of a window.
    fn windows(self, strides: &[usize], pads: &[(usize, usize)]) -> Self {
        self.sizes("strides", strides).text("pad_type", "custom").sizes("pad", &flat(pads))
    }

    fn convolved(self, strides: &[usize], pads: &[(usize, usize)], dilations: &[usize], groups: usize) -> Self {
        self.windows(strides, pads).sizes("dilations", dilations).integer("groups", groups)
    }

    /// Treatment of padding by an average.
    fn averaged(self, kind: PoolKind) -> Self {
        match kind {
            PoolKind::Average { exclude_padding } => self.flag("exclude_padding_from_average", exclude_padding),
            PoolKind::Max | PoolKind::L2 => self,
        }
    }

    fn epsilon(self, epsilon: f32, x_type: DType) -> Self {
        self.value("epsilon", float(epsilon, x_type))
    }

    fn padded(self, pads: &[(usize, usize)], mode: &str, fill: Value) -> Self {
        self.sizes("pad", &flat(pads)).text("mode", mode).value("constant_val", fill)
    }

    /// Interpolation between elements and extrapolation outside of a tensor.
    fn sampled(self, mode: ResizeMode, outside: Outside, x_type: DType) -> Self {
        let (padding, value) = match outside {
            Outside::Value(value) => ("constant", value),
            Outside::Border => ("border", 0.0),
            Outside::Reflect => ("reflection", 0.0),
            Outside::Symmetric => ("symmetric", 0.0),
        };
        self.text("sampling_mode", if mode == ResizeMode::Linear { "bilinear" } else { "nearest" })
            .text("padding_mode", padding)
            .value("padding_value", float(value, x_type))
            .text("coordinates_mode", "unnormalized")
            .flag("align_corners", true)
    }

    fn resized(self, shape: &[usize], mode: ResizeMode, coordinates: Coordinates) -> Self {
        let sampling = match coordinates {
            Coordinates::Asymmetric => "DEFAULT",
            Coordinates::HalfPixel => "UNALIGN_CORNERS",
            Coordinates::AlignCorners => "STRICT_ALIGN_CORNERS",
        };
        self.sizes("shape", shape)
            .integer("resized_dims", shape.len())
            .text("interpolation_mode", if mode == ResizeMode::Linear { "LINEAR" } else { "NEAREST_NEIGHBOR" })
            .text("sampling_mode", sampling)
    }
}

impl Writer<'_> {
    pub(super) fn op(&mut self, op: &Op) -> Result<(), Error> {
        let out = op.outputs[0];
        if let Some(reason) = without_form(&op.kind) {
            return Err(self.unsupported(&op.kind, out, reason));
        }
        let operands: Vec<Arg> = op.inputs.iter().map(|&id| self.use_of(id)).collect();
        let x_type = op.inputs.first().map_or(DType::F32, |&id| self.net.value(id).ty.dtype);
        let TensorType { dtype, shape } = self.net.value(out).ty.clone();
        // Operands by name, in order; absent ones are the last.
        let call = move |name, operand_names: &[&'static str]| {
            let arguments = operand_names.iter().copied().zip(operands).collect();
            Call { name, arguments }
        };
        let call = match &op.kind {
            OpKind::Conv { strides, pads, dilations, groups } => {
                call("conv", &["x", "weight", "bias"]).convolved(strides, pads, dilations, *groups)
            }
            OpKind::ConvTranspose { strides, pads, dilations, groups, output_pads } => {
                let plain = call("conv_transpose", &["x", "weight", "bias"]);
                let plain = plain.convolved(strides, pads, dilations, *groups);
                if output_pads.iter().all(|&p| p == 0) { plain } else { plain.sizes("output_shape", &shape) }
            }
            OpKind::MatMul { transpose_x: x, transpose_y: y } => call("matmul", &["x", "y"]).transposed(*x, *y),
            OpKind::Combine => call("matmul", &["x", "y"]).transposed(false, true),
            OpKind::Linear => call("linear", &["x", "weight", "bias"]),
            OpKind::Unary(unary) => return self.unary(op, unary),
            OpKind::Binary(Binary::Equal) if x_type == DType::Bool => return self.same_truth(op),
            OpKind::Binary(binary) => call(binary_name(*binary, x_type), &["x", "y"]),
            OpKind::Select => call("select", &["cond", "a", "b"]),
            OpKind::Pool { kind, kernel, strides, pads, ceil_mode } => {
                let pool = call(pool_name(*kind), &["x"]).sizes("kernel_sizes", kernel).windows(strides, pads);
                pool.flag("ceil_mode", *ceil_mode).averaged(*kind)
            }
            OpKind::Reduce { kind, axes, keep_dims } => {
                call(reduction_name(*kind), &["x"]).sizes("axes", axes).flag("keep_dims", *keep_dims)
            }
            OpKind::ArgReduce { greatest, axis, keep_dims, .. } => {
                let name = if *greatest { "reduce_argmax" } else { "reduce_argmin" };
                call(name, &["x"]).integer("axis", *axis).flag("keep_dims", *keep_dims)
            }
            OpKind::ArgSort { axis, descending } => {
                call("argsort", &["x"]).integer("axis", *axis).flag("ascending", !descending)
            }
            OpKind::Softmax { axis } => call("softmax", &["x"]).integer("axis", *axis),
            OpKind::Concat { axis } => {
                let names = op.inputs.iter().map(|&id| self.output(id)).collect();
                let joined = Call { name: "concat", arguments: vec![("values", Arg::Names(names))] };
                joined.integer("axis", *axis).flag("interleave", false)
            }
            OpKind::Reshape => call("reshape", &["x"]).sizes("shape", &shape),
            OpKind::Broadcast => return self.broadcast(op),
            OpKind::Transpose { perm } => call("transpose", &["x"]).sizes("perm", perm),
            OpKind::Slice { begin, end, stride } => {
                call("slice_by_index", &["x"]).sizes("begin", begin).sizes("end", end).sizes("stride", stride)
            }
            OpKind::Gather { axis } => indexed(call("gather", &["x", "indices"]).integer("axis", *axis)),
            OpKind::GatherAlong { axis } => {
                indexed(call("gather_along_axis", &["x", "indices"]).integer("axis", *axis))
            }
            OpKind::GatherNd { batch_dims } => {
                indexed(call("gather_nd", &["x", "indices"]).integer("batch_dims", *batch_dims))
            }
            OpKind::ScatterAlong { axis, mode } => {
                indexed(call("scatter_along_axis", SCATTERED).integer("axis", *axis).text("mode", mode_name(*mode)))
            }
            OpKind::ScatterNd { mode } => indexed(call("scatter_nd", SCATTERED).text("mode", mode_name(*mode))),
            OpKind::Sample { mode, outside } => {
                call("resample", &["x", "coordinates"]).sampled(*mode, *outside, x_type)
            }
            OpKind::BatchNorm { epsilon } => {
                call("batch_norm", &["x", "mean", "variance", "gamma", "beta"]).epsilon(*epsilon, x_type)
            }
            OpKind::InstanceNorm { epsilon } => {
                call("instance_norm", &["x", "gamma", "beta"]).epsilon(*epsilon, x_type)
            }
            OpKind::LayerNorm { axes, epsilon } => {
                call("layer_norm", &["x", "gamma", "beta"]).sizes("axes", axes).epsilon(*epsilon, x_type)
            }
            OpKind::Pad { pads, value } => {
                let fill = if x_type.is_float() { float(*value, x_type) } else { integers(&[*value as i32], true) };
                call("pad", &["x"]).padded(pads, "constant", fill)
            }
            OpKind::PadEdge { pads, mode } => {
                let mode = if *mode == EdgeMode::Reflect { "reflect" } else { "replicate" };
                call("pad", &["x"]).padded(pads, mode, float(0.0, x_type))
            }
            OpKind::Resize { mode, coordinates } => call("resize", &["x"]).resized(&shape, *mode, *coordinates),
            OpKind::Native(native) => {
                let operands = op.inputs.iter().map(|&id| self.use_of(id)).collect();
                return self.native(op, native, operands);
            }
            OpKind::Suppress { .. } => return Err(self.unsupported(&op.kind, out, SUPPRESSED)),
            OpKind::Loop(_) => {
                return Err(self.unsupported(&op.kind, out, "loops are unrolled before they are written"));
            }
            OpKind::Cast => call("cast", &["x"]).text("dtype", name_of(dtype)),
        };
        self.define(op, call.name, call.arguments);
        Ok(())
    }

    /// Writes the operation that gives the first result of `op`.
    fn define(&mut self, op: &Op, name: &str, arguments: Arguments) {
        let out = op.outputs[0];
        let ty = value_type(&self.net.value(out).ty);
        let result = self.name(out);
        self.push(name, arguments, vec![(result, ty)], Some(&op.name));
    }

    /// Writes an operation for an intermediate result.
    fn step(&mut self, op: &Op, suffix: &str, name: &str, arguments: Arguments, ty: &TensorType) -> Arg {
        let result = self.fresh(&format!("{}_{suffix}", self.net.value(op.outputs[0]).name.clone()));
        self.push(name, arguments, vec![(result.clone(), value_type(ty))], Some(&result));
        Arg::Name(result)
    }

    fn unary(&mut self, op: &Op, unary: &Unary) -> Result<(), Error> {
        let dtype = self.net.value(op.inputs[0]).ty.dtype;
        let x = self.use_of(op.inputs[0]);
        let number = |v: f32| Arg::Value(float(v, dtype));
        let mut list = vec![("x", x)];
        let name = match *unary {
            Unary::Gelu(mode) => {
                let mode = match mode {
                    GeluMode::Exact => "EXACT",
                    GeluMode::Tanh => "TANH_APPROXIMATION",
                    GeluMode::Sigmoid => "SIGMOID_APPROXIMATION",
                };
                list.push(("mode", Arg::Value(text(mode))));
                "gelu"
            }
            Unary::Neg => {
                let minus = if dtype.is_float() { number(-1.0) } else { Arg::Value(integers(&[-1], true)) };
                list.push(("y", minus));
                "mul"
            }
            Unary::Log2 => {
                list.push(("epsilon", number(0.0)));
                let ty = self.net.value(op.outputs[0]).ty.clone();
                let natural = self.step(op, "ln", "log", list, &ty);
                list = vec![("x", natural), ("y", number(std::f32::consts::LOG2_E))];
                "mul"
            }
            other => {
                let params = other.row().map_or(&[][..], |row| row.params);
                list.extend(params.iter().zip(other.params()).map(|(param, value)| (param.mil, number(value))));
                other.name()
            }
        };
        self.define(op, name, list);
        Ok(())
    }

    /// A native layer under its own name, with its operands as one list.
    fn native(&mut self, op: &Op, native: &Native, operands: Vec<Arg>) -> Result<(), Error> {
        let attention = native.kind == Kind::Sdpa;
        let mut names = Vec::with_capacity(op.inputs.len());
        for (at, arg) in operands.into_iter().enumerate() {
            // MIL has heads before positions; the scale has neither axis.
            let arg = if attention && at != 3 { self.exchanged(op, op.inputs[at], arg) } else { arg };
            let Arg::Name(name) = arg else {
                return Err(self.unsupported(&op.kind, op.outputs[0], "an operand that has no name"));
            };
            names.push(name);
        }
        let mut list: Arguments = vec![("bottom", Arg::Names(names))];
        list.extend(native.params().map(|(key, value)| {
            let value = match value {
                Param::Flag(value) => flag(*value),
                Param::Integer(value) => integers(&[*value as i32], true),
                Param::Real(value) => float(*value, DType::F32),
                Param::Word(word) => text(word),
                Param::List(list) => integers(&list.iter().map(|&v| v as i32).collect::<Vec<_>>(), false),
            };
            (key.name, Arg::Value(value))
        }));
        let name = native.schema().mil_name();
        if attention {
            let mut ty = self.net.value(op.outputs[0]).ty.clone();
            ty.shape.swap(1, 2);
            let result = self.step(op, "attention", &name, list, &ty);
            let perm = Arg::Value(integers(&[0, 2, 1, 3], false));
            self.define(op, "transpose", vec![("x", result), ("perm", perm)]);
            return Ok(());
        }
        self.define(op, &name, list);
        Ok(())
    }

    /// A value of four axes with heads and positions exchanged.
    fn exchanged(&mut self, op: &Op, id: ValueId, x: Arg) -> Arg {
        let mut ty = self.net.value(id).ty.clone();
        ty.shape.swap(1, 2);
        let perm = Arg::Value(integers(&[0, 2, 1, 3], false));
        self.step(op, "exchanged", "transpose", vec![("x", x), ("perm", perm)], &ty)
    }

    /// Equality of truth values as the negation of exclusive or.
    fn same_truth(&mut self, op: &Op) -> Result<(), Error> {
        let (x, y) = (self.use_of(op.inputs[0]), self.use_of(op.inputs[1]));
        let ty = self.net.value(op.outputs[0]).ty.clone();
        let differ = self.step(op, "differ", "logical_xor", vec![("x", x), ("y", y)], &ty);
        self.define(op, "logical_not", vec![("x", differ)]);
        Ok(())
    }

    /// Broadcast as a reshape for leading axes of one and a tile for repetition.
    fn broadcast(&mut self, op: &Op) -> Result<(), Error> {
        let (from, to) = (self.net.value(op.inputs[0]).ty.clone(), self.net.value(op.outputs[0]).ty.shape.clone());
        let mut x = self.use_of(op.inputs[0]);
        let mut shape = vec![1; to.len() - from.shape.len()];
        shape.extend(&from.shape);
        if shape != from.shape {
            let ty = TensorType { dtype: from.dtype, shape: shape.clone() };
            x = self.step(op, "raised", "reshape", vec![("x", x), ("shape", Arg::Value(sizes(&shape)))], &ty);
        }
        let reps: Vec<usize> = to.iter().zip(&shape).map(|(t, s)| t / s.max(&1)).collect();
        self.define(op, "tile", vec![("x", x), ("reps", Arg::Value(sizes(&reps)))]);
        Ok(())
    }
}

/// Reason why a form of an operation has no MIL call.
fn without_form(kind: &OpKind) -> Option<&'static str> {
    match kind {
        OpKind::Binary(binary) if binary.is_of_bits() => Some("the format has no operation on bits of integers"),
        OpKind::ArgReduce { last: true, .. } => Some("the last of equal elements"),
        _ => None,
    }
}

/// Marks indices as in range and not negative.
fn indexed(call: Call) -> Call {
    call.flag("validate_indices", false)
}

fn pool_name(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Max => "max_pool",
        PoolKind::L2 => "l2_pool",
        PoolKind::Average { .. } => "avg_pool",
    }
}

fn reduction_name(kind: ReduceKind) -> &'static str {
    match kind {
        ReduceKind::L1 => "reduce_l1_norm",
        ReduceKind::L2 => "reduce_l2_norm",
        other => other.name(),
    }
}

fn flat(pads: &[(usize, usize)]) -> Vec<usize> {
    pads.iter().flat_map(|&(before, after)| [before, after]).collect()
}

fn mode_name(mode: ScatterMode) -> &'static str {
    ScatterMode::ALL.iter().find(|(_, m)| *m == mode).map_or("update", |row| row.0)
}

fn binary_name(binary: Binary, x: DType) -> &'static str {
    match (binary, x) {
        (Binary::Max, DType::Bool) => "logical_or",
        (Binary::Min, DType::Bool) => "logical_and",
        (Binary::NotEqual, DType::Bool) => "logical_xor",
        (Binary::Max, _) => "maximum",
        (Binary::Min, _) => "minimum",
        (Binary::Div, _) => "real_div",
        (other, _) => other.name(),
    }
}
