//! Arrays in and out.

use anemone::Array;
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Any object that numpy converts to an array of fp32.
pub fn taken(value: &Bound<'_, PyAny>) -> PyResult<Array> {
    let numpy = value.py().import("numpy")?;
    let value = &known_to_numpy(&numpy, value)?;
    let array = numpy.call_method1("ascontiguousarray", (value, "float32"))?;
    // A single number stays one of no extents: the function above gives it one.
    let shape: Vec<usize> = numpy.call_method1("shape", (value,))?.extract()?;
    let array: PyReadonlyArrayDyn<'_, f32> = array.extract()?;
    debug_assert!(array.len() == shape.iter().product::<usize>());
    Ok(Array { shape, data: array.as_slice()?.to_vec() })
}

/// Arrays by name.
pub fn by_name(inputs: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Array)>> {
    inputs.iter().map(|(name, value)| Ok((name.extract()?, taken(&value)?))).collect()
}

/// Arrays of other libraries by DLPack; bfloat16, which numpy does not have, as fp32 of the same values.
fn known_to_numpy<'py>(numpy: &Bound<'py, PyModule>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value.is_instance(&numpy.getattr("ndarray")?)? || !value.hasattr("__dlpack__")? {
        return Ok(value.clone());
    }
    let bfloat16 = value.getattr("dtype").is_ok_and(|dtype| dtype.to_string().ends_with("bfloat16"));
    let value = if bfloat16 && value.hasattr("float")? { value.call_method0("float")? } else { value.clone() };
    let value = if value.hasattr("detach")? { value.call_method0("detach")? } else { value };
    numpy.call_method1("from_dlpack", (value,))
}

/// An array of fp32.
pub fn given(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyArrayDyn<f32>>> {
    PyArray1::from_vec(py, array.data).reshape(array.shape)
}
