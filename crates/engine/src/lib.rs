//! What the machine would do: executes a program from its register words and memory alone.
//!
//! This crate may use `facts` and `program`. It never sees the network or the compiler: the two agree only through
//! bytes and rows. It does not panic on any program; a set field that it does not obey is a named [`Fault`], and so is
//! every access outside a region.
//!
//! Dependencies: `half` converts fp16 (hardware instructions where the host has them), `bytemuck` views memory as
//! halfwords without `unsafe`, `pulp` chooses the vector instructions of the machine at hand without `unsafe`, `rayon`
//! spreads work over cores, `thiserror` words the faults.

mod activation;
mod blocked;
mod both;
mod constants;
mod convolution;
mod depthwise;
mod direct;
mod dma;
mod exact;
mod fault;
mod fold;
mod gains;
mod honours;
mod interleave;
mod lines;
mod lone;
mod lut;
mod machine;
mod memory;
mod native;
mod ne;
pub mod number;
mod panels;
mod pe;
mod plan;
mod planar;
mod pointwise;
mod product;
mod rows;
mod tensor;
mod trace;
mod unpack;
mod volume;
mod window;
mod winograd;
mod work;

pub use fault::{Fault, FaultKind};
pub use honours::{Treatment, executes, treatment};
pub use lut::Table;
pub use memory::{Memory, Region};
pub use plan::{Options, Outcome, Plan, run};
pub use trace::{Moved, Operand, Site, TaskTrace, Values};
