//! Windows: everything in this process. No descriptors go over its sockets.

pub use super::local::{BorrowedDescriptor, Descriptor, Memory, confine, socket};

/// The system's name.
pub const NAME: &str = "windows";
