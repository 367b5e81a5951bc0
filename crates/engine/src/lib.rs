//! Execution of a program from its register words and memory alone.
//!
//! This crate may use `facts` and `program`. It never sees the network or the compiler: they share only
//! bytes and rows. It does not panic on any program; a set field that it does not obey is a named [`Fault`], and so is
//! every access outside a region.
//!
//! CPU kernels are in `anemone-kernels`, which knows no program; [`numerics`] converts rows of `facts` to their parameters.
//!
//! Dependencies: `half` for fp16, `bytemuck` to view memory as halfwords without `unsafe`, `thiserror` for fault messages.
//!
//! Treatment of fields and executed generations ([`Plan`] runs a program many times, [`run`] once):
//!
//! ```
//! use anemone_engine::{Treatment, executes, treatment};
//! use anemone_facts::{Field, layout};
//!
//! assert_eq!(treatment(Field::Cin), Treatment::Obeyed);
//! assert_eq!(treatment(Field::ExeCycles), Treatment::NoEffect);
//! assert!(executes(&layout::H13));
//! ```
//!
//! A single task, the ReLU of a row of four numbers from base register 5 to base register 4:
//!
//! ```
//! use anemone_engine::{Memory, Options, run};
//! use anemone_facts::Field::*;
//! use anemone_facts::code::{class, format, residency};
//! use anemone_facts::layout::H13;
//! use anemone_program::{Program, Task, task::encode_stream};
//! use half::f16;
//!
//! let (source, result, one) = (5u8, 4u8, u32::from(f16::ONE.to_bits()));
//! let mut task = Task::full(&H13);
//! for (field, value) in [
//!     (TaskClass, class::PLANAR_ONE), (PeReluEn, 1),
//!     (PePreScale, one), (PeScale, one), (PeFinalScale, 1f32.to_bits()),
//!     (RBase0, source.into()), (Rbe0, 1), (SrcType, residency::DMA),
//!     (WBase, result.into()), (Wbe, 1), (ResType, residency::DMA), (DstEn, 1),
//!     (InFmt, format::FP16), (Src1MemFmt, format::FP16), (OutFmt, format::FP16), (DstMemFmt, format::FP16),
//!     (Kw, 1), (Kh, 1), (Sx, 1), (Sy, 1), (NumGroups, 1),
//!     (Cin, 1), (Hin, 1), (Win, 4), (Cout, 1), (Hout, 1), (Wout, 4),
//! ] {
//!     task.set(&H13, field, value)?;
//! }
//! for stride in [Src1RowStride, DstRowStride] {
//!     task.set_bytes(&H13, stride, 64)?;
//! }
//! let (first_task_words, mut tasks) = (task.word_count(), vec![task]);
//! let stream = encode_stream(&H13, &mut tasks)?;
//! let (kernel, ports) = (Vec::new().into(), Vec::new());
//! let program = Program { name: "relu".into(), layout: &H13, stream, first_task_words, kernel, scratch_bytes: 0, ports };
//!
//! let mut memory = Memory::for_program(&program);
//! let numbers = [-1.0, 0.5, 2.0, -3.0].map(|x| f16::from_f32(x).to_le_bytes()).concat();
//! memory.bind(source, &[numbers, vec![0; 56]].concat());
//! memory.bind(result, &[0; 64]);
//! run(&program, &mut memory, Options::default())?;
//! let bytes = memory.region(result).expect("bound").bytes();
//! let found = [0, 2, 4, 6].map(|at| f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32());
//! assert_eq!(found, [0.0, 0.5, 2.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activation;
mod constants;
mod direct;
mod dma;
mod exact;
mod fault;
mod field_support;
mod fields;
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
pub use field_support::{Treatment, executes, treatment};
pub use lut::Table;
pub use memory::{Memory, Region};
pub use plan::{
    Level, Moved, Operand, Options, Outcome, PassText, Plan, Profile, Site, StepTime, Sums, TaskTrace, Values, run,
};

/// Items that the tests in `tests/engine` reach.
#[doc(hidden)]
pub mod testing {
    pub use crate::field_support::OTHER_GENERATIONS;
    pub use crate::memory::Home;
    pub use crate::ne::flat::{along_columns, convolve_sequence, is_sequence, one_row};
    pub use crate::ne::select::Planned;
    pub use crate::operand::MemRef;
    pub use crate::plan::commute::run as commute;
    pub use crate::plan::dense::run as make_dense;
    pub use crate::plan::lift::{Interleaved, interleaved_axes};
    pub use crate::plan::live::LiveBytes;
    pub use crate::plan::maps::{Map, MapOperand, by_stride};
    pub use crate::plan::moves::{run as compose, through};
    pub use crate::plan::ops::{Kind, Move, Op};
    pub use crate::plan::product::resolved;
    pub use crate::plan::slices::run as into_slices;
}
