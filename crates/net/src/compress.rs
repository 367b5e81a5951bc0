//! Compression of weights: palettes, 8-bit integers, sparsity. A compressed constant stays a constant, in another stored form.

use crate::error::Error;
use crate::graph::{Data, Net, Tensor, elements};
use crate::ops::OpKind;
use crate::order::positions;
use crate::stored::{Element, Form, Stored, pack};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Constants with fewer elements are left alone: they save little, and often matter for accuracy.
pub const LEAST_ELEMENTS: usize = 2048;

/// Rounds of assignment of elements to centres (Lloyd's algorithm).
const ROUNDS: usize = 50;

/// Compression method of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Each weight becomes one of `2^bits` values of its tensor; bits are 1, 2, 3, 4, 6 or 8.
    Palette {
        /// Width of an index.
        bits: u32,
    },
    /// 8-bit integers with a scale for each output channel.
    Int8,
    /// The smallest weights become zeros, which are not stored (pruning).
    Prune {
        /// Fraction of the weights that are removed, 0 to 1.
        share: f32,
    },
}

/// Statistics of a compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of compressed constants.
    pub tensors: usize,
    /// Size of all constants before, in bytes.
    pub bytes_before: usize,
    /// Size of all constants after, in bytes.
    pub bytes_after: usize,
}

/// Compresses the weights of convolutions, products and look-ups that are floats, large enough and not yet compressed.
///
/// Errors: a width or share without a stored form.
pub fn compress(net: &mut Net, method: Method) -> Result<Summary, Error> {
    let of = |what: &'static str, found: u64, least: u64, most: u64| Error::Attribute {
        kind: "compression",
        what,
        found,
        least,
        most,
    };
    match method {
        Method::Palette { bits } if !matches!(bits, 1 | 2 | 3 | 4 | 6 | 8) => {
            return Err(of("bits (1, 2, 3, 4, 6 or 8)", bits.into(), 1, 8));
        }
        Method::Prune { share } if !(0.0..=1.0).contains(&share) => {
            return Err(of("share in percent", (share * 100.0) as u64, 0, 100));
        }
        _ => {}
    }
    let weights: HashSet<u32> = (net.ops.iter())
        .filter_map(|op| match op.kind {
            OpKind::Conv { .. } | OpKind::ConvTranspose { .. } | OpKind::Linear | OpKind::MatMul { .. } => {
                op.inputs.get(1)
            }
            OpKind::Gather { .. } => op.inputs.first(),
            _ => None,
        })
        .map(|id| id.0)
        .collect();
    let stored = |net: &Net| net.values.iter().flat_map(|v| &v.data).map(|t| t.data.stored_bytes()).sum();
    let mut summary = Summary { bytes_before: stored(net), ..Summary::default() };
    for (id, value) in net.values.iter_mut().enumerate() {
        let Some(tensor) = value.data.as_ref().filter(|_| weights.contains(&(id as u32))) else { continue };
        let compressed = Compression::of(&tensor.data) != Compression::default();
        if tensor.data.len() < LEAST_ELEMENTS || !tensor.data.dtype().is_float() || compressed {
            continue;
        }
        let smaller = match method {
            Method::Palette { bits } => palettize(tensor, bits)?,
            Method::Int8 => int8(tensor)?,
            Method::Prune { share } => prune(tensor, share)?,
        };
        value.data = Some(Arc::new(smaller));
        summary.tensors += 1;
    }
    summary.bytes_after = stored(net);
    Ok(summary)
}

/// Compression of a constant's elements; combined forms set several fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    /// True if elements are indices into a palette.
    pub palette: bool,
    /// True if zeros are not stored.
    pub sparse: bool,
    /// Scales of quantized integers.
    pub scaled: Option<Scales>,
}

/// Granularity of the scales of quantized integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// The whole constant, or one output channel.
    Channel,
    /// A block of elements.
    Block,
}

impl Compression {
    /// Compression of a constant, from its stored form.
    pub fn of(data: &Data) -> Compression {
        let Data::Stored(stored) = data else { return Compression::default() };
        match stored.form() {
            Form::Plain { .. } => Compression::default(),
            Form::Palette { mask, .. } => {
                Compression { palette: true, sparse: mask.is_some(), ..Compression::default() }
            }
            Form::Sparse { values, .. } => Compression { sparse: true, ..Compression::of(&values.data) },
            Form::Scaled { data, scale, mask, .. } => {
                // A scale for each position along the first axis is one for each output channel.
                let channel = scale.shape.iter().skip(1).all(|&n| n == 1);
                let scaled = Some(if channel { Scales::Channel } else { Scales::Block });
                let Compression { palette, sparse, .. } = Compression::of(&data.data);
                Compression { palette, sparse: sparse || mask.is_some(), scaled }
            }
        }
    }
}

/// Returns true if data are stored compressed: as a palette, sparse, or as scaled integers.
pub fn is_compressed(data: &Data) -> bool {
    let had = Compression::of(data);
    had.palette || had.sparse || had.scaled.is_some()
}

/// Compresses a constant made from compressed ones again if its elements permit: as a palette if it has few values and a source had a
/// palette, else as sparse data if a source was sparse; else returns it unchanged.
pub fn recompressed<'a>(made: Tensor, of: impl IntoIterator<Item = &'a Tensor>) -> Tensor {
    if made.data.len() < LEAST_ELEMENTS || !made.data.dtype().is_float() {
        return made;
    }
    let parts = of.into_iter().map(|part| Compression::of(&part.data));
    let had = parts.fold(Compression::default(), |all, one| Compression {
        palette: all.palette || one.palette,
        sparse: all.sparse || one.sparse,
        scaled: None,
    });
    let smaller = match had {
        Compression { palette: true, .. } => few_values(&made),
        Compression { sparse: true, .. } => {
            let mask: Vec<u8> = made.data.to_f32().iter().map(|&v| u8::from(v != 0.0)).collect();
            without(&made, &mask).ok()
        }
        _ => None,
    };
    smaller.unwrap_or(made)
}

/// Scaled integers times a number, which their scales take; `None` for other forms, and if a scale would be rounded or infinite.
pub fn scaled(tensor: &Tensor, factor: f32) -> Option<Tensor> {
    let Data::Stored(stored) = &tensor.data else { return None };
    let Form::Scaled { data, scale, offset, mask } = stored.form() else { return None };
    let scales: Vec<f32> = scale.data.to_f32().iter().map(|v| v * factor).collect();
    let made = Data::from_f32(scale.data.dtype(), &scales);
    if made.to_f32() != scales {
        return None;
    }
    let scale = Tensor { shape: scale.shape.clone(), data: made };
    let form = Form::Scaled { data: data.clone(), scale, offset: offset.clone(), mask: mask.clone() };
    Stored::tensor(form, tensor.shape.clone()).ok()
}

/// The tensor as a palette of its distinct values, if a byte can index them.
fn few_values(tensor: &Tensor) -> Option<Tensor> {
    let values = tensor.data.to_f32();
    let mut seen: HashMap<u32, u8> = HashMap::new();
    let mut table = Vec::new();
    let mut indices = Vec::with_capacity(values.len());
    for value in values {
        let next = table.len();
        indices.push(match seen.entry(value.to_bits()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                table.push(value);
                *new.insert(u8::try_from(next).ok()?)
            }
        });
    }
    let mut shape = vec![1; tensor.shape.len()];
    shape.extend([table.len(), 1]);
    let table = Tensor { shape, data: Data::from_f32(tensor.data.dtype(), &table) };
    let indices = Tensor { shape: tensor.shape.clone(), data: Data::U8(indices) };
    Stored::tensor(Form::Palette { indices, table, axis: 0, mask: None }, tensor.shape.clone()).ok()
}

/// Centres of `count` clusters of the elements: Lloyd's algorithm on the sorted values, from evenly spaced quantiles.
fn centres(sorted: &[f32], count: usize) -> Vec<f32> {
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(sorted.iter().scan(0.0f64, |sum, &v| {
            *sum += f64::from(v);
            Some(*sum)
        }))
        .collect();
    let n = sorted.len();
    let mut centres: Vec<f32> = (0..count).map(|i| sorted[((2 * i + 1) * n / (2 * count)).min(n - 1)]).collect();
    for _ in 0..ROUNDS {
        let mut begin = 0;
        let mut moved = false;
        for i in 0..count {
            let end = match centres.get(i + 1) {
                Some(next) => sorted.partition_point(|&v| v <= (centres[i] + next) / 2.0).max(begin),
                None => n,
            };
            if end > begin {
                let mean = ((sums[end] - sums[begin]) / (end - begin) as f64) as f32;
                moved |= mean != centres[i];
                centres[i] = mean;
            }
            begin = end;
        }
        if !moved {
            break;
        }
    }
    centres
}

/// The tensor as indices of `bits` bits, at most 8, into a table of values.
pub fn palettize(tensor: &Tensor, bits: u32) -> Result<Tensor, Error> {
    let values = tensor.data.to_f32();
    let mut sorted = values.clone();
    sorted.sort_by(f32::total_cmp);
    let count = 1usize << bits;
    let mut table = centres(&sorted, count);
    table.sort_by(f32::total_cmp);
    let nearest = |v: &f32| {
        let above = table.partition_point(|c| c < v).min(count - 1);
        let below = above.saturating_sub(1);
        (if (v - table[below]).abs() <= (table[above] - v).abs() { below } else { above }) as u8
    };
    let indices: Vec<u8> = values.iter().map(nearest).collect();
    let form = Form::Plain { element: Element::UInt(bits), bytes: pack(&indices, bits as usize).into() };
    let indices = Stored::tensor(form, tensor.shape.clone())?;
    let mut shape = vec![1; tensor.shape.len()];
    shape.extend([count, 1]);
    let table = Tensor { shape, data: Data::from_f32(tensor.data.dtype(), &table) };
    let axis = tensor.shape.len().saturating_sub(1);
    Stored::tensor(Form::Palette { indices, table, axis, mask: None }, tensor.shape.clone())
}

/// The tensor as integers of eight bits with a scale for each row of its first axis.
pub fn int8(tensor: &Tensor) -> Result<Tensor, Error> {
    let values = tensor.data.to_f32();
    let rows = tensor.shape.first().copied().unwrap_or(1).max(1);
    let width = elements(&tensor.shape) / rows;
    let mut scales = Vec::with_capacity(rows);
    let mut steps = Vec::with_capacity(values.len());
    for row in values.chunks(width.max(1)) {
        let largest = row.iter().fold(0f32, |m, v| m.max(v.abs()));
        // The scale is rounded to its type before the division.
        let scale =
            Data::from_f32(tensor.data.dtype(), &[if largest > 0.0 { largest / 127.0 } else { 1.0 }]).to_f32()[0];
        scales.push(scale);
        steps.extend(row.iter().map(|v| (v / scale).round_ties_even().clamp(-127.0, 127.0) as i8));
    }
    let mut shape = vec![1; tensor.shape.len()];
    if let Some(first) = shape.first_mut() {
        *first = rows;
    }
    let data = Tensor { shape: tensor.shape.clone(), data: Data::I8(steps) };
    let scale = Tensor { shape, data: Data::from_f32(tensor.data.dtype(), &scales) };
    Stored::tensor(Form::Scaled { data, scale, offset: None, mask: None }, tensor.shape.clone())
}

/// The tensor without this share of its elements, those nearest to zero.
pub fn prune(tensor: &Tensor, share: f32) -> Result<Tensor, Error> {
    let values = tensor.data.to_f32();
    let order = positions(values.len(), &|a, b| values[a].abs().total_cmp(&values[b].abs()));
    let gone = (values.len() as f64 * f64::from(share)).round() as usize;
    let mut mask = vec![1u8; values.len()];
    order.iter().take(gone).for_each(|&i| mask[i] = 0);
    without(tensor, &mask)
}

/// The tensor with only the elements stored that the mask selects.
fn without(tensor: &Tensor, mask: &[u8]) -> Result<Tensor, Error> {
    let values = tensor.data.to_f32();
    let kept: Vec<f32> = values.iter().zip(mask).filter(|(_, m)| **m == 1).map(|(v, _)| *v).collect();
    let form = Form::Plain { element: Element::UInt(1), bytes: pack(mask, 1).into() };
    let mask = Stored::tensor(form, tensor.shape.clone())?;
    let values = Tensor { shape: vec![kept.len()], data: Data::from_f32(tensor.data.dtype(), &kept) };
    Stored::tensor(Form::Sparse { mask, values }, tensor.shape.clone())
}
