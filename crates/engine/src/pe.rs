//! The planar engine: elementwise operations of one or two sources, pooling windows, reductions over rows and columns.
//!
//! `y = final(window or op(pre(source 1), source 2)) * scale + bias`, then the non-linearity and ReLU. The order of the
//! final scale and the bias is settled by Apple's mean and by its epsilon inside the reciprocal square root; see
//! `docs/evidence.md`, key `h13-planar`.

use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::tensor::{Extents, Tensor};
use anemone_facts::Field::*;
use anemone_facts::code::{condition, first, padding, planar, planar_nonlinear, pool, second};
use rayon::prelude::*;

/// Broadcast flags of one source: columns, rows, channels.
type Broadcast = [bool; 3];

impl Machine<'_> {
    fn input_extents(&self) -> Extents {
        Extents { g: self.size(NumGroups).max(1), c: self.size(Cin), h: self.size(Hin), w: self.size(Win) }
    }

    /// One source; with a window larger than 1x1 this is pooling.
    pub(crate) fn planar_pool(&mut self) -> Result<(), FaultKind> {
        let input = self.input_extents();
        let out = Extents { h: self.size(Hout), w: self.size(Wout), ..input };
        let window = Window {
            k: [self.size(Kh).max(1), self.size(Kw).max(1)],
            s: [self.size(Sy).max(1), self.size(Sx).max(1)],
            p: [self.size(Py), self.size(Px)],
        };
        if self.get(PeSecond) != second::NONE {
            return Err(self.inconsistent(PeSecond, "a task with one source has no second operand"));
        }
        self.require(Cout, self.get(Cin), "a planar task keeps its channels")?;
        if !window.is_trivial() {
            self.check_windows(&window, input, out)?;
            let max = self.pool_is_max()?;
            let (k, s, p) = (window.k, window.s, window.p);
            let geometry = crate::window::Window { k, s, p, from: [input.h, input.w], to: [out.h, out.w] };
            if self.pool_in_place(geometry, input, out, max)? {
                return Ok(());
            }
        }
        let x = self.planar_source1(input)?;
        let pooled = if window.is_trivial() {
            if x.ext != out {
                return Err(self.inconsistent(Wout, "without a window the result has the source's extents"));
            }
            x
        } else {
            let max = self.pool_is_max()?;
            let mut y = Tensor::zeros(out)?;
            y.data.par_chunks_mut(out.plane().max(1)).enumerate().for_each(|(i, plane)| {
                let source = &x.data[i * x.ext.plane()..][..x.ext.plane()];
                window.pool(source, x.ext, plane, out, max);
            });
            y
        };
        self.finish(pooled)
    }

    /// Two sources.
    pub(crate) fn planar_two_sources(&mut self) -> Result<(), FaultKind> {
        let ext = Extents { c: self.size(Cout), h: self.size(Hout), w: self.size(Wout), ..self.input_extents() };
        if ext != self.input_extents() {
            return Err(self.inconsistent(Cout, "a planar task with two sources keeps its extents"));
        }
        if self.combine_in_place(ext)? {
            return Ok(());
        }
        let a = self.planar_source1(ext)?;
        let b = self.planar_source2(ext)?;
        let y = self.combine(a, &b)?;
        self.finish(y)
    }

    /// One source; two rows of source 2 hold an addend and a factor for every channel: `(x ± s0) * s1`.
    pub(crate) fn planar_affine(&mut self) -> Result<(), FaultKind> {
        let ext = self.input_extents();
        let mut x = self.planar_source1(ext)?;
        let pairs = self.planar_source2(Extents { h: 2, w: 1, ..ext })?;
        let sign = self.second_sign()?;
        if self.get(PeOp) != planar::ADD {
            return Err(self.inconsistent(PeOp, "an addend and a factor are applied by an addition (0)"));
        }
        let plane = ext.plane().max(1);
        for (plane, pair) in x.data.chunks_exact_mut(plane).zip(pairs.data.chunks_exact(2)) {
            plane.iter_mut().for_each(|v| *v = (*v + sign * pair[0]) * pair[1]);
        }
        self.finish(x)
    }

    /// Source 2 with its repeated and exchanged axes, at full extents.
    fn planar_source2(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        if self.get(InputRelu) == 1 {
            let reason = "no sample says which of two sources it concerns";
            return Err(FaultKind::NotHonoured { field: InputRelu, value: 1, reason });
        }
        let flags = [Src2BroadcastW, Src2BroadcastH, Src2BroadcastC].map(|f| self.get(f) == 1);
        let stored = shrink(ext, flags);
        let turned = self.get(Src2Transpose) == 1;
        let b = self.source2(if turned { stored.transposed() } else { stored })?;
        expand(if turned { b.transposed() } else { b }, ext, flags)
    }

    fn second_sign(&self) -> Result<f32, FaultKind> {
        match self.get(PeSecond) {
            second::SOURCE => Ok(1.0),
            second::NEGATED => Ok(-1.0),
            _ => Err(self.inconsistent(PeSecond, "2 (source 2) or 3 (negated source 2) expected")),
        }
    }

    /// Both sources combined by the task's operation.
    fn combine(&self, mut a: Tensor, b: &Tensor) -> Result<Tensor, FaultKind> {
        let sign = self.second_sign()?;
        let first = match self.get(PeFirst) {
            first::SOURCE => 1.0,
            first::NEGATED => -1.0,
            value => {
                return Err(FaultKind::NotHonoured { field: PeFirst, value, reason: "no sample has this operand" });
            }
        };
        let op: fn(f32, f32) -> f32 = match self.get(PeOp) {
            planar::ADD => |a, b| a + b,
            planar::MUL => |a, b| a * b,
            planar::MAX => f32::max,
            planar::MIN => f32::min,
            planar::SQUARE_SUM => |a, b| (a + b) * (a + b),
            value => {
                return Err(FaultKind::NotHonoured { field: PeOp, value, reason: "no sample has this operation" });
            }
        };
        a.data.par_iter_mut().with_min_len(1 << 14).zip(&b.data).for_each(|(x, &b)| *x = op(first * *x, sign * b));
        Ok(a)
    }

    /// One source, or two combined, reduced over rows and columns.
    pub(crate) fn planar_reduce(&mut self, two: bool) -> Result<(), FaultKind> {
        let ext = self.input_extents();
        let mut x = self.planar_source1(ext)?;
        if two {
            let b = self.planar_source2(ext)?;
            x = self.combine(x, &b)?;
        } else if self.get(PeSecond) != second::NONE {
            return Err(self.inconsistent(PeSecond, "a task with one source has no second operand"));
        }
        self.require(Cout, self.get(Cin), "a planar task keeps its channels")?;
        self.require(Wout, self.get(Win), "a reduction holds its input width")?;
        self.require(Hout, self.get(Hin), "a reduction holds its input height")?;
        if x.ext.plane() == 0 {
            return Err(self.inconsistent(Win, "nothing to reduce"));
        }
        let max = self.pool_is_max()?;
        let mut y = Tensor::zeros(Extents { h: 1, w: 1, ..x.ext })?;
        y.data.par_iter_mut().zip(x.data.par_chunks(x.ext.plane())).for_each(|(y, plane)| {
            *y = if max { plane.iter().copied().fold(f32::NEG_INFINITY, f32::max) } else { plane.iter().sum() };
        });
        self.finish(y)
    }

    fn pool_is_max(&self) -> Result<bool, FaultKind> {
        match self.get(PePool) {
            pool::SUM => Ok(false),
            pool::MAX => {
                self.require(PaddingMode, padding::NEGATIVE, "a maximum must not see padding")?;
                Ok(true)
            }
            value => Err(FaultKind::NotHonoured { field: PePool, value, reason: "only sum and max are executed" }),
        }
    }

    /// Source 1 after broadcast, pre-scale and condition.
    fn planar_source1(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        let flags = [Src1BroadcastW, Src1BroadcastH, Src1BroadcastC].map(|f| self.get(f) == 1);
        let stored = shrink(ext, flags);
        let turned = self.get(Src1Transpose) == 1;
        let x = self.source1(if turned { stored.transposed() } else { stored })?;
        let mut x = expand(if turned { x.transposed() } else { x }, ext, flags)?;
        let pre = self.half(PePreScale);
        let abs = match self.get(PeCond) {
            condition::NONE => false,
            condition::ABS => true,
            value => {
                return Err(FaultKind::NotHonoured {
                    field: PeCond,
                    value,
                    reason: "only the absolute value is known; Apple compares by a difference and a step table",
                });
            }
        };
        if pre != 1.0 || abs {
            x.data.par_iter_mut().with_min_len(1 << 14).for_each(|v| {
                let y = *v * pre;
                *v = if abs { y.abs() } else { y };
            });
        }
        Ok(x)
    }

    /// Scales, bias, non-linearity, ReLU, transpose, store.
    fn finish(&mut self, mut y: Tensor) -> Result<(), FaultKind> {
        let ending = self.ending()?;
        y.data.par_chunks_mut(1 << 14).for_each(|row| ending.apply(row));
        let y = if self.get(ResultTranspose) == 1 { y.transposed() } else { y };
        self.store(y)
    }

    /// What follows a task's operation.
    pub(crate) fn ending(&self) -> Result<Ending, FaultKind> {
        let function: Option<fn(f32) -> f32> = match self.get(PeNonlinear) {
            planar_nonlinear::NONE => None,
            planar_nonlinear::RECIPROCAL => Some(|x| 1.0 / x),
            planar_nonlinear::RSQRT => Some(|x| 1.0 / x.sqrt()),
            value => {
                return Err(FaultKind::NotHonoured {
                    field: PeNonlinear,
                    value,
                    reason: "no sample has this function",
                });
            }
        };
        let epsilon = self.half(PeEpsilon);
        if epsilon != 0.0 && self.get(PeNonlinear) != planar_nonlinear::RSQRT {
            return Err(self.inconsistent(PeEpsilon, "only a reciprocal square root has an epsilon"));
        }
        let (last, relu) = (f32::from_bits(self.get(PeFinalScale)), self.get(PeReluEn) == 1);
        Ok(Ending { last, scale: self.half(PeScale), bias: self.half(PeBias), epsilon, function, relu })
    }

    fn check_windows(&self, window: &Window, from: Extents, to: Extents) -> Result<(), FaultKind> {
        let fits = |axis: usize, size: usize, out: usize| {
            out > 0 && window.p[axis] < window.k[axis] && (out - 1) * window.s[axis] < size + window.p[axis]
        };
        if !fits(0, from.h, to.h) {
            return Err(self.inconsistent(Hout, "the last window lies outside the source"));
        }
        if !fits(1, from.w, to.w) {
            return Err(self.inconsistent(Wout, "the last window lies outside the source"));
        }
        Ok(())
    }

    pub(crate) fn inconsistent(&self, field: anemone_facts::Field, reason: &str) -> FaultKind {
        FaultKind::Inconsistent { field, value: self.get(field), reason: reason.into() }
    }
}

/// Final scale, scale, bias, function of the sum with an epsilon, ReLU.
pub(crate) struct Ending {
    last: f32,
    scale: f32,
    bias: f32,
    epsilon: f32,
    function: Option<fn(f32) -> f32>,
    relu: bool,
}

impl Ending {
    /// In place.
    #[inline(always)]
    pub(crate) fn apply(&self, row: &mut [f32]) {
        let &Ending { last, scale, bias, epsilon, function, relu } = self;
        if last != 1.0 || scale != 1.0 || bias != 0.0 {
            row.iter_mut().for_each(|v| *v = *v * last * scale + bias);
        }
        if let Some(function) = function {
            row.iter_mut().for_each(|v| *v = function(*v + epsilon));
        }
        if relu {
            row.iter_mut().for_each(|v| *v = v.max(0.0));
        }
    }
}

/// Kernel extents, strides and leading padding; rows first.
struct Window {
    k: [usize; 2],
    s: [usize; 2],
    p: [usize; 2],
}

impl Window {
    fn is_trivial(&self) -> bool {
        self.k == [1, 1] && self.s == [1, 1] && self.p == [0, 0]
    }

    /// The part of the window at output `o` that lies inside `size` elements.
    fn span(&self, axis: usize, o: usize, size: usize) -> std::ops::Range<usize> {
        let start = (o * self.s[axis]) as isize - self.p[axis] as isize;
        let end = (start + self.k[axis] as isize).clamp(0, size as isize) as usize;
        (start.max(0) as usize).min(end)..end
    }

    fn pool(&self, from: &[f32], from_ext: Extents, to: &mut [f32], to_ext: Extents, max: bool) {
        for oh in 0..to_ext.h {
            let rows = self.span(0, oh, from_ext.h);
            for ow in 0..to_ext.w {
                let columns = self.span(1, ow, from_ext.w);
                let elements = rows.clone().flat_map(|h| from[h * from_ext.w..][columns.clone()].iter().copied());
                to[oh * to_ext.w + ow] = if max { elements.fold(f32::NEG_INFINITY, f32::max) } else { elements.sum() };
            }
        }
    }
}

/// Extents of a source before its flagged axes are repeated.
fn shrink(ext: Extents, [w, h, c]: Broadcast) -> Extents {
    let one = |flag: bool, n: usize| if flag { 1 } else { n };
    Extents { g: ext.g, c: one(c, ext.c), h: one(h, ext.h), w: one(w, ext.w) }
}

/// Repeats a source along its flagged axes.
fn expand(from: Tensor, ext: Extents, flags: Broadcast) -> Result<Tensor, FaultKind> {
    if flags == [false; 3] {
        return Ok(from);
    }
    let mut to = Tensor::zeros(ext)?;
    let [w, h, c] = flags.map(usize::from);
    for (i, row) in to.data.chunks_exact_mut(ext.w.max(1)).enumerate() {
        let (g, ci, hi) = (i / (ext.h * ext.c), i / ext.h % ext.c, i % ext.h);
        let from_row = ((g * from.ext.c + ci * (1 - c)) * from.ext.h + hi * (1 - h)) * from.ext.w;
        if w == 1 {
            row.fill(from.data[from_row]);
        } else {
            row.copy_from_slice(&from.data[from_row..][..ext.w]);
        }
    }
    Ok(to)
}
