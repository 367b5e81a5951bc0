//! Conversion of panics to diagnostics.

use crate::{Code, Diagnostic, Result};
use std::panic::{UnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Location and message of the first panic.
static PANIC: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Runs a closure; a panic in it becomes a diagnostic. With `RUST_BACKTRACE` set, its backtrace is printed too.
pub fn guarded(work: impl FnOnce() -> Result<u8> + UnwindSafe) -> Result<u8> {
    let usual = std::panic::take_hook();
    let trace = std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v != "0");
    std::panic::set_hook(Box::new(move |info| {
        if trace {
            usual(info);
        }
        let place = info.location().map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
        let message = info.payload_as_str().unwrap_or("no message").to_string();
        if let Ok(mut first) = PANIC.lock() {
            first.get_or_insert((place, message));
        }
    }));
    catch_unwind(work).unwrap_or_else(|_| {
        let (place, message) = PANIC.lock().ok().and_then(|mut p| p.take()).unwrap_or_default();
        Err(Diagnostic::new(Code::Defect, format!("this program has a defect: {message}")).at(place).help(
            "please report it, with the command line and, if you can share it, the file; RUST_BACKTRACE=1 shows more",
        ))
    })
}
