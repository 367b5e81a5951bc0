//! Constants in the form of their file: packed or compressed elements that are expanded only on demand.
//!
//! A [`Stored`] is checked when it is built, so that [`Stored::dense`] cannot fail. Its parts are tensors, which may
//! be stored too: combined compression is nesting.

mod element;

use element::plain;
pub use element::{Element, pack, to_bytes, unpack};

use super::{Data, Tensor};
use crate::error::Error;
use crate::types::{DType, MAX_ELEMENTS, MAX_RANK, elements};
use bytes::Bytes;
use half::f16;
use half::slice::HalfBitsSliceExt;
use std::borrow::Cow;

/// Storage form of a constant's elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Packed little-endian elements; those narrower than a byte are packed from the lowest bit.
    Plain {
        /// Type of one element.
        element: Element,
        /// Packed bytes, at least as many as the elements occupy.
        bytes: Bytes,
    },
    /// `scale * (data - offset)`: scale and offset have the rank of the shape and one element per block.
    Scaled {
        /// Integers of the whole shape; with a `mask`, one per set position.
        data: Tensor,
        /// Scale, whose element type is the result's.
        scale: Tensor,
        /// Zero point, of the scale's shape.
        offset: Option<Tensor>,
        /// Mask of the whole shape; only set positions have data.
        mask: Option<Tensor>,
    },
    /// `table[block, index, :]`: the table has the blocks' extents, then its length, then the width of its entries.
    Palette {
        /// Indices, all less than the palette's length; with a `mask`, one per set position.
        indices: Tensor,
        /// Palette, whose element type is the result's.
        table: Tensor,
        /// Axis of the elements of an entry, if entries are vectors.
        axis: usize,
        /// Mask of the whole shape; only set positions have indices.
        mask: Option<Tensor>,
    },
    /// `values` in order where `mask` is set, zeros elsewhere.
    Sparse {
        /// Mask of the whole shape.
        mask: Tensor,
        /// One element per set position of the mask.
        values: Tensor,
    },
}

/// Elements of a constant in their stored form.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    dtype: DType,
    count: usize,
    form: Form,
}

fn fault(reason: String) -> Error {
    Error::Stored { reason }
}

/// Extents of the whole that compressed parts describe.
fn whole<'t>(data: &'t Tensor, mask: &'t Option<Tensor>) -> Result<&'t [usize], Error> {
    let Some(mask) = mask else { return Ok(&data.shape) };
    let set = set_positions(mask);
    if set != data.data.len() {
        return Err(fault(format!("{} elements for a mask with {set} positions set", data.data.len())));
    }
    Ok(&mask.shape)
}

fn set_positions(mask: &Tensor) -> usize {
    mask.data.to_i32().iter().filter(|&&bit| bit != 0).count()
}

/// Requires the number of blocks along every axis to divide the extent.
fn blocks_fit(shape: &[usize], blocks: &[usize]) -> Result<(), Error> {
    let divides = |(&extent, &count): (&usize, &usize)| count != 0 && extent % count == 0;
    if shape.len() == blocks.len() && shape.iter().zip(blocks).all(divides) {
        return Ok(());
    }
    Err(fault(format!("blocks {blocks:?} of extents {shape:?}")))
}

fn bounded(shape: &[usize]) -> Result<usize, Error> {
    let count = elements(shape);
    if count > MAX_ELEMENTS || shape.len() > MAX_RANK {
        let (what, shape) = ("a stored constant".to_string(), shape.to_vec());
        return Err(Error::TooLarge { what, shape, elements: count, limit: MAX_ELEMENTS });
    }
    Ok(count)
}

impl Stored {
    /// A slice of the elements, if they are plain fp16 in this host's byte order and aligned.
    pub fn as_f16(&self) -> Option<&[f16]> {
        let Form::Plain { element: Element::Float16, bytes } = &self.form else { return None };
        let words: &[u16] = bytemuck::try_cast_slice(bytes.get(..2 * self.count)?).ok()?;
        cfg!(target_endian = "little").then(|| words.reinterpret_cast())
    }

    /// Checks the parts and returns the tensor that they represent, without expanding it.
    ///
    /// Errors: parts that do not match, indices outside their table, too many elements.
    pub fn tensor(form: Form, shape: Vec<usize>) -> Result<Tensor, Error> {
        let count = bounded(&shape)?;
        let dtype = match &form {
            Form::Plain { element, bytes } => {
                let needed = (count as u64).saturating_mul(element.bits() as u64).div_ceil(8);
                if (bytes.len() as u64) < needed {
                    return Err(fault(format!("{} bytes for {count} elements of {element:?}", bytes.len())));
                }
                element.dtype().ok_or_else(|| fault("strings are not elements".into()))?
            }
            Form::Scaled { data, scale, offset, mask } => {
                let own = whole(data, mask)?;
                blocks_fit(own, &scale.shape)?;
                if let Some(offset) = offset.as_ref().filter(|o| o.shape != scale.shape) {
                    return Err(fault(format!("offsets {:?} for scales {:?}", offset.shape, scale.shape)));
                }
                expect(&shape, mask, data)?;
                scale.data.dtype()
            }
            Form::Palette { indices, table, axis, mask } => {
                let own = whole(indices, mask)?;
                let rank = own.len();
                if table.shape.len() != rank + 2 || *axis >= rank.max(1) {
                    return Err(fault(format!("table {:?} for indices {own:?}, axis {axis}", table.shape)));
                }
                blocks_fit(own, &table.shape[..rank])?;
                let (length, width) = (table.shape[rank], table.shape[rank + 1]);
                if width != 1 && (mask.is_some() || rank == 0) || width == 0 {
                    return Err(fault(format!("table entries of {width} elements")));
                }
                check_indices(indices, length)?;
                if mask.is_some() {
                    expect(&shape, mask, indices)?;
                } else {
                    let mut made = own.to_vec();
                    if let Some(extent) = made.get_mut(*axis) {
                        *extent = extent.saturating_mul(width);
                    }
                    same(&shape, &made)?;
                }
                table.data.dtype()
            }
            Form::Sparse { mask, values } => {
                let set = set_positions(mask);
                if set != values.data.len() {
                    return Err(fault(format!("{} elements for a mask with {set} positions set", values.data.len())));
                }
                same(&shape, &mask.shape)?;
                values.data.dtype()
            }
        };
        let stored = Stored { dtype, count, form };
        Ok(Tensor { shape, data: Data::Stored(std::sync::Arc::new(stored)) })
    }

    /// Type of an expanded element.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Storage form of the elements.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Size of the stored form in bytes, masks and tables included.
    pub fn stored_bytes(&self) -> usize {
        let of = |t: &Tensor| t.data.stored_bytes();
        match &self.form {
            Form::Plain { element, .. } => (self.count * element.bits()).div_ceil(8),
            Form::Scaled { data, scale, offset, mask } => {
                of(data) + of(scale) + offset.as_ref().map_or(0, of) + mask.as_ref().map_or(0, of)
            }
            Form::Palette { indices, table, mask, .. } => of(indices) + of(table) + mask.as_ref().map_or(0, of),
            Form::Sparse { mask, values } => of(mask) + of(values),
        }
    }

    /// As [`Data::stored`].
    pub(crate) fn feed(&self, sink: &mut dyn FnMut(&[u8])) {
        sink(format!("{:?} {}", self.dtype, self.count).as_bytes());
        let mut part = |name: &str, tensor: Option<&Tensor>| {
            let Some(tensor) = tensor else { return };
            sink(format!("{name} {:?} {:?}", tensor.shape, tensor.data.dtype()).as_bytes());
            tensor.data.stored(sink);
        };
        match &self.form {
            Form::Plain { element, bytes } => {
                sink(format!("plain {element:?}").as_bytes());
                sink(bytes);
            }
            Form::Scaled { data, scale, offset, mask } => {
                part("data", Some(data));
                part("scale", Some(scale));
                part("offset", offset.as_ref());
                part("mask", mask.as_ref());
            }
            Form::Palette { indices, table, axis, mask } => {
                part("indices", Some(indices));
                part("table", Some(table));
                part("mask", mask.as_ref());
                sink(format!("axis {axis}").as_bytes());
            }
            Form::Sparse { mask, values } => {
                part("mask", Some(mask));
                part("values", Some(values));
            }
        }
    }

    /// The elements for the evaluator: results of arithmetic are not rounded to the type.
    pub fn to_f32(&self) -> Vec<f32> {
        match &self.form {
            Form::Scaled { data, scale, offset, mask } if self.dtype.is_float() => {
                scaled(data, scale, offset.as_ref(), mask)
            }
            _ => match self.dense() {
                Data::F32(values) => values,
                other => other.to_f32(),
            },
        }
    }

    /// The elements, each rounded once to the type.
    pub fn dense(&self) -> Data {
        match &self.form {
            Form::Plain { element, bytes } => plain(*element, bytes, self.count),
            Form::Scaled { data, scale, offset, mask } => {
                Data::from_f32(self.dtype, &scaled(data, scale, offset.as_ref(), mask))
            }
            Form::Palette { indices, table, axis, mask } => {
                let own = mask.as_ref().map_or(&indices.shape, |m| &m.shape);
                let rank = own.len();
                let (length, width) = (table.shape[rank], table.shape[rank + 1]);
                let blocks = Blocks::new(own, &table.shape[..rank]);
                if let (1, None, Data::F16(table), Data::U8(values)) =
                    (width, mask, &*borrowed(&table.data), &*borrowed(&indices.data))
                {
                    return Data::F16(by_table(table, values, &blocks, length));
                }
                let values = indices.data.to_i32();
                if width == 1 {
                    let at = |(i, v): (usize, i32)| blocks.of(i) * length + v as usize;
                    return pick(&table.data.dense(), positions(mask, values.len()).zip(values).map(at));
                }
                let inner = elements(&own[axis + 1..]);
                let along = own[*axis] * width;
                // Entries replace their index along the axis: the position there is index times width plus component.
                let at = |i: usize| {
                    let (outer, place, rest) = (i / (inner * along), i / inner % along, i % inner);
                    let index = (outer * own[*axis] + place / width) * inner + rest;
                    (blocks.of(index) * length + values[index] as usize) * width + place % width
                };
                pick(&table.data.dense(), (0..self.count).map(at))
            }
            Form::Sparse { mask, values } => {
                let mut next = values.data.to_f32().into_iter();
                let fill = |&bit: &i32| if bit == 0 { 0.0 } else { next.next().unwrap_or(0.0) };
                let dense: Vec<f32> = mask.data.to_i32().iter().map(fill).collect();
                Data::from_f32(self.dtype, &dense)
            }
        }
    }
}

/// `scale * (data - offset)`, one scale and offset for each block.
fn scaled(data: &Tensor, scale: &Tensor, offset: Option<&Tensor>, mask: &Option<Tensor>) -> Vec<f32> {
    let (scales, offsets) = (scale.data.to_f32(), offset.map(|o| o.data.to_f32()));
    let shape = mask.as_ref().map_or(&data.shape, |m| &m.shape);
    let blocks = Blocks::new(shape, &scale.shape);
    let mut values = data.data.to_f32();
    if mask.is_none() {
        for (run, values) in values.chunks_mut(blocks.run()).enumerate() {
            let block = blocks.of(run * blocks.run());
            let (scale, offset) = (scales[block], offsets.as_ref().map_or(0.0, |o| o[block]));
            values.iter_mut().for_each(|v| *v = scale * (*v - offset));
        }
        return values;
    }
    let at = |(i, v): (usize, f32)| {
        let block = blocks.of(i);
        scales[block] * (v - offsets.as_ref().map_or(0.0, |o| o[block]))
    };
    positions(mask, values.len()).zip(values).map(at).collect()
}

fn same(found: &[usize], expected: &[usize]) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(fault(format!("extents {found:?}, the parts give {expected:?}"))) }
}

/// Requires one element per set position of a mask, as a list; without a mask, elements of the whole shape.
fn expect(shape: &[usize], mask: &Option<Tensor>, data: &Tensor) -> Result<(), Error> {
    match mask {
        None => same(shape, &data.shape),
        Some(_) => same(shape, &[data.data.len()]),
    }
}

fn check_indices(indices: &Tensor, length: usize) -> Result<(), Error> {
    // A packed index of this width cannot exceed the table.
    if let Data::Stored(stored) = &indices.data
        && let Form::Plain { element: Element::UInt(bits), .. } = stored.form()
        && *bits < 9
        && 1usize << bits <= length
    {
        return Ok(());
    }
    match indices.data.to_i32().iter().find(|&&v| v < 0 || v as usize >= length) {
        Some(&found) => Err(Error::Index { op: "palette".to_string(), found: found.into(), extent: length }),
        None => Ok(()),
    }
}

/// Positions of a list's elements: those set in the mask, else all.
fn positions(mask: &Option<Tensor>, count: usize) -> Box<dyn Iterator<Item = usize>> {
    match mask {
        None => Box::new(0..count),
        Some(mask) => {
            let bits = mask.data.to_i32();
            Box::new(bits.into_iter().enumerate().filter(|&(_, bit)| bit != 0).map(|(i, _)| i))
        }
    }
}

/// Map from an element's index to its block's; both row-major and of the same rank.
struct Blocks {
    /// Extent, extent of a block, and distance between blocks, last axis first; axes of one block are left out but for
    /// their extents.
    axes: Vec<(usize, usize, usize)>,
    single: bool,
}

impl Blocks {
    fn new(shape: &[usize], blocks: &[usize]) -> Blocks {
        let mut step = 1;
        let axes = shape.iter().zip(blocks).rev().map(|(&extent, &count)| {
            let axis = (extent, extent / count.max(1), step);
            step *= count;
            axis
        });
        Blocks { axes: axes.collect(), single: elements(blocks) == 1 }
    }

    /// Number of consecutive elements that lie in one block; the block changes only at multiples of it.
    fn run(&self) -> usize {
        let mut run = 1;
        for &(extent, size, _) in &self.axes {
            run *= size;
            if size < extent {
                break;
            }
        }
        run.max(1)
    }

    fn of(&self, mut index: usize) -> usize {
        if self.single {
            return 0;
        }
        let mut at = 0;
        for &(extent, size, step) in &self.axes {
            at += index % extent / size * step;
            index /= extent;
        }
        at
    }
}

/// Elements as plain data, expanded only if they are stored in another form.
fn borrowed(data: &Data) -> Cow<'_, Data> {
    match data {
        Data::Stored(stored) => Cow::Owned(stored.dense()),
        plain => Cow::Borrowed(plain),
    }
}

/// Palette entries of one element each, by index; each block has its own `length` entries.
fn by_table(table: &[f16], indices: &[u8], blocks: &Blocks, length: usize) -> Vec<f16> {
    let mut dense = Vec::with_capacity(indices.len());
    for (run, indices) in indices.chunks(blocks.run()).enumerate() {
        let own = &table[blocks.of(run * blocks.run()) * length..][..length];
        dense.extend(indices.iter().map(|&i| own[usize::from(i)]));
    }
    dense
}

/// Elements of `data` at these positions.
fn pick(data: &Data, positions: impl Iterator<Item = usize>) -> Data {
    fn at<T: Copy>(data: &[T], positions: impl Iterator<Item = usize>) -> Vec<T> {
        positions.map(|i| data[i]).collect()
    }
    match data {
        Data::F16(v) => Data::F16(at(v, positions)),
        Data::F32(v) => Data::F32(at(v, positions)),
        Data::I8(v) => Data::I8(at(v, positions)),
        Data::U8(v) => Data::U8(at(v, positions)),
        Data::I16(v) => Data::I16(at(v, positions)),
        Data::U16(v) => Data::U16(at(v, positions)),
        Data::I32(v) => Data::I32(at(v, positions)),
        Data::Bool(v) => Data::Bool(at(v, positions)),
        Data::Stored(stored) => pick(&stored.dense(), positions),
    }
}
