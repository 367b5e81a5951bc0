//! Arrays in and out: `.npy` and `.npz` files as fp32 elements with extents.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use half::f16;
use npyz::{NpyFile, WriterBuilder};
use std::path::Path;

/// Extents and elements, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Vec<f32>,
}

/// Reads a `.npy` file; any real element type.
pub fn read_npy(path: &Path) -> Result<Array> {
    let bytes = files::read(path)?;
    parse_npy(&bytes).map_err(|message| {
        Diagnostic::new(Code::BadTensor, message).at(path.display()).help("write it with numpy.save, in C order")
    })
}

/// Reads every array of a `.npz` file, by name.
pub fn read_npz(path: &Path) -> Result<Vec<(String, Array)>> {
    let fail = |message: String| Diagnostic::new(Code::BadTensor, message).at(path.display());
    let mut archive = npyz::npz::NpzArchive::open(path).map_err(|e| fail(e.to_string()))?;
    let names: Vec<String> = archive.array_names().map(str::to_string).collect();
    let mut arrays = Vec::new();
    for name in names {
        let Some(file) = archive.by_name(&name).map_err(|e| fail(e.to_string()))? else { continue };
        arrays.push((name, convert(file).map_err(fail)?));
    }
    Ok(arrays)
}

fn parse_npy(bytes: &[u8]) -> std::result::Result<Array, String> {
    convert(NpyFile::new(bytes).map_err(|e| format!("not a .npy file: {e}"))?)
}

fn convert<R: std::io::Read>(file: NpyFile<R>) -> std::result::Result<Array, String> {
    use npyz::{DType, TypeChar};
    if file.order() != npyz::Order::C {
        return Err("the array is in Fortran order".into());
    }
    let shape: Vec<usize> = file.shape().iter().map(|&n| n as usize).collect();
    let DType::Plain(ty) = file.dtype() else { return Err("the array has a structured element type".into()) };
    let size = ty.size_field();
    let text = ty.to_string();
    let fail = |e: std::io::Error| format!("the array is cut short: {e}");
    let data: Vec<f32> = match (ty.type_char(), size) {
        (TypeChar::Float, 2) => file.into_vec::<f16>().map_err(fail)?.iter().map(|x| x.to_f32()).collect(),
        (TypeChar::Float, 4) => file.into_vec::<f32>().map_err(fail)?,
        (TypeChar::Float, 8) => file.into_vec::<f64>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 1) => file.into_vec::<i8>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 2) => file.into_vec::<i16>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 4) => file.into_vec::<i32>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Int, 8) => file.into_vec::<i64>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Uint, 1) => file.into_vec::<u8>().map_err(fail)?.iter().map(|&x| x as f32).collect(),
        (TypeChar::Bool, 1) => file.into_vec::<bool>().map_err(fail)?.iter().map(|&x| f32::from(x)).collect(),
        _ => return Err(format!("the array has element type {text}; numbers of 1 to 8 bytes are read")),
    };
    if data.len() != shape.iter().product::<usize>() {
        return Err(format!("the array has {} elements, its extents {shape:?} say {}", data.len(), shape.iter().product::<usize>()));
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
