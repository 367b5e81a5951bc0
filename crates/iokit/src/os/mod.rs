//! The calling process's memory by address: one file per system, with the same functions. No other file of this crate depends on the
//! system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod none;
#[cfg(not(target_os = "linux"))]
use none as system;

pub use system::Own;
