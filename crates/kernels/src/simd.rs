//! fp16 conversion of rows inside code that is compiled for a vector instruction set. AVX-512, and AVX2 with F16C, convert in registers, fused
//! with the epilogue; for other instruction sets the functions call [`num::widen_rows`] and [`num::round_rows`].

use crate::host::{self, Rows, extra, longest};
use crate::isa::{self, Isa};
use crate::num;
use crate::params::Ties;
use bytemuck::cast;
use half::f16;
use pulp::{Simd, WithSimd};

/// Lanes of the longest vectors.
pub const LONGEST: usize = 16;
/// Elements that hosts without conversion in registers process together.
const STRETCH: usize = 64;

/// Vectors on the stack, aligned to a cache line. Their type alone has the alignment of an element, and a vector that crosses cache lines
/// takes two accesses.
#[repr(align(64))]
pub struct Aligned<T>(pub T);

/// As [`num::widen_rows`].
#[inline(always)]
pub fn widen_rows<S: Simd>(simd: S, from: &[f16], to: &mut [f32], rows: Rows) {
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        return each(&Widening { simd, host, after: () }, from, to, rows);
    }
    num::widen_rows(from, to, rows);
}

/// [`num::widen_rows`] for rows of at most 16 elements; 16 may be written for a shorter one.
#[inline(always)]
pub fn widen_short_rows<S: Simd>(simd: S, from: &[f16], to: &mut [f32], rows: Rows) {
    let Rows { count, columns, from_stride, to_stride } = rows;
    if const { !converts::<S>() } {
        return num::widen_rows(from, to, rows);
    }
    let Some(host) = extra::of(simd) else { return };
    for row in 0..count {
        let from = &from[row * from_stride..];
        let Some(to) = to[row * to_stride..].first_chunk_mut() else { return };
        if let Some(from) = from.first_chunk() {
            *to = host.widen(*from);
        } else {
            let mut few = [f16::ZERO; LONGEST];
            few[..columns].copy_from_slice(&from[..columns]);
            *to = host.widen(few);
        }
    }
}

/// Widens a row and applies `after` to every vector.
#[inline(always)]
pub fn widen_row_and<S: Simd>(simd: S, from: &[f16], to: &mut [f32], after: impl LaneMap<S>) {
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        return one(&Widening { simd, host, after }, from, to);
    }
    num::widen_row(from, to);
    prepare(simd, after, to);
}

/// Widens a row and deinterleaves it: elements with even index go to one row, those with odd index to another.
#[inline(always)]
pub fn widen_pairs<S: Simd>(simd: S, from: &[f16], even: &mut [f32], odd: &mut [f32]) {
    let pairs = from.len() / 2;
    if const { converts::<S>() }
        && let (Some(host), true) = (extra::of(simd), pairs >= 4)
    {
        let mut at = 0;
        while let Some(x) = from[2 * at..].first_chunk::<32>() {
            let [x, y]: [[f16; 16]; 2] = cast(*x);
            let [evens, odds] = host.pairs(host.widen(x), host.widen(y));
            even[at..][..16].copy_from_slice(&evens);
            odd[at..][..16].copy_from_slice(&odds);
            at += 16;
        }
        while at < pairs {
            at = at.min(pairs - 4);
            let Some(x) = from[2 * at..].first_chunk::<8>() else { return };
            let x = cast([host.widen_eight(*x); 2]);
            let [evens, odds] = host.pairs(x, x);
            even[at..][..4].copy_from_slice(&evens[..4]);
            odd[at..][..4].copy_from_slice(&odds[..4]);
            at += 4;
        }
    } else {
        let mut wide = [0.0; 64];
        for (at, from) in from.chunks(wide.len()).enumerate() {
            let (at, wide) = (at * wide.len() / 2, &mut wide[..from.len()]);
            num::widen_row(from, wide);
            for ((even, odd), pair) in even[at..].iter_mut().zip(&mut odd[at..]).zip(wide.as_chunks::<2>().0) {
                [*even, *odd] = *pair;
            }
        }
    }
    if let (Some(last), 1) = (from.last(), from.len() % 2) {
        even[pairs] = num::widen(*last);
    }
}

/// Interleaves the lanes of two vectors.
#[inline(always)]
pub fn interleave<S: Simd>(simd: S, even: S::f32s, odd: S::f32s, to: &mut [f32]) {
    let vectors = S::as_mut_simd_f32s(to).0;
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        [vectors[0], vectors[1]] = host.interleaved(even, odd);
        return;
    }
    vectors[0] = even;
    vectors[1] = odd;
    let mut both = [0.0; 32];
    let both = &mut both[..to.len()];
    both.copy_from_slice(to);
    let (even, odd) = both.split_at(both.len() / 2);
    for (to, (even, odd)) in to.as_chunks_mut::<2>().0.iter_mut().zip(even.iter().zip(odd)) {
        *to = [*even, *odd];
    }
}

/// Relation of two integers.
#[derive(Clone, Copy)]
pub enum Relation {
    /// They have bits in common.
    Meets,
    /// They have none.
    IsApart,
    /// The first one is less than the second.
    IsBelow,
}

/// Compacts the positions at which the relation holds between two rows, in ascending order. `to` needs space for all positions and one
/// vector more. Returns the number of positions.
#[inline(always)]
pub fn places<S: Simd>(simd: S, a: &[u32], is: Relation, b: &[u32], to: &mut [u32]) -> usize {
    let one = |a: u32, b: u32| match is {
        Relation::Meets => a & b != 0,
        Relation::IsApart => a & b == 0,
        Relation::IsBelow => a < b,
    };
    let mut found = 0;
    for (i, (a, b)) in a.chunks(LONGEST).zip(b.chunks(LONGEST)).enumerate() {
        let first = (i * LONGEST) as u32;
        match (longest::of(simd), a.first_chunk(), b.first_chunk()) {
            (Some(host), Some(a), Some(b)) => {
                let places = match is {
                    Relation::Meets => host.in_common(*a, *b),
                    Relation::IsApart => !host.in_common(*a, *b),
                    Relation::IsBelow => host.below(*a, *b),
                };
                if places != 0 {
                    to[found..][..LONGEST].copy_from_slice(&host.places(first, places));
                    found += places.count_ones() as usize;
                }
            }
            _ => {
                // The common case: no position at all.
                if !a.iter().zip(b).fold(false, |some, (a, b)| some | one(*a, *b)) {
                    continue;
                }
                for (j, (a, b)) in a.iter().zip(b).enumerate() {
                    // Always stored, and kept by advancing `found`: no branch to mispredict.
                    to[found] = first + j as u32;
                    found += usize::from(one(*a, *b));
                }
            }
        }
    }
    found
}

/// Magnitudes. pulp's own function is not always inlined, and a call for each vector is slow (`cargo xtask inlined`).
#[inline(always)]
pub fn abs<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    simd.and_f32s(simd.splat_f32s(f32::from_bits(!(1 << 31))), x)
}

/// Magnitudes; see [`abs`].
#[inline(always)]
pub fn abs_f64<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    simd.and_f64s(simd.splat_f64s(f64::from_bits(!(1 << 63))), x)
}

/// Negated elements; see [`abs`].
#[inline(always)]
pub fn neg<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    simd.xor_f32s(simd.splat_f32s(-0.0), x)
}

/// Maximum of two vectors, by lane; the element of the second one if either is NaN or both are zero.
#[inline(always)]
pub fn larger<S: Simd>(simd: S, x: S::f32s, or: S::f32s) -> S::f32s {
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        return host.larger(x, or);
    }
    simd.select_f32s(simd.greater_than_f32s(x, or), x, or)
}

/// Minimum of two vectors, with the same cases as [`larger`].
#[inline(always)]
pub fn smaller<S: Simd>(simd: S, x: S::f32s, or: S::f32s) -> S::f32s {
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        return host.smaller(x, or);
    }
    simd.select_f32s(simd.less_than_f32s(x, or), x, or)
}

/// Widens the first elements of a row, as many as a vector has lanes; `None` unless [`converts`].
#[inline(always)]
pub fn widened<S: Simd>(simd: S, row: &[f16]) -> Option<S::f32s> {
    extra::of(simd)?.widened(row)
}

/// Applies a map to 16 elements.
#[inline(always)]
fn apply<S: Simd>(simd: S, of: impl LaneMap<S>, mut x: [f32; LONGEST]) -> [f32; LONGEST] {
    if const { S::F32_LANES == LONGEST } {
        return cast(of.of(simd, cast(x)));
    }
    for x in S::as_mut_simd_f32s(&mut x).0 {
        *x = of.of(simd, *x);
    }
    x
}

/// Map over vectors, applied after widening or before rounding.
pub trait LaneMap<S: Simd>: Copy {
    fn of(self, simd: S, x: S::f32s) -> S::f32s;
}

/// Identity.
impl<S: Simd> LaneMap<S> for () {
    #[inline(always)]
    fn of(self, _: S, x: S::f32s) -> S::f32s {
        x
    }
}

/// Operands of the exact models: NaN becomes plus infinity.
#[derive(Clone, Copy)]
pub struct Admit;

impl<S: Simd> LaneMap<S> for Admit {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        simd.select_f32s(simd.equal_f32s(x, x), x, simd.splat_f32s(f32::INFINITY))
    }
}

/// Results of the exact models before rounding to nearest even: NaN becomes plus zero, minus zero too, and with ties away from zero no number
/// is left halfway between two fp16 numbers ([`num::elementwise::away_from_ties`]).
#[derive(Clone, Copy)]
pub struct Settle {
    relu: bool,
    away: bool,
}

impl Settle {
    /// The map for the rounding of a model, through a ReLU if `relu`.
    #[inline(always)]
    pub fn by(rules: &crate::params::Rounding, relu: bool) -> Settle {
        Settle { relu, away: rules.ties == Ties::Away }
    }
}

impl<S: Simd> LaneMap<S> for Settle {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        let zero = simd.splat_f32s(0.0);
        let x = simd.select_f32s(simd.equal_f32s(x, x), simd.add_f32s(x, zero), zero);
        let x = if self.relu { simd.max_f32s(x, zero) } else { x };
        if !self.away {
            return x;
        }
        let x = simd.max_f32s(simd.min_f32s(x, simd.splat_f32s(f32::MAX)), simd.splat_f32s(f32::MIN));
        simd.transmute_f32s_u32s(simd.or_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(1)))
    }
}

/// Rounds products of two fp16 numbers to fp16, with ties away from zero. Products are not NaN. Results are held in fp32, so that one beyond the
/// range of fp16 becomes infinite only when it is stored.
#[inline(always)]
pub fn round_products<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    /// Half of the last place of an fp16 number in the mantissa of fp32, and the bits behind it.
    const HALF: u32 = 1 << 12;
    let bits = simd.transmute_u32s_f32s(x);
    let kept = simd.splat_u32s(!(2 * HALF - 1));
    let normal = simd.transmute_f32s_u32s(simd.and_u32s(simd.add_u32s(bits, simd.splat_u32s(HALF)), kept));
    // Subnormal results are multiples of 2^-24, the last place of one half. Products have 22 significant bits, so that the next larger fp32
    // number is beyond every tie, and on the same side of it otherwise.
    let half = simd.splat_f32s(0.5);
    let magnitude = abs(simd, x);
    let above = simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(magnitude), simd.splat_u32s(1)));
    let whole = simd.sub_f32s(simd.add_f32s(above, half), half);
    let sign = simd.and_u32s(bits, simd.splat_u32s(1 << 31));
    let subnormal = simd.transmute_f32s_u32s(simd.or_u32s(simd.transmute_u32s_f32s(whole), sign));
    let is_small = simd.less_than_f32s(magnitude, simd.splat_f32s(1.0 / (1 << 14) as f32));
    simd.select_f32s(is_small, subnormal, normal)
}

/// As [`num::round_rows`].
#[inline(always)]
pub fn round_rows<S: Simd>(simd: S, from: &[f32], to: &mut [f16], rows: Rows) {
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        return each(&Rounding { simd, host, before: () }, from, to, rows);
    }
    num::round_rows(from, to, rows);
}

/// Applies `before` and rounds, as [`num::round_rows`]. `from` may be overwritten.
#[inline(always)]
pub fn finish_rows<S: Simd>(simd: S, before: impl LaneMap<S>, from: &mut [f32], to: &mut [f16], rows: Rows) {
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        return each(&Rounding { simd, host, before }, from, to, rows);
    }
    for row in 0..rows.count {
        prepare(simd, before, &mut from[row * rows.from_stride..][..rows.columns]);
    }
    num::round_rows(from, to, rows);
}

/// Rounds sums or products of two operands of an exact model, as [`num::elementwise::settle_row`]. `from` may be overwritten.
#[inline(always)]
pub fn settle_rows<S: Simd>(simd: S, rules: &crate::params::Rounding, from: &mut [f32], to: &mut [f16], rows: Rows) {
    finish_rows(simd, Settle::by(rules, false), from, to, rows);
}

/// [`finish_rows`] without changing `from`.
#[inline(always)]
pub fn convert_rows<S: Simd>(simd: S, before: impl LaneMap<S>, from: &[f32], to: &mut [f16], rows: Rows) {
    if const { converts::<S>() }
        && let Some(host) = extra::of(simd)
    {
        return each(&Rounding { simd, host, before }, from, to, rows);
    }
    let mut some = [0.0; STRETCH];
    for row in 0..rows.count {
        let (from, to) = (&from[row * rows.from_stride..], &mut to[row * rows.to_stride..]);
        for (from, to) in from[..rows.columns].chunks(STRETCH).zip(to.chunks_mut(STRETCH)) {
            let some = &mut some[..from.len()];
            some.copy_from_slice(from);
            prepare(simd, before, some);
            num::round_row(some, &mut to[..from.len()]);
        }
    }
}

/// Applies `of` to fp16 elements and rounds. Returns false, without writing, unless [`converts`].
#[inline(always)]
pub fn map_halves<S: Simd>(simd: S, of: impl LaneMap<S>, from: &[f16], to: &mut [f16]) -> bool {
    if const { !converts::<S>() } {
        return false;
    }
    let Some(host) = extra::of(simd) else { return false };
    let from = &from[..to.len()];
    for (to, x) in to.as_chunks_mut::<LONGEST>().0.iter_mut().zip(from.as_chunks::<LONGEST>().0) {
        *to = host.round(apply(simd, of, host.widen(*x)));
    }
    let rest = to.len() % LONGEST;
    if rest == 0 {
        return true;
    }
    // The last vector overlaps the one before it, whose elements get the same bits again.
    if let (Some(to), Some(x)) = (to.last_chunk_mut::<LONGEST>(), from.last_chunk::<LONGEST>()) {
        *to = host.round(apply(simd, of, host.widen(*x)));
    } else {
        let mut few = [f16::ZERO; LONGEST];
        few[..rest].copy_from_slice(from);
        to.copy_from_slice(&host.round(apply(simd, of, host.widen(few)))[..rest]);
    }
    true
}

/// The first `N` vectors of a row.
#[inline(always)]
pub fn load<S: Simd, const N: usize>(row: &[f32]) -> [S::f32s; N] {
    let row = S::as_simd_f32s(&row[..N * S::F32_LANES]).0;
    let mut vectors = [row[0]; N];
    for n in 0..N {
        vectors[n] = row[n];
    }
    vectors
}

/// Applies a map to a row, in place.
#[inline(always)]
pub fn prepare<S: Simd>(simd: S, before: impl LaneMap<S>, row: &mut [f32]) {
    let (vectors, rest) = S::as_mut_simd_f32s(row);
    for x in vectors {
        *x = before.of(simd, *x);
    }
    let x = before.of(simd, simd.partial_load_f32s(rest));
    simd.partial_store_f32s(rest, x);
}

/// Returns true if the instruction set converts vectors between fp16 and fp32 in registers, without a call. A constant, so that code for
/// the other case is not generated.
pub const fn converts<S: Simd>() -> bool {
    S::F32_LANES >= host::LEAST_CONVERTED
}

/// Element format in which a vector of sums is stored.
pub trait StoreFormat: Copy {
    /// Stores the vector after `before` as the first elements of `to`. No operation unless [`converts`].
    fn store<S: Simd>(simd: S, before: impl LaneMap<S>, x: S::f32s, to: &mut [Self]);
}

/// Rounded to fp16.
impl StoreFormat for f16 {
    #[inline(always)]
    fn store<S: Simd>(simd: S, before: impl LaneMap<S>, x: S::f32s, to: &mut [f16]) {
        if let Some(host) = extra::of(simd) {
            host.rounded(before.of(simd, x), to);
        }
    }
}

/// Rounded to fp16 and widened again.
impl StoreFormat for f32 {
    #[inline(always)]
    fn store<S: Simd>(simd: S, before: impl LaneMap<S>, x: S::f32s, to: &mut [f32]) {
        let Some(host) = extra::of(simd) else { return };
        let mut halves = [f16::ZERO; LONGEST];
        host.rounded(before.of(simd, x), &mut halves);
        if let Some(x) = host.widened(&halves) {
            S::as_mut_simd_f32s(&mut to[..S::F32_LANES]).0[0] = x;
        }
    }
}

/// Multiplies fp16 numbers held in fp32 by a factor, rounded to fp16, in place.
#[inline(always)]
pub fn scale_row<S: Simd>(simd: S, factor: f32, row: &mut [f32]) {
    if const { !converts::<S>() } {
        row.iter_mut().for_each(|x| *x *= factor);
        return settle_row(row);
    }
    let times = Times(simd.splat_f32s(factor));
    for row in row.chunks_exact_mut(S::F32_LANES) {
        let x = S::as_simd_f32s(row).0[0];
        <f32 as StoreFormat>::store(simd, times, x, row);
    }
}

/// Product with a factor.
#[derive(Clone, Copy)]
struct Times<V>(V);

impl<S: Simd> LaneMap<S> for Times<S::f32s> {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        simd.mul_f32s(x, self.0)
    }
}

/// Rounds a row to fp16 and widens it again, in place.
pub fn settle_row(row: &mut [f32]) {
    let mut halves = [f16::ZERO; STRETCH];
    for row in row.chunks_mut(STRETCH) {
        let halves = &mut halves[..row.len()];
        num::round_row(row, halves);
        num::widen_row(halves, row);
    }
}

/// Conversion of 16 elements.
trait Convert<T, U> {
    fn sixteen(&self, x: [T; 16]) -> [U; 16];
}

struct Widening<S, A> {
    simd: S,
    host: extra::Extra,
    after: A,
}

impl<S: Simd, A: LaneMap<S>> Convert<f16, f32> for Widening<S, A> {
    #[inline(always)]
    fn sixteen(&self, x: [f16; 16]) -> [f32; 16] {
        apply(self.simd, self.after, self.host.widen(x))
    }
}

struct Rounding<S, B> {
    simd: S,
    host: extra::Extra,
    before: B,
}

impl<S: Simd, B: LaneMap<S>> Convert<f32, f16> for Rounding<S, B> {
    #[inline(always)]
    fn sixteen(&self, x: [f32; 16]) -> [f16; 16] {
        self.host.round(apply(self.simd, self.before, x))
    }
}

#[inline(always)]
fn each<T: Copy + Default, U: Copy>(by: &impl Convert<T, U>, from: &[T], to: &mut [U], rows: Rows) {
    let Rows { count, columns, from_stride, to_stride } = rows;
    for row in 0..count {
        one(by, &from[row * from_stride..][..columns], &mut to[row * to_stride..][..columns]);
    }
}

/// Converts a row in vectors, the last of which may overlap the one before. Written out, because callers of closures are not always compiled
/// for the same instruction set.
#[inline(always)]
fn one<T: Copy + Default, U: Copy>(by: &impl Convert<T, U>, from: &[T], to: &mut [U]) {
    let n = to.len();
    if let (Some(last), true) = (from.last_chunk::<16>(), n >= 16) {
        for (to, from) in to.as_chunks_mut::<16>().0.iter_mut().zip(from.as_chunks::<16>().0) {
            *to = by.sixteen(*from);
        }
        if !n.is_multiple_of(16) {
            to[n - 16..].copy_from_slice(&by.sixteen(*last));
        }
    } else if n >= 8 {
        ends::<_, _, 8>(by, from, to);
    } else if n >= 4 {
        ends::<_, _, 4>(by, from, to);
    } else {
        let mut few = [T::default(); 16];
        few[..n].copy_from_slice(from);
        to.copy_from_slice(&by.sixteen(few)[..n]);
    }
}

/// Converts the first and the last `N` elements of a row, which may overlap. The vector is made in registers: one loaded from shorter stores
/// would wait for them.
#[inline(always)]
fn ends<T: Copy + Default, U: Copy, const N: usize>(by: &impl Convert<T, U>, from: &[T], to: &mut [U]) {
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else { return };
    let mut both = [T::default(); 16];
    both[..N].copy_from_slice(first);
    both[N..2 * N].copy_from_slice(last);
    let done = by.sixteen(both);
    let n = to.len();
    to[..N].copy_from_slice(&done[..N]);
    to[n - N..].copy_from_slice(&done[N..2 * N]);
}

/// Calls `work` out of line: inlined, its inner loop would spill accumulators.
#[inline(never)]
pub fn outline<S: Simd, W: WithSimd<Output = ()>>(simd: S, work: W) {
    host::vectorize(simd, work);
}

/// As [`outline`], with vectors of at most eight lanes.
#[inline(never)]
pub fn outline_half<S: Simd, W: WithSimd<Output = ()>>(simd: S, work: W) {
    host::vectorize_half(simd, work);
}

/// All instruction sets of this host.
pub fn arches() -> Vec<Isa> {
    isa::available().into_iter().map(|(_, arch)| arch).collect()
}

mod formula;
mod pieces;

pub use formula::{Affine, Formula, compute, compute_sums, has_formulas};
pub use pieces::Pieces;
