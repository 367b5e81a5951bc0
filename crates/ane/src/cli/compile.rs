//! `ane compile`: a model becomes a container.

use super::{Voice, chip, print};
use anemone::{Code, Diagnostic, Model, Result, files};
use anemone_compile::{Compat, Log, Options};
use anemone_program::{hwx, raw};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane compile model.mlpackage -o model.hwx
  ane compile net.plist -o out/ --compat zin-4.2.1 --dump-ir stages/")]
pub struct Flags {
    /// Package (.mlpackage), netplist (.plist) or .mlmodel
    model: PathBuf,
    /// Chip: marketing name or compiler target
    #[arg(short, long, default_value = "h13")]
    target: String,
    /// File, or folder for one file per form
    #[arg(short, long)]
    output: PathBuf,
    /// Forms to write
    #[arg(long, value_delimiter = ',', default_value = "hwx")]
    emit: Vec<Form>,
    /// Whose conventions to follow where they differ
    #[arg(long)]
    compat: Option<CompatName>,
    /// Write every stage's text into this folder
    #[arg(long)]
    dump_ir: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Form {
    /// Hardware container
    Hwx,
    /// Raw task stream and kernel data
    Bin,
    /// The open Linux driver's form
    Anec,
}

impl Form {
    fn extension(self) -> &'static str {
        match self {
            Form::Hwx => "hwx",
            Form::Bin => "bin",
            Form::Anec => "anec",
        }
    }
}

/// Compiler whose conventions can be asked for.
#[derive(Clone, Copy, ValueEnum)]
pub enum CompatName {
    /// zin_ane_compiler v4.2.1
    #[value(name = "zin-4.2.1")]
    Zin421,
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
    let model = Model::load(&flags.model)?;
    if let Model::Net { notes, .. } = &model {
        notes.iter().for_each(|n| voice.note(n));
    } else {
        return Err(Diagnostic::new(Code::Usage, "the file is compiled already").at(flags.model.display()));
    }
    let options = Options {
        compat: match flags.compat {
            Some(CompatName::Zin421) => Compat::Zin421,
            None => Compat::default(),
        },
    };
    let mut stages = Stages(flags.dump_ir.is_some().then(Vec::new));
    let bar = voice.progress(format!("compiling for {}", chip.target));
    let compiled = model.compile(chip, &options, &mut stages);
    bar.finish_and_clear();
    // Stages are worth most when compilation fails.
    if let (Some(folder), Some(stages)) = (&flags.dump_ir, &stages.0) {
        make_folder(folder)?;
        for (stage, text) in stages {
            files::write(&folder.join(format!("{stage}.txt")), text.as_bytes())?;
        }
    }
    let program = compiled?.program;
    let encoded: Vec<(Form, Vec<u8>)> = flags
        .emit
        .iter()
        .map(|&form| {
            let bytes = match form {
                Form::Hwx => {
                    let options = hwx::Options {
                        netplist_path: flags.model.display().to_string(),
                        output_path: flags.output.display().to_string(),
                        ..hwx::Options::default()
                    };
                    let container = hwx::from_program(&program, &options)
                        .map_err(|e| Diagnostic::new(Code::BadPlacement, e.to_string()))?;
                    container.write()
                }
                Form::Bin => raw::write_bin(&program),
                Form::Anec => {
                    raw::write_anec(&program).map_err(|e| Diagnostic::new(Code::BadPlacement, e.to_string()))?
                }
            };
            Ok((form, bytes))
        })
        .collect::<Result<_>>()?;
    let paths = destinations(&flags, &encoded)?;
    let mut written = Vec::new();
    for ((_, bytes), path) in encoded.iter().zip(&paths) {
        files::write(path, bytes)?;
        written.push(json!({ "path": path.display().to_string(), "bytes": bytes.len() }));
    }
    let tasks = program.tasks().map_err(|e| Diagnostic::new(Code::Defect, e.to_string()))?.len();
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

/// Where each form goes: the file named, or files named after the model in a folder.
fn destinations(flags: &Flags, forms: &[(Form, Vec<u8>)]) -> Result<Vec<PathBuf>> {
    let text = flags.output.as_os_str().to_string_lossy();
    let folder = flags.output.is_dir() || text.ends_with('/') || forms.len() > 1;
    if !folder {
        return Ok(vec![flags.output.clone()]);
    }
    make_folder(&flags.output)?;
    let stem = flags.model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(forms.iter().map(|(f, _)| flags.output.join(format!("{stem}.{}", f.extension()))).collect())
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path)
        .map_err(|e| Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(path.display()))
}
