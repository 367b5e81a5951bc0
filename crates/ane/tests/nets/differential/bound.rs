//! Error bound of each element of a result against the evaluator's: every operation's own bound, and the bounds of its
//! operands propagated through it. Where no bound holds (the operands are uncertain and the operation jumps, or it overflows on
//! the way, or an exact model meets a NaN that reads as a number there) the bound is infinite.

use super::known::{CEILING, KNOWN, When, loses_sign_of_zero};
use super::parts::parts;
use anemone_compile::accuracy::{self, LEAST, OVERFLOW, ROUNDING};
use anemone_facts::numerics::Model;
use anemone_net::*;
use std::collections::{HashMap, HashSet};

/// Units of the exact models' sums.
const UNIT: f32 = 1.0 / 65536.0;
/// Columns from which on a copy of part of a row begins on a boundary of memory, and goes through the crop.
const CROPPED_COLUMNS: usize = 32;

/// Expected elements, each with its error bound.
pub struct Expected {
    pub values: Vec<f32>,
    pub bounds: Vec<f32>,
}

/// Expected outputs of a network for a model of the arithmetic. Where `known` is given, what it lists is left out, and the
/// rows that leave something out are noted.
pub fn expected(net: &Net, inputs: &[Tensor], model: Model, known: Option<&mut Vec<bool>>) -> Result<Expected, String> {
    let errors: Vec<Tensor> = inputs.iter().map(|t| filled(t, 0.0)).collect();
    walk(net, inputs, &errors, model != Model::Fast, known)
}

/// Propagates bounds through a network, from the bounds `off` of its inputs.
fn walk(
    net: &Net,
    inputs: &[Tensor],
    off: &[Tensor],
    exact: bool,
    mut known: Option<&mut Vec<bool>>,
) -> Result<Expected, String> {
    let mut values: HashMap<String, Tensor> = HashMap::new();
    eval::eval_traced(net, inputs, &mut |name, tensor| drop(values.insert(name.into(), tensor.clone())))
        .map_err(|e| e.to_string())?;
    let floats = |t: &Tensor| Tensor { shape: t.shape.clone(), data: Data::F32(t.data.to_f32()) };
    let of = |id: ValueId| {
        let value = net.value(id);
        floats(value.data.as_deref().unwrap_or_else(|| &values[&value.name]))
    };
    let mut signs_lost: HashSet<ValueId> = HashSet::new();
    let mut bounds: HashMap<ValueId, Tensor> = net.inputs.iter().copied().zip(off.iter().cloned()).collect();
    for op in &net.ops {
        let operands: Vec<Tensor> = op.inputs.iter().map(|&id| of(id)).collect();
        let errors: Vec<Tensor> = op
            .inputs
            .iter()
            .zip(&operands)
            .map(|(id, t)| bounds.get(id).cloned().unwrap_or_else(|| filled(t, 0.0)))
            .collect();
        let dtype = net.value(op.outputs[0]).ty.dtype;
        let (out, whole, truth) = (of(op.outputs[0]), !dtype.is_float(), dtype == DType::Bool);
        let live: Vec<bool> = op.inputs.iter().map(|&id| net.value(id).data.is_none()).collect();
        let signs = signs_lost.contains(&op.inputs[0]);
        let step = Step {
            kind: &op.kind,
            operands: &operands,
            errors: &errors,
            out: &out,
            live: &live,
            exact,
            whole,
            truth,
            signs_lost: signs,
        };
        if loses_sign_of_zero(&op.kind) || op.inputs.iter().any(|id| signs_lost.contains(id)) {
            signs_lost.extend(&op.outputs);
        }
        let mut error = step.error()?;
        if whole && !truth {
            step.unwrapped(dtype, &mut error);
        }
        if let Some(noted) = &mut known {
            let about = if op.kind == OpKind::Select { 1 } else { 0 };
            step.leave_out(net.value(op.inputs[about]).ty.dtype, &mut error, noted)?;
        }
        let last = net.outputs.contains(&op.outputs[0]);
        for (e, &y) in error.iter_mut().zip(out.data.to_f32().iter()) {
            let lost = y.is_finite() && y.abs() + *e >= OVERFLOW && !last;
            // fp16 has whole numbers to 2048.
            if e.is_nan() || lost || (exact && y.is_nan()) || (whole && dtype != DType::Bool && y.abs() > 2048.0) {
                *e = f32::INFINITY;
            }
        }
        bounds.insert(op.outputs[0], Tensor { shape: out.shape.clone(), data: Data::F32(error) });
    }
    let last = net.outputs[0];
    let values = of(last);
    let bounds = bounds.get(&last).cloned().unwrap_or_else(|| filled(&values, 0.0));
    Ok(Expected { values: values.data.to_f32(), bounds: bounds.data.to_f32() })
}

fn filled(like: &Tensor, value: f32) -> Tensor {
    Tensor { shape: like.shape.clone(), data: Data::F32(vec![value; like.data.len()]) }
}

fn mapped(t: &Tensor, f: impl Fn(f32) -> f32) -> Tensor {
    Tensor { shape: t.shape.clone(), data: Data::F32(t.data.to_f32().into_iter().map(f).collect()) }
}

struct Step<'a> {
    kind: &'a OpKind,
    operands: &'a [Tensor],
    errors: &'a [Tensor],
    out: &'a Tensor,
    /// Operands that are no constants.
    live: &'a [bool],
    exact: bool,
    /// True for a result of whole numbers or truth values.
    whole: bool,
    /// True for truth values.
    truth: bool,
    /// True if zeros of the first operand may have lost their sign.
    signs_lost: bool,
}

impl Step<'_> {
    /// The operation, or another, on other numbers.
    fn fold(&self, kind: &OpKind, operands: &[&Tensor]) -> Result<Vec<f32>, String> {
        let declared = TensorType { dtype: DType::F32, shape: self.out.shape.clone() };
        eval::fold(kind, operands, Some(&declared)).map(|t| t.data.to_f32()).map_err(|e| e.to_string())
    }

    /// Bounds of an operand, as the result's elements meet them.
    fn exact_knots(&self, operand: usize) -> Result<Vec<f32>, String> {
        if self.errors[operand].data.len() == self.out.data.len() {
            return Ok(self.errors[operand].data.to_f32());
        }
        self.fold(&OpKind::Broadcast, &[&self.errors[operand]])
    }

    fn met_value(&self, operand: usize) -> Result<Vec<f32>, String> {
        if self.operands[operand].data.len() == self.out.data.len() {
            return Ok(self.operands[operand].data.to_f32());
        }
        self.fold(&OpKind::Broadcast, &[&self.operands[operand]])
    }

    fn largest(&self) -> Result<Vec<f32>, String> {
        let mut all = vec![0f32; self.out.data.len()];
        for operand in 0..self.operands.len() {
            all.iter_mut().zip(self.exact_knots(operand)?).for_each(|(a, b)| *a = a.max(b));
        }
        Ok(all)
    }

    /// Nothing is known where an operand is uncertain.
    fn jumps(&self) -> Result<Vec<f32>, String> {
        Ok(self.largest()?.into_iter().map(|e| if e > 0.0 { f32::INFINITY } else { 0.0 }).collect())
    }

    fn rounded(&self, mut error: Vec<f32>) -> Vec<f32> {
        let out = self.out.data.to_f32();
        if !self.whole {
            error
                .iter_mut()
                .zip(out)
                .for_each(|(e, y)| *e += if y.is_finite() { y.abs() * ROUNDING + LEAST } else { 0.0 });
        }
        error
    }

    /// Nothing is known of whole numbers that would be beyond 2048 if their type did not wrap: of 16 bits, fp16 has no more.
    fn unwrapped(&self, dtype: DType, error: &mut [f32]) {
        if matches!(dtype, DType::I8 | DType::U8) && !matches!(self.kind, OpKind::Reduce { kind: ReduceKind::Prod, .. })
        {
            return;
        }
        // As floats, which do not wrap; places stay whole.
        let places = matches!(self.kind, OpKind::ScatterAlong { .. }).then_some(1);
        let sized = |(at, t): (usize, &Tensor)| match places == Some(at) {
            true => (self::whole(t), self::whole(t)),
            false => (t.clone(), mapped(t, |x| x.abs().max(1.0))),
        };
        if let OpKind::Reduce { kind: ReduceKind::Sum, axes, .. } = self.kind
            && axes.len() > 1
        {
            return self.sums_of_each_axis(error);
        }
        let (whole, sizes): (Vec<_>, Vec<_>) = self.operands.iter().enumerate().map(sized).unzip();
        let plain = match self.kind {
            // Factors and parts of a product, each beyond what follows.
            OpKind::Reduce { kind: ReduceKind::Prod, .. } | OpKind::Binary(Binary::Pow) => sizes,
            // Sums on the way to a place, which later updates take back.
            OpKind::ScatterAlong { mode: ScatterMode::Add | ScatterMode::Sub, .. } => {
                return self.sums_on_the_way(error);
            }
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Reduce { .. } | OpKind::ScatterAlong { .. } => whole,
            _ => return,
        };
        let declared = TensorType { dtype: DType::F32, shape: self.out.shape.clone() };
        let Ok(wide) = eval::fold(self.kind, &plain.iter().collect::<Vec<_>>(), Some(&declared)) else { return };
        for (e, x) in error.iter_mut().zip(wide.data.to_f32()) {
            *e = if x.abs() > 2048.0 { f32::INFINITY } else { *e };
        }
    }

    /// Nothing is known where the terms of a place add up to more than 2048 in magnitude.
    fn sums_on_the_way(&self, error: &mut [f32]) {
        let OpKind::ScatterAlong { axis, .. } = *self.kind else { return };
        let [x, updates] = [0, 2].map(|at| mapped(&self.operands[at], f32::abs));
        let added = OpKind::ScatterAlong { axis, mode: ScatterMode::Add };
        let Ok(sizes) = self.fold(&added, &[&x, &whole(&self.operands[1]), &updates]) else { return };
        error.iter_mut().zip(sizes).filter(|(_, size)| *size > 2048.0).for_each(|(e, _)| *e = f32::INFINITY);
    }

    /// Nothing is known where terms add up to more than 2048 in magnitude: sums over one axis before that over the next.
    fn sums_of_each_axis(&self, error: &mut [f32]) {
        let Ok(sizes) = self.fold(self.kind, &[&mapped(&self.operands[0], f32::abs)]) else { return };
        error.iter_mut().zip(sizes).filter(|(_, size)| *size > 2048.0).for_each(|(e, _)| *e = f32::INFINITY);
    }

    /// A copy by an exact array keeps multiples of its unit, below its ceiling.
    fn copied(&self, mut error: Vec<f32>) -> Vec<f32> {
        if self.exact && !self.whole {
            for (e, y) in error.iter_mut().zip(self.out.data.to_f32()) {
                *e = if y.abs() >= CEILING { f32::INFINITY } else { *e + UNIT / 2.0 };
            }
        }
        error
    }

    /// Elements that a known defect affects have no bound.
    fn leave_out(&self, dtype: DType, error: &mut [f32], noted: &mut [bool]) -> Result<(), String> {
        let about = |known: &super::known::Known| {
            let wide = self.operands[0].shape.last().is_some_and(|&n| n > CROPPED_COLUMNS);
            known.is_about(self.kind, dtype)
                && (self.exact || !known.when.is_exact())
                && (wide || known.when != When::Cropped)
        };
        for (row, known) in KNOWN.iter().enumerate().filter(|(_, known)| about(known)) {
            let each = matches!(self.kind, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Select | OpKind::Cast);
            let operands = |operand: usize| -> Result<Vec<(f32, f32)>, String> {
                Ok(match each {
                    true => self.met_value(operand)?.into_iter().zip(self.exact_knots(operand)?).collect(),
                    false => {
                        let (x, e) = (self.operands[operand].data.to_f32(), self.errors[operand].data.to_f32());
                        x.into_iter().zip(e).collect()
                    }
                })
            };
            let all = (0..self.operands.len()).map(operands).collect::<Result<Vec<_>, _>>()?;
            for (at, e) in error.iter_mut().enumerate() {
                let affected = match each {
                    true => known.affects(&all.iter().map(|o| o[at]).collect::<Vec<_>>(), self.signs_lost),
                    false => known.affects(&all.concat(), self.signs_lost),
                };
                if affected && e.is_finite() {
                    (*e, noted[row]) = (f32::INFINITY, true);
                }
            }
        }
        Ok(())
    }

    fn error(&self) -> Result<Vec<f32>, String> {
        let errors: Vec<&Tensor> = self.errors.iter().collect();
        let shapes: Vec<Vec<usize>> = self.operands.iter().map(|t| t.shape.clone()).collect();
        if let Some(net) = parts(self.kind, &shapes) {
            let bounds = walk(&net, self.operands, self.errors, self.exact, None)?.bounds;
            return self.regrouped(bounds);
        }
        Ok(match self.kind {
            OpKind::Unary(f) => self.unary(*f)?,
            OpKind::Binary(f) => self.binary(*f)?,
            OpKind::Select => {
                let chosen = self.fold(&OpKind::Select, &[&mapped_bool(&self.operands[0]), errors[1], errors[2]])?;
                self.copied(
                    self.exact_knots(0)?
                        .iter()
                        .zip(chosen)
                        .map(|(&c, e)| if c > 0.0 { f32::INFINITY } else { e })
                        .collect(),
                )
            }
            OpKind::Cast if self.whole => {
                // Infinities and NaN have no integer, and the exact models know no NaN.
                let mut error = self.jumps()?;
                let x = self.operands[0].data.to_f32();
                let undefined = |x: f32| !x.is_finite() && (!self.truth || (self.exact && x.is_nan()));
                error.iter_mut().zip(x).for_each(|(e, x)| *e = if undefined(x) { f32::INFINITY } else { *e });
                error
            }
            OpKind::Cast => self.errors[0].data.to_f32(),
            OpKind::Gather { .. } | OpKind::GatherAlong { .. } => {
                self.certain(1, self.copied(self.fold(self.kind, &[errors[0], &whole(&self.operands[1])])?))
            }
            OpKind::ScatterAlong { mode, .. } | OpKind::ScatterNd { mode } => self.scattered(*mode)?,
            OpKind::ArgReduce { axis, keep_dims, .. } => {
                let nan = mapped(&self.operands[0], |x| f32::from(x.is_nan()));
                let [uncertain, nan] = [errors[0], &nan].map(|of| self.largest_along(of, &[*axis], *keep_dims));
                let bounds = uncertain?.into_iter().zip(nan?);
                bounds.map(|(e, n)| if e > 0.0 || n > 0.0 { f32::INFINITY } else { 0.0 }).collect()
            }
            OpKind::Resize { mode: ResizeMode::Linear, .. } => {
                let sizes = [mapped(&self.operands[0], f32::abs)];
                // Weights are rounded, and so is what comes of each axis.
                self.summed(self.kind, &sizes, self.errors)?.into_iter().map(|e| 2.0 * e).collect()
            }
            OpKind::Pad { pads, value } => {
                let kind = OpKind::Pad { pads: pads.clone(), value: value.abs() * ROUNDING };
                self.copied(self.fold(&kind, &errors)?)
            }
            OpKind::Concat { .. }
            | OpKind::Reshape
            | OpKind::Broadcast
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::Resize { .. }
            | OpKind::PadEdge { .. } => self.copied(self.fold(self.kind, &errors)?),
            OpKind::Pool { kind: PoolKind::Max, .. } => self.fold(self.kind, &errors)?,
            OpKind::Reduce { kind: ReduceKind::Max | ReduceKind::Min, axes, keep_dims } => {
                let kind = OpKind::Reduce { kind: ReduceKind::Max, axes: axes.clone(), keep_dims: *keep_dims };
                self.fold(&kind, &errors)?
            }
            OpKind::Reduce { kind, axes, keep_dims } => self.reduced(*kind, axes, *keep_dims)?,
            OpKind::Softmax { axis } => {
                let bound = accuracy::bound("softmax");
                let moved = self.along_rows(*axis)?;
                let each = |(y, e): (&f32, f32)| match e {
                    0.0 => bound.relative * y + bound.absolute,
                    e if e > 1.0 => f32::INFINITY,
                    // A ratio of exponentials, each off by the same share at most.
                    e => (bound.relative + (2.0 * e).exp_m1()) * y + bound.absolute,
                };
                self.out.data.to_f32().iter().zip(moved).map(each).collect()
            }
            OpKind::Pool { .. }
            | OpKind::Conv { .. }
            | OpKind::ConvTranspose { .. }
            | OpKind::Linear
            | OpKind::MatMul { .. } => {
                let sizes: Vec<Tensor> = self.operands.iter().map(|t| mapped(t, f32::abs)).collect();
                // A kernel computed at run time is multiplied with windows that the exact array has copied.
                let windows = matches!(self.kind, OpKind::Conv { .. } | OpKind::ConvTranspose { .. });
                if windows && self.exact && self.live[1] {
                    let copied = self.errors.iter().enumerate();
                    let copied: Vec<Tensor> =
                        copied.map(|(at, e)| if at < 2 { mapped(e, |e| e + UNIT / 2.0) } else { e.clone() }).collect();
                    return self.summed(self.kind, &sizes, &copied);
                }
                self.summed(self.kind, &sizes, self.errors)?
            }
            other => return Err(format!("{} has no bound", other.name())),
        })
    }

    fn unary(&self, f: Unary) -> Result<Vec<f32>, String> {
        use Unary::*;
        let own = self.errors[0].data.to_f32();
        Ok(match f {
            Identity | Relu | Relu6 | Abs | Neg | Clip { .. } | Threshold { .. } => own,
            Sign | Ceil | Floor | Round => self.jumps()?,
            Square if self.whole => self.jumps()?,
            Square => {
                let x = self.operands[0].data.to_f32();
                self.rounded(own.iter().zip(x).map(|(e, x)| product_error(x, x, *e, *e)).collect())
            }
            _ => {
                let row = accuracy::bound(f.name());
                let x = self.operands[0].data.to_f32();
                let out = self.out.data.to_f32();
                let moved = self.moved(&own, &x)?;
                // A reciprocal has two signs where its operand may be zero.
                let zero = |x: f32, e: f32| matches!(f, Inverse { .. }) && e > 0.0 && e >= x.abs();
                let at = |(((e, y), x), own): (((f32, f32), f32), &f32)| match row.outside_at(x) {
                    Some(_) => f32::INFINITY,
                    None if zero(x, *own) => f32::INFINITY,
                    None => e * (1.0 + row.relative) + row.relative * y.abs() + row.absolute,
                };
                moved.into_iter().zip(out).zip(x).zip(&own).map(at).collect()
            }
        })
    }

    /// Change of a function's value when its operand moves by its bound: the functions drawn after a rounded value are monotone,
    /// or hardly steeper than the identity.
    fn moved(&self, off: &[f32], x: &[f32]) -> Result<Vec<f32>, String> {
        if off.iter().all(|&e| e == 0.0) {
            return Ok(vec![0.0; off.len()]);
        }
        let out = self.out.data.to_f32();
        let flat = matches!(self.kind, OpKind::Unary(Unary::Silu | Unary::Gelu(_)));
        let mut moved: Vec<f32> = off.iter().map(|e| if flat { 1.2 * e } else { 0.0 }).collect();
        // Of an operand of which nothing is known, a function may have no value.
        moved.iter_mut().zip(off).filter(|(_, e)| e.is_infinite()).for_each(|(m, _)| *m = f32::INFINITY);
        for sign in [-1.0, 1.0] {
            let there = x.iter().zip(off).map(|(x, e)| x + sign * e).collect();
            let there = Tensor { shape: self.operands[0].shape.clone(), data: Data::F32(there) };
            for ((m, y), (there, e)) in moved.iter_mut().zip(&out).zip(self.fold(self.kind, &[&there])?.iter().zip(off))
            {
                let apart = if *e == 0.0 { 0.0 } else { (there - y).abs() };
                *m = if apart.is_nan() { f32::INFINITY } else { m.max(apart) };
            }
        }
        Ok(moved)
    }

    /// Nothing is known where an operand of positions is uncertain.
    fn certain(&self, operand: usize, error: Vec<f32>) -> Vec<f32> {
        let certain = self.errors[operand].data.to_f32().iter().all(|&e| e == 0.0);
        if certain { error } else { vec![f32::INFINITY; error.len()] }
    }

    fn scattered(&self, mode: ScatterMode) -> Result<Vec<f32>, String> {
        let places = whole(&self.operands[1]);
        let of = |mode| match self.kind {
            OpKind::ScatterAlong { axis, .. } => OpKind::ScatterAlong { axis: *axis, mode },
            _ => OpKind::ScatterNd { mode },
        };
        let moved = |mode| self.fold(&of(mode), &[&self.errors[0], &places, &self.errors[2]]);
        if self.whole || matches!(mode, ScatterMode::Update | ScatterMode::Max | ScatterMode::Min) {
            let mode = if mode == ScatterMode::Update { mode } else { ScatterMode::Max };
            return Ok(self.certain(1, self.copied(moved(mode)?)));
        }
        let [x, u] = [0, 2].map(|i| mapped(&self.operands[i], f32::abs));
        let size = self.fold(&of(ScatterMode::Add), &[&x, &places, &u])?;
        // One rounding for each update that meets a place.
        let roundings = self.operands[1].data.len() as f32 * ROUNDING;
        let bounds = moved(ScatterMode::Add)?.into_iter().zip(size);
        // Many updates are added by a product.
        let limit = if self.exact { CEILING } else { OVERFLOW };
        let each = |(e, size): (f32, f32)| if size < limit { e + roundings * size + LEAST } else { f32::INFINITY };
        Ok(self.certain(1, self.copied(bounds.map(each).collect())))
    }

    /// Adds the error of folding a batch norm's statistics into one factor and addend, beyond that of its steps.
    fn regrouped(&self, mut bounds: Vec<f32>) -> Result<Vec<f32>, String> {
        let OpKind::BatchNorm { epsilon } = self.kind else { return Ok(bounds) };
        let per = |operand: usize, default: f32| {
            self.operands.get(operand).map_or(vec![default; self.operands[1].data.len()], |t| t.data.to_f32())
        };
        let (mean, variance, gamma, beta) = (per(1, 0.0), per(2, 1.0), per(3, 1.0), per(4, 0.0));
        let x = self.operands[0].data.to_f32();
        let inner: usize = self.operands[0].shape[2..].iter().product();
        for (at, (bound, x)) in bounds.iter_mut().zip(x).enumerate() {
            let c = at / inner % mean.len();
            let scale = (gamma[c] / (variance[c] + epsilon).sqrt()).abs();
            let size = scale * (x.abs() + mean[c].abs()) + beta[c].abs();
            let limit = if self.exact { CEILING } else { OVERFLOW };
            // A factor below the normal numbers is rounded to a multiple of the least one.
            let factor = LEAST * (x.abs() + mean[c].abs());
            // The one term of a factor loses as much as each of a sum.
            let term = if self.exact { 2.0 * UNIT } else { UNIT };
            let grouped = 3.0 * ROUNDING * size + term + factor;
            *bound = if size < limit && scale < limit { *bound + grouped } else { f32::INFINITY };
        }
        Ok(bounds)
    }

    /// Largest bound of the operand's elements that share a row along an axis, for each element.
    fn along_rows(&self, axis: usize) -> Result<Vec<f32>, String> {
        let mut shape = self.out.shape.clone();
        shape[axis] = 1;
        let largest = Tensor { shape, data: Data::F32(self.largest_along(&self.errors[0], &[axis], true)?) };
        self.fold(&OpKind::Broadcast, &[&largest])
    }

    fn largest_along(&self, of: &Tensor, axes: &[usize], keep_dims: bool) -> Result<Vec<f32>, String> {
        self.fold(&OpKind::Reduce { kind: ReduceKind::Max, axes: axes.to_vec(), keep_dims }, &[of])
    }

    fn binary(&self, f: Binary) -> Result<Vec<f32>, String> {
        if f.is_comparison() {
            let (x, y) = (self.met_value(0)?, self.met_value(1)?);
            let mut error = self.jumps()?;
            for ((e, x), y) in error.iter_mut().zip(x).zip(y) {
                *e = if self.exact && (x.is_nan() || y.is_nan()) { f32::INFINITY } else { *e };
            }
            return Ok(error);
        }
        if self.whole {
            // Division by zero has no value of its own.
            let divides = matches!(f, Binary::Div | Binary::FloorDiv | Binary::Mod | Binary::Pow);
            let y = self.met_value(1)?;
            let mut error = self.jumps()?;
            let undefined = |y: f32| divides && (y == 0.0 || (f == Binary::Pow && y < 0.0));
            error.iter_mut().zip(y).for_each(|(e, y)| *e = if undefined(y) { f32::INFINITY } else { *e });
            return Ok(error);
        }
        let (a, b) = (self.exact_knots(0)?, self.exact_knots(1)?);
        let (x, y) = (self.met_value(0)?, self.met_value(1)?);
        Ok(match f {
            Binary::Max | Binary::Min => self.largest()?,
            Binary::Add | Binary::Sub => self.rounded(a.iter().zip(&b).map(|(a, b)| a + b).collect()),
            Binary::Mul => {
                let terms = a.iter().zip(&b).zip(x.iter().zip(&y));
                self.rounded(terms.map(|((&a, &b), (&x, &y))| product_error(x, y, a, b)).collect())
            }
            Binary::Pow => {
                // 2^(y log2 x): the logarithm's error and the product's rounding are multiplied by the exponent.
                let (log, exp) = (accuracy::bound("log2"), accuracy::bound("exp2"));
                let out = self.out.data.to_f32();
                let carried =
                    x.iter().zip(&a).zip(y.iter().zip(&b)).map(|((&x, &a), (&y, &b))| power_moved(x, a, y, b));
                let each = |((r, x), y): ((&f32, &f32), &f32)| {
                    // Zero, one, an infinity and NaN come out exactly.
                    if !r.is_finite() || x.abs() == 1.0 || y.is_infinite() {
                        return 2.0 * LEAST;
                    }
                    let logarithm = x.abs().log2().abs();
                    let off = y.abs() * (log.absolute + (log.relative + ROUNDING) * logarithm);
                    let whole = 4.0 * ROUNDING * y.abs();
                    let off = if logarithm.is_finite() { (off + whole).exp2() - 1.0 } else { 0.0 };
                    (off + exp.relative) * r.abs() + 2.0 * LEAST
                };
                let own = out.iter().zip(&x).zip(&y).map(each);
                own.zip(carried).map(|(own, carried)| own + 1.1 * carried).collect()
            }
            _ => {
                let row = accuracy::bound(f.name());
                let out = self.out.data.to_f32();
                let own = out.iter().map(|y| row.relative * y.abs() + row.absolute);
                // A quotient moves with its operands: by the dividend's error over the divisor, and by the divisor's share.
                let carried = a.iter().zip(&b).zip(&y).zip(&out).map(|(((&a, &b), &y), &q)| match (a, b) {
                    (0.0, 0.0) => 0.0,
                    _ if f == Binary::Div && y.abs() > b => (a + product_error(q, 0.0, 0.0, b)) / (y.abs() - b),
                    _ => f32::INFINITY,
                });
                own.zip(carried).map(|(own, carried)| own + carried).collect()
            }
        })
    }

    fn reduced(&self, kind: ReduceKind, axes: &[usize], keep_dims: bool) -> Result<Vec<f32>, String> {
        if self.whole {
            return self.jumps_of(axes, keep_dims);
        }
        let of = |kind| OpKind::Reduce { kind, axes: axes.to_vec(), keep_dims };
        let sizes = mapped(&self.operands[0], f32::abs);
        match kind {
            ReduceKind::Sum | ReduceKind::L1 => self.summed(&of(ReduceKind::Sum), &[sizes], self.errors),
            ReduceKind::Mean => self.summed(&of(ReduceKind::Mean), &[sizes], self.errors),
            ReduceKind::SumSquare => {
                let squares = mapped(&sizes, |x| x * x);
                let x = sizes.data.to_f32();
                let grown =
                    self.errors[0].data.to_f32().iter().zip(x).map(|(e, x)| product_error(x, x, *e, *e)).collect();
                let grown = Tensor { shape: sizes.shape.clone(), data: Data::F32(grown) };
                self.summed(&of(ReduceKind::Sum), &[squares], &[grown])
            }
            _ => Ok(vec![f32::INFINITY; self.out.data.len()]),
        }
    }

    fn jumps_of(&self, axes: &[usize], keep_dims: bool) -> Result<Vec<f32>, String> {
        let uncertain = self.largest_along(&self.errors[0], axes, keep_dims)?;
        Ok(uncertain.into_iter().map(|e| if e > 0.0 { f32::INFINITY } else { 0.0 }).collect())
    }

    /// A sum of products: its terms' sizes and the bounds of its operands give the bound. A sum may be taken in parts that
    /// are rounded themselves.
    fn summed(&self, kind: &OpKind, sizes: &[Tensor], errors: &[Tensor]) -> Result<Vec<f32>, String> {
        let all: Vec<&Tensor> = sizes.iter().collect();
        let size = self.fold(kind, &all)?;
        let ones: Vec<Tensor> = sizes.iter().map(|t| filled(t, 1.0)).collect();
        // Every term of a mean is rounded, as those of a sum are.
        let counted = match kind {
            OpKind::Reduce { kind: ReduceKind::Mean, axes, keep_dims } => {
                OpKind::Reduce { kind: ReduceKind::Sum, axes: axes.clone(), keep_dims: *keep_dims }
            }
            _ => kind.clone(),
        };
        let terms = self.fold(&counted, &ones.iter().collect::<Vec<_>>())?;
        let (mut carried, mut unknown) = (vec![0f32; size.len()], vec![false; size.len()]);
        for operand in 0..sizes.len() {
            // A copy on its way to an exact array is infinite from the array's ceiling on.
            let high = self.exact && sizes[operand].data.to_f32().iter().any(|&x| x >= CEILING);
            if !high && errors[operand].data.to_f32().iter().all(|&e| e == 0.0) {
                continue;
            }
            let mut uncertain = mapped(&errors[operand], |e| f32::from(e.is_infinite()));
            if high {
                uncertain = mapped(&sizes[operand], |x| f32::from(x.is_nan() || x >= CEILING));
                let errors = errors[operand].data.to_f32();
                let marked = uncertain.data.to_f32().into_iter().zip(errors);
                uncertain.data = Data::F32(marked.map(|(u, e)| if e.is_infinite() { 1.0 } else { u }).collect());
            }
            let certain = mapped(&errors[operand], |e| if e.is_finite() { e } else { 0.0 });
            let mut parts: Vec<&Tensor> = sizes.iter().collect();
            parts[operand] = &certain;
            carried.iter_mut().zip(self.fold(kind, &parts)?).for_each(|(c, e)| *c += e);
            let mut parts: Vec<&Tensor> = ones.iter().collect();
            parts[operand] = &uncertain;
            let met = self.fold(kind, &parts)?;
            unknown.iter_mut().zip(met).for_each(|(u, e)| *u |= e > 0.0);
        }
        let rounded = self.rounded(carried);
        // A mean is of as many terms as its window has places: that of fewer elements is corrected after its terms are rounded.
        let (least, places) = match kind {
            OpKind::Pool { kernel, .. } => {
                let places = kernel.iter().product::<usize>() as f32;
                (LEAST * (1.0 + places), places)
            }
            _ => (LEAST, 1.0),
        };
        // Squares, and sums over the axes before the last one, are rounded before they are added up.
        let parts = matches!(kind, OpKind::Reduce { .. });
        let each = |((e, size), terms): ((f32, f32), f32)| {
            if self.exact && (size.is_nan() || size >= CEILING) {
                return f32::INFINITY;
            }
            let unit = match self.exact {
                true => 2.0 * UNIT * places * terms.max(1.0),
                false if parts => LEAST * terms.max(1.0),
                false => least,
            };
            e + 2.0 * ROUNDING * size + unit
        };
        let mut bounds: Vec<f32> = rounded.into_iter().zip(size.iter().copied()).zip(terms).map(each).collect();
        // Parts of a sum may overflow where the whole does not, or to the other infinity than the whole.
        let out = self.out.data.to_f32();
        let finite: Vec<Tensor> = sizes.iter().map(|t| mapped(t, |x| if x.is_finite() { x } else { 0.0 })).collect();
        let finite = self.fold(kind, &finite.iter().collect::<Vec<_>>())?;
        for (((bound, size), finite), y) in bounds.iter_mut().zip(size).zip(finite).zip(out) {
            let below = size.is_finite() && size < OVERFLOW || y.is_infinite() && finite < OVERFLOW;
            *bound = if below || y.is_nan() { *bound } else { f32::INFINITY };
            *bound = if bound.is_nan() && !y.is_finite() { 0.0 } else { *bound };
        }
        bounds.iter_mut().zip(unknown).filter(|(_, u)| *u).for_each(|(bound, _)| *bound = f32::INFINITY);
        Ok(bounds)
    }
}

fn product_error(x: f32, y: f32, a: f32, b: f32) -> f32 {
    // An exact operand adds nothing, whatever it is multiplied by.
    let part = |x: f32, e: f32| if e == 0.0 { 0.0 } else { x.abs() * e };
    let error = part(x, b) + part(y, a) + part(a, b);
    // NaN times an uncertain number can be anything.
    if error.is_nan() { f32::INFINITY } else { error }
}

/// Change of a power when its base and exponent move by their bounds; infinite where the base may change its sign.
fn power_moved(x: f32, a: f32, y: f32, b: f32) -> f32 {
    if a == 0.0 && b == 0.0 {
        return 0.0;
    }
    if (a > 0.0 && a >= x.abs()) || (x < 0.0 && b > 0.0) {
        return f32::INFINITY;
    }
    let corners = [-a, a].into_iter().flat_map(|a| [-b, b].map(|b| (x + a).powf(y + b)));
    corners
        .map(|moved| (moved - x.powf(y)).abs())
        .fold(0.0, |most, e| if e.is_nan() { f32::INFINITY } else { most.max(e) })
}

fn whole(t: &Tensor) -> Tensor {
    Tensor { shape: t.shape.clone(), data: Data::I32(t.data.to_f32().iter().map(|&x| x as i32).collect()) }
}

fn mapped_bool(t: &Tensor) -> Tensor {
    Tensor { shape: t.shape.clone(), data: Data::Bool(t.data.to_f32().iter().map(|&x| x != 0.0).collect()) }
}
