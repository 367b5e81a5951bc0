//! The driver model under the public names of IOKit: `libanemone_iokit`, header `include/anemone_iokit.h`. A program that opens
//! the device, calls selectors and waits on notification ports on a Mac works the same here.
//!
//! Objects are handles: numbers for services, connections and ports, opaque pointers for the few CoreFoundation types. A handle that
//! is not from this library, or was released, is refused; memory behind other pointers is read and written through the
//! system, so that a bad pointer is a bad argument and not a crash.
//!
//! Two calls are this library's own, instead of the system's compiler and its signature: `AnemoneCreateProgram` and
//! `AnemoneCopyLastError`.
//!
//! Dependencies: `anemone` compiles models, `anemone-runtime` is the driver.
//!
//! Finds the device, opens the control client, and closes it:
//!
//! ```
//! use anemone_iokit::{IOObjectRelease, IOServiceClose, IOServiceGetMatchingService, IOServiceMatching, IOServiceOpen};
//!
//! const CONTROL: u32 = 0;
//! const THIS_TASK: u32 = 0x203;
//!
//! let device = IOServiceGetMatchingService(0, IOServiceMatching(c"H11ANEIn".as_ptr()));
//! let mut connection = 0;
//! assert_eq!(IOServiceOpen(device, THIS_TASK, CONTROL, &mut connection), 0);
//! assert_eq!(IOServiceClose(connection), 0);
//! assert_ne!(IOServiceClose(connection), 0, "the connection is closed");
//! assert_eq!(IOObjectRelease(device), 0);
//! ```

#![allow(unsafe_code)]

mod calls;
mod foundation;
mod memory;
mod os;
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
