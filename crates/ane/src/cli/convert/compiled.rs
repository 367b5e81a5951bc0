//! A compiled file in another form.

use super::Flags;
use crate::cli::{DIALECT, Voice, print};
use anemone::forms::{Form, Surroundings, encode};
use anemone::{Code, Diagnostic, Model, Result, files};
use anemone_facts::formats::dialects;
use anemone_program::{Program, hwx};
use serde_json::json;

pub fn run(flags: Flags, form: Form, voice: Voice) -> Result<u8> {
    if flags.palettize.is_some() || flags.int8 || flags.prune.is_some() {
        let help = "give them when the network is converted or compiled";
        return Err(Diagnostic::new(Code::Usage, "weights of a program cannot be compressed").help(help));
    }
    let Some(output) = flags.output else {
        let message = format!("a {} is not text: it needs --output", form.name());
        return Err(Diagnostic::new(Code::Usage, message).help(format!("give -o FILE.{}", form.extension())));
    };
    let (program, mut container) = compiled(&flags.file)?;
    container.dialect = flags.compat.or(dialects::by_name(DIALECT)).unwrap_or(container.dialect);
    if container.output_path.is_empty() {
        container.output_path = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    let around = Surroundings { container, states: flags.state, anec_data: flags.anec_data };
    let bytes = encode(&program, form, &around).map_err(|d| d.or_at(flags.file.display()))?;
    files::write(&output, &bytes)?;
    if voice.json {
        let file = json!({ "path": output.display().to_string(), "bytes": bytes.len() });
        print(&format!("{}\n", json!({ "schema": "anemone.convert/1", "form": form.name(), "files": [file] })))?;
    } else {
        voice.note(format!("{}: {}, {} bytes", output.display(), form.name(), bytes.len()));
    }
    Ok(0)
}

/// The program of a compiled file, and what its container says about its making.
fn compiled(file: &std::path::Path) -> Result<(Program, hwx::Options)> {
    let malformed = |e: String| Diagnostic::new(Code::Malformed, e).at(file.display());
    match Model::load(file)? {
        Model::Net { .. } => Err(Diagnostic::new(Code::Usage, "the file is a model, not a compiled program")
            .at(file.display())
            .help("compile it: ane compile MODEL -o FILE")),
        Model::Container(container) => {
            let program = container.program().map_err(|e| malformed(e.to_string()))?;
            Ok((program, hwx::Options::of(&container)))
        }
        Model::Program(program) => Ok((*program, hwx::Options::default())),
        Model::Package(package) => {
            let [entry] = package.programs.as_slice() else {
                return Err(malformed(format!("{} programs, one is expected", package.programs.len())));
            };
            Ok((entry.program().map_err(|e| malformed(e.to_string()))?, hwx::Options::default()))
        }
        Model::Descriptor(_) => {
            Err(Diagnostic::new(Code::Usage, "a dispatch descriptor names programs and holds none")
                .at(file.display())
                .help("give the container (.hwx) that it was written with"))
        }
    }
}
