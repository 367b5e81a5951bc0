//! The runtime's calls as a C library: `libanemone_e5rt`, header `include/anemone_e5rt.h`.
//!
//! Every call returns a 64-bit code, 0 for success. A call that makes an object gives it through its first parameter; compile
//! and retain calls through their last. Objects are released once, each by its family's call; objects made from them stay
//! good. A null pointer is refused with a code; any other pointer must be one that this library gave and that was not
//! released. Objects may be used from several threads.
//!
//! The calls are written out, not made by a macro: what makes the header reads source, and people read it too. The 55 validators, all
//! alike, are the exception: `cbindgen.toml` declares them.
//!
//! Dependencies: `anemone` compiles models, `anemone-runtime` runs them.
//!
//! ```
//! use anemone_e5rt::*;
//! use std::ptr;
//!
//! let (mut buffer, mut bytes) = (ptr::null_mut(), 0);
//! // SAFETY: every pointer is one of this library, or to a variable of the right type, or null.
//! unsafe {
//!     assert_eq!(e5rt_buffer_object_alloc(&mut buffer, 64, 0), status::E5RT_SUCCESS);
//!     assert_eq!(e5rt_buffer_object_get_size(buffer, &mut bytes), status::E5RT_SUCCESS);
//!     assert_eq!(bytes, 64);
//!     assert_eq!(e5rt_buffer_object_release(&mut buffer), status::E5RT_SUCCESS);
//!     // A null pointer is refused with a code.
//!     assert_eq!(e5rt_buffer_object_get_size(ptr::null(), &mut bytes), status::E5RT_INVALID_ARGUMENT);
//! }
//! ```

#![allow(unsafe_code)]

mod compilation;
mod compiler;
mod device;
mod execution;
mod handle;
mod validators;

pub use compilation::*;
pub use compiler::*;
pub use device::*;
pub use execution::*;
pub use handle::{e5rt_last_error_message, status};
pub use validators::*;
