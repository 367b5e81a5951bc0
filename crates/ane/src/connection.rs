//! A model loaded through the runtime: by a driver in this process, or by a broker shared between processes.
//!
//! ```
//! use anemone::connection::{Request, Settings};
//! use anemone::Array;
//! use std::path::Path;
//!
//! let model = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/digits.mlpackage"));
//! let folder = tempfile::tempdir().expect("a folder");
//! let settings = Settings { cache: Some(folder.path().into()), ..Settings::default() };
//! let connection = settings.open(&Request::new(model, "h13"))?;
//! let image = Array { shape: vec![1, 1, 8, 8], data: vec![0.5; 64] };
//! let outputs = connection.run(&[("image".into(), image)])?;
//! assert_eq!(outputs[0].0, "probs");
//! # Ok::<(), anemone::Diagnostic>(())
//! ```

use crate::adapter::pieces_of;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::host::Evaluator;
use crate::places::{cache, refused, socket};
use crate::runtime::{ENGINE_ONLY, ModelCompiler};
use crate::tensor::Array;
use anemone_program::e5::{Descriptor, State};
use anemone_runtime::broker::client::{Loading, Remote, Route};
use anemone_runtime::cache::{Bundle, PortInfo};
use anemone_runtime::driver::methods::Answer;
use anemone_runtime::driver::{Arithmetic, Config};
use anemone_runtime::e5rt::cast::dense_bytes;
use anemone_runtime::e5rt::device::{InProcess, Piece};
use anemone_runtime::e5rt::{Buffer, CompileOptions, Library, MAIN, Quirks, Runtime, Stream};
use half::f16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Device of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Via {
    /// Every submission through the broker
    Broker,
    /// Loaded by the broker, submitted on a separate connection
    Direct,
    /// A driver in this process
    #[default]
    Inprocess,
}

impl Via {
    /// All of them.
    pub const ALL: [Via; 3] = [Via::Broker, Via::Direct, Via::Inprocess];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Via::Broker => "broker",
            Via::Direct => "direct",
            Via::Inprocess => "inprocess",
        }
    }
}

/// Name of the M1's defect that [`Settings::overlap`] reproduces.
pub const OVERLAPPED_STREAMS: &str = "overlapped-streams";

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Device.
    pub via: Via,
    /// Socket of the broker; `None` for its default.
    pub socket: Option<PathBuf>,
    /// Folder of the cache of a driver in this process; `None` for its default.
    pub cache: Option<PathBuf>,
    /// Class of service of all requests to a broker: 33, 25, 21, 17 or 9, the first the most urgent; 0 is real time.
    pub class: Option<u32>,
    /// Options of loads and compiles by a broker; a driver in this process ignores them.
    pub loading: Loading,
    /// True to exclude others while a program of this connection runs, and to power-cycle the engine before and after.
    pub secure: bool,
    /// True if the second of two overlapped streams never completes, as on an M1.
    pub overlap: bool,
    /// Number of streams submitted at once, each with its own operations; at least 1.
    pub streams: u32,
    /// Number of dispatches with the same inputs in one run; at least 1.
    pub times: u32,
    /// True to record a trace of the session.
    pub trace: bool,
    /// Arithmetic of the device; a broker has its own.
    pub arithmetic: Arithmetic,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            via: Via::default(),
            socket: None,
            cache: None,
            class: None,
            loading: Loading::default(),
            secure: false,
            overlap: false,
            streams: 1,
            times: 1,
            trace: false,
            arithmetic: Arithmetic::default(),
        }
    }
}

/// Replacement weights of an adapter.
#[derive(Clone, Debug)]
pub enum Adapter {
    /// Pieces of kernel data.
    Pieces(Vec<Piece>),
    /// Arrays by the names that `ane patch` lists for the compiled program.
    Arrays(Vec<(String, Array)>),
}

/// Model of a connection.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Model or compiled file.
    pub model: &'a Path,
    /// Compiler target.
    pub target: &'a str,
    /// True to refuse models that need host segments.
    pub engine_only: bool,
    /// Options of the compiler: compat, convention and activations.
    pub compiler: anemone_compile::Options,
    /// Name of the function to call; `None` for the first.
    pub function: Option<&'a str>,
    /// Replacement weights.
    pub adapter: Option<Adapter>,
}

impl<'a> Request<'a> {
    /// The first function of a model, with its own weights.
    pub fn new(model: &'a Path, target: &'a str) -> Request<'a> {
        let compiler = anemone_compile::Options::default();
        Request { model, target, engine_only: false, compiler, function: None, adapter: None }
    }
}

/// Device of a connection.
pub enum Device {
    /// Driver in this process.
    Here(Arc<InProcess>),
    /// Behind a socket.
    There(Arc<Remote>),
}

impl Settings {
    /// Compiles and loads a model, once for all runs. States have one buffer on both ports: they stay on the device between runs,
    /// unless a run is several dispatches.
    ///
    /// Errors: no broker at the socket; refusals of the broker's policy, with the missing key; a model that does not compile.
    pub fn open(&self, request: &Request) -> Result<Connection> {
        let Request { model, target, engine_only, compiler, function, adapter } = request;
        let (runtime, device) = self.runtime()?;
        let custom = format!("TargetArchitecture={target}{}", crate::runtime::custom(compiler));
        let mut options = CompileOptions { platform: target.to_string(), custom, ..CompileOptions::default() };
        if *engine_only {
            options.segmenter = ENGINE_ONLY.into();
        }
        let library = runtime.compile(model, &options).map_err(refused)?;
        let kept = match &device {
            Device::Here(_) => library.was_kept(),
            Device::There(remote) => remote.was_kept(),
        };
        let pieces = match adapter {
            None => Vec::new(),
            Some(Adapter::Pieces(pieces)) => pieces.clone(),
            Some(Adapter::Arrays(arrays)) => adapter_pieces(&library, arrays.clone())?,
        };
        let library = if pieces.is_empty() { library } else { library.adapted(pieces).map_err(refused)? };
        let states = states(&library, *function);
        // Several dispatches with the same inputs would pass states on.
        let held = if self.times == 1 { states.as_slice() } else { &[] };
        let function = function.unwrap_or(MAIN);
        let lanes = (0..self.streams).map(|_| Lane::new(&runtime, &library, function, held)).collect::<Result<_>>()?;
        Ok(Connection {
            runtime,
            device,
            lanes,
            bundle: Arc::clone(library.shared_bundle()),
            kept,
            times: self.times,
            overlap: self.overlap,
            running: Mutex::new(()),
        })
    }

    /// Runtime over the device, and that device.
    pub fn runtime(&self) -> Result<(Arc<Runtime>, Device)> {
        let refuse = |message: &str, help: &str| Err(Diagnostic::new(Code::Usage, message).help(help));
        if self.via != Via::Inprocess && self.arithmetic == Arithmetic::Exact {
            let message = "--numerics exact: the broker determines the arithmetic";
            return refuse(message, "ane broker --numerics exact, or --via inprocess");
        }
        if self.via != Via::Inprocess && self.secure {
            return refuse(
                "secure mode (--secure) is a property of the driver, which belongs to the broker",
                "--via inprocess",
            );
        }
        let route = match self.via {
            Via::Broker => Some(Route::Broker),
            Via::Direct => Some(Route::Direct),
            Via::Inprocess if self.class.is_some() => {
                return refuse(
                    "a class of service (--qos) is for a broker; there is none in this process",
                    "--via broker",
                );
            }
            Via::Inprocess => None,
        };
        let (runtime, device) = match route {
            Some(route) => {
                let remote = Remote::connect(&socket(self.socket.clone())?, route).map_err(refused)?;
                let remote = remote.with_loading(self.loading);
                let remote = Arc::new(self.class.into_iter().fold(remote, Remote::with_class));
                (Runtime::new(remote.clone(), remote.clone(), None), Device::There(remote))
            }
            None => {
                let config = Config { arithmetic: self.arithmetic, ..Config::default() };
                let device = InProcess::configured(config).map_err(refused)?;
                let device = Arc::new(if self.secure { device.secure() } else { device });
                let cache = cache(self.cache.clone())?;
                (Runtime::new(device.clone(), Arc::new(ModelCompiler), Some(cache)), Device::Here(device))
            }
        };
        let runtime = runtime.with_host(Arc::new(Evaluator)).with_quirks(Quirks { stream_overlap: self.overlap });
        Ok((Arc::new(if self.trace { runtime.with_trace() } else { runtime }), device))
    }
}

/// Kernel data that arrays replace in the only program of a library.
pub fn adapter_pieces(library: &Library, arrays: Vec<(String, Array)>) -> Result<Vec<Piece>> {
    let mut programs = library.programs();
    match (programs.next(), programs.next()) {
        (Some(program), None) => pieces_of(program, arrays).map(|(pieces, _)| pieces),
        _ => {
            let several = library.calls().0;
            Err(Diagnostic::new(Code::Usage, format!("an adapter needs a model of one program; this has {several}")))
        }
    }
}

/// States of a library's function; the descriptor has those of the first.
fn states(library: &Library, function: Option<&str>) -> Vec<State> {
    if function.is_some_and(|name| name != MAIN && name != library.signature().name) {
        return Vec::new();
    }
    let descriptor = Descriptor::read(&library.bundle().descriptor).ok();
    descriptor.and_then(|d| d.sequence().ok()).map_or(Vec::new(), |sequence| sequence.states)
}

/// Time limit of a stream.
const STREAM_TIME: Duration = Duration::from_secs(600);

/// A loaded model with bound buffers.
pub struct Connection {
    runtime: Arc<Runtime>,
    device: Device,
    lanes: Vec<Lane>,
    bundle: Arc<Bundle>,
    kept: bool,
    times: u32,
    /// True if overlapped streams have the M1's defect.
    overlap: bool,
    /// Lock held during a run: buffers belong to one caller from its inputs to its outputs.
    running: Mutex<()>,
}

/// A stream with its own operation and buffers.
struct Lane {
    stream: Stream,
    ports: Vec<(PortInfo, Arc<Buffer>)>,
    /// Tensors that stay on the device between runs.
    held: Vec<State>,
}

impl Lane {
    fn new(runtime: &Arc<Runtime>, library: &Library, function: &str, held: &[State]) -> Result<Lane> {
        let operation = library.function(function).and_then(|f| f.operation()).map_err(refused)?;
        let mut ports: Vec<(PortInfo, Arc<Buffer>)> = Vec::new();
        for info in &library.signature_of(function).map_err(refused)?.ports {
            let state = held.iter().find(|state| info.output && state.output == info.name);
            let own = state.and_then(|state| ports.iter().find(|(p, _)| !p.output && p.name == state.input));
            let buffer = match own {
                Some((_, buffer)) => Arc::clone(buffer),
                None => runtime.buffer(dense_bytes(info).unwrap_or(0)).map_err(refused)?,
            };
            operation.port(&info.name, info.output).and_then(|port| port.bind(&buffer)).map_err(refused)?;
            ports.push((info.clone(), buffer));
        }
        let stream = Stream::new(runtime);
        stream.encode(&operation).map_err(refused)?;
        Ok(Lane { stream, ports, held: held.to_vec() })
    }

    fn fill(&self, inputs: &[(String, Array)]) -> Result<()> {
        for (info, buffer) in self.ports.iter().filter(|(info, _)| !info.output) {
            let elements = info.shape.iter().product::<u64>();
            let given = inputs.iter().find(|(name, _)| *name == info.name).map(|(_, a)| &a.data);
            if given.is_none() && self.held.iter().any(|state| state.input == info.name) {
                continue;
            }
            let data = given.filter(|d| d.len() as u64 == elements).ok_or_else(|| {
                Diagnostic::new(Code::BadTensor, format!("input {} takes {elements} elements", info.name))
            })?;
            let bytes: Vec<u8> = match info.dtype {
                3 => data.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
                4 => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
                _ => data.iter().flat_map(|&x| (x as i32).to_le_bytes()).collect(),
            };
            buffer.shared().write(&bytes);
        }
        Ok(())
    }

    fn outputs(&self) -> Vec<(String, Array)> {
        let all = self.ports.iter().filter(|(info, _)| info.output);
        all.map(|(info, buffer)| (info.name.clone(), elements(info, buffer))).collect()
    }
}

/// Elements of a buffer in the type of its port.
fn elements(info: &PortInfo, buffer: &Buffer) -> Array {
    let bytes = buffer.shared().to_vec();
    let data = match info.dtype {
        3 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        4 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        _ => bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32).collect(),
    };
    Array { shape: info.shape.iter().map(|&n| n as usize).collect(), data }
}

impl Connection {
    /// Runs on inputs by name, and returns the outputs of the first stream by name. An input of a state may be omitted: it
    /// then has the value of the previous run, initially zeros. Concurrent callers run one after another.
    ///
    /// Errors: a missing input, or one with a wrong number of elements; a fault of the device; a stream that does not complete.
    pub fn run(&self, inputs: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        self.lanes.iter().try_for_each(|lane| lane.fill(inputs))?;
        for _ in 0..self.times {
            match self.lanes.as_slice() {
                [lane] => lane.stream.execute().map_err(refused)?,
                _ => self.overlapped()?,
            }
        }
        Ok(self.lanes.first().map_or(Vec::new(), Lane::outputs))
    }

    /// Runs every stream once, simultaneously.
    fn overlapped(&self) -> Result<()> {
        let events = {
            // The streams overlap even if their work is short.
            let _held = self.runtime.hold();
            let submitted = self.lanes.iter().map(|lane| lane.stream.submit(None).map_err(refused));
            submitted.collect::<Result<Vec<_>>>()?
        };
        for (at, (_, event)) in events.iter().enumerate() {
            event.wait(STREAM_TIME).map_err(|error| {
                let mut diagnostic = refused(error);
                let (stream, of) = (at + 1, self.lanes.len());
                diagnostic.message = format!("stream {stream} of {of}: {}", diagnostic.message);
                match self.overlap {
                    true => diagnostic.help("--quirk overlapped-streams makes the second of overlapped streams never complete, as on an M1; without it, all complete"),
                    false => diagnostic,
                }
            })?;
        }
        Ok(())
    }

    /// Extents of the inputs, or of the outputs, by name.
    pub fn ports(&self, output: bool) -> impl Iterator<Item = &PortInfo> {
        let ports = self.lanes.first().map_or(&[][..], |lane| &lane.ports);
        ports.iter().map(|(info, _)| info).filter(move |info| info.output == output)
    }

    /// Tensors that stay on the device between runs.
    pub fn states(&self) -> &[State] {
        self.lanes.first().map_or(&[], |lane| &lane.held)
    }

    /// Copy of a state of the first stream, by the name of its input.
    pub fn state(&self, name: &str) -> Option<Array> {
        let lane = self.lanes.first().filter(|lane| lane.held.iter().any(|state| state.input == name))?;
        let (info, buffer) = lane.ports.iter().find(|(info, _)| !info.output && info.name == name)?;
        Some(elements(info, buffer))
    }

    /// Returns true for a hit in the broker's cache or this user's.
    pub fn was_kept(&self) -> bool {
        self.kept
    }

    /// The loaded compiled model.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The runtime.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Device {
    /// Counters by name, as printed by `ane stat --json`; without a broker, its own are missing.
    pub fn counters(&self) -> Result<serde_json::Value> {
        match self {
            Device::Here(device) => Ok(device.driver().stat()),
            Device::There(remote) => remote.stat().map_err(refused),
        }
    }

    /// Calls a method of the direct-path client or of the hint client by name, with numbers: power, throttling, mappings, hints and
    /// others of `ane driver list`.
    pub fn method(&self, name: &str, numbers: &[u64]) -> Result<Answer> {
        match self {
            Device::Here(device) => device.method(name, numbers).map_err(refused),
            Device::There(remote) => remote.method_named(name, numbers).map_err(refused),
        }
    }
}
