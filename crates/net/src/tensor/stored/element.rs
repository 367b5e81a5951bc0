//! Element types of stored forms, as bytes and bit fields.

use super::Form;
use crate::tensor::Data;
use crate::types::DType;
use half::f16;

/// Element types of model files, with the width of one element in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Element {
    Bool,
    String,
    Float16,
    Float32,
    Float64,
    BFloat16,
    Int(u32),
    UInt(u32),
}

impl Element {
    /// The element for a tensor's type.
    pub fn of(dtype: DType) -> Element {
        match dtype {
            DType::F16 => Element::Float16,
            DType::F32 => Element::Float32,
            DType::I8 => Element::Int(8),
            DType::U8 => Element::UInt(8),
            DType::I16 => Element::Int(16),
            DType::U16 => Element::UInt(16),
            DType::I32 => Element::Int(32),
            DType::Bool => Element::Bool,
        }
    }

    /// The type of a tensor of such elements: `f64` and `bf16` become `f32`, 64-bit and unsigned 32-bit integers `i32`,
    /// sub-byte integers take a byte each. `None` for strings.
    pub fn dtype(self) -> Option<DType> {
        Some(match self {
            Element::Bool => DType::Bool,
            Element::String => return None,
            Element::Float16 => DType::F16,
            Element::Float32 | Element::Float64 | Element::BFloat16 => DType::F32,
            Element::Int(..=8) => DType::I8,
            Element::UInt(..=8) => DType::U8,
            Element::Int(..=16) => DType::I16,
            Element::UInt(..=16) => DType::U16,
            Element::Int(_) | Element::UInt(_) => DType::I32,
        })
    }

    /// Width of one element in bits; 0 for strings.
    pub fn bits(self) -> usize {
        match self {
            Element::Bool => 8,
            Element::String => 0,
            Element::Float16 | Element::BFloat16 => 16,
            Element::Float32 => 32,
            Element::Float64 => 64,
            Element::Int(bits) | Element::UInt(bits) => bits as usize,
        }
    }
}

/// `count` elements of packed bytes, which must be enough. Wide integers saturate.
pub(super) fn plain(element: Element, bytes: &[u8], count: usize) -> Data {
    let bytes = &bytes[..(count * element.bits()).div_ceil(8)];
    let clamp = |v: i128| v.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    match element {
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
            Data::I32(bytes.as_chunks().0.iter().map(|&b| clamp(u32::from_le_bytes(b).into())).collect())
        }
        Element::Int(64) => {
            Data::I32(bytes.as_chunks().0.iter().map(|&b| clamp(i64::from_le_bytes(b).into())).collect())
        }
        Element::UInt(64) => {
            Data::I32(bytes.as_chunks().0.iter().map(|&b| clamp(u64::from_le_bytes(b).into())).collect())
        }
        Element::UInt(bits) => Data::U8(unpack(bytes, bits as usize, count)),
        Element::Int(bits) => {
            // The upper half of the field's range is negative.
            let shift = 8 - bits.min(8);
            Data::I8(unpack(bytes, bits as usize, count).into_iter().map(|v| ((v << shift) as i8) >> shift).collect())
        }
        Element::String => Data::U8(vec![]),
    }
}

/// Unpacks `count` fields of `bits` bits (1 to 8), the first at the lowest bit; there must be enough bytes.
pub fn unpack(bytes: &[u8], bits: usize, count: usize) -> Vec<u8> {
    match bits {
        1 => fields::<1>(bytes, count),
        2 => fields::<2>(bytes, count),
        3 => fields::<3>(bytes, count),
        4 => fields::<4>(bytes, count),
        5 => fields::<5>(bytes, count),
        6 => fields::<6>(bytes, count),
        7 => fields::<7>(bytes, count),
        _ => bytes[..count].to_vec(),
    }
}

/// Unpacks fields in groups of eight, which occupy as many bytes as a field has bits.
fn fields<const BITS: usize>(bytes: &[u8], count: usize) -> Vec<u8> {
    let of_group = |group: &[u8; BITS]| {
        let mut word = [0; 8];
        word[..BITS].copy_from_slice(group);
        let word = u64::from_le_bytes(word);
        std::array::from_fn::<u8, 8, _>(|i| (word >> (i * BITS)) as u8 & ((1 << BITS) - 1))
    };
    let mut values = vec![[0; 8]; count.div_ceil(8)];
    let (groups, rest) = bytes.as_chunks::<BITS>();
    values.iter_mut().zip(groups).for_each(|(to, group)| *to = of_group(group));
    if let Some(to) = values.get_mut(groups.len()) {
        let mut last = [0; BITS];
        last[..rest.len()].copy_from_slice(rest);
        *to = of_group(&last);
    }
    let mut values = values.into_flattened();
    values.truncate(count);
    values
}

/// Packs bytes into fields of `bits` bits (1 to 8), the first at the lowest bit: the inverse of [`unpack`].
pub fn pack(values: &[u8], bits: usize) -> Vec<u8> {
    match bits {
        1 => bytes_of::<1>(values),
        2 => bytes_of::<2>(values),
        3 => bytes_of::<3>(values),
        4 => bytes_of::<4>(values),
        5 => bytes_of::<5>(values),
        6 => bytes_of::<6>(values),
        7 => bytes_of::<7>(values),
        _ => values.to_vec(),
    }
}

fn bytes_of<const BITS: usize>(values: &[u8]) -> Vec<u8> {
    let of_group = |group: &[u8; 8]| {
        let fields = group.iter().enumerate();
        let word = fields.fold(0, |word, (i, &v)| word | u64::from(v & ((1 << BITS) - 1)) << (i * BITS));
        std::array::from_fn::<u8, BITS, _>(|i| word.to_le_bytes()[i])
    };
    let (groups, rest) = values.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut bytes = vec![[0; BITS]; values.len().div_ceil(8)];
    bytes.iter_mut().zip(groups.iter().chain([&last])).for_each(|(to, group)| *to = of_group(group));
    let mut bytes = bytes.into_flattened();
    bytes.truncate((values.len() * BITS).div_ceil(8));
    bytes
}

/// Elements as little-endian bytes, packed if the element is narrower than a byte. Values outside the element's range
/// are truncated to its bits.
pub fn to_bytes(data: &Data, element: Element) -> Vec<u8> {
    if let Data::Stored(stored) = data
        && let Form::Plain { element: own, bytes } = stored.form()
        && *own == element
    {
        return bytes[..(stored.count() * element.bits()).div_ceil(8)].to_vec();
    }
    let ints = || data.to_i32();
    match element {
        Element::Bool => ints().iter().map(|&v| u8::from(v != 0)).collect(),
        Element::Float16 => match &*data.dense() {
            Data::F16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            other => other.to_f32().iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        },
        Element::Float32 => data.to_f32().iter().flat_map(|x| x.to_le_bytes()).collect(),
        Element::Float64 => data.to_f32().iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect(),
        Element::BFloat16 => data.to_f32().iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
        Element::Int(16) | Element::UInt(16) => ints().iter().flat_map(|&v| (v as u16).to_le_bytes()).collect(),
        Element::Int(32) | Element::UInt(32) => ints().iter().flat_map(|v| v.to_le_bytes()).collect(),
        Element::Int(64) | Element::UInt(64) => ints().iter().flat_map(|&v| i64::from(v).to_le_bytes()).collect(),
        Element::Int(bits) | Element::UInt(bits) => {
            let bytes: Vec<u8> = ints().iter().map(|&v| v as u8).collect();
            if bits >= 8 { bytes } else { pack(&bytes, bits as usize) }
        }
        Element::String => vec![],
    }
}
