//! Interface of the caller's compiler, and the options of a compile.

use crate::cache::Bundle;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Step of a compile, for progress reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading the model and hashing its content.
    Content,
    /// Looking up the cache, or waiting for another process that compiles the same.
    Cache,
    /// Compiling: layers whose weights are done, of all layers; both 0 at the beginning, and if the compiler does not report them.
    Compile {
        /// Number of layers done.
        done: u64,
        /// Number of all layers.
        all: u64,
    },
    /// Storing the program in the cache.
    Keep,
    /// Finished.
    Done,
}

impl Step {
    /// Name: `content`, `cache`, `compile`, `keep` or `done`.
    pub fn name(self) -> &'static str {
        match self {
            Step::Content => "content",
            Step::Cache => "cache",
            Step::Compile { .. } => "compile",
            Step::Keep => "keep",
            Step::Done => "done",
        }
    }
}

/// Follows a compile, on the thread that compiles.
#[derive(Clone)]
pub struct Watcher {
    tell: Arc<dyn Fn(Step) + Send + Sync>,
    stopped: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Watcher {
    /// A watcher that receives each step.
    pub fn new(tell: impl Fn(Step) + Send + Sync + 'static) -> Watcher {
        Watcher { tell: Arc::new(tell), stopped: None }
    }

    /// The watcher, which also ends the compile as soon as `stopped` returns true: it is asked at every step, before every pass of the
    /// compiler, and after the weights of every layer.
    pub fn until(self, stopped: impl Fn() -> bool + Send + Sync + 'static) -> Watcher {
        Watcher { stopped: Some(Arc::new(stopped)), ..self }
    }

    /// Reports a step.
    pub fn tell(&self, step: Step) {
        (self.tell)(step);
    }

    /// Returns true if the result is no longer needed.
    pub fn stopped(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| stopped())
    }
}

/// Compiler of models, provided by the caller. The runtime has no knowledge of models: it receives bytes to hash and a bundle to keep.
pub trait Compiler: Send + Sync {
    /// Content digest: structure and weights, everything besides the options that determines the program.
    fn content(&self, model: &Path) -> std::result::Result<[u8; 32], String>;
    /// Compiles a model to a bundle.
    fn compile(&self, model: &Path, options: &CompileOptions) -> std::result::Result<Bundle, String>;
    /// As [`Compiler::compile`], with progress reports; by default none.
    fn compile_watched(
        &self,
        model: &Path,
        options: &CompileOptions,
        _: &Watcher,
    ) -> std::result::Result<Bundle, String> {
        self.compile(model, options)
    }
}

/// Options of a compile. All are part of the key except the two `force_` fields. This is also the form sent to the broker; a field
/// that a message omits is zero or empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileOptions {
    /// Devices that may be used; 4 is the engine.
    #[serde(default)]
    pub device_mask: u64,
    /// True to compile even on a cache hit, and to overwrite the entry.
    #[serde(default)]
    pub force_recompilation: bool,
    /// True to use the cache only.
    #[serde(default)]
    pub force_fetch: bool,
    /// Segmenter, which partitions the graph.
    #[serde(default)]
    pub segmenter: String,
    /// Options of the engine's compiler, `Key=value` pairs.
    #[serde(default)]
    pub custom: String,
    /// Platform.
    #[serde(default)]
    pub platform: String,
    /// True to refuse models that Apple's compiler refuses.
    #[serde(default)]
    pub strict: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            device_mask: 4,
            force_recompilation: false,
            force_fetch: false,
            segmenter: "graph".into(),
            custom: "TargetArchitecture=h13".into(),
            platform: "h13".into(),
            strict: false,
        }
    }
}
