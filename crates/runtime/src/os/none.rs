//! Other systems: everything in this process.

pub use super::local::{BorrowedDescriptor, Descriptor, Memory, confine, socket};

/// The system's name.
pub const NAME: &str = std::env::consts::OS;
