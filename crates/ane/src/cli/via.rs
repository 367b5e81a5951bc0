//! `ane run --via`: through the runtime, in this process or through a broker.

use super::Voice;
use super::places::{cache, not_kept, refused, socket};
use anemone::host::Evaluator;
use anemone::runtime::{ENGINE_ONLY, ModelCompiler};
use anemone::{Array, Code, Diagnostic, Result, Run, files};
use anemone_program::e5::State;
use anemone_runtime::broker::client::{Loading, Remote, Route};
use anemone_runtime::cache::PortInfo;
use anemone_runtime::driver::{Arithmetic, Config};
use anemone_runtime::e5rt::cast::dense_bytes;
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{Buffer, CompileOptions, Library, MAIN, Quirks, Runtime, Stream};
use clap::Args;
use half::f16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Args)]
pub struct Flags {
    /// Run through the runtime: compiled once by content, then dispatched
    #[arg(long, value_enum)]
    via: Option<Via>,
    /// Socket of the broker
    #[arg(long, value_name = "PATH", requires = "via")]
    socket: Option<PathBuf>,
    /// Folder of the cache
    #[arg(long, value_name = "FOLDER", requires = "via")]
    cache: Option<PathBuf>,
    /// Dispatches of the same inputs, for timing; --repeat hands states on
    #[arg(long, default_value_t = 1, requires = "via")]
    times: u32,
    /// Class of service of all that the broker is asked: 33, 25, 21, 17, 9, the first the most urgent; 0 is real time and needs
    /// its key
    #[arg(long, value_name = "CLASS", requires = "via")]
    qos: Option<u32>,
    /// Requests at once that the broker is asked for
    #[arg(long, value_name = "N", default_value_t = 8, requires = "via")]
    depth: u32,
    /// Ask the broker for aggressive power saving, which needs its key
    #[arg(long, requires = "via")]
    power_saving: bool,
    /// Ask the broker to keep the program's memory when the engine goes off
    #[arg(long, requires = "via")]
    wired: bool,
    /// Ask for the broker's compile service for long compiles, which needs its key
    #[arg(long, requires = "via")]
    long_compile: bool,
    /// In secure mode: other programs are excluded while it runs, and the engine is power-cycled around it
    #[arg(long, requires = "via")]
    secure: bool,
    /// Streams that are submitted at once, each with operations of its own
    #[arg(long, value_name = "N", default_value_t = 1, requires = "via", value_parser = clap::value_parser!(u32).range(1..=64))]
    streams: u32,
    /// A defect of the M1's runtime to have, to see what programs do with it
    #[arg(long, value_enum, requires = "via")]
    quirk: Vec<Quirk>,
    /// File for a trace of the session, for ui.perfetto.dev
    #[arg(long, value_name = "FILE", requires = "via")]
    perfetto: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Via {
    /// Every submission through the broker
    Broker,
    /// Loaded by the broker, submitted on a connection of its own
    Direct,
    /// A driver in this process
    Inprocess,
}

/// Model to run, and its options.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Model or compiled file.
    pub model: &'a Path,
    /// Compiler target.
    pub target: &'a str,
    /// Arithmetic of the device.
    pub arithmetic: Arithmetic,
    /// Refuse what needs host segments.
    pub engine_only: bool,
    /// Function that is called; the first when `None`.
    pub function: Option<&'a str>,
    /// Kernel data that an adapter replaces; empty without one.
    pub adapter: &'a [(u64, Vec<u8>)],
}

/// A defect of the M1's runtime.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Quirk {
    /// The second of two overlapped streams of a process never completes; it ends by its time-out
    OverlappedStreams,
}

impl Flags {
    /// Returns true if the run goes through the runtime.
    pub fn wanted(&self) -> bool {
        self.via.is_some()
    }

    /// Compiles and loads, once for all runs. States have one buffer on both ports: they stay on the device from run to run.
    pub fn open(&self, request: &Request, states: &[State], voice: Voice) -> Result<Session> {
        let Request { model, target, arithmetic, engine_only, function, adapter } = *request;
        if arithmetic == Arithmetic::Exact && !matches!(self.via, Some(Via::Inprocess)) {
            let message = "--numerics exact: the broker decides the arithmetic of what it runs";
            return Err(Diagnostic::new(Code::Usage, message).help("ane broker --numerics exact, or --via inprocess"));
        }
        let (runtime, device) = self.runtime(arithmetic)?;
        let (remote, device) = match device {
            Side::Here(device) => (None, Some(device)),
            Side::There(remote) => (Some(remote), None),
        };
        let custom = format!("TargetArchitecture={target}");
        let mut options = CompileOptions { platform: target.into(), custom, ..CompileOptions::default() };
        if engine_only {
            options.segmenter = ENGINE_ONLY.into();
        }
        let library = runtime.compile(model, &options).map_err(refused)?;
        if let Some(remote) = &remote {
            voice.detail(format!("the broker's cache {}", if remote.was_kept() { "hit" } else { "miss: it compiled" }));
        }
        if let Some(why) = runtime.unkept() {
            voice.note(not_kept(why));
        } else if let Some(cache) = runtime.cache() {
            let outcome = if library.was_kept() { "hit: nothing is compiled" } else { "miss: compiled and kept" };
            voice.detail(format!("cache {outcome} ({})", cache.folder().display()));
        }
        let library = if adapter.is_empty() { library } else { library.adapted(adapter.to_vec()).map_err(refused)? };
        // Dispatches of the same inputs would hand states on.
        let held = if self.times == 1 { states } else { &[] };
        let lanes = (0..self.streams)
            .map(|_| Lane::new(&runtime, &library, function.unwrap_or(MAIN), held))
            .collect::<Result<_>>()?;
        Ok(Session {
            runtime,
            device,
            lanes,
            times: self.times,
            perfetto: self.perfetto.clone(),
            overlap: self.quirk.contains(&Quirk::OverlappedStreams),
        })
    }

    /// Runtime over the device that the flags ask for, and that device.
    fn runtime(&self, arithmetic: Arithmetic) -> Result<(Arc<Runtime>, Side)> {
        let remote = |route| -> Result<Arc<Remote>> {
            let remote = Remote::connect(&socket(self.socket.clone())?, route).map_err(refused)?;
            let (depth, power_saving) = (self.depth, self.power_saving);
            let load = Loading { depth, power_saving, wired: self.wired, long: self.long_compile };
            Ok(Arc::new(self.qos.into_iter().fold(remote.with_loading(load), Remote::with_class)))
        };
        let refuse = |message: &str, help: &str| Err(Diagnostic::new(Code::Usage, message).help(help));
        if self.secure && !matches!(self.via, Some(Via::Inprocess)) {
            return refuse("--secure is a property of the driver, which the broker has", "--via inprocess");
        }
        let (runtime, device) = match self.via {
            Some(Via::Broker) => {
                remote(Route::Broker).map(|r| (Runtime::new(r.clone(), r.clone(), None), Side::There(r)))?
            }
            Some(Via::Direct) => {
                remote(Route::Direct).map(|r| (Runtime::new(r.clone(), r.clone(), None), Side::There(r)))?
            }
            _ if self.qos.is_some() => {
                return refuse("--qos is told to a broker; there is none with --via inprocess", "--via broker");
            }
            _ => {
                let device = InProcess::configured(Config { arithmetic, ..Config::default() }).map_err(refused)?;
                let device = Arc::new(if self.secure { device.secure() } else { device });
                let cache = cache(self.cache.clone())?;
                (Runtime::new(device.clone(), Arc::new(ModelCompiler), Some(cache)), Side::Here(device))
            }
        };
        let stream_overlap = self.quirk.contains(&Quirk::OverlappedStreams);
        let runtime = runtime.with_host(Arc::new(Evaluator)).with_quirks(Quirks { stream_overlap });
        Ok((Arc::new(if self.perfetto.is_some() { runtime.with_trace() } else { runtime }), device))
    }
}

/// Device of the run.
enum Side {
    /// In this process.
    Here(Arc<InProcess>),
    /// Behind a socket.
    There(Arc<Remote>),
}

/// Longest wait for a stream.
const STREAM_TIME: Duration = Duration::from_secs(600);

/// A model, loaded and bound.
pub struct Session {
    runtime: Arc<Runtime>,
    device: Option<Arc<InProcess>>,
    lanes: Vec<Lane>,
    times: u32,
    perfetto: Option<PathBuf>,
    /// True if overlapped streams have the M1's defect.
    overlap: bool,
}

/// A stream with an operation and buffers of its own.
struct Lane {
    stream: Stream,
    ports: Vec<(PortInfo, Arc<Buffer>)>,
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
        Ok(Lane { stream, ports })
    }

    fn fill(&self, inputs: &[(String, Array)]) -> Result<()> {
        for (info, buffer) in self.ports.iter().filter(|(info, _)| !info.output) {
            let elements = info.shape.iter().product::<u64>();
            let data = inputs.iter().find(|(name, _)| *name == info.name).map(|(_, a)| &a.data);
            let data = data.filter(|d| d.len() as u64 == elements).ok_or_else(|| {
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
        let read = |(info, buffer): &(PortInfo, Arc<Buffer>)| {
            let bytes = buffer.shared().to_vec();
            let data = match info.dtype {
                3 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
                4 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
                _ => bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32).collect(),
            };
            let shape = info.shape.iter().map(|&n| n as usize).collect();
            (info.name.clone(), Array { shape, data })
        };
        self.ports.iter().filter(|(info, _)| info.output).map(read).collect()
    }
}

impl Session {
    /// Dispatches on these inputs; outputs as a run has them, of the first stream.
    pub fn run(&self, inputs: &[(String, Array)]) -> Result<Run> {
        self.lanes.iter().try_for_each(|lane| lane.fill(inputs))?;
        for _ in 0..self.times {
            if let [lane] = self.lanes.as_slice() {
                lane.stream.execute().map_err(refused)?;
                continue;
            }
            let events = {
                // However short their work, the streams overlap.
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
                        true => diagnostic.help("--quirk overlapped-streams has the second of overlapped streams never complete, as on an M1; without it, all do"),
                        false => diagnostic,
                    }
                })?;
            }
        }
        if let (Some(path), Some(trace)) = (&self.perfetto, self.runtime.trace()) {
            files::write(path, trace.json().as_bytes())?;
        }
        let outputs = self.lanes.first().map_or(Vec::new(), Lane::outputs);
        Ok(Run { outputs, tasks: 0, skipped: Vec::new(), trace: Vec::new() })
    }

    /// Prints the driver's counters, if the driver is in this process.
    pub fn told(&self, voice: Voice) {
        let counts = self.runtime.counts();
        let sent = counts.state_bytes.load(Ordering::Relaxed);
        let Some(device) = &self.device else { return };
        let counters = device.driver().counters();
        let calls = counters.calls.iter().map(|((control, selector), n)| {
            format!("{} {selector} x {n}", if *control { "control" } else { "direct" })
        });
        voice.detail(format!("selectors: {}", calls.collect::<Vec<_>>().join(", ")));
        voice.detail(format!(
            "{} requests, {} of them chained, {} engine requests, {} interrupts, {} secure phases, {sent} bytes of state sent, \
             {:.1} us modelled",
            counters.completed,
            counters.chained,
            counters.engine_requests.iter().sum::<u64>(),
            counters.interrupts,
            counters.secure_phases,
            device.driver().now_ns() as f64 / 1000.0
        ));
    }
}
