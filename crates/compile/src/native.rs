//! Native layers of networks: their list, the segments that they divide a network into, and templates to start from.
//! `docs/native.md` has the design.

mod attention;
mod segments;
pub mod templates;

pub use crate::target::{first_chip, natives};
pub use attention::attention_segments;
pub(crate) use segments::extract;
pub use segments::segments;
