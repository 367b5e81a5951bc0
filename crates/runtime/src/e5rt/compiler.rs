//! The caller's compiler, and the options of a compile.

use crate::cache::Bundle;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Step of a compile, for whoever waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The model is read, and its content hashed.
    Content,
    /// The cache is asked, and another process waited for that compiles the same.
    Cache,
    /// The compiler works: layers whose weights are done, of all layers; both 0 as it begins, and where it does not tell.
    Compile {
        /// Layers that are done.
        done: u64,
        /// All of them.
        all: u64,
    },
    /// The program is kept in the cache.
    Keep,
    /// The program is there.
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

/// Receives the steps of a compile, on the thread that compiles.
pub type Watcher = Arc<dyn Fn(Step) + Send + Sync>;

/// Compiler of models, given by the caller. The runtime does not see models: it gets bytes to hash and a bundle to keep.
pub trait Compiler: Send + Sync {
    /// Content digest: structure and weights, all that decides the program besides the options.
    fn content(&self, model: &Path) -> std::result::Result<[u8; 32], String>;
    /// The bundle.
    fn compile(&self, model: &Path, options: &CompileOptions) -> std::result::Result<Bundle, String>;
    /// The bundle, with steps told as work goes on; a compiler that cannot tell them is silent.
    fn compile_watched(
        &self,
        model: &Path,
        options: &CompileOptions,
        _: &Watcher,
    ) -> std::result::Result<Bundle, String> {
        self.compile(model, options)
    }
}

/// Options of a compile. All are part of the key but the two `force_` fields. This is also the form sent to the broker; a field
/// that a message leaves out is zero or empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileOptions {
    /// Devices that may be used; 4 is the engine.
    #[serde(default)]
    pub device_mask: u64,
    /// Compile even where the cache has it, and write it again.
    #[serde(default)]
    pub force_recompilation: bool,
    /// Do not compile: only the cache.
    #[serde(default)]
    pub force_fetch: bool,
    /// Segmenter: the way in which the graph is cut.
    #[serde(default)]
    pub segmenter: String,
    /// Options of the engine's compiler, `Key=value` pairs.
    #[serde(default)]
    pub custom: String,
    /// Platform.
    #[serde(default)]
    pub platform: String,
    /// Refuse what Apple's compiler refuses.
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
