//! Conversion of arrays.

use crate::error::raised;
use anemone::tensor::{Elements, View};
use anemone::{Array, Code, Diagnostic};
use half::f16;
use numpy::{Element, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An array of the caller, borrowed while its elements are read in place; a copy if type or order differ.
pub struct Held<'py> {
    shape: Vec<usize>,
    elements: Kind<'py>,
    /// Original element type.
    pub given: String,
}

enum Kind<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F16(PyReadonlyArrayDyn<'py, f16>),
}

impl Held<'_> {
    /// The elements in place.
    pub fn view(&self) -> PyResult<View<'_>> {
        let elements = match &self.elements {
            Kind::F32(array) => Elements::F32(array.as_slice()?),
            Kind::F16(array) => Elements::F16(array.as_slice()?),
        };
        Ok(View { shape: &self.shape, elements })
    }
}

/// Borrows any object that numpy reads: by DLPack, by the buffer protocol, from lists of numbers. `what` names it in errors.
pub fn held<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Held<'py>> {
    let py = value.py();
    if let Some(held) = as_it_is(value) {
        return Ok(held);
    }
    read(value).map_err(|error| {
        // An interrupt is not a refusal.
        if !error.is_instance_of::<PyException>(py) {
            return error;
        }
        let kind = value.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        let message = format!("{what}: numbers are expected, found {kind}: {}", error.value(py));
        let help = "arrays of real numbers in the memory of the processor, by DLPack, the buffer protocol or as lists";
        let refusal = raised(py, Diagnostic::new(Code::BadTensor, message).help(help));
        refusal.set_cause(py, Some(error));
        refusal
    })
}

/// A NumPy array that needs no conversion, which is the common case.
fn as_it_is<'py>(value: &Bound<'py, PyAny>) -> Option<Held<'py>> {
    fn own<'py, T: Element>(value: &Bound<'py, PyAny>) -> Option<PyReadonlyArrayDyn<'py, T>> {
        let array: PyReadonlyArrayDyn<'py, T> = value.extract().ok()?;
        (array.is_c_contiguous() && array.as_slice().is_ok()).then_some(array)
    }
    if let Some(array) = own::<f32>(value) {
        return Some(Held { shape: array.shape().to_vec(), elements: Kind::F32(array), given: "float32".into() });
    }
    let array = own::<f16>(value)?;
    Some(Held { shape: array.shape().to_vec(), elements: Kind::F16(array), given: "float16".into() })
}

fn read<'py>(value: &Bound<'py, PyAny>) -> PyResult<Held<'py>> {
    let numpy = value.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (known_to_numpy(&numpy, value)?,))?;
    let dtype = array.getattr("dtype")?;
    let own = value.getattr("dtype").ok().map(|dtype| dtype.to_string());
    let given = own.map_or_else(|| dtype.to_string(), |own| own.rsplit('.').next().unwrap_or(&own).to_string());
    let kind: String = dtype.getattr("kind")?.extract()?;
    // Types registered by other packages, such as bfloat16, are of kind V, like structures.
    let registered = kind == "V" && dtype.getattr("names")?.is_none() && !dtype.to_string().starts_with('|');
    if !matches!(kind.as_str(), "b" | "i" | "u" | "f") && !registered {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!("elements of {dtype}")));
    }
    let half = dtype.eq("float16")?;
    let wanted = if half { "float16" } else { "float32" };
    // Row-major, aligned, of the base class: the array itself if it has these properties.
    let array = numpy.call_method1("require", (array, wanted, ["C", "A", "E"]))?;
    let shape = array.getattr("shape")?.extract()?;
    let elements = match half {
        true => Kind::F16(array.extract()?),
        false => Kind::F32(array.extract()?),
    };
    Ok(Held { shape, elements, given })
}

/// A copy in fp32.
pub fn taken(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Array> {
    Ok(held(value, what)?.view()?.to_array())
}

/// Arrays by name.
pub fn by_name<'py>(inputs: &Bound<'py, PyDict>) -> PyResult<Vec<(String, Held<'py>)>> {
    let each = |(name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>)| {
        let name: String = name.extract()?;
        let held = held(&value, &format!("input {name}"))?;
        Ok((name, held))
    };
    inputs.iter().map(each).collect()
}

/// Arrays of other libraries by DLPack; bfloat16, which numpy lacks, is converted to fp32 exactly.
fn known_to_numpy<'py>(numpy: &Bound<'py, PyModule>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value.is_instance(&numpy.getattr("ndarray")?)? || !value.hasattr("__dlpack__")? {
        return Ok(value.clone());
    }
    let bfloat16 = value.getattr("dtype").is_ok_and(|dtype| dtype.to_string().ends_with("bfloat16"));
    let value = if bfloat16 && value.hasattr("float")? { value.call_method0("float")? } else { value.clone() };
    // Other bfloat16 objects can convert themselves to an array of a type that their package registers.
    if bfloat16 && value.hasattr("__array__")? {
        return Ok(value);
    }
    let value = if value.hasattr("detach")? { value.call_method0("detach")? } else { value };
    numpy.call_method1("from_dlpack", (value,))
}

/// An array of fp32.
pub fn given(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyArrayDyn<f32>>> {
    PyArray1::from_vec(py, array.data).reshape(array.shape)
}
