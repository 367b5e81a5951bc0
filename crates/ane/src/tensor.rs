//! Arrays in and out: `.npy` and `.npz` files as fp32 elements with extents.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use half::f16;
use npyz::npz::NpzArchive;
use npyz::{NpyFile, WriterBuilder};
use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::path::Path;

/// Extents and elements, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Vec<f32>,
}

impl Array {
    /// Whether its elements lie as those of `extents`: the same extents, or axes split, joined, added or left out, but
    /// not exchanged.
    pub fn lies_as(&self, extents: &[usize]) -> bool {
        let bounds = |shape: &[usize]| -> BTreeSet<usize> {
            let products = shape.iter().scan(1usize, |all, &n| {
                *all = all.saturating_mul(n);
                Some(*all)
            });
            products.chain([1]).collect()
        };
        let (own, other) = (bounds(&self.shape), bounds(extents));
        own.last() == other.last() && (own.is_subset(&other) || other.is_subset(&own))
    }
}

/// Reads a `.npy` file; any real element type.
pub fn read_npy(path: &Path) -> Result<Array> {
    let bytes = files::read(path)?;
    parse_npy(&bytes).map_err(|message| bad(path, message))
}

/// Reads every array of a `.npz` file, by name.
pub fn read_npz(path: &Path) -> Result<Vec<(String, Array)>> {
    let bytes = files::read(path)?;
    let fail = |e: std::io::Error| bad(path, format!("not a .npz file: {e}"));
    let mut archive = NpzArchive::new(Cursor::new(bytes)).map_err(fail)?;
    let names: Vec<String> = archive.array_names().map(str::to_string).collect();
    let mut arrays = Vec::new();
    for name in names {
        let entry = archive.zip_archive().by_name(&format!("{name}.npy"));
        let entry = entry.map_err(|e| bad(path, format!("array {name}: {e}")))?;
        let mut bytes = Vec::new();
        entry.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| bad(path, format!("array {name}: {e}")))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(bad(path, format!("array {name} has more than {MAX_BYTES} bytes")));
        }
        let array = parse_npy(&bytes).map_err(|message| bad(path, format!("array {name}: {message}")))?;
        arrays.push((name, array));
    }
    Ok(arrays)
}

fn bad(path: &Path, message: String) -> Diagnostic {
    Diagnostic::new(Code::BadTensor, message).at(path.display()).help("write it with numpy.save, in C order")
}

/// Most bytes unpacked from one entry of a `.npz` file.
const MAX_BYTES: u64 = 1 << 32;
/// First bytes of a `.npy` file.
const NPY_MAGIC: &[u8] = b"\x93NUMPY";
/// Deepest nesting of brackets in a header; headers of plain arrays have two.
const MAX_NESTING: usize = 16;

fn parse_npy(bytes: &[u8]) -> std::result::Result<Array, String> {
    if !bytes.starts_with(NPY_MAGIC) {
        let found = bytes.get(..NPY_MAGIC.len()).unwrap_or(bytes);
        return Err(format!("not a .npy file: begins with {found:02x?}, expected {NPY_MAGIC:02x?}"));
    }
    check_header(bytes)?;
    convert(NpyFile::new(bytes).map_err(|e| format!("not a .npy file: {e}"))?)
}

/// Refuses headers that are cut short, and nesting that the header's parser would follow without end.
fn check_header(bytes: &[u8]) -> std::result::Result<(), String> {
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0) as usize;
    let (start, length) = match at(6) {
        1 => (10, at(8) | at(9) << 8),
        _ => (12, at(8) | at(9) << 8 | at(10) << 16 | at(11) << 24),
    };
    let Some(header) = bytes.get(start..start + length) else {
        return Err(format!(
            "cut short: the header needs bytes {start}..{}, the file has {}",
            start + length,
            bytes.len()
        ));
    };
    let mut depth = 0usize;
    for &b in header {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(format!("not a .npy file: its header is nested more than {MAX_NESTING} deep"));
        }
    }
    Ok(())
}

fn convert(file: NpyFile<&[u8]>) -> std::result::Result<Array, String> {
    use npyz::{DType, TypeChar};
    let DType::Plain(ty) = file.dtype() else { return Err("the array has a structured element type".into()) };
    let (size, text) = (ty.size_field(), ty.to_string());
    let extents = file.shape().to_vec();
    let elements = extents.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
    let Some(elements) = elements.filter(|&n| n <= MAX_BYTES) else {
        return Err(format!("the array's extents are {extents:?}: more elements than any file has"));
    };
    if file.order() != npyz::Order::C && extents.iter().filter(|&&n| n > 1).count() > 1 {
        return Err(format!("the array {extents:?} is in Fortran order"));
    }
    let short = format!("cut short: {elements} elements of {text} {extents:?} are more than the file has");
    let fail = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => short.clone(),
        _ => e.to_string(),
    };
    let data: Vec<f32> = match (ty.type_char(), size) {
        (TypeChar::Float, 2) => file.into_vec::<f16>().map_err(fail)?.iter().map(|x| x.to_f32()).collect(),
        (TypeChar::Float, 4) => file.into_vec::<f32>().map_err(fail)?,
        (TypeChar::Float, 8) => file.into_vec::<f64>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 1) => file.into_vec::<i8>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 2) => file.into_vec::<i16>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 4) => file.into_vec::<i32>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 8) => file.into_vec::<i64>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Uint, 1) => file.into_vec::<u8>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Uint, 2) => file.into_vec::<u16>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Uint, 4) => file.into_vec::<u32>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Uint, 8) => file.into_vec::<u64>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Bool, 1) => file.into_vec::<bool>().map_err(fail)?.iter().map(|&x| f32::from(x)).collect(),
        _ => {
            return Err(format!(
                "the array has element type {text}; read are floats, integers and bool of up to 8 bytes"
            ));
        }
    };
    let shape: Vec<usize> = extents.iter().map(|&n| n as usize).collect();
    if data.len() as u64 != elements {
        return Err(format!("the array has {} elements, its extents {shape:?} say {elements}", data.len()));
    }
    Ok(Array { shape, data })
}

/// The bytes of a `.npy` file with fp32 elements.
pub fn npy_bytes(array: &Array) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let shape: Vec<u64> = array.shape.iter().map(|&n| n as u64).collect();
    let fail = |e: std::io::Error| Diagnostic::new(Code::Defect, format!("cannot encode an array: {e}"));
    let mut writer =
        npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut bytes).begin_nd().map_err(fail)?;
    writer.extend(array.data.iter().copied()).map_err(fail)?;
    writer.finish().map_err(fail)?;
    Ok(bytes)
}

/// Largest difference between what was computed and what was expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Largest absolute difference; infinite when one side is not a number and the other is.
    pub max_abs: f32,
    /// Where it is.
    pub at: usize,
    /// First element beyond the tolerance.
    pub first_bad: Option<usize>,
    /// Elements beyond the tolerance.
    pub bad: usize,
}

/// Compares element by element: good where `|got - wanted| <= atol + rtol * |wanted|`.
pub fn compare(got: &[f32], wanted: &[f32], atol: f32, rtol: f32) -> Difference {
    let mut result = Difference { max_abs: 0.0, at: 0, first_bad: None, bad: 0 };
    for (i, (&g, &w)) in got.iter().zip(wanted).enumerate() {
        let same = g == w || (g.is_nan() && w.is_nan());
        let difference = match (same, (g - w).abs()) {
            (true, _) => 0.0,
            (false, d) if d.is_nan() => f32::INFINITY,
            (false, d) => d,
        };
        if difference > result.max_abs {
            (result.max_abs, result.at) = (difference, i);
        }
        // An infinite expectation admits only itself.
        let admitted = if w.is_finite() { atol + rtol * w.abs() } else { 0.0 };
        if difference > admitted {
            result.first_bad.get_or_insert(i);
            result.bad += 1;
        }
    }
    result
}

/// How two tensors agree as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Root of the mean squared difference.
    pub rms: f32,
    /// Root of the mean squared expectation.
    pub wanted_rms: f32,
    /// Cosine of the angle between them; 1 where both are zeros.
    pub cosine: f64,
    /// Whether the largest element is the same.
    pub top1: bool,
}

/// Agreement of two tensors of one length; elements that are not finite on either side are left out.
pub fn agreement(got: &[f32], wanted: &[f32]) -> Agreement {
    let (mut squares, mut product, mut own, mut theirs, mut count) = (0f64, 0f64, 0f64, 0f64, 0usize);
    for (&g, &w) in got.iter().zip(wanted).filter(|(g, w)| g.is_finite() && w.is_finite()) {
        let (g, w) = (f64::from(g), f64::from(w));
        squares += (g - w) * (g - w);
        product += g * w;
        own += g * g;
        theirs += w * w;
        count += 1;
    }
    let mean = |sum: f64| (sum / count.max(1) as f64).sqrt() as f32;
    let largest = |data: &[f32]| data.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at);
    let norm = (own * theirs).sqrt();
    let cosine = if own == theirs && norm == 0.0 { 1.0 } else { product / norm.max(f64::MIN_POSITIVE) };
    Agreement { rms: mean(squares), wanted_rms: mean(theirs), cosine, top1: largest(got) == largest(wanted) }
}

/// Uniform in -1..1; SplitMix64, so the same seed gives the same input everywhere.
pub fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            (z >> 40) as f32 / (1u32 << 23) as f32 - 1.0
        })
        .collect()
}
