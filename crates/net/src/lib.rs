//! What the user meant: typed network graphs from model files, with a checker and a plain evaluator.
//!
//! This room knows no hardware: it names no chip, no register and no byte limit, and it does no file I/O (readers get
//! bytes and a [`read::Files`] to ask for more).

pub mod check;
pub mod eval;
pub mod graph;
pub mod infer;
pub mod ops;
pub mod read;
pub mod text;

pub use graph::{DType, Data, Net, Op, Surface, Tensor, TensorType, Value, ValueId};
pub use ops::{Binary, GeluMode, OpKind, PoolKind, ReduceKind, Unary};
