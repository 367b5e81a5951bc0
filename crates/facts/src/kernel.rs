//! How coefficients stand in the kernel section: shared by whoever packs and whoever unpacks them
//! (`docs/evidence.md`, key `h13-kernel`).

/// Engines that a program addresses, each with a stream of its own. A power of two.
pub const ENGINES: usize = 16;
/// Every stream, and every group within a stream, starts on this boundary.
pub const ALIGN_BYTES: u64 = 64;
