//! Models and their check reports.

use crate::arrays;
use crate::connection::{Connection, Options as Ways, connect};
use crate::error::{apart, raised};
use crate::program::Program;
use crate::travel::{Source, travel};
use anemone::check::{self, Subject};
use anemone::{Choices, Code, Diagnostic, chain, explain, reference};
use anemone_check::lint::Assumptions;
use anemone_compile::Options;
use anemone_program::text::Selection;
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A model file: a network, or a program compiled already.
#[pyclass(frozen, module = "anemone")]
pub struct Model {
    path: PathBuf,
    notes: Vec<String>,
    choices: Choices,
    portable: bool,
    /// SHA-256 of its content, computed on first use.
    digest: OnceLock<String>,
    /// Folder with the file of a model that was given as an object.
    _folder: Option<TempDir>,
}

/// Reads a model file or package, a model object of coremltools, or its specification.
///
/// `model` is a path, or an object with `get_spec` and `save`, or a specification (`get_spec()`, `load_spec`) whose weights
/// are in `weights_dir`. `dim` gives extents that the file leaves open, by the name of the dimension or as `input.axis`;
/// `function` takes one function of several. A `portable` model pickles with its bytes, others with their place. Raises
/// `FileNotFoundError`, or `BadInput` for what does not read.
///
/// >>> anemone.load("digits.mlpackage")
/// <anemone.Model digits.mlpackage>
#[pyfunction]
#[pyo3(signature = (model, *, dim=None, function=None, portable=false, weights_dir=None))]
pub fn load(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    dim: Option<HashMap<String, usize>>,
    function: Option<String>,
    portable: bool,
    weights_dir: Option<PathBuf>,
) -> PyResult<Model> {
    // A specification without the folder of its weights.
    let mut alone = false;
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
        Err(_) if model.hasattr("SerializeToString")? && model.hasattr("specificationVersion")? => {
            let folder = tempfile::tempdir()?;
            let path = of_spec(py, model, weights_dir.as_deref(), &folder)?;
            alone = weights_dir.is_none();
            (path, Some(folder))
        }
        Err(_) => {
            let message =
                format!("a path, a model of coremltools or its specification is expected, found {}", model.get_type());
            return Err(raised(py, Diagnostic::new(Code::Usage, message)));
        }
    };
    let mut choices = Choices::default();
    choices.options.extents = dim.unwrap_or_default();
    choices.options.function = function;
    let (place, chosen) = (path.clone(), choices.clone());
    let notes = apart(py, move || match anemone::Model::load_with(&place, &chosen) {
        Ok(anemone::Model::Net { notes, .. }) => Ok(notes),
        Ok(_) => Ok(Vec::new()),
        Err(why) if alone && why.code == Code::Malformed => {
            Err(why.help("a specification names its weights and does not hold them: load(spec, weights_dir=...)"))
        }
        Err(why) => Err(why),
    })?;
    Ok(Model { path, notes, choices, portable, digest: OnceLock::new(), _folder: folder })
}

/// Writes a specification of coremltools to a file: a package with its weights, or a model without any.
fn of_spec(py: Python<'_>, spec: &Bound<'_, PyAny>, weights: Option<&Path>, folder: &TempDir) -> PyResult<PathBuf> {
    let bytes: Vec<u8> = spec.call_method0("SerializeToString")?.extract()?;
    let Some(weights) = weights else {
        let path = folder.path().join("model.mlmodel");
        std::fs::write(&path, bytes)?;
        return Ok(path);
    };
    if !weights.is_dir() {
        return Err(PyFileNotFoundError::new_err(format!("no such folder: {}", weights.display())));
    }
    let package = folder.path().join("model.mlpackage");
    let data = package.join("Data").join("com.apple.CoreML");
    std::fs::create_dir_all(data.join("weights"))?;
    std::fs::write(package.join("Manifest.json"), anemone_net::mil::manifest())?;
    std::fs::write(data.join("model.mlmodel"), bytes)?;
    for entry in std::fs::read_dir(weights)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), data.join("weights").join(entry.file_name()))?;
        }
    }
    py.check_signals()?;
    Ok(package)
}

#[pymethods]
impl Model {
    /// Path that the model was read from.
    #[getter]
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Choices that the reader made, for example a default among flexible shapes.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Extents that were given for what the file leaves open.
    #[getter]
    fn dim(&self) -> HashMap<String, usize> {
        self.choices.options.extents.iter().map(|(name, &extent)| (name.clone(), extent)).collect()
    }

    /// Function that was asked for.
    #[getter]
    fn function(&self) -> Option<String> {
        self.choices.options.function.clone()
    }

    /// SHA-256 of its content, in hexadecimal.
    #[getter]
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        if let Some(digest) = self.digest.get() {
            return Ok(digest.clone());
        }
        let digest: String = travel(py)?.call_method1("content_hash", (&self.path,))?.extract()?;
        Ok(self.digest.get_or_init(|| digest).clone())
    }

    /// True if the model pickles with its bytes.
    #[getter]
    fn portable(&self) -> bool {
        self.portable
    }

    /// Places every operation on a chip, or on several: a list, or names separated by commas.
    ///
    /// `route` is the deciding one: `direct` or `framework`. With `strict`, what Apple's compiler refuses is off the engine too,
    /// so that the report is that of `compile(strict=True)`. Returns a `Report`; a refusal is in it, not raised. Raises `BadInput` for
    /// a name that no chip has and for a program compiled already.
    ///
    /// >>> report = anemone.load("digits.mlpackage").check(["m1", "m4"])
    /// >>> report.ok, report.failures
    /// (True, [])
    #[pyo3(signature = (chip=Chips::m1(), *, route="direct", strict=false))]
    fn check(slf: Bound<'_, Self>, chip: Chips, route: &str, strict: bool) -> PyResult<Report> {
        let (py, model) = (slf.py(), slf.get());
        let (path, choices) = (model.path.clone(), model.choices.clone());
        let (names, route) = (chip.0.clone(), route.to_string());
        // The path of a temporary file is not a useful title.
        let held = model._folder.is_some();
        let report = apart(py, move || {
            let (chips, route) = (reference::chip_list(&names)?, check::route(&route)?);
            let Subject::Program(outline, _) = check::load(&path, &choices)? else {
                let message = "a compiled container has no operations to place";
                return Err(Diagnostic::new(Code::Usage, message).at(path.display()));
            };
            let mut report = check::report(
                if held { Path::new("model") } else { &path },
                *outline,
                &chips,
                route,
                &Assumptions::default(),
            );
            report.strict = strict;
            report.compile(&path, &choices)?;
            Ok(report)
        })?;
        Ok(Report { report, source: slf.clone().unbind(), chips: chip.0 })
    }

    /// Compiles for a chip; a program compiled already is taken as it is.
    ///
    /// Operations that the engine has no way for run on the host, unless `engine_only` is set: then they are refused. With
    /// `strict`, whatever Apple's compiler refuses is refused too.
    /// `threads`: as many for each run, in place of all cores. Returns a `Program`. Raises `Refused` with the operation, its
    /// output and the limit, `BadInput` for a name that no chip has. An interrupt ends the call.
    ///
    /// >>> program = anemone.load("digits.mlpackage").compile("m1")
    /// >>> program.inputs, program.outputs
    /// ({'image': (1, 1, 8, 8)}, {'probs': (1, 10)})
    #[pyo3(signature = (chip="m1", *, engine_only=false, strict=false, threads=None))]
    fn compile(
        slf: Bound<'_, Self>,
        chip: &str,
        engine_only: bool,
        strict: bool,
        threads: Option<usize>,
    ) -> PyResult<Program> {
        let (py, model, engine_only) = (slf.py(), slf.get(), engine_only || strict);
        let chip = reference::chip(chip).map_err(|d| raised(py, d))?;
        let (path, choices) = (model.path.clone(), model.choices.clone());
        let compiled = apart(py, move || {
            let refused = check::refused(&path, &choices, chip, strict)?.first;
            if let Some(refused) = refused.as_ref().filter(|_| engine_only) {
                return Err(refused.clone());
            }
            let model = anemone::Model::load_with(&path, &choices)?;
            let compiled = model.executable(&path, chip, &Options::default(), engine_only);
            let compiled = compiled.map_err(|d| d.or_at(path.display()))?;
            match refused.filter(|_| compiled.chain.hosts().is_empty()) {
                Some(refused) => Err(refused),
                None => Ok(compiled),
            }
        })?;
        let stem = model.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let source = Source { model: slf.clone().into_any().unbind(), engine_only };
        Ok(Program::new(compiled, chip, stem, Some(source), threads))
    }

    /// Compiles and loads through the runtime, once for many dispatches: the words of `ane run --via`.
    ///
    /// `via`: `inprocess`, a driver of this process with the cache in `cache`; `broker`, a broker at `socket`; `direct`, loaded by the
    /// broker, dispatched on a connection of its own. Of a broker: `qos`, the class of service; `depth`, requests at once;
    /// `power_saving`, `wired`, `long_compile`. Of this process: `secure`. `adapter`: other weights on the same base, a file `.npz` or
    /// arrays by the names that `ane patch` lists. `streams`: as many at once; `quirk`: `["overlapped-streams"]`, the M1's defect.
    /// Returns a `Connection`. Raises `Refused` with the entitlement that is missing, `BadInput` where no broker listens.
    ///
    /// >>> connection = anemone.load("digits.mlpackage").connect("m1", cache=folder)
    /// >>> connection.inputs
    /// {'image': (1, 1, 8, 8)}
    #[pyo3(signature = (chip="m1", *, engine_only=false, adapter=None, via="inprocess".to_string(), socket=None, cache=None, qos=None, depth=8,
        power_saving=false, wired=false, long_compile=false, secure=false, streams=1, quirk=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "arguments by name, in Python")]
    fn connect(
        &self,
        py: Python<'_>,
        chip: &str,
        engine_only: bool,
        adapter: Option<&Bound<'_, PyAny>>,
        via: String,
        socket: Option<PathBuf>,
        cache: Option<PathBuf>,
        qos: Option<u32>,
        depth: u32,
        power_saving: bool,
        wired: bool,
        long_compile: bool,
        secure: bool,
        streams: u32,
        quirk: Vec<String>,
    ) -> PyResult<Connection> {
        let options =
            Ways { via, socket, cache, qos, depth, power_saving, wired, long_compile, secure, streams, quirk };
        let file = self.file_and_function().map_err(|d| raised(py, d))?;
        connect(py, file, chip, engine_only, adapter, options)
    }

    /// Outputs of the graph's plain evaluator in fp32, without compiling it.
    ///
    /// `inputs` has an array of the declared extents for each input; states that are not given are zeros. Returns arrays of
    /// float32 by name. Raises `BadInput` for other names, extents and elements, and for a compiled program.
    ///
    /// >>> model = anemone.load("digits.mlpackage")
    /// >>> model.evaluate({"image": np.load("image.npy")})["probs"].argmax()
    /// np.int64(8)
    fn evaluate<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let held = arrays::by_name(inputs)?;
        let copied = |(name, held): &(String, arrays::Held)| Ok((name.clone(), held.view()?.to_array()));
        let arrays = held.iter().map(copied).collect::<PyResult<Vec<_>>>()?;
        let (path, choices) = (self.path.clone(), self.choices.clone());
        let outputs = apart(py, move || {
            let anemone::Model::Net { net, .. } = anemone::Model::load_with(&path, &choices)? else {
                let message = "a compiled program has no graph to evaluate";
                return Err(Diagnostic::new(Code::Usage, message).at(path.display()));
            };
            chain::evaluate(&net, &arrays)
        })?;
        let dict = PyDict::new(py);
        for (name, array) in outputs {
            dict.set_item(name, arrays::given(py, array)?)?;
        }
        Ok(dict)
    }

    fn __reduce__<'py>(slf: Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let travel = travel(slf.py())?;
        Ok((travel.getattr("model")?, travel.call_method1("model_state", (slf,))?))
    }

    fn __repr__(&self) -> String {
        match self._folder {
            Some(_) => "<anemone.Model of an object>".to_string(),
            None => format!("<anemone.Model {}>", self.path.display()),
        }
    }
}

impl Model {
    /// File and function, for a reader without options for extents.
    fn file_and_function(&self) -> anemone::Result<(PathBuf, Option<String>)> {
        let options = &self.choices.options;
        if let Some(name) = options.extents.keys().min() {
            let message = format!("dim: {name} was given, and the runtime reads the file as it is");
            let help = "convert it first: ane convert MODEL --dim NAME=N -o FILE.mlpackage";
            return Err(Diagnostic::new(Code::Usage, message).help(help));
        }
        Ok((self.path.clone(), options.function.clone()))
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

/// Placement of every operation on each chip, with the reasons of refusals.
#[pyclass(frozen, module = "anemone")]
pub struct Report {
    report: check::Report,
    source: Py<Model>,
    /// Chips as requested.
    chips: Vec<String>,
}

#[pymethods]
impl Report {
    /// True if every operation is on the engine of every chip that was asked for.
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
        groups.iter().map(|g| format!("{}: {}", g.names.join(", "), check::verdict::sentence(g.answer, None))).collect()
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

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let travel = travel(py)?;
        let state = travel.call_method1("model_state", (&self.source,))?;
        let route = check::route_name(self.report.route);
        let arguments = (state, self.chips.clone(), route, self.report.strict).into_pyobject(py)?;
        Ok((travel.getattr("report")?, arguments.into_any()))
    }

    fn __str__(&self) -> String {
        self.table(false)
    }

    fn __repr__(&self) -> String {
        format!("<anemone.Report {}>", self.summary().join("; "))
    }
}

/// A compiled file explained, every field named.
///
/// Raises `BadInput` for a file that does not read or is of no known form.
#[pyfunction]
pub fn dump(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    apart(py, move || Ok(explain::explain(&anemone::Model::load(&path)?, &path, &Selection::default())?.render()))
}
