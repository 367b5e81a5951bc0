//! The compiler: a network becomes a program for one chip.
//!
//! This crate may use `facts`, `net` and `program`. It calls neither engine nor runtime, prints nothing and reads no
//! file. [`pipeline::ALL`] is the contents page; each stage is a type with a text form and a verifier.
//!
//! Dependencies: `half` rounds constants to fp16, `libm` gives the error function behind two activation tables,
//! `rayon` visits constants on several threads, `thiserror` words the refusals.
//!
//! A ReLU is one task; the log `()` takes no dumps of stages:
//!
//! ```
//! use anemone_compile::{Options, compile};
//! use anemone_facts::silicon;
//! use anemone_net::text;
//!
//! let source = "net \"main\" {\n  input %x: f16[1, 4, 1, 8]\n  %y: f16[1, 4, 1, 8] = relu(%x)\n  output %y\n}\n";
//! let net = text::parse(source, &[]).expect("a network");
//! let m1 = silicon::by_name("m1").expect("a chip");
//! let program = compile(&net, m1, &Options::default(), &mut ())?;
//! assert_eq!(program.tasks().expect("a task stream").len(), 1);
//! # Ok::<(), anemone_compile::Error>(())
//! ```

pub mod accuracy;
mod compiler;
mod emit;
mod error;
pub mod functions;
mod fuse;
pub mod here;
mod ir;
mod legalize;
mod lower;
pub mod lut;
mod memory;
pub mod native;
mod options;
pub mod pipeline;
mod remarks;
mod rewrite;
mod schedule;
pub mod segments;
mod staged_rows;
mod stream;
mod target;
mod tile;

pub use compiler::{compile, compile_until, sources};
pub use error::{Error, Refused, Result};
pub use legalize::TASKS;
pub use lower::PORTS;
pub use options::{Activations, Compat, Convention, Disabled, Options};
pub use remarks::{Log, Progress, Stage};

/// Items that the tests in `tests/compile` reach.
#[doc(hidden)]
pub mod testing {
    pub use crate::fuse::{ROUNDING, SMALL_ERROR, TOTAL_ERROR, collapse_transposes, small_error};
    pub use crate::ir::{
        Axis, Buffer, BufferId, Connect, Datum, ELEMENT_BYTES, Graph, Kind, Layer, Nonlinear, ROW_ALIGN, Role, View,
        View4, Window, dense_axes, reads,
    };
    pub use crate::legalize::{fits, legalize, native};
    pub use crate::lower::{Strided, lower};
    pub use crate::pipeline::verify_passes;
    pub use crate::remarks::Remarks;
    pub use crate::rewrite::gathers::{Piece, pieces, separate};
    pub use crate::rewrite::scatter::Region;
    pub use crate::rewrite::{
        absorb_affines, align_heads, bound_values, convolve_affines, convolve_means, convolve_tokens, decompose,
        drop_conversions, fold_constants, forward_affines, forward_slices, join_addends, join_parts, recognize,
        recognize_norms, recognize_quantization, remove_dead, replace_matmul, scale_portions, scale_small_terms,
        scale_whole_sums, select_columns, sum_convolutions, transpose_scores, wrap_narrow,
    };
    pub use crate::tile::spread;
}
