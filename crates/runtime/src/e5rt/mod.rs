//! The runtime: compile once, dispatch many.
//!
//! A [`Runtime`] has a device, a cache and a compiler of the caller. It compiles a model to a [`Library`]; a function of it
//! becomes an [`Operation`] with ports; buffers are bound to ports; a [`Stream`] runs encoded operations. Buffers are dense
//! tensors of the network's types; the casts to the machine's layout are part of a dispatch. A buffer with that layout
//! is used as the surface of its port, without a cast.
//!
//! A buffer bound to an output and an input port is resident state: the device keeps the value, inputs are read before outputs
//! are written, and the host transfers it again only after changing the buffer.
//!
//! A model may be several programs with host segments between them, in the order of the descriptor. Results that the next program reads
//! in the same layout stay on the device; host segments are run by the executor that the caller provides
//! ([`Runtime::with_host`]).

pub mod cast;
mod compiler;
pub mod device;
mod host;
mod library;
mod operation;
mod stream;
mod surfaces;
pub mod trace;
mod turns;

use crate::cache::{Bundle, Cache, Key};
use crate::error::{Error, Result};
use crate::os::shared::Shared;
pub use compiler::{CompileOptions, Compiler, Step, Watcher};
use device::Device;
pub use host::{HostExecutor, HostSegment};
pub use library::{Function, Library, MAIN};
pub use operation::{IoPort, Operation};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockWriteGuard};
pub use stream::{Event, Stream, StreamConfig};

/// Defects of Apple's runtime that can be reproduced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quirks {
    /// On the M1 the second of two overlapped streams of a process never receives its completion, and ends by its time-out. Off:
    /// both complete.
    pub stream_overlap: bool,
}

/// Counters of the runtime.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of compiles.
    pub compiles: AtomicU64,
    /// Number of completed dispatches.
    pub dispatches: AtomicU64,
    /// Bytes of resident state transferred by the host.
    pub state_bytes: AtomicU64,
    /// Bytes of other inputs transferred by the host.
    pub input_bytes: AtomicU64,
    /// Bytes of bound buffers that were used as surfaces, without a transfer.
    pub in_place_bytes: AtomicU64,
    /// Number of host segments that ran.
    pub host_segments: AtomicU64,
}

/// State shared by all objects.
pub struct Runtime {
    pub(crate) device: Arc<dyn Device>,
    compiler: Arc<dyn Compiler>,
    pub(crate) host: Option<Arc<dyn HostExecutor>>,
    cache: Option<Cache>,
    unkept: OnceLock<String>,
    pub(crate) quirks: Quirks,
    pub(crate) counts: Counts,
    pub(crate) flights: Mutex<u32>,
    pub(crate) departures: RwLock<()>,
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
            host: None,
            cache,
            unkept: OnceLock::new(),
            quirks: Quirks::default(),
            counts: Counts::default(),
            flights: Mutex::new(0),
            departures: RwLock::new(()),
            trace: None,
            submitted: AtomicU64::new(0),
        }
    }

    /// Blocks submitted streams at their start until the guard is dropped, so that all of them overlap.
    pub fn hold(&self) -> RwLockWriteGuard<'_, ()> {
        self.departures.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the executor of host segments. Without one, models with host segments are refused.
    pub fn with_host(mut self, host: Arc<dyn HostExecutor>) -> Runtime {
        self.host = Some(host);
        self
    }

    /// Sets the quirks.
    pub fn with_quirks(mut self, quirks: Quirks) -> Runtime {
        self.quirks = quirks;
        self
    }

    /// Records a trace.
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

    /// Reason why the cache could not store a program, for the first such program.
    pub fn unkept(&self) -> Option<&str> {
        self.unkept.get().map(String::as_str)
    }

    pub(crate) fn next_submission(&self) -> u64 {
        self.submitted.fetch_add(1, Relaxed)
    }

    /// The key of a model with options: content, mask, segmenter, options, platform, strictness; the path is not part of it.
    pub fn key(&self, model: &Path, options: &CompileOptions) -> Result<Key> {
        let content = self.compiler.content(model).map_err(Error::Compile)?;
        let mask = options.device_mask.to_le_bytes();
        let mut parts: Vec<(&str, &[u8])> = vec![
            ("content", &content),
            ("mask", &mask),
            ("segmenter", options.segmenter.as_bytes()),
            ("custom", options.custom.as_bytes()),
            ("platform", options.platform.as_bytes()),
        ];
        if options.strict {
            parts.push(("strict", &[1]));
        }
        Ok(Key::of(&parts))
    }

    /// Returns true if the cache has no entry for the model, or recompilation is forced.
    pub fn is_new_compile_required(&self, model: &Path, options: &CompileOptions) -> Result<bool> {
        let key = self.key(model, options)?;
        Ok(options.force_recompilation || self.cache.as_ref().and_then(|c| c.fetch(&key)).is_none())
    }

    /// The library of a model: from the cache by content, or compiled.
    pub fn compile(self: &Arc<Self>, model: &Path, options: &CompileOptions) -> Result<Library> {
        self.compile_watched(model, options, None)
    }

    /// As [`Runtime::compile`], with progress reports.
    pub fn compile_watched(
        self: &Arc<Self>,
        model: &Path,
        options: &CompileOptions,
        watcher: Option<&Watcher>,
    ) -> Result<Library> {
        let (bundle, kept) = self.bundle_watched(model, options, watcher)?;
        let library = Library::new(Arc::clone(self), bundle, kept)?;
        tell(watcher, Step::Done)?;
        Ok(library)
    }

    /// The bundle of a model, and true if it comes from the cache; its programs are not read.
    pub fn bundle(&self, model: &Path, options: &CompileOptions) -> Result<(Bundle, bool)> {
        self.bundle_watched(model, options, None)
    }

    fn bundle_watched(
        &self,
        model: &Path,
        options: &CompileOptions,
        watcher: Option<&Watcher>,
    ) -> Result<(Bundle, bool)> {
        tell(watcher, Step::Content)?;
        let key = self.key(model, options)?;
        let fetch = || self.cache.as_ref().and_then(|c| c.fetch(&key)).filter(|_| !options.force_recompilation);
        let begin = std::time::Instant::now();
        let mut kept = true;
        tell(watcher, Step::Cache)?;
        let bundle = match fetch() {
            Some(bundle) => bundle,
            None if options.force_fetch => {
                return Err(Error::Unknown { what: "cache entry", name: key.text().to_string() });
            }
            None => {
                let claim = self.cache.as_ref().and_then(|c| c.claim(&key));
                // The previous holder of the lock may have made the entry.
                match fetch().filter(|_| claim.is_some()) {
                    Some(bundle) => bundle,
                    None => {
                        kept = false;
                        self.counts.compiles.fetch_add(1, Relaxed);
                        tell(watcher, Step::Compile { done: 0, all: 0 })?;
                        let bundle = match watcher {
                            Some(watcher) => self.compiler.compile_watched(model, options, watcher),
                            None => self.compiler.compile(model, options),
                        };
                        let bundle = bundle.map_err(Error::Compile)?;
                        if let Some(cache) = &self.cache {
                            tell(watcher, Step::Keep)?;
                            if let Err(error) = cache.store(&key, &bundle) {
                                tracing::warn!(%error, "a compiled program is not stored in the cache");
                                self.unkept.get_or_init(|| error.to_string());
                            }
                        }
                        bundle
                    }
                }
            }
        };
        if let Some(trace) = &self.trace {
            trace.span(trace::Lane::Host, "COMPILE", begin);
        }
        Ok((bundle, kept))
    }

    /// A library of a bundle.
    pub fn library(self: &Arc<Self>, bundle: Bundle) -> Result<Library> {
        Library::new(Arc::clone(self), bundle, true)
    }

    /// Allocates a buffer of `bytes` zero bytes.
    pub fn buffer(&self, bytes: u64) -> Result<Arc<Buffer>> {
        Buffer::new(bytes)
    }
}

/// Reports a step to a watcher. Errors: the watcher stops the compile.
fn tell(watcher: Option<&Watcher>, step: Step) -> Result<()> {
    let Some(watcher) = watcher else { return Ok(()) };
    if watcher.stopped() {
        return Err(Error::Compile("it was stopped".into()));
    }
    watcher.tell(step);
    Ok(())
}

/// Host memory that is bound to ports.
#[derive(Debug)]
pub struct Buffer {
    shared: Arc<Shared>,
}

impl Buffer {
    /// Allocates a buffer of `bytes` zero bytes.
    pub fn new(bytes: u64) -> Result<Arc<Buffer>> {
        Ok(Arc::new(Buffer { shared: Arc::new(Shared::new(bytes)?) }))
    }

    /// Its memory.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Writes fp32 numbers from the start.
    pub fn write_f32(&self, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.shared.write(&bytes);
    }

    /// All bytes as fp32 numbers.
    pub fn read_f32(&self) -> Vec<f32> {
        self.shared.to_vec().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

/// The default cache folder for a user whose cache folder is `base`.
pub fn cache_root(base: &Path) -> PathBuf {
    base.join("anemone").join("cache")
}
