//! The planar engine: elementwise operations of one or two sources, pooling windows, reductions over rows and columns.
//!
//! `y = final(window or op(pre(source 1), source 2)) * scale + bias`, then activation and ReLU. The order of the
//! final scale and the bias follows from Apple's mean and its epsilon inside the reciprocal square root; see
//! `docs/evidence.md`, key `h13-planar`.

use crate::fault::FaultKind;
use crate::lines::{FIRST, SECOND};
use crate::machine::Machine;
use crate::numerics::{Parameters, binary_op};
use crate::planar::registry::Selected;
use anemone_facts::Field::{self, *};
use anemone_facts::code::{class, condition, first, padding, planar, planar_nonlinear, pool, second};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::cost;
use anemone_kernels::line::Line;
use anemone_kernels::num::wide::{Exact, Wide};
use anemone_kernels::params::{BinaryOp, Rounding};
use anemone_kernels::reduce::{ElementwiseEpilogue, Fold, Operation, prepare};
use anemone_kernels::rows::RowNumber;
use anemone_kernels::tensor::{Extents, Tensor};
use anemone_kernels::workers::{PER_THREAD, chunks};

/// Broadcast flags of one source: columns, rows, channels.
type Broadcast = [bool; 3];

impl Machine<'_> {
    /// Executes a task of the planar engine, in the number type of the model, by the kernel that was selected at planning.
    pub(crate) fn planar(&mut self, selected: &Selected) -> Result<(), FaultKind> {
        // The size limit of tensors applies to memory-to-memory tasks too.
        self.input_extents().elements()?;
        if let Selected::InPlace(row, operands) = selected {
            return row.run(self, operands);
        }
        match self.model.rounding() {
            Some(_) => self.planar_in::<Exact>(),
            None => self.planar_in::<f32>(),
        }
    }

    pub(crate) fn pooling_window(&self) -> Window {
        Window {
            k: [self.size(Kh).max(1), self.size(Kw).max(1)],
            s: [self.size(Sy).max(1), self.size(Sx).max(1)],
            p: [self.size(Py), self.size(Px)],
        }
    }

    fn planar_in<N: RowNumber>(&mut self) -> Result<(), FaultKind> {
        let y = match self.get(TaskClass) {
            class::PLANAR_ONE => self.pooled::<N>(),
            class::PLANAR_TWO => self.two_sources(),
            class::PLANAR_AFFINE => self.affine(),
            value => self.reduced(value == class::PLANAR_REDUCE_TWO),
        }?;
        self.finish::<N>(y)
    }

    pub(crate) fn input_extents(&self) -> Extents {
        Extents { g: self.size(NumGroups).max(1), c: self.size(Cin), h: self.size(Hin), w: self.size(Win) }
    }

    /// Checks that the operation of a planar task is one that its form has.
    pub(crate) fn check_planar(&self) -> Result<(), FaultKind> {
        let (class, value) = (self.get(TaskClass), self.get(PeOp));
        if class == class::NEURAL {
            return Ok(());
        }
        self.require(ElemMultMode, 0, "only the neural engine multiplies channels")?;
        let known = match class {
            class::PLANAR_ONE => value == planar::ADD,
            class::PLANAR_REDUCE => [planar::ADD, planar::SQUARE_SUM].contains(&value),
            _ => true,
        };
        match known {
            true => Ok(()),
            false => Err(FaultKind::NotHonoured {
                field: PeOp,
                value,
                reason: "a task with one source has no operation, or reduces its squares (4)",
            }),
        }
    }

    /// Task with one source; pooling if the window is larger than 1x1.
    fn pooled<N: Line>(&mut self) -> Result<Tensor<N>, FaultKind> {
        let x = self.planar_source1::<N>(self.input_extents())?;
        let out = Extents { h: self.size(Hout), w: self.size(Wout), ..x.ext };
        let window = self.pooling_window();
        if self.get(PeSecond) != second::NONE {
            return Err(self.inconsistent(PeSecond, "a task with one source has no second operand"));
        }
        self.require(Cout, self.get(Cin), "a planar task keeps its channels")?;
        if window.is_trivial() {
            if x.ext != out {
                return Err(self.inconsistent(Wout, "without a window the result has the source's extents"));
            }
            return Ok(x);
        }
        self.check_windows(&window, x.ext, out)?;
        let fold = self.fold()?;
        let mut y = Tensor { ext: out, data: vec![N::canonicalize(0.0); out.elements()?] };
        let nanos = cost::one_by_one(x.data.len().saturating_mul(window.k[0] * window.k[1]));
        chunks(&mut y.data, out.plane(), nanos, |i, plane| {
            let source = &x.data[i * x.ext.plane()..][..x.ext.plane()];
            window.pool(source, x.ext, plane, out, &fold);
        });
        Ok(y)
    }

    /// Task with two sources.
    fn two_sources<N: Wide>(&mut self) -> Result<Tensor<N>, FaultKind> {
        let ext = Extents { c: self.size(Cout), h: self.size(Hout), w: self.size(Wout), ..self.input_extents() };
        if ext != self.input_extents() {
            return Err(self.inconsistent(Cout, "a planar task with two sources keeps its extents"));
        }
        let a = self.planar_source1(ext)?;
        let b = self.planar_source2(ext)?;
        self.combine(a, &b)
    }

    /// Task with one source and, in two rows of source 2, an addend and a factor for every channel: `(x ± s0) * s1`.
    fn affine<N: Wide>(&mut self) -> Result<Tensor<N>, FaultKind> {
        let ext = self.input_extents();
        let mut x = self.planar_source1::<N>(ext)?;
        let pairs = self.planar_source2::<N>(Extents { h: 2, w: 1, ..ext })?;
        let (one, sign) = (N::canonicalize(1.0), self.second_sign()?);
        if self.get(PeOp) != planar::ADD {
            return Err(self.inconsistent(PeOp, "an addend and a factor are applied by an addition (0)"));
        }
        let operation = Operation { op: BinaryOp::Add, first: one, sign };
        let pairs = pairs.data.as_chunks().0;
        for (plane, pair) in x.data.chunks_exact_mut(ext.plane().max(1)).zip(pairs) {
            operation.affine(plane, *pair);
        }
        Ok(x)
    }

    fn flags(&self, source: [Field; 4]) -> Broadcast {
        [source[0], source[1], source[2]].map_each(|f| self.get(f) == 1)
    }

    /// Extents of a source in memory, before broadcast and transposition.
    fn stored(&self, source: [Field; 4], ext: Extents) -> Extents {
        let stored = shrink(ext, self.flags(source));
        if self.get(source[3]) == 1 { stored.transposed() } else { stored }
    }

    /// Extents of the sources in memory; the second is `None` for a task with one source.
    pub(crate) fn planar_sources(&self) -> (Extents, Option<Extents>) {
        let ext = self.input_extents();
        let second = match self.get(TaskClass) {
            class::PLANAR_TWO | class::PLANAR_REDUCE_TWO => Some(ext),
            class::PLANAR_AFFINE => Some(Extents { h: 2, w: 1, ..ext }),
            _ => None,
        };
        (self.stored(FIRST, ext), second.map(|ext| self.stored(SECOND, ext)))
    }

    /// Extents of the result as stored.
    pub(crate) fn planar_result(&self) -> Extents {
        let [h, w] = if self.reduces() { [1; 2] } else { [self.size(Hout), self.size(Wout)] };
        let result = Extents { g: self.size(NumGroups).max(1), c: self.size(Cout), h, w };
        if self.get(ResultTranspose) == 1 { result.transposed() } else { result }
    }

    /// Source 2 after broadcast and transposition.
    fn planar_source2<N: Wide>(&mut self, ext: Extents) -> Result<Tensor<N>, FaultKind> {
        let (flags, turned) = (self.flags(SECOND), self.get(Src2Transpose) == 1);
        let b = self.source2(self.stored(SECOND, ext))?;
        Ok(canonicalize(expand(if turned { b.transposed() } else { b }, ext, flags)?))
    }

    fn second_sign<N: Wide>(&self) -> Result<N, FaultKind> {
        match self.get(PeSecond) {
            second::SOURCE => Ok(N::canonicalize(1.0)),
            second::NEGATED => Ok(N::canonicalize(-1.0)),
            _ => Err(self.inconsistent(PeSecond, "2 (source 2) or 3 (negated source 2) expected")),
        }
    }

    /// The task's elementwise operation; the identity if `alone`.
    pub(crate) fn operation<N: Wide>(&self, alone: bool) -> Result<Operation<N>, FaultKind> {
        let one = N::canonicalize(1.0);
        if alone {
            return Ok(Operation { op: BinaryOp::Add, first: one, sign: one });
        }
        let sign = self.second_sign()?;
        let first = match self.get(PeFirst) {
            first::SOURCE => one,
            first::NEGATED => N::canonicalize(-1.0),
            value => {
                return Err(FaultKind::NotHonoured { field: PeFirst, value, reason: "no sample has this operand" });
            }
        };
        let value = self.get(PeOp);
        match binary_op(value) {
            Some(op) => Ok(Operation { op, first, sign }),
            None => Err(FaultKind::NotHonoured { field: PeOp, value, reason: "no sample has this operation" }),
        }
    }

    /// Combines both sources by the task's operation.
    fn combine<N: Wide>(&self, mut a: Tensor<N>, b: &Tensor<N>) -> Result<Tensor<N>, FaultKind> {
        let operation = self.operation(false)?;
        let nanos = cost::one_by_one(a.data.len());
        chunks(&mut a.data, PER_THREAD, nanos, |i, row| operation.rows(row, &b.data[i * PER_THREAD..]));
        Ok(a)
    }

    /// Reduction over rows and columns of one source, or of two combined.
    fn reduced<N: Wide>(&mut self, two: bool) -> Result<Tensor<N>, FaultKind> {
        let ext = self.input_extents();
        let mut x: Tensor<N> = self.source_of_planes(ext, Self::planar_source1)?;
        if two {
            let b = self.source_of_planes(ext, Self::planar_source2)?;
            x = self.combine(x, &b)?;
        } else if self.get(PeSecond) != second::NONE {
            return Err(self.inconsistent(PeSecond, "a task with one source has no second operand"));
        } else if self.get(PeOp) == planar::SQUARE_SUM {
            let nanos = cost::one_by_one(x.data.len());
            chunks(&mut x.data, PER_THREAD, nanos, |_, row| row.iter_mut().for_each(|x| *x = x.mul(*x)));
        }
        self.require(Cout, self.get(Cin), "a planar task keeps its channels")?;
        self.require(Wout, self.get(Win), "a reduction holds its input width")?;
        self.require(Hout, self.get(Hin), "a reduction holds its input height")?;
        if x.ext.plane() == 0 {
            return Err(self.inconsistent(Win, "nothing to reduce"));
        }
        let fold = self.fold()?;
        let plane = x.ext.plane();
        let mut data = vec![N::canonicalize(0.0); x.data.len() / plane];
        chunks(&mut data, PER_THREAD.div_ceil(plane), cost::one_by_one(x.data.len()), |i, results| {
            let planes = x.data[i * PER_THREAD.div_ceil(plane) * plane..].chunks_exact(plane);
            for (y, plane) in results.iter_mut().zip(planes) {
                *y = fold.of(plane.iter().copied());
            }
        });
        Ok(Tensor { ext: Extents { h: 1, w: 1, ..x.ext }, data })
    }

    /// A source of a reduction: the planes of a row side by side, as `C, H * D, W`; `ext` are the extents of one plane, which
    /// `read` reads.
    fn source_of_planes<N: Wide>(
        &mut self,
        ext: Extents,
        read: fn(&mut Self, Extents) -> Result<Tensor<N>, FaultKind>,
    ) -> Result<Tensor<N>, FaultKind> {
        let planes = self.source_depths().end as usize;
        if planes == 1 {
            return read(self, ext);
        }
        let row = ext.w.max(1);
        let ext_of_all = Extents { h: ext.h * planes, ..ext };
        let mut all = vec![N::canonicalize(0.0); ext_of_all.elements()?];
        for plane in 0..planes {
            self.source_depth = plane as u64;
            let x = read(self, ext)?;
            let rows = all.chunks_exact_mut(row).skip(plane).step_by(planes);
            for (to, from) in rows.zip(x.data.chunks_exact(row)) {
                to.copy_from_slice(from);
            }
        }
        Ok(Tensor { ext: ext_of_all, data: all })
    }

    /// Reduction operator.
    pub(crate) fn fold(&self) -> Result<Fold, FaultKind> {
        match self.get(PePool) {
            pool::SUM => Ok(Fold::Sum(self.model.adders())),
            pool::MAX => {
                self.require(PaddingMode, padding::NEGATIVE, "a maximum must not see padding")?;
                Ok(Fold::Max)
            }
            value => Err(FaultKind::NotHonoured { field: PePool, value, reason: "only sum and max are executed" }),
        }
    }

    /// Source 1 after broadcast, pre-scale and absolute value.
    fn planar_source1<N: Wide>(&mut self, ext: Extents) -> Result<Tensor<N>, FaultKind> {
        let (flags, turned) = (self.flags(FIRST), self.get(Src1Transpose) == 1);
        let x = self.source1(self.stored(FIRST, ext))?;
        let mut x = canonicalize::<N>(expand(if turned { x.transposed() } else { x }, ext, flags)?);
        let pre = self.half(PePreScale);
        let abs = self.takes_magnitude()?;
        if pre != 1.0 || abs {
            let pre = N::canonicalize(pre);
            let nanos = cost::one_by_one(x.data.len());
            chunks(&mut x.data, PER_THREAD, nanos, |_, row| prepare(row, pre, abs));
        }
        Ok(x)
    }

    /// Returns true if the absolute value of source 1 is taken.
    pub(crate) fn takes_magnitude(&self) -> Result<bool, FaultKind> {
        match self.get(PeCond) {
            condition::NONE => Ok(false),
            condition::ABS => Ok(true),
            value => {
                Err(FaultKind::NotHonoured { field: PeCond, value, reason: "only the absolute value is executed" })
            }
        }
    }

    /// Applies scales, bias, activation, ReLU and transposition, and stores the result.
    fn finish<N: RowNumber>(&mut self, mut y: Tensor<N>) -> Result<(), FaultKind> {
        let ending = self.ending::<N>()?;
        if !ending.is_idle() {
            let nanos = cost::one_by_one(y.data.len());
            chunks(&mut y.data, PER_THREAD, nanos, |_, row| ending.apply(row));
        }
        let data = match self.model.rounding() {
            Some(rules) => N::settled(self.workers, rules, &y.data),
            None => N::settle_all(y.data, &Rounding::AWAY),
        };
        let y = Tensor { ext: y.ext, data };
        let y = if self.get(ResultTranspose) == 1 { y.transposed() } else { y };
        self.store(y)
    }

    /// Epilogue of the task's operation.
    pub(crate) fn ending<N: Wide>(&self) -> Result<ElementwiseEpilogue<N>, FaultKind> {
        let function: Option<fn(N) -> N> = match self.get(PeNonlinear) {
            planar_nonlinear::NONE => None,
            planar_nonlinear::RECIPROCAL => Some(N::reciprocal),
            planar_nonlinear::RSQRT => Some(N::rsqrt),
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
        let (scale, bias) = (self.half(PeScale), self.half(PeBias));
        let plain = !N::EXACT && last == 1.0 && scale == 1.0 && bias == 0.0;
        let [last, scale, bias, epsilon] = [last, scale, bias, epsilon].map_each(N::canonicalize);
        Ok(ElementwiseEpilogue { plain, last, scale, bias, epsilon, function, relu })
    }

    pub(crate) fn check_windows(&self, window: &Window, from: Extents, to: Extents) -> Result<(), FaultKind> {
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

/// Operands as the model reads them.
fn canonicalize<N: Wide>(x: Tensor) -> Tensor<N> {
    Tensor { ext: x.ext, data: N::admit_all(x.data) }
}

/// Kernel extents, strides and leading padding; rows first.
pub(crate) struct Window {
    k: [usize; 2],
    s: [usize; 2],
    p: [usize; 2],
}

impl Window {
    /// The window over given extents.
    pub(crate) fn over(&self, from: Extents, to: Extents) -> anemone_kernels::window::Window {
        let &Window { k, s, p } = self;
        anemone_kernels::window::Window { k, s, p, from: [from.h, from.w], to: [to.h, to.w] }
    }

    pub(crate) fn is_trivial(&self) -> bool {
        self.k == [1, 1] && self.s == [1, 1] && self.p == [0, 0]
    }

    /// Source elements of the window at output `o`, clipped to `size`.
    fn span(&self, axis: usize, o: usize, size: usize) -> std::ops::Range<usize> {
        let start = (o * self.s[axis]) as isize - self.p[axis] as isize;
        let end = (start + self.k[axis] as isize).clamp(0, size as isize) as usize;
        (start.max(0) as usize).min(end)..end
    }

    fn pool<N: Line>(&self, from: &[N], from_ext: Extents, to: &mut [N], to_ext: Extents, fold: &Fold) {
        match fold {
            Fold::Sum(None) => self.each_tap(from, from_ext, to, to_ext, N::start(), N::accumulate, N::end),
            Fold::Max => self.each_tap(from, from_ext, to, to_ext, N::canonicalize(f32::NEG_INFINITY), N::max, |x| x),
            Fold::Sum(Some(_)) => {
                for (i, to) in to.iter_mut().enumerate() {
                    let rows = self.span(0, i / to_ext.w, from_ext.h);
                    let columns = self.span(1, i % to_ext.w, from_ext.w);
                    *to = fold.of(rows.flat_map(|h| from[h * from_ext.w..][columns.clone()].iter().copied()));
                }
            }
        }
    }

    /// Accumulates the taps of a row of results, in the order of each window's elements.
    fn each_tap<N: Copy, A: Copy>(
        &self,
        from: &[N],
        from_ext: Extents,
        to: &mut [N],
        to_ext: Extents,
        start: A,
        step: impl Fn(A, N) -> A,
        end: impl Fn(A) -> N,
    ) {
        let ([_, k], [_, s], [_, p]) = (self.k, self.s, self.p);
        let mut now = vec![start; to_ext.w];
        for (oh, to) in to.chunks_exact_mut(to_ext.w.max(1)).enumerate() {
            now.fill(start);
            for h in self.span(0, oh, from_ext.h) {
                let row = &from[h * from_ext.w..][..from_ext.w];
                for kw in 0..k {
                    // Results whose tap is inside the row.
                    let first = p.saturating_sub(kw).div_ceil(s).min(to_ext.w);
                    let last = (from_ext.w + p).saturating_sub(kw).div_ceil(s).clamp(first, to_ext.w);
                    if first < last {
                        let met = row[first * s + kw - p..].iter().step_by(s);
                        for (now, x) in now[first..last].iter_mut().zip(met) {
                            *now = step(*now, *x);
                        }
                    }
                }
            }
            for (to, now) in to.iter_mut().zip(&now) {
                *to = end(*now);
            }
        }
    }
}

/// Extents of a source before broadcast.
fn shrink(ext: Extents, [w, h, c]: Broadcast) -> Extents {
    let one = |flag: bool, n: usize| if flag { 1 } else { n };
    Extents { g: ext.g, c: one(c, ext.c), h: one(h, ext.h), w: one(w, ext.w) }
}

/// Broadcasts a source along its flagged axes.
fn expand(from: Tensor, ext: Extents, flags: Broadcast) -> Result<Tensor, FaultKind> {
    if flags == [false; 3] {
        return Ok(from);
    }
    let mut to = Tensor::zeros(ext)?;
    let [w, h, c] = flags.map_each(usize::from);
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
