//! Arrays: elements with extents, owned or borrowed; `.npy` and `.npz` files.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use anemone_net::DType;
use anemone_net::read::npy::{self, Npy};
use half::f16;
use rawzip::{CompressionMethod, ZipArchive};
use std::collections::BTreeSet;
use std::io::Read;
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
    /// As [`View::lies_as`].
    pub fn lies_as(&self, extents: &[usize]) -> bool {
        self.view().lies_as(extents)
    }

    /// A borrowed view.
    pub fn view(&self) -> View<'_> {
        View { shape: &self.shape, elements: Elements::F32(&self.data) }
    }
}

/// Refuses an input with elements that its type does not represent: integers out of the range of their type, truth values other
/// than 0 and 1. Floats are not restricted.
///
/// # Errors
///
/// [`Code::BadTensor`] with the first such element, its position and the range.
pub fn fits(name: &str, dtype: DType, data: &[f32]) -> Result<()> {
    let (least, most) = match (dtype.is_float(), dtype.narrow_range()) {
        (true, _) => return Ok(()),
        (_, Some((least, most))) => (least as f32, most as f32),
        _ if dtype == DType::Bool => (0.0, 1.0),
        _ => (i32::MIN as f32, i32::MAX as f32),
    };
    let outside = |x: &f32| !(least..=most).contains(x) || x.fract() != 0.0;
    let Some(at) = data.iter().position(outside) else { return Ok(()) };
    let message = format!(
        "input {name} is {dtype}: element {at} is {}, allowed are whole numbers from {least} to {most}",
        data[at]
    );
    Err(Diagnostic::new(Code::BadTensor, message).help("convert the array, or give the model an input of floats"))
}

/// Borrowed arrays by name.
pub fn views(arrays: &[(String, Array)]) -> Vec<(&str, View<'_>)> {
    arrays.iter().map(|(name, array)| (name.as_str(), array.view())).collect()
}

/// Elements of a caller, in their original type.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// In fp32.
    F32(&'a [f32]),
    /// In fp16.
    F16(&'a [f16]),
}

/// A borrowed, row-major array of a caller; it is copied only where it is used.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Extents, outermost first.
    pub shape: &'a [usize],
    /// Elements.
    pub elements: Elements<'a>,
}

impl View<'_> {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        match self.elements {
            Elements::F32(data) => data.len(),
            Elements::F16(data) => data.len(),
        }
    }

    /// An owned copy, in fp32.
    pub fn to_array(&self) -> Array {
        let data = match self.elements {
            Elements::F32(data) => data.to_vec(),
            Elements::F16(data) => data.iter().map(|x| x.to_f32()).collect(),
        };
        Array { shape: self.shape.to_vec(), data }
    }

    /// Returns true if the shape `extents` keeps the row-major order of the elements: equal extents, axes split or merged,
    /// or axes of extent 1 added or removed.
    pub fn lies_as(&self, extents: &[usize]) -> bool {
        let bounds = |shape: &[usize]| -> BTreeSet<usize> {
            let products = shape.iter().scan(1usize, |all, &n| {
                *all = all.saturating_mul(n);
                Some(*all)
            });
            products.chain([1]).collect()
        };
        let (own, other) = (bounds(self.shape), bounds(extents));
        own.last() == other.last() && (own.is_subset(&other) || other.is_subset(&own))
    }
}

/// Reads a `.npy` file; any real element type.
pub fn read_npy(path: &Path) -> Result<Array> {
    let bytes = files::read(path)?;
    parse_npy(&bytes).map_err(|message| bad(path, &bytes, message))
}

/// Shape of the array in a `.npy` file; `None` if it is no such file.
pub fn npy_shape(path: &Path) -> Option<Vec<usize>> {
    let bytes = path.is_file().then(|| files::mapped(path).ok()).flatten()?;
    Npy::read(&bytes).ok().map(|array| array.shape)
}

/// Reads every array of a `.npz` file, by name.
pub fn read_npz(path: &Path) -> Result<Vec<(String, Array)>> {
    let bytes = files::read(path)?;
    parse_npz(&bytes).map_err(|message| bad(path, &bytes, message))
}

fn bad(path: &Path, bytes: &[u8], message: String) -> Diagnostic {
    let at = path.display();
    let (message, help) = match bytes {
        [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] => (
            "an image, not an array".into(),
            format!(
                "with Pillow: numpy.save(\"x.npy\", numpy.asarray(Image.open(\"{at}\").convert(\"RGB\").resize((WIDTH, HEIGHT)), \
                 \"float32\").transpose(2, 0, 1)[None]), after the scaling that the model was trained with"
            ),
        ),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => (
            "a sound, not an array".into(),
            format!(
                "with SciPy: numpy.save(\"x.npy\", scipy.io.wavfile.read(\"{at}\")[1][None] / numpy.float32(32768))"
            ),
        ),
        _ => (message, "write it with numpy.save".into()),
    };
    Diagnostic::new(Code::BadTensor, message).at(at).help(help)
}

/// Largest size of an unpacked entry of a `.npz` file in bytes.
const MAX_BYTES: u64 = 1 << 32;

/// Arrays of a `.npz` file in memory, by name.
pub fn parse_npz(bytes: &[u8]) -> std::result::Result<Vec<(String, Array)>, String> {
    let fail = |e: rawzip::Error| format!("not a .npz file: {e}");
    let archive = ZipArchive::from_slice(bytes).map_err(fail)?;
    let mut arrays = Vec::new();
    for entry in archive.entries() {
        let entry = entry.map_err(fail)?;
        let file = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
        let Some(name) = file.strip_suffix(".npy") else { continue };
        let array = unpack(&archive, &entry).and_then(|bytes| parse_npy(&bytes));
        arrays.push((name.to_string(), array.map_err(|message| format!("array {name}: {message}"))?));
    }
    Ok(arrays)
}

/// The bytes of an entry, with the length and checksum of the archive's directory.
fn unpack(
    archive: &rawzip::ZipSliceArchive<&[u8]>,
    entry: &rawzip::ZipFileHeaderRecord,
) -> std::result::Result<Vec<u8>, String> {
    if entry.flags().is_encrypted() {
        return Err("it is encrypted; write it without a password".into());
    }
    let packed = archive.get_entry(entry.wayfinder()).map_err(|e| e.to_string())?;
    let data: Box<dyn Read> = match entry.compression_method() {
        CompressionMethod::STORE => Box::new(packed.data()),
        CompressionMethod::DEFLATE => Box::new(flate2::read::DeflateDecoder::new(packed.data())),
        other => {
            return Err(format!(
                "it is compressed by {other}; supported are store and deflate, which numpy.savez writes"
            ));
        }
    };
    let mut bytes = Vec::new();
    let read = packed.verifying_reader(data.take(MAX_BYTES + 1)).read_to_end(&mut bytes);
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    read.map_err(|e| e.to_string())?;
    Ok(bytes)
}

fn parse_npy(bytes: &[u8]) -> std::result::Result<Array, String> {
    let array = Npy::read(bytes)?;
    Ok(Array { data: array.to_f32(), shape: array.shape })
}

/// The bytes of a `.npy` file with fp32 elements.
pub fn npy_bytes(array: &Array) -> Vec<u8> {
    npy::write(&array.shape, &array.data)
}

/// The bytes of a `.npy` file with elements of a type; fp32 if one of them is not representable in an integer type.
pub fn npy_bytes_as(array: &Array, dtype: DType) -> Vec<u8> {
    npy::write_as(&array.shape, &array.data, dtype)
}

/// Largest difference between computed and expected elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Largest absolute difference; infinite if only one side is NaN.
    pub max_abs: f32,
    /// Flat index of it.
    pub at: usize,
    /// First element beyond the tolerance.
    pub first_bad: Option<usize>,
    /// Number of elements beyond the tolerance.
    pub bad: usize,
}

/// Compares element by element, with the tolerance `|got - wanted| <= atol + rtol * |wanted|`.
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
        // An infinite expected element matches only itself.
        let admitted = if w.is_finite() { atol + rtol * w.abs() } else { 0.0 };
        if difference > admitted {
            result.first_bad.get_or_insert(i);
            result.bad += 1;
        }
    }
    result
}

/// Agreement metrics of two tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Root mean square difference.
    pub rms: f32,
    /// Root mean square of the expected elements.
    pub wanted_rms: f32,
    /// Cosine similarity; 1 if both are zeros.
    pub cosine: f64,
    /// True if the largest elements have the same index.
    pub top1: bool,
}

impl Agreement {
    /// RMS error relative to the RMS of the expected elements; 0 if both are zeros.
    pub fn relative(&self) -> f32 {
        if self.rms == 0.0 { 0.0 } else { self.rms / self.wanted_rms.max(f32::MIN_POSITIVE) }
    }

    /// Signal-to-noise ratio in decibels; infinite if all elements are equal.
    pub fn snr_db(&self) -> f32 {
        -20.0 * self.relative().log10()
    }
}

/// Agreement of two tensors of equal length; elements that are not finite on either side are ignored.
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

/// Uniform in -1..1; SplitMix64, so that a seed gives the same input on every system.
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

/// Random elements of a type from a seed: floats from -1 to 1, integers from 0 to 3, which are likely to be valid indices, and truth
/// values.
pub fn random_as(dtype: DType, seed: u64, count: usize) -> Vec<f32> {
    let mut values = random(seed, count);
    match dtype {
        DType::Bool => values.iter_mut().for_each(|x| *x = f32::from(u8::from(*x > 0.0))),
        _ if dtype.is_float() => {}
        _ => values.iter_mut().for_each(|x| *x = (x.abs() * 4.0).floor()),
    }
    values
}
