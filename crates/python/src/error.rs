//! Diagnostics as exceptions, with their fields as attributes.

use anemone::{Code, Diagnostic};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

create_exception!(anemone, Error, PyException, "A refusal with a stable code.");
create_exception!(anemone, Refused, Error, "The answer is no: codes ANE1xxx.");
create_exception!(anemone, BadInput, Error, "Wrong usage or unreadable input: codes ANE2xxx.");
create_exception!(anemone, Defect, Error, "A defect of this package: codes ANE3xxx.");

/// The exception of a diagnostic.
pub fn raised(py: Python<'_>, diagnostic: Diagnostic) -> PyErr {
    let text = diagnostic.to_string();
    let error = match diagnostic.code.exit() {
        1 => Refused::new_err(text),
        2 => BadInput::new_err(text),
        _ => Defect::new_err(text),
    };
    let details = diagnostic.details.map(|d| *d).unwrap_or_default();
    let value = error.value(py);
    let attributes = [
        ("code", Some(diagnostic.code.text().to_string())),
        ("op", details.op),
        ("output", details.output),
        ("found", details.found),
        ("limit", details.limit),
        ("chip", details.chip),
        ("place", diagnostic.place),
        ("suggestion", diagnostic.help),
    ];
    for (name, attribute) in attributes {
        if let Err(failed) = value.setattr(name, attribute) {
            return failed;
        }
    }
    error
}

/// Interval at which the interpreter checks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// Runs work without the interpreter lock, and raises its errors. On the main thread, which receives signals, an interrupt ends the call
/// at once: the work continues in the background, and its result is dropped.
pub fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> anemone::Result<T> + Send + 'static,
) -> PyResult<T> {
    if !on_main_thread(py)? {
        return py.detach(work).map_err(|diagnostic| raised(py, diagnostic));
    }
    let (send, mut receive) = sync_channel(1);
    std::thread::Builder::new().spawn(move || {
        // There is no receiver after an interrupt.
        let _ = send.send(work());
    })?;
    loop {
        let receive = &mut receive;
        match py.detach(move || receive.recv_timeout(SIGNALS)) {
            Ok(result) => return result.map_err(|diagnostic| raised(py, diagnostic)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let diagnostic = Diagnostic::new(Code::Defect, "the work ended without a result");
                return Err(raised(py, diagnostic.help("please report it, with the model if you can share it")));
            }
        }
    }
}

fn on_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let current = threading.call_method0("current_thread")?;
    Ok(current.is(&threading.call_method0("main_thread")?))
}
