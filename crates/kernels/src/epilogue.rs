//! Epilogue of a sum: `activation((y + bias) * scale)`, rounded once; and copies through it.

use crate::cost;
use crate::host::Rows;
use crate::num;
use crate::params::Curve;
use crate::simd::{self, LaneMap};
use crate::table::Table;
use crate::tensor::Extents;
use crate::view::{OutputTile, Part, SQUARE, TensorView, TensorViewMut, Transposed, copy_short, partition};
use crate::workers::{Scratch, Workers, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use std::sync::Arc;

mod exact;

pub use exact::{Between, ExactEpilogue, ScaledClamp};

/// Rows of fewer elements are gathered and processed as one stretch, because a vector may be longer than a row.
const SHORT: usize = 64;

/// Activation function of a task.
#[derive(Clone)]
pub enum Activation {
    None,
    Relu,
    /// A table that is the identity between two limits and constant beyond them; NaN stays.
    Clamp(f32, f32),
    /// Full table: a value for each fp16 bit pattern.
    Table(Arc<Table>),
    /// A table from memory that is loaded again at every run.
    Unread,
}

impl Activation {
    /// The cheapest form of a table. `values` has one value for each fp16 bit pattern; `curve` is the piecewise linear function that may
    /// have generated them.
    pub fn of(values: Vec<f16>, curve: Option<&Curve>) -> Activation {
        let at = |x: f32| values[num::round(x).to_bits() as usize];
        let (low, high) = (at(f32::NEG_INFINITY).to_f32(), at(f32::INFINITY).to_f32());
        let clamps = |bits: u16| {
            let (x, y) = (f16::from_bits(bits), values[bits as usize]);
            if x.is_nan() { y.is_nan() } else { num::round(clamp(x.to_f32(), low, high)) == y }
        };
        if low < high && (0..=u16::MAX).all(clamps) {
            Activation::Clamp(low, high)
        } else {
            Activation::Table(Arc::new(Table::of(values, curve)))
        }
    }
}

/// Clamps as activation tables do: an argument equal to a limit becomes that limit, with its sign; NaN stays.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x <= low { low } else { x };
    if x >= high { high } else { x }
}

/// [`Epilogue::stages`] on vectors: the bias of a channel, then the other stages.
#[derive(Clone, Copy)]
struct Biased<V, A> {
    /// Minus zero ([`without_effect`]) for a channel without bias.
    bias: V,
    after: A,
}

/// Stages behind the bias of a channel.
#[derive(Clone, Copy)]
struct Stages<V> {
    /// Bias and scale common to all channels.
    all: Option<[V; 2]>,
    clamp: Option<[V; 2]>,
    relu: bool,
}

/// ReLU; NaN becomes zero.
#[derive(Clone, Copy)]
struct Rectified;

/// Clamp between two limits, as [`clamp`].
#[derive(Clone, Copy)]
struct Clamped<V>(V, V);

impl<S: Simd, A: LaneMap<S>> LaneMap<S> for Biased<S::f32s, A> {
    #[inline(always)]
    fn of(self, simd: S, v: S::f32s) -> S::f32s {
        self.after.of(simd, simd.add_f32s(v, self.bias))
    }
}

impl<S: Simd> LaneMap<S> for Stages<S::f32s> {
    #[inline(always)]
    fn of(self, simd: S, mut v: S::f32s) -> S::f32s {
        if let Some([bias, scale]) = self.all {
            v = simd.mul_f32s(simd.add_f32s(v, bias), scale);
        }
        if let Some([low, high]) = self.clamp {
            v = Clamped(low, high).of(simd, v);
        }
        if self.relu {
            v = Rectified.of(simd, v);
        }
        v
    }
}

impl<S: Simd> LaneMap<S> for Rectified {
    #[inline(always)]
    fn of(self, simd: S, v: S::f32s) -> S::f32s {
        simd::larger(simd, v, simd.splat_f32s(0.0))
    }
}

impl<S: Simd> LaneMap<S> for Clamped<S::f32s> {
    #[inline(always)]
    fn of(self, simd: S, v: S::f32s) -> S::f32s {
        let Clamped(low, high) = self;
        let v = simd.select_f32s(simd.less_than_or_equal_f32s(v, low), low, v);
        simd.select_f32s(simd.greater_than_or_equal_f32s(v, high), high, v)
    }
}

/// Scale common to all channels, then a clamp.
#[derive(Clone, Copy)]
struct Scaled<V>(V, Clamped<V>);

impl<S: Simd> LaneMap<S> for Scaled<S::f32s> {
    #[inline(always)]
    fn of(self, simd: S, v: S::f32s) -> S::f32s {
        self.1.of(simd, simd.mul_f32s(v, self.0))
    }
}

/// Replaces a bias of zero by minus zero, whose addition changes no number, minus zero included.
#[inline(always)]
pub fn without_effect(bias: f32) -> f32 {
    if bias == 0.0 { -0.0 } else { bias }
}

/// Clamp for numbers that are not minus zero, which needs no test for signs. Sums that start at plus zero are never minus zero.
#[derive(Clone, Copy)]
struct Limited<V>(V, V);

impl<S: Simd> LaneMap<S> for Limited<S::f32s> {
    #[inline(always)]
    fn of(self, simd: S, v: S::f32s) -> S::f32s {
        let Limited(low, high) = self;
        simd::smaller(simd, high, simd::larger(simd, low, v))
    }
}

/// Epilogue of a convolution or GEMM: bias, scale and activation, applied to a sum before it is stored.
#[derive(Clone, Copy)]
pub struct Epilogue<'a> {
    pub bias: f32,
    pub scale: f32,
    pub activation: &'a Activation,
}

impl Epilogue<'_> {
    /// Returns true if sums are stored without any stage.
    fn is_plain(&self) -> bool {
        matches!(self.activation, Activation::None) && self.bias == 0.0 && self.scale == 1.0
    }

    /// Applies the epilogue to a row of fp16 elements. `wide` is scratch memory and is overwritten.
    #[inline(always)]
    pub(crate) fn copy<S: Simd>(&self, simd: S, from: &[f16], wide: &mut [f32], to: &mut [f16]) {
        if self.is_plain() {
            return num::copy_row(from, to);
        }
        if let Activation::Table(table) = self.activation
            && table.copy(simd, from, [self.bias, self.scale], to)
        {
            return;
        }
        if let &Activation::Clamp(low, high) = self.activation
            && self.bias == 0.0
            && self.scale == 1.0
            && low.is_sign_positive()
        {
            return num::clamp_row(from, num::round(low), num::round(high), to);
        }
        num::widen_row(from, wide);
        self.row(0.0, wide, to);
    }

    /// Applies all stages to a row of sums and rounds to fp16; `bias` is that of the channel. The row is overwritten.
    #[inline(always)]
    pub fn row(&self, bias: f32, row: &mut [f32], to: &mut [f16]) {
        self.stages(bias, row);
        num::round_row(row, to);
        if let Activation::Table(table) = self.activation {
            for x in to.iter_mut() {
                *x = table.value(*x);
            }
        }
    }

    /// Applies all stages but rounding and table look-up in place; `bias` is that of the channel.
    #[inline(always)]
    pub fn stages(&self, bias: f32, row: &mut [f32]) {
        let &Epilogue { bias: all, scale, .. } = self;
        match (bias != 0.0, all != 0.0 || scale != 1.0) {
            (false, false) => self.activate(row, |v| v),
            (true, false) => self.activate(row, |v| v + bias),
            (false, true) => self.activate(row, |v| (v + all) * scale),
            (true, true) => self.activate(row, |v| (v + bias + all) * scale),
        }
    }

    #[inline(always)]
    fn activate(&self, row: &mut [f32], before: impl Fn(f32) -> f32) {
        match self.activation {
            Activation::None | Activation::Unread | Activation::Table(_) => {
                for v in row {
                    *v = before(*v);
                }
            }
            Activation::Relu => {
                for v in row {
                    *v = before(*v).max(0.0);
                }
            }
            &Activation::Clamp(low, high) => {
                for v in row {
                    *v = clamp(before(*v), low, high);
                }
            }
        }
    }

    /// [`Epilogue::stages`] as a map over vectors.
    #[inline(always)]
    pub fn before<S: Simd>(&self, simd: S, bias: f32) -> impl LaneMap<S> {
        Biased { bias: simd.splat_f32s(without_effect(bias)), after: self.after(simd) }
    }

    /// The stages behind the bias of a channel, as a map over vectors.
    #[inline(always)]
    pub fn after<S: Simd>(&self, simd: S) -> impl LaneMap<S> {
        let splat = |x: f32| simd.splat_f32s(x);
        Stages {
            all: if self.bias != 0.0 || self.scale != 1.0 { Some([splat(self.bias), splat(self.scale)]) } else { None },
            clamp: match *self.activation {
                Activation::Clamp(low, high) => Some([splat(low), splat(high)]),
                _ => None,
            },
            relu: matches!(self.activation, Activation::Relu),
        }
    }

    /// Runs `work` with the stages behind the bias of a channel, specialized for the common activations where there are vectors.
    #[inline(always)]
    pub fn with_after<S: Simd>(&self, simd: S, work: impl Staged<S>) {
        if const { S::F32_LANES == 1 } {
            return work.with(simd, self.after(simd));
        }
        if self.bias != 0.0 || self.scale != 1.0 {
            let limits = match *self.activation {
                Activation::Clamp(low, high) => Some([low, high]),
                Activation::Relu => None,
                // Limits without effect.
                Activation::None | Activation::Unread | Activation::Table(_) => {
                    Some([f32::NEG_INFINITY, f32::INFINITY])
                }
            };
            let Some(limits) = limits.filter(|_| self.bias == 0.0) else { return work.with(simd, self.after(simd)) };
            let [low, high] = [simd.splat_f32s(limits[0]), simd.splat_f32s(limits[1])];
            return work.with(simd, Scaled(simd.splat_f32s(self.scale), Clamped(low, high)));
        }
        let minus_zero = |x: f32| x == 0.0 && x.is_sign_negative();
        match *self.activation {
            Activation::Relu => work.with(simd, Rectified),
            Activation::Clamp(low, high) if minus_zero(low) || minus_zero(high) => work.with(simd, self.after(simd)),
            Activation::Clamp(low, high) => work.with(simd, Limited(simd.splat_f32s(low), simd.splat_f32s(high))),
            // Limits without effect, in place of one more copy of the code.
            Activation::None | Activation::Unread | Activation::Table(_) => {
                work.with(simd, Limited(simd.splat_f32s(f32::NEG_INFINITY), simd.splat_f32s(f32::INFINITY)));
            }
        }
    }

    /// Applies all stages of a table that is computed in vectors to sums, in place, all but the last rounding; `bias` is that of the channel.
    /// Returns false, without writing, if there is no such table.
    #[inline(always)]
    pub fn tabulate<S: Simd>(&self, simd: S, bias: f32, sums: &mut [f32]) -> bool {
        let Activation::Table(table) = self.activation else { return false };
        table.sums(simd, [without_effect(bias), without_effect(self.bias), self.scale], sums)
    }

    /// [`Epilogue::tabulate`] behind the stages before the table.
    #[inline(always)]
    pub fn tabulate_staged<S: Simd>(&self, simd: S, sums: &mut [f32]) -> bool {
        let Activation::Table(table) = self.activation else { return false };
        table.sums(simd, [-0.0, -0.0, 1.0], sums)
    }

    /// Rounds the results of [`Epilogue::stages`] to fp16 and applies the table, if any, unless it is `done`.
    #[inline(always)]
    pub fn rows<S: Simd>(&self, simd: S, done: bool, from: &[f32], to: &mut [f16], rows: Rows) {
        simd::round_rows(simd, from, to, rows);
        if !done {
            self.look_up(simd, to, rows);
        }
    }

    /// [`Epilogue::stages`] and [`Epilogue::rows`] in one pass. `from` is overwritten.
    #[inline(always)]
    pub fn all<S: Simd>(&self, simd: S, bias: f32, from: &mut [f32], to: &mut [f16], rows: Rows) {
        simd::finish_rows(simd, self.before(simd, bias), from, to, rows);
        self.look_up(simd, to, rows);
    }

    /// Applies the epilogue to rows of one channel and stores them into the tile at `place` (channel, row, column). `rows` is the layout of
    /// `from`, which is overwritten.
    #[inline(always)]
    pub fn store_channel<S: Simd>(
        &self,
        simd: S,
        share: &mut OutputTile,
        place: [usize; 3],
        bias: f32,
        from: &mut [f32],
        rows: Rows,
    ) {
        // Before the rows are stored, which may be short.
        let done = self.tabulate(simd, bias, from);
        share.store_channel(
            place,
            from,
            rows,
            #[inline(always)]
            |from, to, rows| match done {
                true => simd::round_rows(simd, from, to, rows),
                false => self.all(simd, bias, from, to, rows),
            },
        );
    }

    /// Applies the table to rounded elements in place; nothing without a table.
    #[inline(always)]
    pub fn look_up<S: Simd>(&self, simd: S, to: &mut [f16], rows: Rows) {
        if let Activation::Table(table) = self.activation {
            // One call for all rows, which may be short.
            if table.rows(simd, None, Rows { from_stride: rows.to_stride, ..rows }, to) {
                return;
            }
            for row in 0..rows.count {
                table.row(simd, &mut to[row * rows.to_stride..][..rows.columns]);
            }
        }
    }
}

/// Work on vectors that is generic over the stages applied to them.
pub trait Staged<S: Simd> {
    fn with(self, simd: S, stages: impl LaneMap<S>);
}

/// Epilogue of a copy, by number model.
pub enum CopyEpilogue<'a> {
    Fast(&'a Epilogue<'a>),
    Exact(&'a ExactEpilogue),
}

impl CopyEpilogue<'_> {
    /// Copies one row. `wide` is scratch memory and is overwritten.
    #[inline(always)]
    fn copy<S: Simd>(&self, simd: S, from: &[f16], wide: &mut [f32], to: &mut [f16]) {
        match self {
            CopyEpilogue::Fast(finish) => finish.copy(simd, from, wide, to),
            CopyEpilogue::Exact(exactly) => {
                to.copy_from_slice(from);
                exactly.row(simd, to);
            }
        }
    }
}

/// Copies a tensor through an epilogue, element by element. `ext` are the extents of the source.
pub fn copy(workers: &Workers, finish: &CopyEpilogue, from: TensorView, to: TensorViewMut, ext: Extents) {
    let TensorViewMut { data, strides, transposed } = to.in_columns(ext);
    let stored = if transposed { ext.transposed() } else { ext };
    let parts = 4 * rayon::current_num_threads();
    let channels = stored.c.div_ceil(parts).max(1);
    let channels = if transposed { channels.next_multiple_of(SQUARE) } else { channels };
    let rows = if stored.c < parts { stored.h.div_ceil(parts).max(1) } else { stored.h };
    let elements = ext.g * ext.c * ext.plane();
    let looks_up = |of: &Epilogue| matches!(of.activation, Activation::Table(table) if !table.is_computed());
    let plain = !transposed && matches!(finish, CopyEpilogue::Fast(of) if !looks_up(of));
    let nanos = if plain { cost::elementwise(elements) } else { cost::one_by_one(elements) };
    let shared = workers.shares(nanos);
    let (rows, channels) = if shared { (rows, channels) } else { (stored.h, stored.c) };
    workers.each(partition(data, stored, strides, rows, channels), shared, |share, scratch| {
        workers.arch.dispatch(Job { finish, from, columns: stored.w, transposed, share, scratch });
    });
}

struct Job<'a, 'b> {
    finish: &'a CopyEpilogue<'a>,
    from: TensorView<'a>,
    /// Columns of the result as stored.
    columns: usize,
    transposed: bool,
    share: &'a mut OutputTile<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { finish, from, columns, transposed, share, scratch } = self;
        let (group, first_row) = (share.group, share.first_row);
        if !transposed {
            let part = Part { rows: first_row..first_row + share.rows, columns: 0..columns };
            for c in 0..share.channels() {
                if columns < SHORT && columns > 0 {
                    let gathered = scratch_slice(&mut scratch.gathered, part.outputs());
                    from.gather(group, share.first_channel + c, &part, gathered);
                    let wide = scratch_slice(&mut scratch.wide, part.outputs());
                    let halves = scratch_slice(&mut scratch.halves, part.outputs());
                    finish.copy(simd, gathered, wide, halves);
                    for (row, from) in halves.chunks_exact(columns).enumerate() {
                        copy_short(from, share.row(c, row, columns));
                    }
                    continue;
                }
                let wide = scratch_slice(&mut scratch.wide, columns);
                for row in 0..share.rows {
                    let from = from.row(group, share.first_channel + c, first_row + row, columns);
                    finish.copy(simd, from, wide, share.row(c, row, columns));
                }
            }
            return;
        }
        // Hoisted out of the loop over rows, which are short here.
        let plain = matches!(finish, CopyEpilogue::Fast(finish) if finish.is_plain());
        let wide = scratch_slice(&mut scratch.wide, SQUARE);
        let halves = scratch_slice(&mut scratch.halves, SQUARE * SQUARE);
        for row in 0..share.rows {
            for w in (0..share.channels()).step_by(SQUARE) {
                let width = SQUARE.min(share.channels() - w);
                let first = share.first_channel + w;
                for c in (0..columns).step_by(SQUARE) {
                    let height = SQUARE.min(columns - c);
                    for (i, to) in halves.chunks_exact_mut(SQUARE).enumerate().take(height) {
                        let from = &from.row(group, c + i, first_row + row, first + width)[first..];
                        match plain {
                            true => num::copy_row(from, &mut to[..width]),
                            false => finish.copy(simd, from, &mut wide[..width], &mut to[..width]),
                        }
                    }
                    let square = Transposed { data: halves, stride: SQUARE, columns: width, first: c };
                    square.store(share, row, 1, w, height);
                }
            }
        }
    }
}
