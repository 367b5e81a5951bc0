//! Pickling: the Python module that does it, and what a compiled program is rebuilt from.

use pyo3::prelude::*;

/// Source of a compiled program.
pub struct Source {
    /// The `Model`.
    pub model: Py<PyAny>,
    pub engine_only: bool,
}

/// Module that pickles objects.
pub fn travel(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("anemone._travel")
}
