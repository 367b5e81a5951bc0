//! `ane compile`: a model becomes a container.

use super::{ModelFlags, Voice, chip, print};
use anemone::forms::{Form, Surroundings, encode};
use anemone::model::compile_until;
use anemone::{Code, Diagnostic, Model, Result, files};
use anemone_compile::{Compat, Log, Options, passes};
use anemone_program::hwx;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane compile model.mlpackage -o model.hwx
  ane compile model.mlpackage -o out/ --emit hwx,bin,anec
  ane compile net.plist -o out/ --compat zin-4.2.1 --dump-ir stages/
  ane compile model.mlpackage -o model.hwx --dump-ir stages/ --stop-after absorb-affines")]
pub struct Flags {
    /// Package (.mlpackage), MIL text (.mil), ONNX (.onnx), netplist (.plist) or .mlmodel
    model: PathBuf,
    /// Chip: marketing name or compiler target
    #[arg(short, long, default_value = "h13")]
    target: String,
    /// File, or folder for one file per form
    #[arg(short, long, required_unless_present = "stop_after")]
    output: Option<PathBuf>,
    /// Forms to write: hwx, bin, anec, e5, firmware [default: as the file's extension says, else hwx]
    #[arg(long, value_delimiter = ',', value_parser = super::forms())]
    emit: Vec<Form>,
    /// Whose conventions to follow where they differ
    #[arg(long)]
    compat: Option<CompatName>,
    /// Write every stage's text into this folder
    #[arg(long)]
    dump_ir: Option<PathBuf>,
    /// Stop after this pass, writing its text and no program: `ane passes` lists them
    #[arg(long, value_name = "PASS", requires = "dump_ir", value_parser = pass())]
    stop_after: Option<&'static passes::Pass>,
    /// Run only the first N of the passes that can be left out, to find one that is at fault
    #[arg(long, value_name = "N")]
    pass_limit: Option<usize>,
    /// Compile MIL text that Apple's compiler is known to refuse, where this one can
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    choices: ModelFlags,
}

/// Compiler whose conventions can be asked for.
#[derive(Clone, Copy, ValueEnum)]
pub enum CompatName {
    /// zin_ane_compiler v4.2.1
    #[value(name = "zin-4.2.1")]
    Zin421,
    /// Apple's compiler of 2026 (the default)
    #[value(name = "zin-9.509")]
    Zin9509,
}

impl CompatName {
    /// What the compiler knows it as.
    pub fn compat(self) -> Compat {
        match self {
            CompatName::Zin421 => Compat::Zin421,
            CompatName::Zin9509 => Compat::Zin9509,
        }
    }
}

/// Reads a pass by name.
fn pass() -> impl TypedValueParser<Value = &'static passes::Pass> {
    PossibleValuesParser::new(passes::ALL.iter().map(|p| p.name))
        .try_map(|name| passes::by_name(&name).ok_or("no such pass"))
}

/// Keeps stage texts to be written once compilation has succeeded.
struct Stages(Option<Vec<(&'static str, String)>>);

impl Log for Stages {
    fn stage(&mut self, stage: &'static str, text: &dyn Fn() -> String) {
        if let Some(stages) = &mut self.0 {
            stages.push((stage, text()));
        }
    }
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let chip = chip(&flags.target)?;
    let choices = flags.choices.choices()?;
    let model = Model::load_with(&flags.model, &choices)?;
    if !flags.force
        && let Some(refused) = anemone::check::refused(&flags.model, &choices, chip)?
    {
        return Err(refused);
    }
    if let Model::Net { notes, .. } = &model {
        voice.reader_notes(notes);
    } else {
        return Err(Diagnostic::new(Code::Usage, "the file is compiled already").at(flags.model.display()));
    }
    let compat = flags.compat.map_or_else(Compat::default, CompatName::compat);
    let options = Options { compat, pass_limit: flags.pass_limit };
    let mut stages = Stages(flags.dump_ir.is_some().then(Vec::new));
    let bar = voice.progress(format!("compiling for {}", chip.target));
    let stopped = flags.stop_after.map(|pass| compile_until(&model, chip, &options, &mut stages, pass));
    let compiled = stopped.is_none().then(|| model.compile(chip, &options, &mut stages));
    bar.finish_and_clear();
    // Stages are worth most when compilation fails.
    if let (Some(folder), Some(stages)) = (&flags.dump_ir, &stages.0) {
        make_folder(folder)?;
        for (stage, text) in stages {
            files::write(&folder.join(format!("{stage}.txt")), text.as_bytes())?;
        }
    }
    if let (Some(stopped), Some(pass)) = (stopped, flags.stop_after) {
        stopped.map_err(|d| d.or_at(flags.model.display()))?;
        voice.note(format!("stopped after {}: no program is written", pass.name));
        return Ok(0);
    }
    let (Some(compiled), Some(output)) = (compiled, &flags.output) else { return Ok(0) };
    let program = compiled.map_err(|d| d.or_at(flags.model.display()))?.program;
    let name = name_of(&flags.model);
    let stem = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let encoded: Vec<(Form, Vec<u8>)> = forms(&flags, output)
        .into_iter()
        .map(|form| {
            // Names only: the same model gives the same bytes, wherever it lies and wherever they go.
            let container = hwx::Options {
                netplist_path: name.clone(),
                output_path: format!("{stem}.{}", Form::Hwx.extension()),
                ..hwx::Options::default()
            };
            let bytes = encode(&program, form, &Surroundings { container, ..Surroundings::default() })?;
            Ok((form, bytes))
        })
        .collect::<Result<_>>()?;
    let tasks = program.tasks().map_err(|e| Diagnostic::new(Code::Defect, e.to_string()))?.len();
    let (paths, made) = destinations(output, &stem, &encoded)?;
    let files: Vec<(&Path, &[u8])> =
        paths.iter().zip(&encoded).map(|(p, (_, b))| (p.as_path(), b.as_slice())).collect();
    files::write_all(&files).inspect_err(|_| {
        if made {
            let _ = std::fs::remove_dir(output);
        }
    })?;
    let written: Vec<_> =
        files.iter().map(|(path, bytes)| json!({ "path": path.display().to_string(), "bytes": bytes.len() })).collect();
    if voice.json {
        let document = json!({
            "schema": "anemone.compile/1",
            "chip": chip.target,
            "tasks": tasks,
            "stream_bytes": program.stream.len(),
            "kernel_bytes": program.kernel.len(),
            "scratch_bytes": program.scratch_bytes,
            "files": written,
        });
        print(&format!("{document}\n"))?;
    } else {
        for path in &paths {
            voice.note(format!("{}: {tasks} tasks for {}", path.display(), chip.target));
        }
        voice.detail(format!(
            "stream {} bytes, kernel {} bytes, scratch {} bytes",
            program.stream.len(),
            program.kernel.len(),
            program.scratch_bytes
        ));
    }
    Ok(0)
}

/// The model's own name, also where its path ends in dots.
fn name_of(model: &Path) -> String {
    let whole = std::fs::canonicalize(model).unwrap_or_default();
    let name = model.file_name().or(whole.file_name());
    name.map_or("model".into(), |n| n.to_string_lossy().into_owned())
}

/// The forms asked for, each once.
fn forms(flags: &Flags, output: &Path) -> Vec<Form> {
    let mut forms = Vec::new();
    for &form in &flags.emit {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    if forms.is_empty() {
        let extension = output.extension().and_then(|e| e.to_str()).unwrap_or_default();
        forms.push(Form::of_extension(extension).unwrap_or(Form::Hwx));
    }
    forms
}

/// Where each form goes: the file named, or files named after the model in a folder, and whether that was made here.
fn destinations(output: &Path, stem: &str, forms: &[(Form, Vec<u8>)]) -> Result<(Vec<PathBuf>, bool)> {
    let text = output.as_os_str().to_string_lossy();
    let folder = output.is_dir() || text.ends_with('/') || forms.len() > 1;
    if !folder {
        return Ok((vec![output.to_path_buf()], false));
    }
    let made = !output.exists();
    make_folder(output)?;
    Ok((forms.iter().map(|(f, _)| output.join(format!("{stem}.{}", f.extension()))).collect(), made))
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path)
        .map_err(|e| Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(path.display()))
}
