//! Compiled programs.

use crate::arrays;
use crate::error::{apart, raised};
use crate::travel::{Source, travel};
use anemone::tensor::View;
use anemone::warnings;
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// States of a model between runs: of one function, or of several that have states of the same names and extents.
#[pyclass(frozen, module = "anemone")]
pub struct State {
    arrays: Mutex<Vec<(String, Array)>>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Vec<(String, Array)>> {
        self.arrays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl State {
    /// Names of the states.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    /// A copy of a state.
    fn read<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let found = self.lock().iter().find(|(known, _)| known == name).map(|(_, array)| array.clone());
        let array = found.ok_or_else(|| {
            let message = format!("there is no state {name}");
            raised(py, Diagnostic::new(Code::Usage, message).help(self.names().join(", ")))
        })?;
        arrays::given(py, array)
    }

    fn __repr__(&self) -> String {
        format!("<anemone.State {}>", self.names().join(", "))
    }
}

/// A session, by number model and threads.
type Kept = ((Arithmetic, Option<usize>), Arc<Session>);

/// A compiled program, with the software engine to run it.
#[pyclass(frozen, module = "anemone")]
pub struct Program {
    compiled: Arc<Executable>,
    chip: &'static Chip,
    /// Stem of its file names.
    stem: String,
    source: Option<Source>,
    /// Number of threads of a run, if given.
    threads: Option<usize>,
    /// Plans kept for later runs, by number model and threads.
    sessions: Mutex<Vec<Kept>>,
    /// Casts in the runs so far.
    notes: Mutex<Vec<String>>,
    /// True once a run has been compared with fp32, as the first one is for a network of any size.
    compared: AtomicBool,
}

impl Program {
    pub fn new(
        compiled: Executable,
        chip: &'static Chip,
        stem: String,
        source: Option<Source>,
        threads: Option<usize>,
    ) -> Program {
        Program {
            compiled: Arc::new(compiled),
            chip,
            stem,
            source,
            threads,
            sessions: Mutex::default(),
            notes: Mutex::default(),
            compared: AtomicBool::default(),
        }
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

    /// Notes an input's element type if it differs from the engine's, once, also in the log `anemone`.
    fn note(&self, py: Python<'_>, name: &str, given: &str) -> PyResult<()> {
        let of_engine = || {
            let ports = |p: &anemone_program::Program| p.ports_of(Direction::Input).any(|port| port.name == name);
            self.compiled.chain.programs().iter().any(ports)
        };
        if given == "float16" || !of_engine() {
            return Ok(());
        }
        let note = format!("input {name}: {given} is cast to float16, which the engine takes");
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.contains(&note) {
            return Ok(());
        }
        notes.push(note.clone());
        drop(notes);
        py.import("logging")?.call_method1("getLogger", ("anemone",))?.call_method1("info", ("%s", note))?;
        Ok(())
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

    /// Casts of the runs so far, a sentence for each input and element type that is no fp16.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Names of the states: the inputs that hold what the run before left.
    #[getter]
    fn state_names(&self) -> Vec<String> {
        self.compiled.chain.states().iter().map(|state| state.input.clone()).collect()
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

    /// Executes the program's words on the software engine: arrays by name in, arrays of float32 by name out.
    ///
    /// An input is anything with numbers: an object with `__dlpack__` in the memory of the processor, with the buffer protocol,
    /// or a list. It has the input's extents; axes may be split, joined, added or left out. float16 and float32 in the order of
    /// rows are read where they are; other types and orders are copied first. What is not float16 is cast to it: see `notes`.
    /// One array without a name is the only input that is no state; states are zeros unless given. `inputs` is a dictionary,
    /// for names that are no names of Python. `numerics`: `fast`, or `exact` as the device computes; `threads`: as many in place
    /// of all cores. `state` (of `make_state`) holds the states: it is read and written, and they are no outputs then.
    ///
    /// Doubts about the numbers (values beyond fp16, NaN, inexact integers) are warnings of category `RuntimeWarning`. Raises
    /// `BadInput` with the expected and the given extents or type, `Refused` for a fault of the program. An interrupt ends the call.
    ///
    /// >>> program = anemone.load("digits.mlpackage").compile("m1")
    /// >>> image = np.load("image.npy").astype(np.float32)
    /// >>> program.run(image)["probs"].argmax()
    /// np.int64(8)
    /// >>> program.notes
    /// ['input image: float32 is cast to float16, which the engine takes']
    #[expect(clippy::too_many_arguments, reason = "arguments by name, in Python")]
    #[pyo3(signature = (only=None, *, numerics="fast", threads=None, inputs=None, state=None, **named))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        only: Option<&Bound<'py, PyAny>>,
        numerics: &str,
        threads: Option<usize>,
        inputs: Option<&Bound<'py, PyDict>>,
        state: Option<&Bound<'py, State>>,
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
        let mut held = Vec::new();
        if let Some(only) = only {
            let known = self.compiled.real_inputs();
            let [name] = known.as_slice() else {
                let message =
                    format!("an array without a name needs a program with one input, this has {}", known.len());
                return Err(raised(py, Diagnostic::new(Code::Usage, message).help(known.join(", "))));
            };
            held.push((name.clone(), arrays::held(only, &format!("input {name}"))?));
        }
        for given in [inputs, named].into_iter().flatten() {
            held.extend(arrays::by_name(given)?);
        }
        let mut states = state.map(|state| state.get().lock().clone());
        let mut views: Vec<(&str, View)> =
            held.iter().map(|(name, held)| Ok((name.as_str(), held.view()?))).collect::<PyResult<_>>()?;
        if let Some(net) = self.compiled.net.as_deref() {
            anemone::inputs::all_fit(net, &views).map_err(|d| raised(py, d))?;
        }
        views.extend(states.iter().flat_map(|states| anemone::tensor::views(states)));
        let session = self.session(model, threads.or(self.threads));
        let ready = match session.idle() {
            Some(ready) => ready,
            None => {
                let planning = session.clone();
                apart(py, move || planning.ready())?
            }
        };
        // With the interpreter lock held, so that no other thread writes the arrays meanwhile.
        let ready = session.bind(ready, &views).map_err(|d| raised(py, d))?;
        for (name, held) in &held {
            self.note(py, name, &held.given)?;
        }
        let mut results = apart(py, move || session.finish(ready))?;
        if let Some(net) = self.compiled.net.as_deref() {
            let most = match self.compared.swap(true, Ordering::Relaxed) {
                true => warnings::OF_EACH_RUN,
                false => warnings::OF_ONE_RUN,
            };
            let exact = self.compiled.chain.exact_whole();
            for warning in warnings::of_run(net, model, &views, &results, &exact, most) {
                let text = CString::new(warning.to_string()).unwrap_or_default();
                PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
            }
        }
        if let (Some(state), Some(states)) = (state, &mut states) {
            self.compiled.keep_states(&mut results, states);
            *state.get().lock() = std::mem::take(states);
        }
        let outputs = PyDict::new(py);
        for (name, array) in results {
            let array: Bound<'py, PyArrayDyn<f32>> = arrays::given(py, array)?;
            outputs.set_item(name, array)?;
        }
        Ok(outputs)
    }

    /// The states before the first run, zeros, for `run(state=...)`. Functions of one package that have states of the same names share
    /// them: what the one leaves the other finds.
    fn make_state(&self, py: Python<'_>) -> PyResult<State> {
        let arrays = self.compiled.states_at_start().map_err(|d| raised(py, d))?;
        Ok(State { arrays: Mutex::new(arrays) })
    }

    /// Writes compiled forms into a folder, which is made where it is missing: hwx, bin, anec, e5, firmware.
    ///
    /// Returns the paths. Raises `BadInput` for another form and where nothing can be written, `Refused` for a form that cannot
    /// carry the program's host segments.
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
