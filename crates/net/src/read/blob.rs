//! Weight files of ML Programs: records of 64 bytes, each telling where its data lies.

use super::Files;
use super::proto::Element;
use crate::error::Error;
use crate::graph::{DType, Data, elements};
use std::collections::HashMap;
use std::sync::Arc;

/// First word of every record.
const SENTINEL: u32 = 0xdead_beef;

/// Size of a record in bytes: sentinel, element type (4 bytes each), data size in bytes, data offset, padding in bits
/// (8 bytes each), reserved.
const RECORD_BYTES: u64 = 64;

/// Weight files of one model, each read once.
pub struct Blobs<'a> {
    files: &'a dyn Files,
    read: HashMap<String, Arc<Vec<u8>>>,
    pub budget: Budget,
}

/// How many elements of constants a model may make, all together.
///
/// One stretch of a weight file can be named any number of times, and decompression multiplies it; honest models make
/// less than 20 elements for each byte of their weights.
#[derive(Debug, Default)]
pub struct Budget {
    made: usize,
    bytes_read: usize,
}

impl Budget {
    const FREE: usize = 1 << 26;
    const PER_BYTE: usize = 64;

    /// Raises the budget by what a file of this size allows.
    pub fn add_file(&mut self, bytes: usize) {
        self.bytes_read = self.bytes_read.saturating_add(bytes);
    }

    /// Counts a constant about to be made.
    pub fn spend(&mut self, shape: &[usize]) -> Result<(), Error> {
        self.made = self.made.saturating_add(elements(shape));
        let limit = self.bytes_read.saturating_mul(Self::PER_BYTE).saturating_add(Self::FREE);
        if self.made <= limit {
            return Ok(());
        }
        let (what, shape) = ("the last of all constants".to_string(), shape.to_vec());
        Err(Error::TooLarge { what, shape, elements: self.made, limit })
    }
}

impl<'a> Blobs<'a> {
    pub fn new(files: &'a dyn Files) -> Self {
        Blobs { files, read: HashMap::new(), budget: Budget::default() }
    }

    fn file(&mut self, path: &str) -> Result<Arc<Vec<u8>>, Error> {
        if let Some(bytes) = self.read.get(path) {
            return Ok(bytes.clone());
        }
        let bytes = self.files.read(path).map_err(|reason| Error::File { path: path.to_string(), reason })?;
        self.budget.add_file(bytes.len());
        let bytes = Arc::new(bytes);
        self.read.insert(path.to_string(), bytes.clone());
        Ok(bytes)
    }

    /// `count` elements of the record at `offset`.
    pub fn elements(&mut self, path: &str, offset: u64, element: Element, count: usize) -> Result<Data, Error> {
        let bytes = self.file(path)?;
        let place = || format!("{path} at {offset:#x}");
        let record = part(&bytes, offset, RECORD_BYTES, &place, "record")?;
        let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        if word(0) != SENTINEL {
            let (found, expected) = (word(0).into(), SENTINEL.into());
            return Err(Error::Magic { place: place(), what: "sentinel", found, expected });
        }
        if let Some(expected) = element.blob_number()
            && expected != word(4)
        {
            let (found, expected) = (word(4).into(), expected.into());
            return Err(Error::Magic { place: place(), what: "element type", found, expected });
        }
        let data = part(&bytes, long(16), long(8), &place, "data")?;
        decode(data, element, count, &place())
    }
}

/// Bytes `offset..offset + size`, if they exist.
pub fn part<'b>(
    bytes: &'b [u8],
    offset: u64,
    size: u64,
    place: &dyn Fn() -> String,
    what: &'static str,
) -> Result<&'b [u8], Error> {
    let end = offset.saturating_add(size);
    let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
    range.and_then(|(from, to)| bytes.get(from..to)).ok_or_else(|| {
        let available = bytes.len() as u64;
        Error::OutOfBounds { place: place(), what, offset, end, available }
    })
}

/// `count` elements from packed little-endian bytes; elements narrower than a byte begin at the lowest bit.
///
/// Types that tensors do not have become wider or narrower ones: `f64` and `bf16` are `f32`, 64-bit and unsigned 32-bit
/// integers are `i32` (an error where one does not fit), sub-byte integers take a byte each.
pub fn decode(bytes: &[u8], element: Element, count: usize, place: &str) -> Result<Data, Error> {
    let needed = (count as u64).saturating_mul(element.bits() as u64).div_ceil(8);
    let bytes = part(bytes, 0, needed, &|| place.to_string(), "elements")?;
    let narrow = |value: i128| {
        let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let found = i64::try_from(value).unwrap_or(i64::MAX);
        let error = || Error::OutOfRange { place: place.to_string(), key: "element".to_string(), found, least, most };
        i32::try_from(value).map_err(|_| error())
    };
    let unsupported = || Error::Syntax { place: place.to_string(), reason: format!("{element:?} as tensor data") };
    Ok(match element {
        Element::Bool => Data::from_le_bytes(DType::Bool, bytes),
        Element::Float16 => Data::from_le_bytes(DType::F16, bytes),
        Element::Float32 => Data::from_le_bytes(DType::F32, bytes),
        Element::Float64 => Data::F32(bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b) as f32).collect()),
        Element::BFloat16 => {
            let wide = |&b: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16);
            Data::F32(bytes.as_chunks().0.iter().map(wide).collect())
        }
        Element::Int(8) => Data::from_le_bytes(DType::I8, bytes),
        Element::Int(16) => Data::from_le_bytes(DType::I16, bytes),
        Element::Int(32) => Data::from_le_bytes(DType::I32, bytes),
        Element::UInt(8) => Data::from_le_bytes(DType::U8, bytes),
        Element::UInt(16) => Data::from_le_bytes(DType::U16, bytes),
        Element::UInt(32) => {
            let values = bytes.as_chunks().0.iter().map(|&b| narrow(u32::from_le_bytes(b).into()));
            Data::I32(values.collect::<Result<_, _>>()?)
        }
        Element::Int(64) => {
            let values = bytes.as_chunks().0.iter().map(|&b| narrow(i64::from_le_bytes(b).into()));
            Data::I32(values.collect::<Result<_, _>>()?)
        }
        Element::UInt(64) => {
            let values = bytes.as_chunks().0.iter().map(|&b| narrow(u64::from_le_bytes(b).into()));
            Data::I32(values.collect::<Result<_, _>>()?)
        }
        Element::UInt(bits @ 1..8) => Data::U8(unpack(bytes, bits as usize, count)),
        Element::Int(4) => {
            // The upper half of the nibble's range is negative.
            let sign = |v: u8| ((v << 4) as i8) >> 4;
            Data::I8(unpack(bytes, 4, count).into_iter().map(sign).collect())
        }
        Element::String | Element::Int(_) | Element::UInt(_) => return Err(unsupported()),
    })
}

/// `count` fields of `bits` bits (1 to 8), the first at the lowest bit; the caller has checked that there are enough bytes.
pub fn unpack(bytes: &[u8], bits: usize, count: usize) -> Vec<u8> {
    let mask = ((1u16 << bits) - 1) as u8;
    (0..count)
        .map(|i| {
            let (at, shift) = (i * bits / 8, i * bits % 8);
            let low = u16::from(bytes.get(at).copied().unwrap_or(0));
            let high = u16::from(bytes.get(at + 1).copied().unwrap_or(0));
            ((high << 8 | low) >> shift) as u8 & mask
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_cross_byte_borders() {
        // 6-bit fields 1, 2, 3, 63 packed from the lowest bit.
        let packed = 1u32 | 2 << 6 | 3 << 12 | 63 << 18;
        assert_eq!(unpack(&packed.to_le_bytes(), 6, 4), [1, 2, 3, 63]);
        assert_eq!(decode(&[0x8f], Element::Int(4), 2, "").unwrap(), Data::I8(vec![-1, -8]));
    }

    #[test]
    fn wide_integers_must_fit() {
        let fits = 7i64.to_le_bytes();
        assert_eq!(decode(&fits, Element::Int(64), 1, "").unwrap(), Data::I32(vec![7]));
        let error = decode(&(1i64 << 40).to_le_bytes(), Element::Int(64), 1, "here").unwrap_err();
        assert!(matches!(error, Error::OutOfRange { found, .. } if found == 1 << 40), "{error}");
    }
}
