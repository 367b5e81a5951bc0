//! Placement of a program's operations on each chip, with reasons of refusal and fixes: a dry run without a compile.
//!
//! [`check`] looks at an outline operation by operation. [`legal::check`] is the verdict on one native layer; it is
//! what [`validate`] and the compiler's legalization call. Verdicts come from rows of `facts` alone.
//!
//! A ReLU runs on the M1's engine:
//!
//! ```
//! use anemone_check::{Route, check};
//! use anemone_facts::chips::CHIPS;
//! use anemone_net::{outline::Outline, text};
//!
//! let source = "net \"main\" {\n  input %x: f16[1, 4, 1, 8]\n  %y: f16[1, 4, 1, 8] = relu(%x)\n  output %y\n}\n";
//! let outline = Outline::of(&text::parse(source, &[]).expect("a network"));
//! let placement = check(&outline, &CHIPS[0], Route::Direct);
//! assert_eq!(placement.fallbacks(), 0);
//! ```

pub mod describe;
pub mod estimate;
pub mod exports;
pub mod fix;
pub mod layer;
pub mod legal;
pub mod lint;
pub mod own;
pub mod place;
mod placement;
pub mod segment;
mod sources;
pub mod strict;
mod types;
pub mod validate;
mod verdict;

pub use layer::{Layer, Tensor};
pub use legal::{Refusal, Route};
pub use placement::{Placement, REWRITTEN, check};
pub use segment::{Backend, Choice, Segment};
pub use verdict::{Place, Verdict};
