//! Who compiles, and what a compile is asked.

use crate::cache::Bundle;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Makes programs of models. The runtime does not see models: it is given bytes to hash and a bundle to keep.
pub trait Compiler: Send + Sync {
    /// Whatever decides the program besides the options: structure and weights, by content.
    fn content(&self, model: &Path) -> std::result::Result<[u8; 32], String>;
    /// The bundle.
    fn compile(&self, model: &Path, options: &CompileOptions) -> std::result::Result<Bundle, String>;
}

/// What a compile is asked. All of it is part of the key but for the two `force_` fields. As it is sent to the broker, too;
/// what a message leaves out is zero or empty.
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
    /// How the graph is cut.
    #[serde(default)]
    pub segmenter: String,
    /// Options of the engine's compiler, `Key=value` pairs.
    #[serde(default)]
    pub custom: String,
    /// Platform.
    #[serde(default)]
    pub platform: String,
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
        }
    }
}
