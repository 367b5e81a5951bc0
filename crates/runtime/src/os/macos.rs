//! macOS: everything in this process. The kernel tells a socket's peer only through calls that have no safe binding.

pub use super::local::{BorrowedDescriptor, Descriptor, Memory, confine, socket};

/// The system's name.
pub const NAME: &str = "macos";
