//! The Python package: models, reports, programs and graphs of the facade as classes.
//!
//! It only translates: `anemone` implements the calls. Long calls release the interpreter
//! lock. The files of the package are in `crates/python/python`; `maturin` builds the wheel.
//!
//! Dependencies: `pyo3` is the bridge to the interpreter, by its stable interface, so that one wheel serves every version from
//! 3.9 on; `numpy` creates and reads arrays of numbers without an intermediate copy, `half` is its fp16 type; `tempfile` stores models
//! that are given as objects.
//!
//! From Python (`crates/python/tests` runs every call of the package):
//!
//! ```python
//! import anemone
//!
//! model = anemone.load("model.mlpackage")
//! print(model.check("m1"))
//! outputs = model.compile("m1").run(image)
//! ```

// Classes and functions are documented for readers of Python.
#![allow(missing_docs)]

mod arrays;
mod connection;
mod error;
mod graph;
mod model;
mod program;
mod travel;

use pyo3::prelude::*;

/// Native module that `import anemone` re-exports.
#[pymodule]
mod _anemone {
    use super::*;

    #[pymodule_export]
    use super::connection::{Broker, Connection};
    #[pymodule_export]
    use super::error::{BadInput, Defect, Error, Refused};
    #[pymodule_export]
    use super::graph::{Graph, Tensor};
    #[pymodule_export]
    use super::model::{Model, Report, dump, load};
    #[pymodule_export]
    use super::program::{Program, State};

    /// Runs the command line, the first argument being the program's name; its exit code.
    #[pyfunction]
    fn main(py: Python<'_>, arguments: Vec<String>) -> PyResult<u8> {
        let python: Option<String> = py.import("sys")?.getattr("executable")?.extract()?;
        // A broker starts its compile service with this command, not with the interpreter alone.
        if let Some(python) = python.filter(|path| !path.is_empty()) {
            anemone::cli::set_own_command(vec![python.into(), "-m".into(), "anemone".into()]);
        }
        Ok(py.detach(|| anemone::cli::main(arguments.into_iter().map(Into::into).collect())))
    }

    /// Calls one of Apple's exported validators on a text; the refusals, none where it accepts.
    #[pyfunction]
    #[pyo3(signature = (export, text, chip = "m1"))]
    fn validate(py: Python<'_>, export: &str, text: &str, chip: &str) -> PyResult<Vec<String>> {
        let raised = |diagnostic| super::error::raised(py, diagnostic);
        let chip = anemone::reference::chip(chip).map_err(raised)?;
        let said = anemone::validate::validate_text(export, text, chip).map_err(raised)?;
        Ok(said.into_iter().map(|refusal| refusal.apple.unwrap_or(refusal.message)).collect())
    }

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        m.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
