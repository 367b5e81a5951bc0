//! Conversion of a compiled file.

use super::Flags;
use crate::cli::{Verbosity, print};
use anemone::forms::{Form, WriteOptions, encode};
use anemone::{Code, Diagnostic, Model, ProgramChain, Result, files};
use anemone_program::e5::State;
use anemone_program::{Program, hwx};
use serde_json::json;

pub fn run(flags: Flags, form: Form, verbosity: Verbosity) -> Result<u8> {
    if flags.palettize.is_some() || flags.int8 || flags.prune.is_some() {
        let help = "give them when the network is converted or compiled";
        return Err(Diagnostic::new(Code::Usage, "weights of a program cannot be compressed").help(help));
    }
    let Some(output) = flags.output else {
        let message = format!("a {} is not text: it needs --output", form.name());
        return Err(Diagnostic::new(Code::Usage, message).help(format!("give -o FILE.{}", form.extension())));
    };
    let (program, mut container, held, contained) = compiled(&flags.file)?;
    container.dialect = flags.compat.unwrap_or(container.dialect);
    if form != Form::E5
        && let Some(state) = held.first()
    {
        let name = form.name();
        verbosity.note(format!(
            "{name} does not state which ports are states: {} = {} is an input and an output",
            state.input, state.output
        ));
    }
    if container.output_path.is_empty() {
        container.output_path = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    let states = if flags.state.is_empty() { held } else { flags.state };
    let around =
        WriteOptions { container, states, anec_data: flags.anec_data, base: flags.base, ..WriteOptions::default() };
    let encoded = |form| encode(&program, form, &around).map_err(|d| d.or_at(flags.file.display()));
    let bytes = encoded(form)?;
    // A descriptor refers to its container: if it is made from another form, the container is written beside it.
    let beside = (form == Form::E5 && !contained).then(|| output.with_extension(Form::Hwx.extension()));
    match &beside {
        Some(path) => {
            let container = encoded(Form::Hwx)?;
            if std::fs::read(path).is_ok_and(|there| there != container) {
                let message =
                    format!("{} exists already, and the descriptor's container would replace it", path.display());
                return Err(Diagnostic::new(Code::Unwritable, message).help("choose another name"));
            }
            files::write_all(&[(&output, &bytes), (path, &container)])?;
        }
        None => files::write(&output, &bytes)?,
    }
    if verbosity.json {
        let mut written = vec![json!({ "path": output.display().to_string(), "bytes": bytes.len() })];
        written.extend(beside.iter().map(|path| json!({ "path": path.display().to_string() })));
        print(&format!("{}\n", json!({ "schema": "anemone.convert/1", "form": form.name(), "files": written })))?;
    } else {
        verbosity.note(format!("{}: {}, {} bytes", output.display(), form.name(), bytes.len()));
        if let Some(path) = &beside {
            verbosity.note(format!("{}: the container that it refers to", path.display()));
        }
    }
    Ok(0)
}

/// The program of a compiled file, the options of its container, its states, and true if it is a container.
fn compiled(file: &std::path::Path) -> Result<(Program, hwx::Options, Vec<State>, bool)> {
    let malformed = |e: String| Diagnostic::new(Code::Malformed, e).at(file.display());
    match Model::load(file)? {
        Model::Net { .. } => Err(Diagnostic::new(Code::Usage, "the file is a model, not a compiled program")
            .at(file.display())
            .help("compile it: ane compile MODEL -o FILE")),
        Model::Container(container) => {
            let program = container.program().map_err(|e| malformed(e.to_string()))?;
            Ok((program, hwx::Options::of(&container), Vec::new(), true))
        }
        Model::Program(program) => Ok((*program, hwx::Options::default(), Vec::new(), false)),
        Model::Package(package) => {
            let [entry] = package.programs.as_slice() else {
                return Err(malformed(format!("{} programs, one is expected", package.programs.len())));
            };
            Ok((entry.program().map_err(|e| malformed(e.to_string()))?, hwx::Options::default(), Vec::new(), false))
        }
        Model::Descriptor(descriptor) => {
            let chain = ProgramChain::beside(file, &descriptor)?;
            let ([program], []) = (chain.programs(), chain.hosts()) else {
                let (programs, hosts) = (chain.programs().len(), chain.hosts().len());
                let message = format!(
                    "the descriptor calls {programs} programs and {hosts} host segments, one program is expected"
                );
                return Err(Diagnostic::new(Code::Usage, message)
                    .at(file.display())
                    .help("convert the containers that it was written with"));
            };
            Ok((program.clone(), hwx::Options::default(), chain.states().to_vec(), true))
        }
    }
}
