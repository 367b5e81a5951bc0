//! Arrays in and out.

use anemone::Array;
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// Whatever numpy makes an array of fp32 of.
pub fn taken(value: &Bound<'_, PyAny>) -> PyResult<Array> {
    let numpy = value.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (value, "float32"))?;
    // A single number stays one of no extents: the function above gives it one.
    let shape: Vec<usize> = numpy.call_method1("shape", (value,))?.extract()?;
    let array: PyReadonlyArrayDyn<'_, f32> = array.extract()?;
    debug_assert!(array.len() == shape.iter().product::<usize>());
    Ok(Array { shape, data: array.as_slice()?.to_vec() })
}

/// An array of fp32.
pub fn given(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyArrayDyn<f32>>> {
    PyArray1::from_vec(py, array.data).reshape(array.shape)
}
