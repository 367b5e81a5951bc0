//! The driver model under the public names of IOKit: `libanemone_iokit`, header `include/anemone_iokit.h`. A program that opens
//! the device, calls selectors and waits on notification ports on a Mac does the same here.
//!
//! Objects are handles: numbers for services, connections and ports, opaque pointers for the few CoreFoundation types. A handle that
//! this library did not give, or that was released, is refused; memory behind other pointers is read and written through the
//! system, so that a bad pointer is a bad argument and not a crash.
//!
//! Two calls are this library's own, in the place of the system's compiler and its signature: `AnemoneCreateProgram` and
//! `AnemoneCopyLastError`.
//!
//! Dependencies: `anemone` compiles models, `anemone-runtime` is the driver.

#![allow(unsafe_code)]
// Memory of callers is reached through `/proc/self/mem`: elsewhere the library is empty.
#![cfg(target_os = "linux")]

mod calls;
mod foundation;
mod memory;
mod programs;
mod registry;
mod run_loop;
mod surfaces;
mod world;

pub use calls::*;
pub use foundation::*;
pub use programs::*;
pub use registry::*;
pub use run_loop::*;
pub use surfaces::*;
