//! Front end: typed network graphs from model files, with a checker and a plain evaluator.
//!
//! This crate knows no hardware: it names no chip, no register and no byte limit, and it does no file I/O (readers get
//! bytes and a [`read::Files`] to ask for more).
//!
//! # Dependencies, each with its reason
//! - `bytes`: slices of a weight file that share its memory; the protobuf reader gives them too.
//! - `half`: IEEE 754 binary16, which Rust does not have.
//! - `thiserror`: the crate's error enum without hand-written formatting.
//! - `ndarray`: safe matrix products over borrowed slices (its kernels are those of `matrixmultiply`); the kernel crates
//!   themselves take raw pointers, and this crate has no `unsafe`.
//! - `num-integer`: not used by name; it gives builds with and without tests the same features (see `Cargo.toml`).
//! - `libm`: the error function, which `std` does not have.
//! - `prost`: the protobuf wire format of Core ML and ONNX models; messages are declared by hand, nothing is generated at build.
//! - `lzfse_rust`: the compression of packed netplists, without C.
//! - `plist`: XML and binary property lists of netplists.
//! - `serde_json`: the manifest of a model package.
//!
//! A network from text, evaluated:
//!
//! ```
//! use anemone_net::{Data, Tensor, eval, text};
//!
//! let source = "net \"main\" {\n  input %x: f32[4]\n  %y: f32[4] = relu(%x)\n  output %y\n}\n";
//! let net = text::parse(source, &[])?;
//! let x = Tensor { shape: vec![4], data: Data::F32(vec![-1.0, 0.0, 1.0, 2.0]) };
//! assert_eq!(eval::eval(&net, &[x])?[0].data, Data::F32(vec![0.0, 0.0, 1.0, 2.0]));
//! # Ok::<(), anemone_net::Error>(())
//! ```

#[doc(hidden)]
mod build;
pub mod check;
pub mod compress;
pub mod draw;
mod error;
pub mod eval;
pub mod infer;
pub mod loops;
pub mod mil;
pub mod native;
pub mod netplist;
pub mod ops;
pub mod opset;
mod order;
pub mod outline;
pub mod proof;
pub mod read;
mod tensor;
pub mod text;
mod types;

pub use error::{Error, TextFault, operands};
pub use graph::{Counted, Net, Op, State, Surface, Value, ValueId};
pub use ops::graph;
pub use ops::{
    Binary, Coordinates, EdgeMode, GELU_SLOPE, GeluMode, Loop, OpKind, Outside, PoolKind, ReduceKind, ResizeMode, Scan,
    ScatterMode, Unary,
};
pub use tensor::{Data, Tensor, stored};
pub use types::{DType, TensorType};

/// Items that the tests in `tests/units` reach.
#[doc(hidden)]
pub mod testing {
    pub use crate::build::Builder;
    pub use crate::eval::linear::{matrix, matrix_mut, product_on};
    pub use crate::mil::lex::{Lexer, Token, float, hex_float, integer};
    pub use crate::mil::proto as mil;
    pub use crate::read::blob::decode;
    pub use crate::read::onnx::counts::COUNTS;
    pub use crate::read::onnx::{element, proto as onnx};
    pub use crate::read::packed::unpack;
}
