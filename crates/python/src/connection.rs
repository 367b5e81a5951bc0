//! Models loaded through the runtime: by a driver in this process, or by a broker.

use crate::arrays;
use crate::error::{apart, raised};
use anemone::connection::{self, Adapter, Device, Request, Settings, Via};
use anemone::tensor::read_npz;
use anemone::{Array, Code, Diagnostic, Result, places, reference};
use anemone_runtime::broker::client::{Loading, Remote, Route};
use anemone_runtime::cache::PortInfo;
use anemone_runtime::driver::methods::Answer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// A model that is loaded once and dispatched many times: by a broker that processes share, or by a driver of this process.
#[pyclass(frozen, module = "anemone")]
pub struct Connection {
    inner: Arc<connection::Connection>,
    pub via: String,
}

/// Options of `Model.connect`, named as on the command line.
pub struct Options {
    pub via: String,
    pub socket: Option<PathBuf>,
    pub cache: Option<PathBuf>,
    pub qos: Option<u32>,
    pub depth: u32,
    pub power_saving: bool,
    pub wired: bool,
    pub long_compile: bool,
    pub secure: bool,
    pub streams: u32,
    pub quirk: Vec<String>,
}

impl Options {
    fn settings(self) -> Result<Settings> {
        let usage = |message: String| Diagnostic::new(Code::Usage, message);
        let via = Via::ALL.into_iter().find(|via| via.name() == self.via).ok_or_else(|| {
            usage(format!("there is no way called {}", self.via)).help("known: broker, direct, inprocess")
        })?;
        if let Some(quirk) = self.quirk.iter().find(|quirk| *quirk != connection::OVERLAPPED_STREAMS) {
            let help = format!("known: {}", connection::OVERLAPPED_STREAMS);
            return Err(usage(format!("no quirk is called {quirk}")).help(help));
        }
        if !(1..=64).contains(&self.streams) {
            return Err(usage(format!("{} streams; 1 to 64 are possible", self.streams)));
        }
        let Options { socket, cache, depth, power_saving, wired, .. } = self;
        let loading = Loading { depth, power_saving, wired, long: self.long_compile };
        let (class, overlap) = (self.qos, !self.quirk.is_empty());
        let (secure, streams) = (self.secure, self.streams);
        Ok(Settings { via, socket, cache, class, loading, secure, overlap, streams, ..Settings::default() })
    }
}

/// Weights of an adapter: a file `.npz`, or arrays by name.
fn weights(adapter: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Array)>> {
    if let Ok(arrays) = adapter.cast::<PyDict>() {
        let held = arrays::by_name(arrays)?;
        return held.iter().map(|(name, held)| Ok((name.clone(), held.view()?.to_array()))).collect();
    }
    let path: PathBuf = adapter.extract()?;
    read_npz(&path).map_err(|d| raised(adapter.py(), d))
}

/// Connects a model: its file and function.
pub fn connect(
    py: Python<'_>,
    (path, function): (PathBuf, Option<String>),
    chip: &str,
    engine_only: bool,
    adapter: Option<&Bound<'_, PyAny>>,
    options: Options,
) -> PyResult<Connection> {
    let chip = reference::chip(chip).map_err(|d| raised(py, d))?;
    let adapter = adapter.map(weights).transpose()?.map(Adapter::Arrays);
    let via = options.via.clone();
    let settings = options.settings().map_err(|d| raised(py, d))?;
    let inner = apart(py, move || {
        let own = Request::new(&path, chip.target);
        let request = Request { engine_only, function: function.as_deref(), adapter, ..own };
        settings.open(&request).map_err(|d| d.or_at(path.display()))
    })?;
    Ok(Connection { inner: Arc::new(inner), via })
}

impl Connection {
    fn extents<'py>(&self, py: Python<'py>, output: bool) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for PortInfo { name, shape, .. } in self.inner.ports(output) {
            dict.set_item(name, PyTuple::new(py, shape)?)?;
        }
        Ok(dict)
    }
}

#[pymethods]
impl Connection {
    /// Extents of the inputs by name.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.extents(py, false)
    }

    /// Extents of the outputs by name.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.extents(py, true)
    }

    /// Names of the inputs that hold what the run before left, on the device.
    #[getter]
    fn state_names(&self) -> Vec<String> {
        self.inner.states().iter().map(|state| state.input.clone()).collect()
    }

    /// True if the program came from a cache, the broker's or this user's: nothing was compiled.
    #[getter]
    fn cached(&self) -> bool {
        self.inner.was_kept()
    }

    /// Dispatches once: arrays by name in, arrays of float32 by name out.
    ///
    /// Inputs are as those of `Program.run`. A state that is not given is what the run before left, zeros at first; it stays on the
    /// device. Raises `BadInput` for other names and extents, `Refused` for a fault of the device and for a stream that never completes.
    ///
    /// >>> connection = anemone.load("digits.mlpackage").connect("m1", cache=folder)
    /// >>> connection.run(np.load("image.npy"))["probs"].argmax()
    /// np.int64(8)
    #[pyo3(signature = (only=None, *, inputs=None, **named))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        only: Option<&Bound<'py, PyAny>>,
        inputs: Option<&Bound<'py, PyDict>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut given = Vec::new();
        let states = self.inner.states();
        let known: Vec<String> = self.inner.ports(false).map(|port| port.name.clone()).collect();
        if let Some(only) = only {
            let real: Vec<&String> =
                known.iter().filter(|name| states.iter().all(|state| state.input != **name)).collect();
            let [name] = real.as_slice() else {
                let message =
                    format!("an array without a name needs one input that is no state, this has {}", real.len());
                return Err(raised(py, Diagnostic::new(Code::Usage, message).help(known.join(", "))));
            };
            given.push((name.to_string(), arrays::held(only, &format!("input {name}"))?));
        }
        for dict in [inputs, named].into_iter().flatten() {
            given.extend(arrays::by_name(dict)?);
        }
        let mut owned = Vec::with_capacity(given.len());
        for (name, held) in &given {
            if !known.contains(name) {
                let message = format!("there is no input {name}");
                return Err(raised(py, Diagnostic::new(Code::Usage, message).help(known.join(", "))));
            }
            owned.push((name.clone(), held.view()?.to_array()));
        }
        let inner = Arc::clone(&self.inner);
        let outputs = apart(py, move || inner.run(&owned))?;
        let dict = PyDict::new(py);
        for (name, array) in outputs.into_iter().filter(|(name, _)| states.iter().all(|state| state.output != *name)) {
            dict.set_item(name, arrays::given(py, array)?)?;
        }
        Ok(dict)
    }

    /// A copy of a state, by the name of its input. Raises `BadInput` for another name.
    fn state<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let Some(array) = self.inner.state(name) else {
            let message = format!("there is no state {name}");
            return Err(raised(py, Diagnostic::new(Code::Usage, message).help(self.state_names().join(", "))));
        };
        Ok(arrays::given(py, array)?.into_any())
    }

    /// Counters of the device, as `ane stat --json` prints them.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inner = Arc::clone(&self.inner);
        let counters = apart(py, move || inner.device().counters())?;
        py.import("json")?.call_method1("loads", (counters.to_string(),))
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Connection via {}>", self.via)
    }
}

/// A broker at a socket: counters, cache, and methods of its driver.
#[pyclass(frozen, module = "anemone")]
pub struct Broker {
    remote: Arc<Remote>,
    socket: String,
}

#[pymethods]
impl Broker {
    /// Connects to the broker at `socket`, without one at the user's own. Raises `BadInput` where nothing listens.
    #[new]
    #[pyo3(signature = (socket=None))]
    fn new(py: Python<'_>, socket: Option<PathBuf>) -> PyResult<Broker> {
        let connected = places::socket(socket).and_then(|path| {
            let remote = Remote::connect(&path, Route::Broker).map_err(places::refused)?;
            Ok(Broker { remote: Arc::new(remote), socket: path.display().to_string() })
        });
        connected.map_err(|d| raised(py, d))
    }

    /// Counters of the broker and its driver, as `ane stat --json` prints them.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let remote = Arc::clone(&self.remote);
        let counters = apart(py, move || remote.stat().map_err(places::refused))?;
        py.import("json")?.call_method1("loads", (counters.to_string(),))
    }

    /// Removes a program from the broker's cache by its key, or all of them, which needs an entitlement; the number removed.
    #[pyo3(signature = (key=None))]
    fn purge(&self, py: Python<'_>, key: Option<String>) -> PyResult<u64> {
        let remote = Arc::clone(&self.remote);
        apart(py, move || remote.purge(key).map_err(places::refused))
    }

    /// Calls a method of the driver by name with numbers, as `ane driver method --socket` does; its number or its lines.
    #[pyo3(signature = (name, *numbers))]
    fn method<'py>(&self, py: Python<'py>, name: String, numbers: Vec<u64>) -> PyResult<Bound<'py, PyAny>> {
        let remote = Arc::clone(&self.remote);
        let answer = apart(py, move || Device::There(remote).method(&name, &numbers))?;
        match answer {
            Answer::Number(number) => Ok(number.into_pyobject(py)?.into_any()),
            Answer::Lines(lines) => lines.into_pyobject(py),
        }
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Broker {}>", self.socket)
    }
}
