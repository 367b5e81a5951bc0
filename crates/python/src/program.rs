//! Compiled programs.

use crate::arrays;
use crate::error::{apart, raised};
use crate::travel::{Source, travel};
use anemone::{Array, Code, Diagnostic, Executable, Form, Session};
use anemone_compile::Options;
use anemone_facts::chips::Chip;
use anemone_facts::numerics::Model as Arithmetic;
use anemone_program::Direction;
use numpy::PyArrayDyn;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A session by number model and threads.
type Kept = ((Arithmetic, Option<usize>), Arc<Session>);

/// A compiled program, with the software engine to run it.
#[pyclass(frozen, module = "anemone")]
pub struct Program {
    compiled: Arc<Executable>,
    chip: &'static Chip,
    /// Stem of its file names.
    stem: String,
    source: Option<Source>,
    /// Threads of a run, where it was told.
    threads: Option<usize>,
    /// Plans kept for later runs, by number model and threads.
    sessions: Mutex<Vec<Kept>>,
}

impl Program {
    pub fn new(
        compiled: Executable,
        chip: &'static Chip,
        stem: String,
        source: Option<Source>,
        threads: Option<usize>,
    ) -> Program {
        Program { compiled: Arc::new(compiled), chip, stem, source, threads, sessions: Mutex::default() }
    }

    fn session(&self, model: Arithmetic, threads: Option<usize>) -> Arc<Session> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (model, threads);
        if let Some((_, session)) = sessions.iter().find(|(known, _)| *known == key) {
            return session.clone();
        }
        let options = anemone_engine::Options { model, ..Default::default() };
        let session = Arc::new(Session::new(self.compiled.clone(), options, threads));
        sessions.push((key, session.clone()));
        session
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

    /// Names of the inputs that are no states.
    #[getter]
    fn real_inputs(&self) -> Vec<String> {
        self.compiled.real_inputs()
    }

    /// Tasks of the engine.
    #[getter]
    fn tasks(&self, py: Python<'_>) -> PyResult<usize> {
        let tasks = |p: &anemone_program::Program| p.tasks().map(|tasks| tasks.len());
        let all: Result<usize, _> = self.compiled.chain.programs().iter().map(tasks).sum();
        all.map_err(|e| raised(py, Diagnostic::new(Code::Malformed, e.to_string())))
    }

    /// Bytes of coefficients and of the engine's own stream.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.compiled.chain.programs().iter().map(|p| p.kernel.len() + p.stream.len()).sum()
    }

    /// Executes the program's words on the software engine: arrays by name in, arrays by name out. Doubts about the numbers
    /// (values beyond fp16, NaN, inexact integers) are warnings of category `RuntimeWarning`. One array without a name is the program's only input; states are none.
    /// `numerics`: `fast` or `exact`. `inputs` is a dictionary, for names that are no names of Python.
    #[pyo3(signature = (only=None, *, numerics="fast", threads=None, inputs=None, **named))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        only: Option<&Bound<'py, PyAny>>,
        numerics: &str,
        threads: Option<usize>,
        inputs: Option<&Bound<'py, PyDict>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let model = match numerics {
            "fast" => Ok(Arithmetic::Fast),
            "exact" => self.compiled.chain.exact_model(),
            other => {
                let message = format!("no number model is called {other}");
                Err(Diagnostic::new(Code::Usage, message).help("known: fast, exact"))
            }
        };
        let model = model.map_err(|d| raised(py, d))?;
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
        for given in [inputs, named].into_iter().flatten() {
            arrays.extend(arrays::by_name(given)?);
        }
        let session = self.session(model, threads.or(self.threads));
        let (arrays, results) = apart(py, move || session.run(&arrays).map(|results| (arrays, results)))?;
        if let Some(net) = self.compiled.net.as_deref() {
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
        let (compiled, stem, chip) = (self.compiled.clone(), self.stem.clone(), self.chip);
        let paths = apart(py, move || compiled.save(&folder, &stem, &forms, chip, &Options::default()))?;
        Ok(paths.iter().map(|p| p.display().to_string()).collect())
    }

    /// Reasons for operations that run on the host, one sentence for each that the compiler refused; empty if all run on the engine.
    #[getter]
    fn on_host(&self) -> Vec<String> {
        self.compiled.reasons.clone()
    }

    /// The listing that `ane asm` reads.
    fn listing(&self, py: Python<'_>) -> String {
        py.detach(|| self.compiled.listing())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let travel = travel(py)?;
        let Some(Source { model, engine_only }) = &self.source else {
            let message = "a program of a Graph has no model to be rebuilt from";
            let help = "save it with emit=[\"hwx\"], and load that file where it is to run";
            return Err(raised(py, Diagnostic::new(Code::Usage, message).help(help)));
        };
        let state = travel.call_method1("model_state", (model,))?;
        let arguments = (state, self.chip.target, *engine_only, self.threads, std::process::id()).into_pyobject(py)?;
        Ok((travel.getattr("program")?, arguments.into_any()))
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Program {} for {}>", self.compiled.chain.name(), self.chip.target)
    }
}
