//! Path of a program to the machine: runtime calls, broker, driver, firmware, the software device.
//!
//! - [`e5rt`]: compile once, dispatch many. Streams, operations, ports, buffers, events.
//! - [`cache`]: compiled programs by content, on disk.
//! - [`broker`]: who may do what; a daemon on a Unix socket.
//! - [`driver`]: user clients, selectors, programs, requests, as rows of `facts` state them.
//! - [`firmware`], [`dart`], [`clock`]: models of what the driver talks to. Time in them is modelled and never slept.
//!
//! The crate may use `facts`, `program` and `engine`. It must not see `net` or `compile`: what it is handed is a program,
//! never a model; who compiles is a closure of the caller. System calls are in `os`, file access is in `cache` and `broker`, and `unsafe` is in
//! `os/shared.rs` alone.
//!
//! Dependencies: `half` converts fp16; `hmac` and `sha2` sign images and name cache entries; `getrandom` asks the
//! system for random bytes; `memmap2` maps memory and files; on Linux, `rustix` has the system calls that the standard library
//! lacks (memfd, descriptors over sockets, pidfd) without `unsafe`, and `landlock` takes from the compile service what it
//! does not need;
//! `serde`, `serde_json` and `toml` read policies and messages; `tempfile` makes writes atomic; `thiserror` words errors;
//! `tracing` reports what is skipped.
//!
//! A buffer is memory that host and device share; an event tells when a dispatch has ended:
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
