//! Models and what a check says of them.

use crate::error::{apart, raised};
use crate::program::Program;
use anemone::check::{self, Subject};
use anemone::{Choices, Code, Diagnostic, explain, reference};
use anemone_compile::Options;
use anemone_compile::check::lint::Assumptions;
use anemone_program::text::Selection;
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A model file: a network, or a program compiled already.
#[pyclass(frozen, module = "anemone")]
pub struct Model {
    path: PathBuf,
    notes: Vec<String>,
    choices: Choices,
    /// Holds the file of a model that came as an object.
    _folder: Option<TempDir>,
}

/// Reads a model file or package, or a model object of coremltools. `dim` gives extents that the file leaves open, by the
/// name of the dimension or as `input.axis`.
#[pyfunction]
#[pyo3(signature = (model, *, dim=None))]
pub fn load(py: Python<'_>, model: &Bound<'_, PyAny>, dim: Option<HashMap<String, usize>>) -> PyResult<Model> {
    let (path, folder) = match model.extract::<PathBuf>() {
        Ok(path) if !path.exists() => {
            return Err(PyFileNotFoundError::new_err(format!("no such model: {}", path.display())));
        }
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
    let mut choices = Choices::default();
    choices.options.extents = dim.unwrap_or_default();
    let notes = apart(py, || {
        Ok(match anemone::Model::load_with(&path, &choices)? {
            anemone::Model::Net { notes, .. } => notes,
            _ => Vec::new(),
        })
    })?;
    Ok(Model { path, notes, choices, _folder: folder })
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
    #[pyo3(signature = (chip=Chips::m1(), *, route="direct"))]
    fn check(&self, py: Python<'_>, chip: Chips, route: &str) -> PyResult<Report> {
        let report = apart(py, || {
            let (chips, route) = (reference::chip_list(&chip.0)?, check::route(route)?);
            let Subject::Program(outline, _) = check::load(&self.path, &self.choices)? else {
                let message = "a compiled container has no operations to place";
                return Err(Diagnostic::new(Code::Usage, message).at(self.path.display()));
            };
            let mut report = check::report(&self.path, *outline, &chips, route, &Assumptions::default());
            report.compile(&self.path, &Choices::default());
            Ok(report)
        })?;
        Ok(Report { report })
    }

    /// Compiles for a chip; a program compiled already is taken as it is. Operations that the engine has no way for run on the
    /// host, unless `engine_only` is set: then they are refused.
    #[pyo3(signature = (chip="m1", *, engine_only=false))]
    fn compile(&self, py: Python<'_>, chip: &str, engine_only: bool) -> PyResult<Program> {
        apart(py, || {
            let chip = reference::chip(chip)?;
            let refused = check::refused(&self.path, &self.choices, chip)?;
            if let Some(refused) = refused.as_ref().filter(|_| engine_only) {
                return Err(refused.clone());
            }
            let model = anemone::Model::load_with(&self.path, &self.choices)?;
            let compiled = model.executable(&self.path, chip, &Options::default(), engine_only);
            let compiled = compiled.map_err(|d| d.or_at(self.path.display()))?;
            if let Some(refused) = refused.filter(|_| compiled.chain.hosts().is_empty()) {
                return Err(refused);
            }
            let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Program::new(compiled, chip, stem))
        })
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Model {}>", self.path.display())
    }
}

/// One name of a chip, several separated by commas, or a list of them.
struct Chips(Vec<String>);

impl Chips {
    fn m1() -> Chips {
        Chips(vec!["m1".into()])
    }
}

impl<'py> FromPyObject<'_, 'py> for Chips {
    type Error = PyErr;

    fn extract(chips: Borrowed<'_, 'py, PyAny>) -> PyResult<Chips> {
        match chips.extract::<String>() {
            Ok(one) => Ok(Chips(vec![one])),
            Err(_) => chips.extract().map(Chips),
        }
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
        check::table::render(&self.report, check::table::Style { verbose, ..Default::default() })
    }

    /// The verdict on each chip in a sentence, chips with one answer together.
    #[getter]
    fn summary(&self) -> Vec<String> {
        let groups = check::verdict::by_answer(&self.report);
        groups.iter().map(|g| format!("{}: {}", g.names.join(", "), check::verdict::sentence(g.answer))).collect()
    }

    /// Every operation off the engine by the deciding route: chip, operation, name, code, reason and fix.
    #[getter]
    fn failures<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut all = Vec::new();
        for answer in &self.report.answers {
            let placement = answer.by(self.report.route);
            for at in (0..placement.verdicts.len()).filter(|&at| !placement.on_engine(at)) {
                let (op, refusal) = (&self.report.outline.ops[at], placement.verdicts[at].refusal.as_ref());
                let row = PyDict::new(py);
                row.set_item("chip", &answer.chip)?;
                row.set_item("op", &op.op)?;
                row.set_item("name", &op.name)?;
                row.set_item("code", refusal.map_or("segmenter", |r| r.code))?;
                row.set_item("reason", check::reason(placement, at))?;
                row.set_item("fix", refusal.map_or("", |r| &r.fix))?;
                all.push(row);
            }
        }
        Ok(all)
    }

    /// Every operation with its kind, results and multiply-accumulates.
    #[getter]
    fn operations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("operations")
    }

    /// The document that `ane check --json` prints.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (check::json::document(&self.report).to_string(),))
    }

    /// The page of `ane check --html`, in a frame.
    fn _repr_html_(&self) -> String {
        check::html::frame(&self.report)
    }

    fn __str__(&self) -> String {
        self.table(false)
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Report {}>", self.summary().join("; "))
    }
}

/// A compiled file explained, every field named.
#[pyfunction]
pub fn dump(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let path: &Path = &path;
    apart(py, || Ok(explain::explain(&anemone::Model::load(path)?, path, &Selection::default())?.render()))
}
