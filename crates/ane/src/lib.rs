//! The facade: one library over all crates, and the command line `ane`.
//!
//! [`Model::load`] reads any supported file, [`Model::read`] the same from memory, [`Model::compile`] makes a program of it, [`execute()`] runs a program on the
//! software engine. Only this crate does file I/O; refusals are [`Diagnostic`] values with a stable code.
//!
//! Without the feature `system` there are no command line, no cache and no memory maps: the rest works on bytes in memory,
//! on any target that `std` supports.
//!
//! Dependencies: `clap` parses arguments, `annotate-snippets` renders diagnostics, `indicatif` shows progress, `rawzip`
//! and `flate2` (with its decoder in Rust) read the archives `.npz`, `serde_json` prints JSON, `tempfile` makes writes atomic, `half` converts fp16,
//! `thiserror` derives error messages, `clap_complete`
//! and `clap_mangen` write completions and manual pages from the same arguments, `strsim` finds the name closest to a mistyped
//! one, `rayon` gives a session its own threads, `plotters` draws curves (without its fonts) and `png` writes the bitmap.
//!
//! A package, compiled for an M1 and run:
//!
//! ```
//! use anemone::{Array, Model};
//! use anemone_compile::Options;
//! use anemone_facts::silicon;
//! use std::path::Path;
//!
//! let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/digits.mlpackage"));
//! let m1 = silicon::by_name("m1").expect("a chip");
//! let executable = Model::load(path)?.executable(path, m1, &Options::default(), true)?;
//! let image = Array { shape: vec![1, 1, 8, 8], data: vec![0.5; 64] };
//! let outputs = executable.run(&[("image".into(), image)], Default::default())?;
//! let total: f32 = outputs[0].1.data.iter().sum();
//! assert!((total - 1.0).abs() < 0.01, "probabilities of ten classes");
//! # Ok::<(), anemone::Diagnostic>(())
//! ```

// The files of the command line name the library as its other users do.
extern crate self as anemone;

pub mod adapter;
pub mod aliases;
pub mod book;
pub mod brief;
pub mod chain;
pub mod check;
#[cfg(feature = "system")]
pub mod cli;
pub mod compile;
pub mod compiled;
#[cfg(feature = "system")]
pub mod connection;
pub mod convert;
pub mod diagnostic;
pub mod executable;
pub mod execute;
pub mod explain;
pub mod files;
pub mod fix;
pub mod forms;
pub mod graph;
pub mod host;
pub mod inputs;
pub mod layers;
pub mod lut;
pub mod machine;
pub mod model;
pub mod native;
pub mod os;
pub mod overview;
#[cfg(feature = "system")]
pub mod places;
pub mod procedures;
pub mod reference;
#[cfg(feature = "system")]
pub mod runtime;
pub mod session;
pub mod tensor;
pub mod validate;
pub mod warnings;
pub mod watch;
pub mod words;

pub use chain::ProgramChain;
pub use compiled::Compiled;
pub use diagnostic::{Code, Diagnostic, Result};
pub use executable::Executable;
pub use execute::{Run, execute};
pub use forms::Form;
pub use graph::Graph;
pub use model::{Choices, Model};
pub use session::Session;
pub use tensor::Array;

/// Items that the tests in `tests/cli` reach.
#[cfg(feature = "system")]
#[doc(hidden)]
pub mod testing {
    pub use crate::cli::guard::guarded;
    pub use crate::cli::run::by_layer::{table, verdict};
    pub use crate::cli::run::report::{RoundingSource, Tolerance};
    pub use crate::cli::{Args, GROUPS};
}
