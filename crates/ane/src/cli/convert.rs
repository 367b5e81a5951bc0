//! `ane convert`: a compiled file in another form.

use super::{Voice, print};
use anemone::forms::{Form, Surroundings, encode};
use anemone::{Code, Diagnostic, Model, Result, files};
use anemone_facts::formats::dialects::Dialect;
use anemone_facts::formats::raw::anec;
use anemone_program::e5::State;
use anemone_program::{Program, hwx};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane convert model.hwx -o model.anec
  ane convert model.anec --to hwx -o model.hwx --compat zin-9.509
  ane convert model.hwx --to e5 -o model.e5 --state cache_in=cache_out

Forms: hwx (container), bin (raw stream and kernel data), anec (open Linux driver), e5 (dispatch descriptor that goes with
the container), firmware (firmware container). A dispatch descriptor holds no program: nothing can be made of it.")]
pub struct Flags {
    /// Compiled file: .hwx, .anec, .bin or .anefw
    file: PathBuf,
    /// File to write
    #[arg(short, long)]
    output: PathBuf,
    /// Form to write [default: as the extension of the file to write says]
    #[arg(long, value_parser = super::forms())]
    to: Option<Form>,
    /// Compiler whose container layout is followed
    #[arg(long, value_parser = super::dialects(), default_value = super::DIALECT)]
    compat: &'static Dialect,
    /// Byte offset of the data in an .anec file: 0x1000, or 0x800 for the first loaders
    #[arg(long, value_parser = data_offset, value_name = "BYTES")]
    anec_data: Option<usize>,
    /// A tensor held from call to call, for .e5: input port and output port
    #[arg(long, value_parser = state, value_name = "IN=OUT")]
    state: Vec<State>,
}

fn data_offset(text: &str) -> std::result::Result<usize, String> {
    let known = [anec::DATA, anec::DATA_FIRST];
    let value = text.strip_prefix("0x").map_or(text.parse().ok(), |hex| usize::from_str_radix(hex, 16).ok());
    value.filter(|v| known.contains(v)).ok_or("0x1000 or 0x800".to_string())
}

fn state(text: &str) -> std::result::Result<State, String> {
    let (input, output) = text.split_once('=').ok_or("INPUT=OUTPUT expected")?;
    Ok(State { input: input.to_string(), output: output.to_string() })
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let extension = flags.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let Some(form) = flags.to.or_else(|| Form::of_extension(extension)) else {
        let known: Vec<&str> = Form::ALL.iter().map(|f| f.extension()).collect();
        let message = format!("no form has the extension {extension:?}");
        let help = format!("give --to FORM, or one of these extensions: {}", known.join(", "));
        return Err(Diagnostic::new(Code::Usage, message).at(flags.output.display()).help(help));
    };
    let (program, mut container) = compiled(&flags.file)?;
    container.dialect = flags.compat;
    if container.output_path.is_empty() {
        container.output_path = flags.output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    let around = Surroundings { container, states: flags.state, anec_data: flags.anec_data };
    let bytes = encode(&program, form, &around).map_err(|d| d.or_at(flags.file.display()))?;
    files::write(&flags.output, &bytes)?;
    if voice.json {
        let file = json!({ "path": flags.output.display().to_string(), "bytes": bytes.len() });
        print(&format!("{}\n", json!({ "schema": "anemone.convert/1", "form": form.name(), "files": [file] })))?;
    } else {
        voice.note(format!("{}: {}, {} bytes", flags.output.display(), form.name(), bytes.len()));
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
