//! Compiled programs.

use crate::arrays;
use crate::error::{apart, raised};
use anemone::{Array, Code, Diagnostic, Executable, Form};
use anemone_compile::Options;
use anemone_facts::chips::Chip;
use anemone_program::Direction;
use numpy::PyArrayDyn;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::CString;
use std::path::PathBuf;

/// A compiled program, with the software engine to run it.
#[pyclass(frozen, module = "anemone")]
pub struct Program {
    compiled: Executable,
    chip: &'static Chip,
    /// What its files are named after.
    stem: String,
}

impl Program {
    pub fn new(compiled: Executable, chip: &'static Chip, stem: String) -> Program {
        Program { compiled, chip, stem }
    }

    /// Names with extents.
    fn ends<'py>(&self, py: Python<'py>, direction: Direction) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, shape) in self.compiled.ends(direction) {
            dict.set_item(name, PyTuple::new(py, shape)?)?;
        }
        Ok(dict)
    }
}

#[pymethods]
impl Program {
    /// Compiler target of the chip.
    #[getter]
    fn chip(&self) -> &'static str {
        self.chip.target
    }

    /// Extents of the inputs by name.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.ends(py, Direction::Input)
    }

    /// Extents of the outputs by name.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.ends(py, Direction::Output)
    }

    /// Executes the program's words on the software engine: arrays by name in, arrays by name out. Doubts about the numbers
    /// (values beyond fp16, NaN, inexact integers) are warnings of category `RuntimeWarning`. One array without a name is the program's only input; states are none.
    #[pyo3(signature = (only=None, **inputs))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        only: Option<&Bound<'py, PyAny>>,
        inputs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut arrays: Vec<(String, Array)> = Vec::new();
        if let Some(only) = only {
            let known = self.compiled.real_inputs();
            let [name] = known.as_slice() else {
                let message =
                    format!("an array without a name needs a program with one input, this has {}", known.len());
                return Err(raised(py, Diagnostic::new(Code::Usage, message).help(known.join(", "))));
            };
            arrays.push((name.clone(), arrays::taken(only)?));
        }
        for (name, value) in inputs.into_iter().flatten() {
            arrays.push((name.extract()?, arrays::taken(&value)?));
        }
        let results = apart(py, || self.compiled.run(&arrays, anemone_engine::Options::default()))?;
        if let Some(net) = self.compiled.net.as_deref() {
            let model = anemone_engine::Options::default().model;
            for warning in anemone::warnings::of_run(net, model, &arrays, &results) {
                let text = CString::new(warning.to_string()).unwrap_or_default();
                PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
            }
        }
        let outputs = PyDict::new(py);
        for (name, array) in results {
            let array: Bound<'py, PyArrayDyn<f32>> = arrays::given(py, array)?;
            outputs.set_item(name, array)?;
        }
        Ok(outputs)
    }

    /// Writes compiled forms into a folder: hwx, bin, anec, e5, firmware. The paths.
    #[pyo3(signature = (folder, emit=vec!["hwx".to_string()]))]
    fn save(&self, py: Python<'_>, folder: PathBuf, emit: Vec<String>) -> PyResult<Vec<String>> {
        let mut forms = Vec::new();
        for name in &emit {
            let form = Form::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
                let known = Form::ALL.map(Form::name).join(", ");
                let message = format!("no form is called {name}");
                raised(py, Diagnostic::new(Code::Usage, message).help(format!("known: {known}")))
            })?;
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        let paths = apart(py, || self.compiled.save(&folder, &self.stem, &forms, self.chip, &Options::default()))?;
        Ok(paths.iter().map(|p| p.display().to_string()).collect())
    }

    /// Why operations run on the host, one sentence for each that the compiler refused; empty where all of it is on the engine.
    #[getter]
    fn on_host(&self) -> Vec<String> {
        self.compiled.reasons.clone()
    }

    /// The listing that `ane asm` reads.
    fn listing(&self, py: Python<'_>) -> String {
        py.detach(|| self.compiled.listing())
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Program {} for {}>", self.compiled.chain.name(), self.chip.target)
    }
}
