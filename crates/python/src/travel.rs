//! Pickling: the Python module that implements it, and the source from which a compiled program is rebuilt.

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
