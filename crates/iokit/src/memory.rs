//! The calling process's memory by address, through the system: an unmapped address is an error, not a fault.

use crate::os::Own;
use anemone_runtime::driver::task;
use std::ffi::{CString, c_void};

/// Longest text in bytes.
const TEXT_BYTES: u64 = 4096;

/// Bytes at an address; `None` for a null pointer and for memory that cannot be read.
pub fn read(address: *const c_void, bytes: usize) -> Option<Vec<u8>> {
    let mut found = vec![0; bytes];
    (!address.is_null() && task::Memory::read(&Own::open().ok()?, address as u64, &mut found)).then_some(found)
}

/// Writes bytes to an address; returns false for a null pointer and for memory that cannot be written.
pub fn write(address: *mut c_void, bytes: &[u8]) -> bool {
    !address.is_null() && Own::open().is_ok_and(|own| task::Memory::write(&own, address as u64, bytes))
}

/// Words at an address.
pub fn words(address: *const u64, count: usize) -> Option<Vec<u64>> {
    let bytes = read(address.cast(), count.checked_mul(8)?)?;
    Some(bytes.chunks_exact(8).map(|w| w.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))).collect())
}

/// A zero-terminated text.
pub fn text(address: *const std::ffi::c_char) -> Option<String> {
    let own = Own::open().ok().filter(|_| !address.is_null())?;
    let mut bytes = Vec::new();
    let mut byte = [0];
    for at in 0..TEXT_BYTES {
        if !task::Memory::read(&own, (address as u64).checked_add(at)?, &mut byte) {
            return None;
        }
        if byte[0] == 0 {
            return String::from_utf8(bytes).ok();
        }
        bytes.push(byte[0]);
    }
    None
}

/// A text for C, truncated at an inner 0.
pub fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}
