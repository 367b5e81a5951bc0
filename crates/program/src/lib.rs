//! Compiled programs as bytes: task descriptors, listings and containers.
//!
//! This crate may use `facts`. It has no knowledge of operations and does no file I/O. Bits without a meaning never
//! stop a listing: they are listed, not dropped.
//!
//! Dependencies: `flatbuffers` writes dispatch descriptors; the reader is ours, because the library's accessors are
//! unsafe functions and its errors have no names of fields. `thiserror` derives error messages (no hand-written `Display` to drift
//! from the variants), `serde` gives explanations a machine-readable form, `half` prints half-precision numbers, `bytemuck` converts
//! vectors of them, `sha2` names kernels.
//!
//! Fields of a task become words of a stream, and are read back by name:
//!
//! ```
//! use anemone_facts::{Field, layout};
//! use anemone_program::{Program, Task, task::encode_stream, text};
//!
//! let mut tasks = [Task::full(&layout::H13)];
//! tasks[0].set(&layout::H13, Field::Cin, 64)?;
//! let stream = encode_stream(&layout::H13, &mut tasks)?;
//! let program = Program {
//!     name: "main".into(),
//!     layout: &layout::H13,
//!     stream,
//!     first_task_words: tasks[0].word_count(),
//!     kernel: Vec::new().into(),
//!     scratch_bytes: 0,
//!     ports: Vec::new(),
//! };
//! assert_eq!(program.tasks()?[0].get(&layout::H13, Field::Cin), Some(64));
//! assert!(text::list(&program).contains("Cin = 64"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
pub mod cost;
pub mod coverage;
pub mod e5;
pub mod firmware;
pub mod hwx;
pub mod images;
pub mod order;
pub mod patch;
mod program;
pub mod raw;
mod renumber;
pub mod task;
pub mod text;

pub use coverage::Coverage;
pub use program::{BAR_COUNT, Direction, Element, Nchw, Port, Program, Strides};
pub use renumber::PortOrder;
pub use task::{FieldError, Form, Run, StreamError, Task};

/// Items that the tests in `tests/program` reach.
#[doc(hidden)]
pub mod testing {
    pub use crate::e5::write::write;
    pub use crate::text::lex::{quote, tokens};
}

// Memory of a program is read in place, and 64-bit offsets index it.
const _: () = assert!(u16::from_ne_bytes([1, 0]) == 1, "anemone needs a little-endian processor");
const _: () = assert!(usize::BITS == 64 || cfg!(target_family = "wasm"), "anemone needs a 64-bit processor");
