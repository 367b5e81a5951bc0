//! Tables of rows in ONNX Runtime's own domain: rows of integers with scales of blocks, and biases by relative position.

use super::made::MADE_ELEMENTS;
use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, elements};
use crate::stored::Element;

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "GatherBlockQuantized" => gathered(n),
        "RelativePositionBias" => biases(n),
        _ => Ok(false),
    }
}

/// `Gather` of a constant of integers, which have a scale and a zero point for each block along an axis. Integers of fewer than 8 bits may be
/// packed into bytes along the last axis, the lowest bits first.
fn gathered(n: &mut Node) -> Result<bool, Error> {
    let (Some(stored), Some(scales)) = (n.constant(0, "data")?, n.constant(2, "scales")?) else {
        return Err(n.missing("data and scales"));
    };
    let (zeros, indices) = (n.constant(3, "zero_points")?, n.need(1)?);
    let rank = stored.shape.len();
    let axis = n.axis(n.int("gather_axis", 0), rank)?;
    let along = n.axis(n.int("quantize_axis", 1), rank)?;
    let (block, bits) = (n.size("block_size", n.int("block_size", 128))?, n.size("bits", n.int("bits", 4))?);
    let bytes = stored.data.dtype() == DType::U8 && n.t.wide_element(n.need(0)?) != Some(Element::UInt(4));
    let table = Blocks { bits, bytes, along, block }.dense(n, &stored, &scales, zeros.as_deref())?;
    let table = n.build().constant("table", table);
    let id = n.build().gather(table, indices, axis)?;
    n.done(id)
}

/// The form of integers with a scale and a zero point for each block along an axis.
pub struct Blocks {
    pub bits: usize,
    /// True if bytes hold the integers, several one behind the other along the last axis, with the middle of their range as zero point.
    pub bytes: bool,
    pub along: usize,
    pub block: usize,
}

impl Blocks {
    /// The numbers that the integers stand for.
    pub fn dense(&self, n: &Node, stored: &Tensor, scales: &Tensor, zeros: Option<&Tensor>) -> Result<Tensor, Error> {
        let &Blocks { bits, bytes, along, block } = self;
        let rank = stored.shape.len();
        if block == 0 || !matches!(bits, 2 | 4 | 8) {
            return Err(n.unsupported(format!("blocks of {block} integers of {bits} bits")));
        }
        let each = if bytes { 8 / bits } else { 1 };
        let values = unpacked(stored, each, bits);
        let middle = if bytes { 1 << (bits - 1) } else { 0 };
        let zeros = zeros.map(|zeros| unpacked(zeros, each, bits));
        let mut wanted = values.shape.clone();
        wanted[along] = wanted[along].div_ceil(block);
        let zeros_fit = zeros.as_ref().is_none_or(|zeros| {
            let same = zeros.shape.iter().zip(&wanted).enumerate();
            zeros.shape.len() == rank
                && same.into_iter().all(|(at, (found, wanted))| found == wanted || at + 1 == rank && found >= wanted)
        });
        if scales.shape != wanted || !zeros_fit {
            return Err(n.unsupported(format!("scales {:?} or zero points for blocks {wanted:?}", scales.shape)));
        }
        let (all, steps) = (values.data.to_i32(), scales.data.to_f32());
        let zeros = zeros.map(|zeros| (zeros.shape[rank - 1], zeros.data.to_i32()));
        let inner = elements(&values.shape[along + 1..]);
        let extent = values.shape[along];
        let number = |at: usize| {
            let (outer, place, rest) = (at / inner / extent, at / inner % extent, at % inner);
            let of = (outer * wanted[along] + place / block) * inner + rest;
            let last = wanted[rank - 1];
            let zero = zeros.as_ref().map_or(middle, |(held, zeros)| zeros[of / last * held + of % last]);
            (all[at] - zero) as f32 * steps[of]
        };
        let numbers: Vec<f32> = (0..all.len()).map(number).collect();
        Ok(Tensor { shape: values.shape.clone(), data: Data::from_f32(scales.data.dtype(), &numbers) })
    }
}

/// Integers that bytes hold, `each` of them one behind the other along the last axis.
pub fn unpacked(tensor: &Tensor, each: usize, bits: usize) -> Tensor {
    if each == 1 {
        return tensor.clone();
    }
    let mask = (1 << bits) - 1;
    let all = tensor.data.to_i32();
    let all = all.iter().flat_map(|byte| (0..each).map(move |at| byte >> (at * bits) & mask)).collect();
    let mut shape = tensor.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last *= each;
    }
    Tensor::i32(shape, all)
}

/// The biases of heads for each pair of a query and a key: those of the bucket of their distance. Near distances have a bucket each, others share
/// buckets by their logarithm; keys behind the query have the second half of the buckets if both directions count. Elements of the table
/// are stored head by head, whatever its extents say.
fn biases(n: &mut Node) -> Result<bool, Error> {
    let table = n.need(0)?;
    let &[buckets, heads] = n.shape(table).as_slice() else { return Err(n.unsupported("a table not of rank 2")) };
    let mut lengths = [0; 2];
    for (at, name) in [(1, "query_length"), (2, "key_length")] {
        let length = n.integers(at, name)?.and_then(|v| v.first().copied()).ok_or_else(|| n.missing(name))?;
        lengths[at - 1] = n.size(name, length)?;
    }
    let [rows, columns] = lengths;
    let both = n.flag("is_bidirectional", false);
    let own = if both { buckets / 2 } else { buckets };
    let (near, most) = (own / 2, n.int("max_distance", 128));
    if near == 0 || most <= near as i64 || rows.saturating_mul(columns) > MADE_ELEMENTS {
        return Err(n.unsupported(format!("{buckets} buckets up to distance {most} for {rows} by {columns} pairs")));
    }
    let bucket = |query: usize, key: usize| {
        let distance = query.abs_diff(key);
        let behind = if both && key > query { own } else { 0 };
        if distance < near {
            return (behind + distance) as i32;
        }
        let share = (distance as f32 / near as f32).ln() / (most as f32 / near as f32).ln();
        let far = near + (share * (own - near) as f32) as usize;
        (behind + far.min(own - 1)) as i32
    };
    let places = (0..rows).flat_map(|query| (0..columns).map(move |key| (query, key)));
    let places = places.map(|(query, key)| bucket(query, key)).collect();
    let places = n.build().integers([rows, columns], places);
    let table = n.build().reshape(table, [1, heads, buckets])?;
    let id = n.build().gather(table, places, 2)?;
    n.done(id)
}
