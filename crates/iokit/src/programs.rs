//! Programs: the two calls that replace the system's compiler and its signature.

use crate::memory::{c_text, read, text, write};
use crate::world::{guarded, world};
use anemone::runtime::ModelCompiler;
use anemone_runtime::Code;
use anemone_runtime::e5rt::{CompileOptions, Compiler};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

static LAST_ERROR: Mutex<String> = Mutex::new(String::new());

fn failed(message: String, code: Code) -> u32 {
    *LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner) = message;
    code.0
}

/// Compiles a model for the M1 and signs its program for this process's driver: the image for selector 3. `bytes` is in and out: the
/// capacity at `to`, and the size; without capacity, or with too little, the code is that of no memory.
#[unsafe(no_mangle)]
pub extern "C" fn AnemoneCreateProgram(path: *const c_char, to: *mut c_void, bytes: *mut usize) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let (Some(path), Some(capacity)) = (text(path), read(bytes.cast_const().cast(), size_of::<usize>())) else {
            return failed("a path and the address of a size are expected".to_string(), Code::BAD_ARGUMENT);
        };
        let capacity = capacity.iter().rev().fold(0, |all: usize, &b| all << 8 | usize::from(b));
        let options = CompileOptions { platform: "h13".into(), ..CompileOptions::default() };
        let bundle = match ModelCompiler.compile(Path::new(&path), &options) {
            Ok(bundle) => bundle,
            Err(error) => return failed(error.to_string(), Code::BAD_ARGUMENT),
        };
        let [image] = bundle.images.as_slice() else {
            let message = format!("{path}: {} programs, one is expected", bundle.images.len());
            return failed(message, Code::UNSUPPORTED);
        };
        let Some(world) = world() else { return failed("no driver".to_string(), Code::NO_RESOURCES) };
        let signed = world.signer.sign(image);
        if !write(bytes.cast(), &signed.len().to_le_bytes()) {
            return Code::BAD_ARGUMENT.0;
        }
        if capacity < signed.len() {
            return Code::NO_MEMORY.0;
        }
        if write(to, &signed) { 0 } else { Code::BAD_ARGUMENT.0 }
    })
}

/// Copies the reason of the last refusal of [`AnemoneCreateProgram`], truncated to the capacity; returns its length.
#[unsafe(no_mangle)]
pub extern "C" fn AnemoneCopyLastError(to: *mut c_char, capacity: usize) -> usize {
    guarded(0, || {
        let message = c_text(&LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner));
        let bytes = message.as_bytes();
        let mut text = bytes.get(..bytes.len().min(capacity.saturating_sub(1))).unwrap_or_default().to_vec();
        text.push(0);
        if capacity > 0 && !write(to.cast(), &text) { 0 } else { bytes.len() }
    })
}
