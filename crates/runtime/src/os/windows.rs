//! Windows: everything in this process. Its sockets cannot pass descriptors.

pub use super::local::{BorrowedDescriptor, Descriptor, Memory, confine, socket};

/// The system's name.
pub const NAME: &str = "windows";
