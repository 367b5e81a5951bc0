//! Host segments: operations that the engine does not compute.

use anemone_program::e5::HostCall;
use std::sync::Arc;

/// Makes host segments of the code that a descriptor carries. The runtime does not see networks: a caller that wants host
/// segments executed hands it one, as it hands it the compiler.
pub trait HostExecutor: Send + Sync {
    /// Reads a segment's code; the error says why it cannot be run.
    fn prepare(&self, call: &HostCall) -> Result<Arc<dyn HostSegment>, String>;
}

/// A host segment, ready.
pub trait HostSegment: Send + Sync {
    /// Runs once: dense tensors of the declared element types in, in the call's order, and out.
    fn run(&self, inputs: &[&[u8]]) -> Result<Vec<Vec<u8>>, String>;
}
