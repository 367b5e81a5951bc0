//! `ane run --via`: through the runtime, in this process or through a broker.

use super::places::{cache, refused, socket};
use anemone::host::Evaluator;
use anemone::runtime::{ENGINE_ONLY, ModelCompiler};
use anemone::{Array, Code, Diagnostic, Result, Run, files};
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::driver::{Arithmetic, Config};
use anemone_runtime::e5rt::cast::element_bytes;
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{CompileOptions, Runtime, Stream};
use clap::Args;
use half::f16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub struct Flags {
    /// Run through the runtime: compiled once by content, then dispatched
    #[arg(long, value_enum)]
    via: Option<Via>,
    /// Where the broker listens
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
    /// Where a trace of the session goes, for ui.perfetto.dev
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

/// What is run.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Model or compiled file.
    pub model: &'a Path,
    /// Compiler target.
    pub target: &'a str,
    /// How the device computes.
    pub arithmetic: Arithmetic,
    /// Refuse what needs host segments.
    pub engine_only: bool,
}

impl Flags {
    /// Whether the runtime is asked for.
    pub fn wanted(&self) -> bool {
        self.via.is_some()
    }

    /// Compiles, loads and dispatches; outputs as a run has them.
    pub fn execute(&self, request: &Request, inputs: &[(String, Array)]) -> Result<Run> {
        let Request { model, target, arithmetic, engine_only } = *request;
        if arithmetic == Arithmetic::Exact && !matches!(self.via, Some(Via::Inprocess)) {
            let message = "--numerics exact: the broker decides the arithmetic of what it runs";
            return Err(Diagnostic::new(Code::Usage, message).help("ane broker --numerics exact, or --via inprocess"));
        }
        let remote = |route| -> Result<Arc<Remote>> {
            let remote = Remote::connect(&socket(self.socket.clone())?, route).map_err(refused)?;
            Ok(Arc::new(self.qos.into_iter().fold(remote, Remote::with_class)))
        };
        let runtime = match self.via {
            Some(Via::Broker) => remote(Route::Broker).map(|r| Runtime::new(r.clone(), r, None))?,
            Some(Via::Direct) => remote(Route::Direct).map(|r| Runtime::new(r.clone(), r, None))?,
            _ if self.qos.is_some() => {
                let message = "--qos is told to a broker; there is none with --via inprocess";
                return Err(Diagnostic::new(Code::Usage, message).help("--via broker"));
            }
            _ => {
                let device =
                    Arc::new(InProcess::configured(Config { arithmetic, ..Config::default() }).map_err(refused)?);
                Runtime::new(device, Arc::new(ModelCompiler), Some(cache(self.cache.clone())?))
            }
        };
        let runtime = runtime.with_host(Arc::new(Evaluator));
        let runtime = Arc::new(if self.perfetto.is_some() { runtime.with_trace() } else { runtime });
        let custom = format!("TargetArchitecture={target}");
        let mut options = CompileOptions { platform: target.into(), custom, ..CompileOptions::default() };
        if engine_only {
            options.segmenter = ENGINE_ONLY.into();
        }
        let library = runtime.compile(model, &options).map_err(refused)?;
        let operation = library.function("main").and_then(|f| f.operation()).map_err(refused)?;
        let mut outputs = Vec::new();
        for info in &library.signature().ports {
            let port = operation.port(&info.name, info.output).map_err(refused)?;
            let elements = info.shape.iter().product::<u64>();
            let size = element_bytes(info.dtype).unwrap_or(2) as u64;
            let buffer = runtime.buffer(elements * size).map_err(refused)?;
            port.bind(&buffer).map_err(refused)?;
            if info.output {
                outputs.push((info, buffer));
                continue;
            }
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
        let stream = Stream::new(&runtime);
        stream.encode(&operation).map_err(refused)?;
        for _ in 0..self.times {
            stream.execute().map_err(refused)?;
        }
        if let (Some(path), Some(trace)) = (&self.perfetto, runtime.trace()) {
            files::write(path, trace.json().as_bytes())?;
        }
        let outputs = outputs
            .into_iter()
            .map(|(info, buffer)| {
                let bytes = buffer.shared().to_vec();
                let data = match info.dtype {
                    3 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
                    4 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
                    _ => bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32).collect(),
                };
                let shape = info.shape.iter().map(|&n| n as usize).collect();
                (info.name.clone(), Array { shape, data })
            })
            .collect();
        Ok(Run { outputs, tasks: 0, skipped: Vec::new(), trace: Vec::new() })
    }
}
