//! Host segments: operations that the engine does not compute.

use anemone_program::e5::HostCall;
use std::sync::Arc;

/// Prepares host segments from the code in a descriptor. The runtime has no knowledge of networks: the caller provides an executor
/// for host segments, as it provides the compiler.
pub trait HostExecutor: Send + Sync {
    /// Reads a segment's code. Errors: the reason why it cannot be run.
    fn prepare(&self, call: &HostCall) -> Result<Arc<dyn HostSegment>, String>;
}

/// A prepared host segment.
pub trait HostSegment: Send + Sync {
    /// Runs once, from and to dense tensors of the declared element types, in the call's order.
    fn run(&self, inputs: &[&[u8]]) -> Result<Vec<Vec<u8>>, String>;
}
