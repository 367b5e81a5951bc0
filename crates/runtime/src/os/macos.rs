//! macOS: everything in this process. Calls that identify a socket's peer have no safe binding.

pub use super::local::{BorrowedDescriptor, Descriptor, Memory, confine, socket};

/// The system's name.
pub const NAME: &str = "macos";
