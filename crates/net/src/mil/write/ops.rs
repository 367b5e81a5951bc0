//! Translation of each operation of the net to MIL calls.

use super::{Arg, Writer, flag, float, integers, sizes, text, value_type};
use crate::error::Error;
use crate::graph::{DType, Op, TensorType, ValueId};
use crate::mil::proto::name_of;
use crate::native::{Kind, Native, Param};
use crate::ops::{
    Binary, Coordinates, EdgeMode, GeluMode, OpKind, Outside, PoolKind, ReduceKind, ResizeMode, ScatterMode, Unary,
};

type Arguments<'n> = Vec<(&'n str, Arg)>;

impl Writer<'_> {
    pub(super) fn op(&mut self, op: &Op) -> Result<(), Error> {
        let out = op.outputs[0];
        let operands: Vec<Arg> = op.inputs.iter().map(|&id| self.use_of(id)).collect();
        let mut operands = operands.into_iter();
        let mut next = |name: &'static str| operands.next().map(|arg| (name, arg));
        let ty = |w: &Self, i: usize| op.inputs.get(i).map_or(DType::F32, |&id| w.net.value(id).ty.dtype);
        let x_type = ty(self, 0);
        let shape = self.net.value(out).ty.shape.clone();
        let number = |v: f32| Arg::Value(float(v, x_type));
        let (name, arguments): (&str, Arguments) = match &op.kind {
            OpKind::Conv { strides, pads, dilations, groups } => {
                let mut list: Arguments = [next("x"), next("weight"), next("bias")].into_iter().flatten().collect();
                list.extend([
                    ("strides", Arg::Value(sizes(strides))),
                    ("pad_type", Arg::Value(text("custom"))),
                    ("pad", Arg::Value(sizes(&flat(pads)))),
                    ("dilations", Arg::Value(sizes(dilations))),
                    ("groups", Arg::Value(integers(&[*groups as i32], true))),
                ]);
                ("conv", list)
            }
            OpKind::ConvTranspose { strides, pads, dilations, groups, output_pads } => {
                let mut list: Arguments = [next("x"), next("weight"), next("bias")].into_iter().flatten().collect();
                list.extend([
                    ("strides", Arg::Value(sizes(strides))),
                    ("pad_type", Arg::Value(text("custom"))),
                    ("pad", Arg::Value(sizes(&flat(pads)))),
                    ("dilations", Arg::Value(sizes(dilations))),
                    ("groups", Arg::Value(integers(&[*groups as i32], true))),
                ]);
                if output_pads.iter().any(|&p| p != 0) {
                    list.push(("output_shape", Arg::Value(sizes(&shape))));
                }
                ("conv_transpose", list)
            }
            OpKind::MatMul { transpose_x, transpose_y } => {
                let mut list: Arguments = [next("x"), next("y")].into_iter().flatten().collect();
                list.push(("transpose_x", Arg::Value(flag(*transpose_x))));
                list.push(("transpose_y", Arg::Value(flag(*transpose_y))));
                ("matmul", list)
            }
            OpKind::Combine => {
                let mut list: Arguments = [next("x"), next("y")].into_iter().flatten().collect();
                list.push(("transpose_x", Arg::Value(flag(false))));
                list.push(("transpose_y", Arg::Value(flag(true))));
                ("matmul", list)
            }
            OpKind::Linear => ("linear", [next("x"), next("weight"), next("bias")].into_iter().flatten().collect()),
            OpKind::Unary(unary) => return self.unary(op, unary),
            OpKind::Binary(binary) => {
                if let (Binary::Equal, DType::Bool) = (binary, x_type) {
                    return self.same_truth(op);
                }
                if binary.is_of_bits() {
                    return Err(self.unsupported(&op.kind, out, "the format has no operation on bits of integers"));
                }
                (binary_name(*binary, x_type), [next("x"), next("y")].into_iter().flatten().collect())
            }
            OpKind::Select => ("select", [next("cond"), next("a"), next("b")].into_iter().flatten().collect()),
            OpKind::Pool { kind, kernel, strides, pads, ceil_mode } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.extend([
                    ("kernel_sizes", Arg::Value(sizes(kernel))),
                    ("strides", Arg::Value(sizes(strides))),
                    ("pad_type", Arg::Value(text("custom"))),
                    ("pad", Arg::Value(sizes(&flat(pads)))),
                    ("ceil_mode", Arg::Value(flag(*ceil_mode))),
                ]);
                match kind {
                    PoolKind::Max => ("max_pool", list),
                    PoolKind::L2 => ("l2_pool", list),
                    PoolKind::Average { exclude_padding } => {
                        list.push(("exclude_padding_from_average", Arg::Value(flag(*exclude_padding))));
                        ("avg_pool", list)
                    }
                }
            }
            OpKind::Reduce { kind, axes, keep_dims } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("axes", Arg::Value(sizes(axes))));
                list.push(("keep_dims", Arg::Value(flag(*keep_dims))));
                let name = match kind {
                    ReduceKind::L1 => "reduce_l1_norm",
                    ReduceKind::L2 => "reduce_l2_norm",
                    other => other.name(),
                };
                (name, list)
            }
            OpKind::ArgReduce { greatest, axis, keep_dims, last } => {
                if *last {
                    return Err(self.unsupported(&op.kind, out, "the last of equal elements"));
                }
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("axis", Arg::Value(integers(&[*axis as i32], true))));
                list.push(("keep_dims", Arg::Value(flag(*keep_dims))));
                (if *greatest { "reduce_argmax" } else { "reduce_argmin" }, list)
            }
            OpKind::ArgSort { axis, descending } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("axis", Arg::Value(integers(&[*axis as i32], true))));
                list.push(("ascending", Arg::Value(flag(!descending))));
                ("argsort", list)
            }
            OpKind::Softmax { axis } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("axis", Arg::Value(integers(&[*axis as i32], true))));
                ("softmax", list)
            }
            OpKind::Concat { axis } => {
                let names = op.inputs.iter().map(|&id| self.output(id)).collect();
                let list = vec![
                    ("values", Arg::Names(names)),
                    ("axis", Arg::Value(integers(&[*axis as i32], true))),
                    ("interleave", Arg::Value(flag(false))),
                ];
                ("concat", list)
            }
            OpKind::Reshape => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("shape", Arg::Value(sizes(&shape))));
                ("reshape", list)
            }
            OpKind::Broadcast => return self.broadcast(op),
            OpKind::Transpose { perm } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("perm", Arg::Value(sizes(perm))));
                ("transpose", list)
            }
            OpKind::Slice { begin, end, stride } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("begin", Arg::Value(sizes(begin))));
                list.push(("end", Arg::Value(sizes(end))));
                list.push(("stride", Arg::Value(sizes(stride))));
                ("slice_by_index", list)
            }
            OpKind::Gather { axis } | OpKind::GatherAlong { axis } => {
                let mut list: Arguments = [next("x"), next("indices")].into_iter().flatten().collect();
                list.push(("axis", Arg::Value(integers(&[*axis as i32], true))));
                list.push(("validate_indices", Arg::Value(flag(false))));
                (if matches!(op.kind, OpKind::Gather { .. }) { "gather" } else { "gather_along_axis" }, list)
            }
            OpKind::GatherNd { batch_dims } => {
                let mut list: Arguments = [next("x"), next("indices")].into_iter().flatten().collect();
                list.push(("batch_dims", Arg::Value(integers(&[*batch_dims as i32], true))));
                list.push(("validate_indices", Arg::Value(flag(false))));
                ("gather_nd", list)
            }
            OpKind::ScatterAlong { axis, mode } => {
                let mut list: Arguments =
                    [next("data"), next("indices"), next("updates")].into_iter().flatten().collect();
                list.push(("axis", Arg::Value(integers(&[*axis as i32], true))));
                list.push(("mode", Arg::Value(text(mode_name(*mode)))));
                list.push(("validate_indices", Arg::Value(flag(false))));
                ("scatter_along_axis", list)
            }
            OpKind::ScatterNd { mode } => {
                let mut list: Arguments =
                    [next("data"), next("indices"), next("updates")].into_iter().flatten().collect();
                list.push(("mode", Arg::Value(text(mode_name(*mode)))));
                list.push(("validate_indices", Arg::Value(flag(false))));
                ("scatter_nd", list)
            }
            OpKind::Sample { mode, outside } => {
                let mut list: Arguments = [next("x"), next("coordinates")].into_iter().flatten().collect();
                let (padding, value) = match outside {
                    Outside::Value(value) => ("constant", *value),
                    Outside::Border => ("border", 0.0),
                    Outside::Reflect => ("reflection", 0.0),
                    Outside::Symmetric => ("symmetric", 0.0),
                };
                let mode = if *mode == ResizeMode::Linear { "bilinear" } else { "nearest" };
                list.push(("sampling_mode", Arg::Value(text(mode))));
                list.push(("padding_mode", Arg::Value(text(padding))));
                list.push(("padding_value", number(value)));
                list.push(("coordinates_mode", Arg::Value(text("unnormalized"))));
                list.push(("align_corners", Arg::Value(flag(true))));
                ("resample", list)
            }
            OpKind::BatchNorm { epsilon } => {
                let names = ["x", "mean", "variance", "gamma", "beta"];
                let mut list: Arguments = names.into_iter().filter_map(next).collect();
                list.push(("epsilon", number(*epsilon)));
                ("batch_norm", list)
            }
            OpKind::InstanceNorm { epsilon } => {
                let mut list: Arguments = ["x", "gamma", "beta"].into_iter().filter_map(next).collect();
                list.push(("epsilon", number(*epsilon)));
                ("instance_norm", list)
            }
            OpKind::LayerNorm { axes, epsilon } => {
                let mut list: Arguments = ["x", "gamma", "beta"].into_iter().filter_map(next).collect();
                list.push(("axes", Arg::Value(sizes(axes))));
                list.push(("epsilon", number(*epsilon)));
                ("layer_norm", list)
            }
            OpKind::Pad { pads, value } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("pad", Arg::Value(sizes(&flat(pads)))));
                list.push(("mode", Arg::Value(text("constant"))));
                let value =
                    if x_type.is_float() { number(*value) } else { Arg::Value(integers(&[*value as i32], true)) };
                list.push(("constant_val", value));
                ("pad", list)
            }
            OpKind::PadEdge { pads, mode } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("pad", Arg::Value(sizes(&flat(pads)))));
                let mode = if *mode == EdgeMode::Reflect { "reflect" } else { "replicate" };
                list.push(("mode", Arg::Value(text(mode))));
                list.push(("constant_val", number(0.0)));
                ("pad", list)
            }
            OpKind::Resize { mode, coordinates } => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("shape", Arg::Value(sizes(&shape))));
                list.push(("resized_dims", Arg::Value(integers(&[shape.len() as i32], true))));
                let mode = if *mode == ResizeMode::Linear { "LINEAR" } else { "NEAREST_NEIGHBOR" };
                list.push(("interpolation_mode", Arg::Value(text(mode))));
                let sampling = match coordinates {
                    Coordinates::Asymmetric => "DEFAULT",
                    Coordinates::HalfPixel => "UNALIGN_CORNERS",
                    Coordinates::AlignCorners => "STRICT_ALIGN_CORNERS",
                };
                list.push(("sampling_mode", Arg::Value(text(sampling))));
                ("resize", list)
            }
            OpKind::Native(native) => {
                let operands = op.inputs.iter().map(|&id| self.use_of(id)).collect();
                return self.native(op, native, operands);
            }
            OpKind::Cast => {
                let mut list: Arguments = next("x").into_iter().collect();
                list.push(("dtype", Arg::Value(text(name_of(self.net.value(out).ty.dtype)))));
                ("cast", list)
            }
        };
        self.define(op, name, arguments);
        Ok(())
    }

    /// Writes the operation that gives the first result of `op`.
    fn define(&mut self, op: &Op, name: &str, arguments: Arguments) {
        let out = op.outputs[0];
        let ty = value_type(&self.net.value(out).ty);
        let result = self.name(out);
        self.push(name, arguments, vec![(result, ty)], Some(&op.name));
    }

    /// Writes an operation with a result of its own.
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

    /// A native layer under its own name, its operands as one list.
    fn native(&mut self, op: &Op, native: &Native, operands: Vec<Arg>) -> Result<(), Error> {
        let attention = native.kind == Kind::Sdpa;
        let mut names = Vec::with_capacity(op.inputs.len());
        for (at, arg) in operands.into_iter().enumerate() {
            // MIL has heads before positions; the scale has neither.
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

    /// Equality of truth values: not their exclusive or.
    fn same_truth(&mut self, op: &Op) -> Result<(), Error> {
        let (x, y) = (self.use_of(op.inputs[0]), self.use_of(op.inputs[1]));
        let ty = self.net.value(op.outputs[0]).ty.clone();
        let differ = self.step(op, "differ", "logical_xor", vec![("x", x), ("y", y)], &ty);
        self.define(op, "logical_not", vec![("x", differ)]);
        Ok(())
    }

    /// Leading axes of one by a reshape, repetition by a tile.
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
