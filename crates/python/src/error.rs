//! Diagnostics as exceptions, with what they say as attributes.

use anemone::Diagnostic;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

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

/// Runs without the interpreter, and raises what is refused.
pub fn apart<T: Send>(py: Python<'_>, work: impl FnOnce() -> anemone::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|diagnostic| raised(py, diagnostic))
}
