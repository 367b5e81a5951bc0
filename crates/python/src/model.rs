//! Models and what a check says of them.

use crate::error::{apart, raised};
use crate::program::Program;
use anemone::check::{self, Subject};
use anemone::{Choices, Code, Diagnostic, explain, reference};
use anemone_compile::Options;
use anemone_compile::check::lint::Assumptions;
use anemone_program::text::Selection;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A model file: a network, or a program compiled already.
#[pyclass(frozen, module = "anemone")]
pub struct Model {
    path: PathBuf,
    notes: Vec<String>,
    /// Holds the file of a model that came as an object.
    _folder: Option<TempDir>,
}

/// Reads a model file or package, or a model object of coremltools.
#[pyfunction]
pub fn load(py: Python<'_>, model: &Bound<'_, PyAny>) -> PyResult<Model> {
    let (path, folder) = match model.extract::<PathBuf>() {
        Ok(path) => (path, None),
        Err(_) if model.hasattr("get_spec")? && model.hasattr("save")? => {
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("model.mlpackage");
            model.call_method1("save", (&path,))?;
            (path, Some(folder))
        }
        Err(_) => {
            let message = format!("a path or a model of coremltools is expected, found {}", model.get_type());
            return Err(raised(py, Diagnostic::new(Code::Usage, message)));
        }
    };
    let notes = apart(py, || {
        Ok(match anemone::Model::load(&path)? {
            anemone::Model::Net { notes, .. } => notes,
            _ => Vec::new(),
        })
    })?;
    Ok(Model { path, notes, _folder: folder })
}

#[pymethods]
impl Model {
    /// Where it was read from.
    #[getter]
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Choices that the reader made, for example a default among flexible shapes.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Places every operation on a chip, or on several separated by commas.
    #[pyo3(signature = (chip="h13", *, route="direct"))]
    fn check(&self, py: Python<'_>, chip: &str, route: &str) -> PyResult<Report> {
        let report = apart(py, || {
            let names: Vec<String> = chip.split(',').map(|n| n.trim().to_string()).collect();
            let (chips, route) = (check::chips(&names)?, check::route(route)?);
            let Subject::Program(outline, _) = check::load(&self.path, &Choices::default())? else {
                let message = "a compiled container has no operations to place";
                return Err(Diagnostic::new(Code::Usage, message).at(self.path.display()));
            };
            let mut report = check::report(&self.path, *outline, &chips, route, &Assumptions::default());
            report.compile(&self.path, &Choices::default());
            Ok(report)
        })?;
        Ok(Report { report })
    }

    /// Compiles for a chip; a program compiled already is taken as it is.
    #[pyo3(signature = (chip="h13"))]
    fn compile(&self, py: Python<'_>, chip: &str) -> PyResult<Program> {
        apart(py, || {
            let chip = reference::chip(chip)?;
            if let Some(refused) = check::refused(&self.path, &Choices::default(), chip)? {
                return Err(refused);
            }
            let compiled = anemone::Model::load(&self.path)?.compile(chip, &Options::default(), &mut ());
            let compiled = compiled.map_err(|d| d.or_at(self.path.display()))?;
            let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Program::new(compiled, chip, stem))
        })
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Model {}>", self.path.display())
    }
}

/// What runs on the engine of which chip, and why not.
#[pyclass(frozen, module = "anemone")]
pub struct Report {
    report: check::Report,
}

#[pymethods]
impl Report {
    /// Whether every operation is on the engine of every chip that was asked for.
    #[getter]
    fn ok(&self) -> bool {
        self.report.failing(&[]).is_empty()
    }

    /// The report as the command line prints it.
    #[pyo3(signature = (verbose=false))]
    fn table(&self, verbose: bool) -> String {
        check::table::render(&self.report, verbose)
    }

    /// The document that `ane check --json` prints.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (check::json::document(&self.report).to_string(),))
    }

    /// The page of `ane check --html`, in a frame.
    fn _repr_html_(&self) -> String {
        check::html::frame(&self.report)
    }

    fn __repr__(&self) -> String {
        self.table(false)
    }
}

/// A compiled file explained, every field named.
#[pyfunction]
pub fn dump(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let path: &Path = &path;
    apart(py, || Ok(explain::explain(&anemone::Model::load(path)?, path, &Selection::default())?.render()))
}
