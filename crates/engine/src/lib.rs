//! Execution of a program from its register words and memory alone.
//!
//! This crate may use `facts` and `program`. It never sees the network or the compiler: the two agree only through
//! bytes and rows. It does not panic on any program; a set field that it does not obey is a named [`Fault`], and so is
//! every access outside a region.
//!
//! Arithmetic of the host is in `anemone-kernels`, which knows no program; [`numerics`] makes its parameters of the facts' rows.
//!
//! Dependencies: `half` for fp16, `bytemuck` views memory as halfwords without `unsafe`, `thiserror` words the faults.
//!
//! How the engine treats a field, and which generations it executes ([`Plan`] runs a program, [`run`] one once):
//!
//! ```
//! use anemone_engine::{Treatment, executes, treatment};
//! use anemone_facts::{Field, layout};
//!
//! assert_eq!(treatment(Field::Cin), Treatment::Obeyed);
//! assert_eq!(treatment(Field::ExeCycles), Treatment::NoEffect);
//! assert!(executes(&layout::H13));
//! ```

mod activation;
mod constants;
mod direct;
mod dma;
mod exact;
mod fault;
mod fields;
mod honours;
mod lines;
mod lut;
mod machine;
mod memory;
mod native;
mod ne;
pub mod numerics;
mod operand;
mod packed;
mod pe;
mod plan;
mod planar;
mod unpack;
mod volume;

pub use anemone_kernels as kernels;
pub use fault::{Fault, FaultKind};
pub use honours::{Treatment, executes, treatment};
pub use lut::Table;
pub use memory::{Memory, Region};
pub use plan::{
    Level, Moved, Operand, Options, Outcome, PassText, Plan, Profile, Site, StepTime, Sums, TaskTrace, Values, run,
};
