//! Packed filter panels: coefficients kept in fp16 or as palette indices, and widened to fp32 where they are used.

use crate::arrays::array_of;
use crate::cost;
use crate::host::widen_indices;
use crate::num;
use crate::par::chunks;
use crate::simd::{self, LaneMap};
use half::f16;
use pulp::Simd;
use std::ops::Range;

/// Number of values of an index byte.
const BYTES: usize = 256;

/// Channels per block.
pub const BLOCK: usize = 16;

/// Taps of the largest window with a kernel of its own: 5x5.
const WINDOW: usize = 5 * 5;

/// Fewest values for which the host's vectorized palette look-up pays.
const LEAST_VECTORIZED: usize = 32;

/// Coefficients of a filter; every one is an fp16 number.
#[derive(Clone, Debug)]
pub enum Values {
    Halves(Vec<f16>),
    /// Indices into a palette of at most 256 values.
    Indices(Vec<u8>, Vec<f16>),
}

impl Values {
    pub fn get(&self, i: usize) -> f16 {
        match self {
            Values::Halves(halves) => halves[i],
            Values::Indices(indices, palette) => palette[usize::from(indices[i])],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        match self {
            Values::Halves(halves) => halves.len(),
            Values::Indices(indices, _) => indices.len(),
        }
    }

    /// Every value that occurs; palette entries without an index may be among them.
    pub fn each_value(&self) -> impl Iterator<Item = f16> {
        match self {
            Values::Halves(halves) => halves.iter().copied(),
            Values::Indices(_, palette) => palette.iter().copied(),
        }
    }

    /// Returns true if all values are finite, unused palette entries included.
    pub fn is_finite(&self) -> bool {
        let most = |values: &[f16]| values.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff));
        let most = match self {
            Values::Halves(halves) => most(halves),
            Values::Indices(_, palette) => most(palette),
        };
        most < 0x7c00
    }

    /// Marks the window positions with a nonzero coefficient: sets `used[i]` if position `i` of any window has one. Windows have `used.len()`
    /// coefficients each.
    pub fn mark(&self, used: &mut [bool]) {
        let n = used.len().max(1);
        let zero = |x: f16| x.to_bits() & 0x7fff == 0;
        match self {
            Values::Halves(halves) => {
                let windows = halves.chunks_exact(n);
                windows.for_each(|window| used.iter_mut().zip(window).for_each(|(used, &x)| *used |= !zero(x)));
            }
            Values::Indices(indices, palette) => {
                let counts: Vec<bool> = palette.iter().map(|&x| !zero(x)).collect();
                let of = |index: &u8| counts.get(usize::from(*index)).copied().unwrap_or(true);
                let windows = indices.chunks_exact(n);
                windows.for_each(|window| used.iter_mut().zip(window).for_each(|(used, index)| *used |= of(index)));
            }
        }
    }

    /// Drops all but the `kept` positions of every window of `elements` coefficients.
    pub fn positions(&self, elements: usize, kept: &[usize]) -> Values {
        fn some<T: Copy>(all: &[T], elements: usize, kept: &[usize]) -> Vec<T> {
            all.chunks_exact(elements.max(1)).flat_map(|window| kept.iter().map(|&at| window[at])).collect()
        }
        match self {
            Values::Halves(halves) => Values::Halves(some(halves, elements, kept)),
            Values::Indices(indices, palette) => Values::Indices(some(indices, elements, kept), palette.clone()),
        }
    }

    /// Inverse of [`Values::positions`]: fills the other positions with zeros. The result is fp16, not indices.
    pub fn spread(&self, elements: usize, kept: &[usize]) -> Values {
        let mut all = vec![f16::ZERO; self.len() / kept.len().max(1) * elements];
        for (i, window) in all.chunks_exact_mut(elements.max(1)).enumerate() {
            for (n, &at) in kept.iter().enumerate() {
                window[at] = self.get(i * kept.len() + n);
            }
        }
        Values::Halves(all)
    }

    /// Size in bytes, without the palette.
    pub fn bytes(&self) -> usize {
        match self {
            Values::Halves(halves) => 2 * halves.len(),
            Values::Indices(indices, _) => indices.len(),
        }
    }

    /// The coefficients of a range.
    pub fn slice(&self, part: Range<usize>) -> Values {
        match self {
            Values::Halves(halves) => Values::Halves(halves[part].to_vec()),
            Values::Indices(indices, palette) => Values::Indices(indices[part].to_vec(), palette.clone()),
        }
    }
}

/// fp16 coefficients of one channel inside a larger buffer: one for each tap, at a constant stride.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoefficientRow<'a> {
    pub data: &'a [f16],
    pub stride: usize,
}

impl CoefficientRow<'_> {
    /// Returns true if both are rows of one buffer and each element of `next` follows this row's in memory.
    fn is_before(&self, next: &Self) -> bool {
        let adjacent =
            self.data.as_ptr().wrapping_add(1) == next.data.as_ptr() && self.data.len() == next.data.len() + 1;
        adjacent && self.stride == next.stride && self.stride > 1
    }
}

/// Copies rows whose elements are adjacent in memory to columns of a panel, whose rows have `width` elements.
fn gather_rows(rows: &[CoefficientRow], panel: &mut [f16], width: usize) {
    let Some(first) = rows.first() else { return };
    let taps = first.data.chunks(first.stride.max(1));
    for (to, from) in panel.chunks_mut(width.max(1)).zip(taps) {
        for (to, x) in to.iter_mut().take(rows.len()).zip(from) {
            *to = *x;
        }
    }
}

/// Coefficients packed in panels of output channels that read the same input, `[tap][channel]` within a panel. The last panel has the
/// remaining channels.
#[derive(Clone, Debug)]
pub struct PackedFilter {
    store: Store,
    channels: usize,
    taps: usize,
    /// Channels per panel.
    height: usize,
}

#[derive(Clone, Debug)]
enum Store {
    Halves(Vec<f16>),
    /// Palette indices, one or more a byte, lowest bits first, each panel in whole bytes; and the value of every byte.
    One(Vec<u8>, Box<[[f32; 1]]>),
    /// Two indices a byte. The palette is kept too, for hosts with a vectorized look-up.
    Two(Vec<u8>, Box<[[f32; 2]]>, [f16; 16]),
    Four(Vec<u8>, Box<[[f32; 4]]>),
}

impl PackedFilter {
    /// Packs coefficients that are ordered `[channel][tap]`.
    pub fn of(values: &Values, channels: usize, taps: usize, height: usize) -> PackedFilter {
        let height = height.max(1);
        let store = match values {
            Values::Halves(halves) => {
                let mut kept = vec![f16::ZERO; channels * taps];
                let panel_elements = (height * taps).max(1);
                chunks(&mut kept, panel_elements, cost::elementwise(channels * taps), |i, panel| {
                    let first = i * panel_elements;
                    interleave_rows(&halves[first..first + panel.len()], taps, panel);
                });
                Store::Halves(kept)
            }
            Values::Indices(indices, palette) => {
                let bytes = |per: usize| {
                    let mut kept = Vec::with_capacity((channels * taps).div_ceil(per));
                    for first in (0..channels).step_by(height) {
                        let (mut byte, mut taken) = (0, 0);
                        for tap in 0..taps {
                            for channel in first..channels.min(first + height) {
                                byte |= indices[channel * taps + tap] << (taken * 8 / per);
                                taken += 1;
                                if taken == per {
                                    kept.push(byte);
                                    (byte, taken) = (0, 0);
                                }
                            }
                        }
                        if taken > 0 {
                            kept.push(byte);
                        }
                    }
                    kept
                };
                match palette.len() {
                    0..=4 => Store::Four(bytes(4), table(palette)),
                    5..=16 => {
                        let value = |i: usize| palette.get(i).copied().unwrap_or_default();
                        Store::Two(bytes(2), table(palette), array_of(value))
                    }
                    _ => Store::One(bytes(1), table(palette)),
                }
            }
        };
        PackedFilter { store, channels, taps, height }
    }

    /// Packs fp16 coefficients from one strided row a channel.
    pub fn of_rows(rows: &[CoefficientRow], taps: usize, height: usize) -> PackedFilter {
        let (channels, height) = (rows.len(), height.max(1));
        let mut kept = vec![f16::ZERO; channels * taps];
        chunks(&mut kept, (height * taps).max(1), cost::elementwise(channels * taps), |i, panel| {
            let rows = &rows[i * height..channels.min((i + 1) * height)];
            let in_place = rows.iter().map(|row| &row.data[..taps]);
            match (rows.len(), rows.iter().all(|row| row.stride == 1)) {
                (6, true) => interleave::<6>(in_place, panel),
                (8, true) => interleave::<8>(in_place, panel),
                (12, true) => interleave::<12>(in_place, panel),
                (16, true) => interleave::<16>(in_place, panel),
                (count, _) => {
                    let mut first = 0;
                    for adjacent in rows.chunk_by(CoefficientRow::is_before) {
                        gather_rows(adjacent, &mut panel[first..], count);
                        first += adjacent.len();
                    }
                }
            }
        });
        PackedFilter { store: Store::Halves(kept), channels, taps, height }
    }

    /// Returns true if coefficients are stored as fp16 and all finite.
    pub fn is_finite(&self) -> bool {
        match &self.store {
            Store::Halves(halves) => halves.iter().fold(0, |most, x| (x.to_bits() & 0x7fff).max(most)) < 0x7c00,
            _ => false,
        }
    }

    /// Repacks the coefficients into panels of another height.
    pub fn with_height(&self, height: usize) -> PackedFilter {
        PackedFilter::of(&self.values(), self.channels, self.taps, height)
    }

    /// Unpacks the coefficients, in the order `[channel][tap]`.
    pub fn values(&self) -> Values {
        // Position of every coefficient, by channel and tap, in panels that each take `panel` elements.
        let places = |panel: usize| {
            let mut places = Vec::with_capacity(self.channels * self.taps);
            for channel in 0..self.channels {
                let first = channel - channel % self.height;
                let height = self.height(first);
                for tap in 0..self.taps {
                    places.push(channel / self.height * panel + tap * height + channel % self.height);
                }
            }
            places
        };
        // Panels of indices start at whole bytes.
        let indices = |bytes: &[u8], per: usize| {
            let bits = 8 / per;
            let mut indices = Vec::with_capacity(self.channels * self.taps);
            for at in places(per * self.panel_bytes(per)) {
                indices.push(bytes[at / per] >> (at % per * bits) & (u8::MAX >> (8 - bits)));
            }
            indices
        };
        let values = |table: &[f32]| {
            let mut values = Vec::with_capacity(table.len());
            for &x in table {
                values.push(num::round(x));
            }
            values
        };
        match &self.store {
            Store::Halves(halves) => {
                let mut values = Vec::with_capacity(halves.len());
                for at in places(self.height * self.taps) {
                    values.push(halves[at]);
                }
                Values::Halves(values)
            }
            Store::One(bytes, table) => Values::Indices(indices(bytes, 1), values(table.as_flattened())),
            Store::Two(bytes, _, palette) => Values::Indices(indices(bytes, 2), palette.to_vec()),
            Store::Four(bytes, table) => {
                Values::Indices(indices(bytes, 4), values(&[table[0][0], table[1][0], table[2][0], table[3][0]]))
            }
        }
    }

    /// Coefficients per channel.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// Size in bytes, without look-up tables.
    pub fn bytes(&self) -> usize {
        match &self.store {
            Store::Halves(halves) => 2 * halves.len(),
            Store::One(bytes, _) | Store::Two(bytes, ..) | Store::Four(bytes, _) => bytes.len(),
        }
    }

    /// Total number of channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// [`PackedFilter::widen`], with `after` applied to every vector.
    #[inline(always)]
    pub fn widen_and<'a, S: Simd>(
        &self,
        simd: S,
        first: usize,
        taps: Range<usize>,
        to: &'a mut [f32],
        after: impl LaneMap<S>,
    ) -> &'a mut [f32] {
        if let Store::Halves(halves) = &self.store {
            let height = self.height(first);
            let (from, to) = (taps.start * height, &mut to[..taps.len() * height]);
            simd::widen_row_and(simd, &halves[first * self.taps + from..][..to.len()], to, after);
            return to;
        }
        let to = self.widen(first, taps, to);
        simd::prepare(simd, after, to);
        to
    }

    /// Stored bytes of the panels of a channel range, which starts at a panel boundary; empty beyond the last channel.
    #[inline]
    pub fn bytes_of(&self, channels: Range<usize>) -> &[u8] {
        let part = channels.start.min(self.channels) * self.taps..channels.end.min(self.channels) * self.taps;
        let bytes = |per: usize| part.start / per..part.end / per;
        match &self.store {
            Store::Halves(halves) => bytemuck::cast_slice(&halves[part.start..part.end]),
            Store::One(all, _) => &all[bytes(1)],
            Store::Two(all, ..) => &all[bytes(2)],
            Store::Four(all, _) => &all[bytes(4)],
        }
    }

    /// Coefficients `[tap][channel]` of the full panel with first channel `first`; `None` for indices and for a partial last panel.
    pub fn halves_of(&self, first: usize) -> Option<&[f16]> {
        let Store::Halves(halves) = &self.store else { return None };
        (self.height(first) == self.height).then(|| &halves[first * self.taps..][..self.height * self.taps])
    }

    /// Number of channels of the panel with first channel `first`.
    pub fn height(&self, first: usize) -> usize {
        self.height.min(self.channels - first)
    }

    /// First channel and number of channels of the panel that contains `channel`.
    #[inline]
    pub fn panel_of(&self, channel: usize) -> (usize, usize) {
        let first = channel - channel % self.height;
        (first, self.height(first))
    }

    /// Widens a range of taps, `[tap][channel]`, of the panel with first channel `first`. Returns the written part of `to`.
    #[inline(always)]
    pub fn widen<'a>(&self, first: usize, taps: Range<usize>, to: &'a mut [f32]) -> &'a mut [f32] {
        let height = self.height(first);
        let (from, to) = (taps.start * height, &mut to[..taps.len() * height]);
        match &self.store {
            Store::Halves(halves) => num::widen_row(&halves[first * self.taps + from..][..to.len()], to),
            _ => self.look_up_from(first / self.height, from, to),
        }
        to
    }

    /// Looks up consecutive coefficients of a panel from `from` on. Nothing for fp16 coefficients. Out of line, because it does not depend on
    /// the caller's instruction set.
    #[inline(never)]
    fn look_up_from(&self, panel: usize, from: usize, to: &mut [f32]) {
        match &self.store {
            Store::Halves(_) => {}
            Store::One(bytes, table) => look_up(bytes, table, panel * self.panel_bytes(1), from, to),
            Store::Two(bytes, table, palette) => {
                let panel = panel * self.panel_bytes(2);
                let at_once = to.len() >= LEAST_VECTORIZED && from.is_multiple_of(2);
                if !at_once || !widen_indices(&bytes[panel + from / 2..], to, palette) {
                    look_up(bytes, table, panel, from, to);
                }
            }
            Store::Four(bytes, table) => look_up(bytes, table, panel * self.panel_bytes(4), from, to),
        }
    }

    /// Bytes of a range of taps of the panel with first channel `first`. None beyond the last channel.
    #[inline(never)]
    pub fn bytes_of_taps(&self, first: usize, taps: Range<usize>) -> &[u8] {
        let bytes = self.bytes_of(first..first + self.height);
        let place = |tap: usize| bytes.len() * tap / self.taps.max(1);
        &bytes[place(taps.start)..place(taps.end)]
    }

    /// Widens the first `to.len()` taps of one channel; at most 25, those of a 5x5 window, if panels have several channels.
    #[inline(always)]
    pub fn widen_channel(&self, channel: usize, to: &mut [f32]) {
        let place = channel % self.height;
        if self.height == 1 {
            self.widen(channel, 0..to.len(), to);
            return;
        }
        let (first, mut panel) = (channel - place, [0.0; BLOCK * WINDOW]);
        let panel = self.widen(first, 0..to.len(), &mut panel);
        to.iter_mut().zip(panel[place..].iter().step_by(self.height(first))).for_each(|(to, x)| *to = *x);
    }

    /// Size of a full panel in bytes, with `per` indices in a byte.
    fn panel_bytes(&self, per: usize) -> usize {
        (self.height * self.taps).div_ceil(per)
    }
}

/// Interleaves rows of `taps` elements: the first elements of all rows, then the second ones.
fn interleave_rows(rows: &[f16], taps: usize, to: &mut [f16]) {
    let height = rows.len() / taps.max(1);
    match height {
        1 => to.copy_from_slice(rows),
        6 => interleave::<6>(rows.chunks_exact(taps), to),
        8 => interleave::<8>(rows.chunks_exact(taps), to),
        12 => interleave::<12>(rows.chunks_exact(taps), to),
        16 => interleave::<16>(rows.chunks_exact(taps), to),
        _ => {
            for (i, row) in rows.chunks_exact(taps.max(1)).enumerate() {
                to[i..].iter_mut().step_by(height).zip(row).for_each(|(to, x)| *to = *x);
            }
        }
    }
}

/// [`interleave_rows`] for `N` separate rows.
fn interleave<'a, const N: usize>(rows: impl Iterator<Item = &'a [f16]>, to: &mut [f16]) {
    let mut sources: [&[f16]; N] = [&[]; N];
    for (source, row) in sources.iter_mut().zip(rows) {
        *source = row;
    }
    for (tap, to) in to.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        for i in 0..N {
            to[i] = sources[i][tap];
        }
    }
}

/// Filter of one group: packed coefficients and biases.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The coefficients.
    pub packed: PackedFilter,
    /// Bias of each channel, if any.
    pub biases: Option<Vec<f32>>,
    /// True if all coefficients are finite.
    pub finite: bool,
}

impl Filter {
    /// Bias of a channel; 0 without biases.
    pub fn bias(&self, channel: usize) -> f32 {
        self.biases.as_ref().map_or(0.0, |biases| biases[channel])
    }
}

/// Pads every tap in place from `channels` to `height` channels with zeros.
#[inline(always)]
pub fn spread(to: &mut [f32], channels: usize, height: usize) {
    for tap in (0..to.len() / height).rev().filter(|_| channels < height) {
        to.copy_within(tap * channels..(tap + 1) * channels, tap * height);
        to[tap * height + channels..(tap + 1) * height].fill(0.0);
    }
}

/// Look-up table from an index byte to its `N` values. Indices beyond the palette do not occur and give zero.
fn table<const N: usize>(palette: &[f16]) -> Box<[[f32; N]]> {
    let value = |index: usize| palette.get(index).map_or(0.0, |x| x.to_f32());
    let bits = 8 / N;
    (0..BYTES).map(|byte| array_of(|i| value(byte >> (i * bits) & ((1 << bits) - 1)))).collect()
}

/// Looks up the values of consecutive indices from `from` on, in the panel that starts at byte `panel`.
fn look_up<const N: usize>(bytes: &[u8], table: &[[f32; N]], panel: usize, from: usize, to: &mut [f32]) {
    let Ok(table) = <&[[f32; N]; BYTES]>::try_from(table) else { return };
    let one = |i: usize| table[usize::from(bytes[panel + i / N])][i % N];
    let lead = (from.next_multiple_of(N) - from).min(to.len());
    let (first, rest) = to.split_at_mut(lead);
    for (i, to) in first.iter_mut().enumerate() {
        *to = one(from + i);
    }
    let (whole, last) = rest.as_chunks_mut::<N>();
    let bytes_of = &bytes[panel + (from + lead) / N..][..whole.len()];
    for (to, &byte) in whole.iter_mut().zip(bytes_of) {
        *to = table[usize::from(byte)];
    }
    let done = from + lead + whole.len() * N;
    for (i, to) in last.iter_mut().enumerate() {
        *to = one(done + i);
    }
}
