//! Path of a program to the machine: runtime, broker, driver, firmware, and the software device.
//!
//! - [`e5rt`]: compile once, dispatch many. Streams, operations, ports, buffers, events.
//! - [`cache`]: compiled programs by content, on disk.
//! - [`broker`]: access control; a daemon on a Unix socket.
//! - [`driver`]: user clients, selectors, programs and requests, from rows of `facts`.
//! - [`firmware`], [`dart`], [`clock`]: models of the hardware behind the driver. Time in them is modelled and never slept.
//!
//! The crate may use `facts`, `program` and `engine`. It must not use `net` or `compile`: it receives programs,
//! never models; the caller provides the compiler as a closure. System calls are in `os`, file access is in `cache` and `broker`, and `unsafe` is in
//! `os/shared.rs` only.
//!
//! Dependencies: `half` converts fp16; `hmac` and `sha2` sign images and name cache entries; `getrandom` gets
//! random bytes from the system; `memmap2` maps memory and files; on Linux, `rustix` has the system calls that the standard library
//! lacks (memfd, descriptors over sockets, pidfd) without `unsafe`, and `landlock` removes rights that the compile service does
//! not need;
//! `serde`, `serde_json` and `toml` read policies and messages; `tempfile` makes writes atomic; `thiserror` derives error messages;
//! `tracing` logs skipped entries and faults.
//!
//! A buffer is memory shared by host and device; an event fires when a dispatch has ended:
//!
//! ```
//! use anemone_runtime::e5rt::{Buffer, Event};
//!
//! let buffer = Buffer::new(8)?;
//! buffer.write_f32(&[1.0, -2.5]);
//! assert_eq!(buffer.read_f32(), [1.0, -2.5]);
//! assert!(!Event::new().is_done());
//! # Ok::<(), anemone_runtime::Error>(())
//! ```

pub mod broker;
pub mod cache;
pub mod clock;
pub mod dart;
pub mod driver;
pub mod e5rt;
mod error;
pub mod firmware;
pub mod os;
mod words;

pub use error::{Code, Error, Result};
