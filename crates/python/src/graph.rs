//! Networks built layer by layer.

use crate::arrays;
use crate::error::{apart, raised};
use crate::program::Program;
use anemone::graph::Operand;
use anemone::reference;
use anemone_compile::Options;
use anemone_net::native::Raw;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::path::Path;

/// A value of a graph.
#[pyclass(frozen, module = "anemone", from_py_object)]
#[derive(Clone)]
pub struct Tensor(Operand);

#[pymethods]
impl Tensor {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Its extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.shape)
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Tensor {} {:?}>", self.0.name, self.0.shape)
    }
}

/// A network authored layer by layer; operands are [N, C, H, W] in fp16.
///
/// >>> graph = anemone.Graph("best")
/// >>> x = graph.input("x", (1, 2, 1, 20))
/// >>> top = graph.native("TopK", [x], name="top", Type="Max", K=5, SortDimension="Width")
/// >>> graph.output(top)
/// >>> graph.compile("m1").run(np.arange(40.0))["top"][0, 0, 0].tolist()
/// [19.0, 18.0, 17.0, 16.0, 15.0]
#[pyclass(module = "anemone")]
pub struct Graph {
    graph: anemone::Graph,
    /// Number of unnamed layers.
    unnamed: usize,
}

#[pymethods]
impl Graph {
    #[new]
    #[pyo3(signature = (name="graph"))]
    fn new(name: &str) -> Graph {
        Graph { graph: anemone::Graph::new(name), unnamed: 0 }
    }

    /// An input of four extents. Raises `BadInput` for another number of them, and for a name that is taken.
    fn input(&mut self, py: Python<'_>, name: &str, shape: Vec<usize>) -> PyResult<Tensor> {
        self.graph.input(name, &shape).map(Tensor).map_err(|d| raised(py, d))
    }

    /// A constant of four extents; a single number needs none. Raises `BadInput` for what holds no numbers.
    fn constant(&mut self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let array = arrays::taken(value, &format!("constant {name}"))?;
        self.graph.constant(name, &array).map(Tensor).map_err(|d| raised(py, d))
    }

    /// A native layer by its `Type`, with its parameters by their keys: `native("SDPA", [q, k, v, scale], SubtractMax=True)`.
    ///
    /// Returns the layer's result. Raises `BadInput` for another kind, key or value, with the validator that refuses it.
    #[pyo3(signature = (kind, operands, *, name=None, **params))]
    fn native(
        &mut self,
        py: Python<'_>,
        kind: &str,
        operands: Vec<Tensor>,
        name: Option<String>,
        params: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Tensor> {
        let name = name.unwrap_or_else(|| {
            self.unnamed += 1;
            format!("{}_{}", kind.to_ascii_lowercase(), self.unnamed)
        });
        let mut given: Vec<(String, Raw)> = Vec::new();
        for (key, value) in params.into_iter().flatten() {
            given.push((key.extract()?, raw(&value, 0)?));
        }
        let operands: Vec<Operand> = operands.into_iter().map(|t| t.0).collect();
        self.graph.native(&name, kind, &operands, &given).map(Tensor).map_err(|d| raised(py, d))
    }

    /// Makes a value an output.
    fn output(&mut self, py: Python<'_>, tensor: Tensor) -> PyResult<()> {
        self.graph.output(&tensor.0).map_err(|d| raised(py, d))
    }

    /// Compiles for a chip. Raises `Refused` with the layer's output and the chip, `BadInput` for a name that no chip has.
    #[pyo3(signature = (chip="m1"))]
    fn compile(&self, py: Python<'_>, chip: &str) -> PyResult<Program> {
        let chip = reference::chip(chip).map_err(|d| raised(py, d))?;
        let model = self.graph.model().map_err(|d| raised(py, d))?;
        let compiled = apart(py, move || model.executable(Path::new(""), chip, &Options::default(), true))?;
        let stem = compiled.chain.name().to_string();
        Ok(Program::new(compiled, chip, stem, None, None))
    }
}

/// Largest nesting of a parameter: lists of dictionaries of values.
const DEEPEST: usize = 2;

/// A parameter in the form of a file; a float is a half-precision number itself.
fn raw(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Raw> {
    // True and False are integers too.
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Raw::Flag(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract().map_or_else(|_| Raw::Other(format!("the integer {value}")), Raw::Integer));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Raw::Half(number.value() as f32));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Raw::Text(value.extract()?));
    }
    if depth > DEEPEST {
        return Ok(Raw::Other("a value nested in lists of lists".into()));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let entries = dict.iter().map(|(key, value)| Ok((key.extract()?, raw(&value, depth + 1)?)));
        return Ok(Raw::Table(entries.collect::<PyResult<_>>()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return Ok(Raw::List(value.try_iter()?.map(|item| raw(&item?, depth + 1)).collect::<PyResult<_>>()?));
    }
    Ok(Raw::Other(format!("a {}", value.get_type().name()?)))
}
