//! Files of a compilation: their forms, places and contents.

use super::{CompatName, Flags};
use anemone::forms::{self, Form};
use anemone::{Code, Diagnostic, ProgramChain, Result, files};
use anemone_compile::Options;
use anemone_facts::chips::Chip;
use anemone_facts::formats::dialects::Convention;
use anemone_program::{Program, hwx};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A file that was written, and its size in bytes.
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) bytes: usize,
}

/// Encodes the programs in every form, and writes the files.
pub(super) fn write(
    flags: &Flags,
    chain: &ProgramChain,
    chip: &'static Chip,
    forms: &[Form],
    output: &Path,
    options: &Options,
) -> Result<Vec<Written>> {
    let name = name_of(&flags.model);
    let stem = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let dialect = flags.compat.and_then(CompatName::dialect).unwrap_or(hwx::Options::default().dialect);
    let component =
        if flags.model.is_dir() { None } else { anemone_net::mil::component(&files::mapped(&flags.model)?) };
    let dress = forms::Dress { dialect, convention: options.convention, component: component.unwrap_or_default() };
    // The book's banner is the invocation as given; by default it is the name only, so that bytes do not depend on the folder.
    let source = match options.convention {
        Convention::Samples => name.clone(),
        Convention::Book => flags.model.display().to_string(),
    };
    let encoded = forms::files_as(chain, chip, forms, (&stem, &source), &dress)?;
    let (paths, made) = destinations(output, &encoded)?;
    let parts: Vec<Vec<&[u8]>> = encoded.iter().map(forms::File::parts).collect();
    let files: Vec<(&Path, &[&[u8]])> = paths.iter().zip(&parts).map(|(path, p)| (path.as_path(), &p[..])).collect();
    files::write_pieces(&files).inspect_err(|_| {
        if made {
            let _ = std::fs::remove_dir(output);
        }
    })?;
    if let (true, Some(first)) = (flags.sidecar, paths.first()) {
        let layouts: Vec<_> = chain.programs().iter().map(layout).collect();
        let document = json!({ "schema": "anemone.layout/1", "programs": layouts });
        files::write(&first.with_extension("layout.json"), format!("{document:#}\n").as_bytes())?;
    }
    let written = paths.into_iter().zip(&encoded).map(|(path, file)| Written { path, bytes: file.len() });
    Ok(written.collect())
}

/// The resolved layout of a program's ports.
fn layout(program: &Program) -> serde_json::Value {
    let port = |p: &anemone_program::Port| {
        let d = p.strides;
        json!({
            "name": p.name,
            "direction": format!("{:?}", p.direction).to_lowercase(),
            "element": format!("{:?}", p.element).to_lowercase(),
            "shape": p.extents(),
            "strides": [d.batch_bytes, d.plane_bytes, d.row_bytes, p.element.bytes()],
            "bytes": p.bytes,
            "base_register": p.bar,
        })
    };
    let ports: Vec<_> = program.ports.iter().map(port).collect();
    json!({ "name": program.name, "ports": ports, "scratch_bytes": program.scratch_bytes, "kernel_bytes": program.kernel.len() })
}

/// Default output path: beside the model, with its name; for several forms, the model's folder.
pub(super) fn default_output(flags: &Flags) -> PathBuf {
    let whole = std::fs::canonicalize(&flags.model).unwrap_or_else(|_| flags.model.clone());
    match flags.emit.as_slice() {
        [] => whole.with_extension(Form::Hwx.extension()),
        [form] => whole.with_extension(form.extension()),
        _ => whole.parent().map_or(PathBuf::from("."), Path::to_path_buf),
    }
}

/// The model's own name, even if its path ends in dots.
pub(super) fn name_of(model: &Path) -> String {
    let whole = std::fs::canonicalize(model).unwrap_or_default();
    let name = model.file_name().or(whole.file_name());
    name.map_or("model".into(), |n| n.to_string_lossy().into_owned())
}

/// The requested forms, each once.
pub(super) fn forms(flags: &Flags, output: &Path) -> Vec<Form> {
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

/// Output path of each form, and true if the folder was created. Files have the model's name unless one is given.
pub(super) fn destinations(output: &Path, made_files: &[forms::File]) -> Result<(Vec<PathBuf>, bool)> {
    let text = output.as_os_str().to_string_lossy();
    let folder = output.is_dir() || text.ends_with('/') || made_files.len() > 1;
    if !folder {
        // A name without an extension gets that of its form; devices do not.
        let bare = output.extension().is_none() && (output.is_file() || !output.exists());
        let form = made_files.first().filter(|_| bare).map(|file| file.form.extension());
        return Ok((vec![form.map_or(output.to_path_buf(), |extension| output.with_extension(extension))], false));
    }
    let made = !output.exists();
    make_folder(output)?;
    Ok((made_files.iter().map(|f| output.join(&f.name)).collect(), made))
}

pub(super) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path)
        .map_err(|e| Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(path.display()))
}
