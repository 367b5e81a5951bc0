//! The runtime: compile once, dispatch many.
//!
//! A [`Runtime`] has a device, a cache and a compiler of the caller. It makes a [`Library`] of a model; a function of it
//! becomes an [`Operation`] with ports; buffers are bound to ports; a [`Stream`] runs encoded operations. Buffers are dense
//! tensors of the network's types; the casts to the machine's layout are part of a dispatch.
//!
//! One buffer on an output and an input port is resident state: the device keeps the value, inputs are read before outputs
//! are written, and the host sends it again only when it has changed the buffer.

pub mod cast;
mod compiler;
pub mod device;
mod stream;
pub mod trace;

use crate::cache::{Bundle, Cache, Function as Signature, Key, PortInfo};
use crate::driver::task::lock;
use crate::error::{Error, Result};
use crate::os::shared::Shared;
use anemone_program::{Direction, Port, Program};
pub use compiler::{CompileOptions, Compiler};
use device::{Device, Loaded, read_image};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
pub use stream::{Event, Stream, StreamConfig};

/// How a runtime behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quirks {
    /// On the M1 the second of two overlapped streams of a process never gets its completion; it ends by its time-out. Off:
    /// both complete.
    pub stream_overlap: bool,
}

/// What the runtime counts.
#[derive(Debug, Default)]
pub struct Counts {
    /// Compiles that ran.
    pub compiles: AtomicU64,
    /// Dispatches that completed.
    pub dispatches: AtomicU64,
    /// Bytes of resident state that the host sent.
    pub state_bytes: AtomicU64,
    /// Bytes of other inputs that the host sent.
    pub input_bytes: AtomicU64,
}

/// Everything that objects share.
pub struct Runtime {
    pub(crate) device: Arc<dyn Device>,
    compiler: Arc<dyn Compiler>,
    cache: Option<Cache>,
    pub(crate) quirks: Quirks,
    pub(crate) counts: Counts,
    pub(crate) flights: Mutex<u32>,
    pub(crate) trace: Option<trace::Trace>,
    submitted: AtomicU64,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runtime")
    }
}

impl Runtime {
    /// A runtime. Without a cache every compile runs.
    pub fn new(device: Arc<dyn Device>, compiler: Arc<dyn Compiler>, cache: Option<Cache>) -> Runtime {
        Runtime {
            device,
            compiler,
            cache,
            quirks: Quirks::default(),
            counts: Counts::default(),
            flights: Mutex::new(0),
            trace: None,
            submitted: AtomicU64::new(0),
        }
    }

    /// With quirks.
    pub fn with_quirks(mut self, quirks: Quirks) -> Runtime {
        self.quirks = quirks;
        self
    }

    /// With a trace of what it does.
    pub fn with_trace(mut self) -> Runtime {
        self.trace = Some(trace::Trace::default());
        self
    }

    /// The trace.
    pub fn trace(&self) -> Option<&trace::Trace> {
        self.trace.as_ref()
    }

    /// Counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The cache.
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    pub(crate) fn next_submission(&self) -> u64 {
        self.submitted.fetch_add(1, Relaxed)
    }

    /// The key of a model with options: content, mask, segmenter, options, platform; not the path.
    pub fn key(&self, model: &Path, options: &CompileOptions) -> Result<Key> {
        let content = self.compiler.content(model).map_err(Error::Compile)?;
        Ok(Key::of(&[
            ("content", &content),
            ("mask", &options.device_mask.to_le_bytes()),
            ("segmenter", options.segmenter.as_bytes()),
            ("custom", options.custom.as_bytes()),
            ("platform", options.platform.as_bytes()),
        ]))
    }

    /// Whether a compile would run.
    pub fn is_new_compile_required(&self, model: &Path, options: &CompileOptions) -> Result<bool> {
        let key = self.key(model, options)?;
        Ok(options.force_recompilation || self.cache.as_ref().and_then(|c| c.fetch(&key)).is_none())
    }

    /// The library of a model: from the cache by content, or compiled.
    pub fn compile(self: &Arc<Self>, model: &Path, options: &CompileOptions) -> Result<Library> {
        let key = self.key(model, options)?;
        let fetch = || self.cache.as_ref().and_then(|c| c.fetch(&key)).filter(|_| !options.force_recompilation);
        let begin = std::time::Instant::now();
        let bundle = match fetch() {
            Some(bundle) => bundle,
            None if options.force_fetch => {
                return Err(Error::Unknown { what: "cache entry", name: key.text().to_string() });
            }
            None => {
                let claim = self.cache.as_ref().and_then(|c| c.claim(&key));
                // Whoever held the key before may have made the entry.
                match fetch().filter(|_| claim.is_some()) {
                    Some(bundle) => bundle,
                    None => {
                        self.counts.compiles.fetch_add(1, Relaxed);
                        let bundle = self.compiler.compile(model, options).map_err(Error::Compile)?;
                        if let Some(Err(error)) = self.cache.as_ref().map(|c| c.store(&key, &bundle)) {
                            tracing::warn!(%error, "a compiled program is not kept");
                        }
                        bundle
                    }
                }
            }
        };
        if let Some(trace) = &self.trace {
            trace.span(trace::Lane::Host, "COMPILE", begin);
        }
        Library::new(Arc::clone(self), bundle)
    }

    /// A library of a bundle.
    pub fn library(self: &Arc<Self>, bundle: Bundle) -> Result<Library> {
        Library::new(Arc::clone(self), bundle)
    }

    /// A buffer of so many bytes, all zero.
    pub fn buffer(&self, bytes: u64) -> Result<Arc<Buffer>> {
        Buffer::new(bytes)
    }
}

/// A compiled model.
#[derive(Clone)]
pub struct Library {
    runtime: Arc<Runtime>,
    bundle: Arc<Bundle>,
    program: Arc<Program>,
}

impl Library {
    fn new(runtime: Arc<Runtime>, bundle: Bundle) -> Result<Library> {
        let program = read_image(&bundle.image)?;
        for port in &program.ports {
            let info = bundle.function.ports.iter().find(|i| i.name == port.name);
            let info = info.ok_or_else(|| Error::Unknown { what: "port", name: port.name.clone() })?;
            cast::check(info, port)?;
        }
        Ok(Library { runtime, bundle: Arc::new(bundle), program: Arc::new(program) })
    }

    /// Function of a name; a model has one.
    pub fn function(&self, name: &str) -> Result<Function> {
        if name != self.bundle.function.name {
            return Err(Error::Unknown { what: "function", name: name.into() });
        }
        let shared = Loading { bundle: Arc::clone(&self.bundle), loaded: Mutex::new(None) };
        Ok(Function {
            runtime: Arc::clone(&self.runtime),
            program: Arc::clone(&self.program),
            loading: Arc::new(shared),
        })
    }

    /// What the function is called with.
    pub fn signature(&self) -> &Signature {
        &self.bundle.function
    }

    /// The bundle.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }
}

struct Loading {
    bundle: Arc<Bundle>,
    loaded: Mutex<Option<Arc<dyn Loaded>>>,
}

/// A function of a library.
#[derive(Clone)]
pub struct Function {
    runtime: Arc<Runtime>,
    program: Arc<Program>,
    loading: Arc<Loading>,
}

impl Function {
    /// Loads the program, once; operations do it if nobody did.
    pub fn load(&self) -> Result<()> {
        self.loaded().map(drop)
    }

    fn loaded(&self) -> Result<Arc<dyn Loaded>> {
        let mut slot = lock(&self.loading.loaded);
        if let Some(loaded) = &*slot {
            return Ok(Arc::clone(loaded));
        }
        let loaded = self.runtime.device.load(&self.loading.bundle)?;
        *slot = Some(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// An operation that runs the function.
    pub fn operation(&self) -> Result<Arc<Operation>> {
        let loaded = self.loaded()?;
        let signature = &self.loading.bundle.function;
        let mut ports = Vec::new();
        for port in &self.program.ports {
            let info = signature.ports.iter().find(|i| i.name == port.name);
            let info = info.ok_or_else(|| Error::Unknown { what: "port", name: port.name.clone() })?.clone();
            let device = Arc::new(Shared::new(port.bytes)?);
            let surface = loaded.add_surface(Arc::clone(&device))?;
            let dense = cast::dense_bytes(&info).unwrap_or(0) as usize;
            let buffers =
                Scratch { dense: vec![0; dense], strided: vec![0; port.bytes as usize], sent: vec![0; dense] };
            ports.push(OpPort {
                info,
                port: port.clone(),
                device,
                surface,
                bound: Mutex::new(None),
                scratch: Mutex::new(buffers),
            });
        }
        let prepared = AtomicBool::new(false);
        Ok(Arc::new(Operation { runtime: Arc::clone(&self.runtime), loaded, ports, prepared, busy: Mutex::new(()) }))
    }
}

struct Scratch {
    dense: Vec<u8>,
    strided: Vec<u8>,
    /// What the device has, as the host would see it.
    sent: Vec<u8>,
}

struct OpPort {
    info: PortInfo,
    port: Port,
    device: Arc<Shared>,
    surface: u32,
    bound: Mutex<Option<Arc<Buffer>>>,
    scratch: Mutex<Scratch>,
}

/// An operation: a function with ports.
pub struct Operation {
    runtime: Arc<Runtime>,
    loaded: Arc<dyn Loaded>,
    ports: Vec<OpPort>,
    prepared: AtomicBool,
    busy: Mutex<()>,
}

/// Memory of the host that is bound to ports.
#[derive(Debug)]
pub struct Buffer {
    shared: Shared,
}

impl Buffer {
    /// A buffer of so many bytes, all zero.
    pub fn new(bytes: u64) -> Result<Arc<Buffer>> {
        Ok(Arc::new(Buffer { shared: Shared::new(bytes)? }))
    }

    /// Its memory.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Writes single floats from the start.
    pub fn write_f32(&self, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.shared.write(&bytes);
    }

    /// All bytes as single floats.
    pub fn read_f32(&self) -> Vec<f32> {
        self.shared.to_vec().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

/// A port of an operation.
#[derive(Clone)]
pub struct IoPort {
    operation: Arc<Operation>,
    index: usize,
}

impl IoPort {
    /// Binds a buffer; its size must be the tensor's or more.
    pub fn bind(&self, buffer: &Arc<Buffer>) -> Result<()> {
        let port = &self.operation.ports[self.index];
        let expected = cast::dense_bytes(&port.info).unwrap_or(0);
        let found = buffer.shared.len() as u64;
        if found < expected {
            return Err(Error::Size { what: format!("buffer for {}", port.info.name), found, expected });
        }
        *lock(&port.bound) = Some(Arc::clone(buffer));
        Ok(())
    }

    /// What the port takes or gives.
    pub fn info(&self) -> &PortInfo {
        &self.operation.ports[self.index].info
    }
}

impl Operation {
    /// A port by name and direction.
    pub fn port(self: &Arc<Self>, name: &str, output: bool) -> Result<IoPort> {
        let way = if output { Direction::Output } else { Direction::Input };
        let found = self.ports.iter().position(|p| p.port.name == name && p.port.direction == way);
        let index = found.ok_or_else(|| Error::Unknown { what: "port", name: name.into() })?;
        Ok(IoPort { operation: Arc::clone(self), index })
    }

    /// Prepares for encoding; encoding does it if nobody did.
    pub fn prepare(&self) {
        self.prepared.store(true, Relaxed);
    }

    /// Whether every port has a buffer.
    pub(crate) fn check_bound(&self) -> Result<()> {
        match self.ports.iter().find(|p| lock(&p.bound).is_none()) {
            None => Ok(()),
            Some(p) => Err(Error::Unknown { what: "buffer bound to port", name: p.info.name.clone() }),
        }
    }

    /// One dispatch: casts in, inference, casts out.
    pub(crate) fn run(&self, limit: Option<std::time::Duration>) -> Result<()> {
        // Ports' memory on the device is this operation's; two runs of it take turns.
        let _turn = lock(&self.busy);
        let trace = self.runtime.trace.as_ref();
        let now = || trace.map(|_| std::time::Instant::now());
        let span = |name, begin: Option<_>| {
            if let Some((trace, begin)) = trace.zip(begin) {
                trace.span(trace::Lane::Host, name, begin);
            }
        };
        let all = now();
        let mut bound = Vec::with_capacity(self.ports.len());
        for p in &self.ports {
            let buffer = lock(&p.bound).clone();
            bound.push(
                buffer.ok_or_else(|| Error::Unknown { what: "buffer bound to port", name: p.info.name.clone() })?,
            );
        }
        let is = |i: usize, way| self.ports[i].port.direction == way;
        let alias = |i: usize| {
            (0..self.ports.len()).find(|&o| {
                is(o, Direction::Output) && Arc::ptr_eq(&bound[i], &bound[o]) && same(&self.ports[i], &self.ports[o])
            })
        };
        let (mut inputs, mut outputs) = (Vec::with_capacity(8), Vec::with_capacity(8));
        let begin = now();
        for (i, buffer) in bound.iter().enumerate() {
            if is(i, Direction::Output) {
                outputs.push(self.ports[i].surface);
                continue;
            }
            let state = alias(i);
            let p = &self.ports[state.unwrap_or(i)];
            inputs.push(p.surface);
            let mut scratch = lock(&p.scratch);
            let Scratch { dense, strided, sent } = &mut *scratch;
            buffer.shared.read(dense);
            if state.is_some() && dense == sent {
                continue;
            }
            cast::to_device(dense, p.info.dtype, &p.port, strided);
            p.device.write(strided);
            let count =
                if state.is_some() { &self.runtime.counts.state_bytes } else { &self.runtime.counts.input_bytes };
            count.fetch_add(dense.len() as u64, Relaxed);
        }
        span("DRIVER_REQUEST cast in", begin);
        let begin = now();
        self.loaded.submit(self.runtime.next_submission(), &inputs, &outputs, limit)?;
        span("DRIVER_REQUEST inference", begin);
        if let Some((trace, begin)) = trace.zip(begin) {
            trace.stages(begin);
        }
        let begin = now();
        for (i, buffer) in bound.iter().enumerate().filter(|&(i, _)| is(i, Direction::Output)) {
            let p = &self.ports[i];
            let mut scratch = lock(&p.scratch);
            let Scratch { dense, strided, sent } = &mut *scratch;
            p.device.read(strided);
            cast::to_host(strided, &p.port, p.info.dtype, dense);
            buffer.shared.write(dense);
            sent.copy_from_slice(dense);
        }
        span("DRIVER_REQUEST cast out", begin);
        span("EVAL", all);
        self.runtime.counts.dispatches.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Whether two ports have the same tensor in the same layout.
fn same(a: &OpPort, b: &OpPort) -> bool {
    let (x, y) = (&a.port, &b.port);
    (&a.info.shape, a.info.dtype) == (&b.info.shape, b.info.dtype)
        && (x.shape, x.strides, x.element, x.bytes) == (y.shape, y.strides, y.element, y.bytes)
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.ports.iter().for_each(|p| self.loaded.remove_surface(p.surface));
    }
}

/// The default place of the cache for a user whose cache folder is `base`.
pub fn cache_root(base: &Path) -> PathBuf {
    base.join("anemone").join("cache")
}
