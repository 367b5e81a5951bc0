//! `ane dump`: explains a compiled file, or lists it as text that assembles back.

use super::conventions::ConventionName;
use super::{Verbosity, print};
use anemone::explain::{explain, not_compiled};
use anemone::{Code, Diagnostic, Model, Result, book, brief, files, overview};
use anemone_facts::layout::v10::{IMAGE_BYTES, RECORD_BYTES};
use anemone_program::hwx::{Image, TRAILER_BYTES, name16_text};
use anemone_program::task::image;
use anemone_program::text::{self, Dump, Part, Selection};
use anemone_program::{Coverage, Program};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane dump model.hwx
  ane dump model.hwx -v
  ane dump model.hwx --td 2
  ane dump model.hwx --td 2 -v
  ane dump model.hwx --part td,lut --td 2
  ane dump model.hwx --asm > model.ane-asm
  ane dump model.hwx --loaded 0x40000000 --part segments,relocs
  ane dump model.hwx --coverage
  ane dump td.image --image > td.ane-asm

Without --td and --part: one line for each task. With them, fields at 0 are left out and equal elements of arrays stand on one \
line; -v shows every field.")]
pub struct Flags {
    /// Compiled file: .hwx, .anec, .bin, .e5, .anefw or .loaded
    file: PathBuf,
    /// Parts to show: header, segments, symbols, relocs, ident, ports, td, regs, lut, weights
    #[arg(long, value_name = "PARTS")]
    part: Option<String>,
    /// Only this task
    #[arg(long, value_name = "N")]
    td: Option<usize>,
    /// Print the listing that `ane asm` reads
    #[arg(long)]
    asm: bool,
    /// Print form, sizes and counts of the file in a few lines
    #[arg(long, conflicts_with = "asm")]
    summary: bool,
    /// Count bits of the task stream that rows explain
    #[arg(long, conflicts_with_all = ["asm", "summary"])]
    coverage: bool,
    /// Show a container as loaded at this address: apertures, base registers, resolved relocations
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "0x30000000", value_parser = address,
          conflicts_with_all = ["asm", "summary", "coverage"])]
    loaded: Option<u64>,
    /// The file is the register image of descriptor version 10: the structure itself, or its records, whose registers start
    /// at this address [default address: 0]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "0", value_parser = address,
          conflicts_with_all = ["part", "td", "summary", "coverage", "loaded"])]
    image: Option<u64>,
    /// Source for the reading of header words, operation words, tables and thread commands
    #[arg(long, value_enum, default_value = "samples", conflicts_with_all = ["asm", "summary", "coverage", "image", "loaded"])]
    convention: ConventionName,
    /// Bind a live-in parameter of a register image by the name of its input, and show the patched image
    #[arg(long, value_name = "NAME=VALUE", requires = "image")]
    live_in: Vec<String>,
}

pub fn address(text: &str) -> std::result::Result<u64, String> {
    let value = text.strip_prefix("0x").map_or(text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    value.ok_or("a number, decimal or 0x hexadecimal".to_string())
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    if let Some(aperture) = flags.image {
        return listed(&image(&flags.file, aperture, &flags.live_in)?, verbosity);
    }
    if flags.summary
        && let Some(container) = files::outline(&flags.file)?
    {
        return summary(&Model::Container(Box::new(container)), &flags.file, verbosity).map(|()| 0);
    }
    let model = Model::load(&flags.file)?;
    if flags.asm {
        let listing = match &model {
            Model::Container(container) => text::list_container(container),
            Model::Program(program) => text::list(program),
            Model::Descriptor(descriptor) => text::list_descriptor(descriptor),
            Model::Package(package) => text::list_package(package),
            Model::Net { .. } => return Err(not_compiled(&flags.file)),
        };
        return listed(&listing, verbosity);
    }
    if flags.summary {
        return summary(&model, &flags.file, verbosity).map(|()| 0);
    }
    if flags.coverage {
        return coverage(&model, &flags.file, verbosity).map(|()| 0);
    }
    if let (Some(n), Some(count)) = (flags.td, tasks(&model))
        && n >= count
    {
        let message = format!("--td {n}: no such task; tasks found: {count}, numbered from 0");
        return Err(Diagnostic::new(Code::Usage, message).at(flags.file.display()));
    }
    let mut selection = Selection { task: flags.td, ..Selection::default() };
    if let Some(parts) = &flags.part {
        selection.parts = Part::list(parts).map_err(|e| Diagnostic::new(Code::Usage, e.to_string()))?;
    } else if flags.td.is_some() {
        selection.parts = vec![Part::Td, Part::Regs];
    } else if flags.convention == ConventionName::Samples
        && !verbosity.json
        && !verbosity.verbose
        && flags.loaded.is_none()
        && let Some(overview) = overview::of(&model)
    {
        return print(&overview).map(|()| 0);
    }
    // A loaded image is shown at its own base.
    let signed = if flags.loaded.is_none() && flags.file.is_file() { loaded(&flags.file)? } else { None };
    let dump = match signed.or(flags.loaded) {
        Some(base) => {
            let Model::Container(container) = &model else {
                let message = "only containers can be loaded";
                return Err(Diagnostic::new(Code::Usage, message).at(flags.file.display()));
            };
            let image = Image::map(container, base).map_err(|e| Diagnostic::new(Code::BadPlacement, e.to_string()))?;
            Dump::of_image(&image, &selection)
        }
        None if flags.convention == ConventionName::Book => book::dump(&model, &flags.file, &selection)?,
        None => explain(&model, &flags.file, &selection)?,
    };
    if verbosity.json {
        let document = serde_json::to_string(&dump).map_err(|e| Diagnostic::new(Code::Defect, e.to_string()))?;
        print(&format!("{document}\n"))?;
    } else {
        print(&if verbosity.verbose { dump.render() } else { brief::render(&dump) })?;
    }
    Ok(0)
}

/// Base address in a loaded image's file; `None` for other files.
fn loaded(file: &Path) -> Result<Option<u64>> {
    let bytes = files::read(file)?;
    let container = bytes.starts_with(&anemone_facts::formats::hwx::MAGIC.to_le_bytes());
    if !container || !anemone_program::hwx::is_loaded(&bytes) {
        return Ok(None);
    }
    let image = Image::read_signed(&bytes);
    image.map(|image| Some(image.base)).map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()).at(file.display()))
}

fn listed(listing: &str, verbosity: Verbosity) -> Result<u8> {
    let document = || format!("{}\n", json!({ "schema": "anemone.listing/1", "listing": listing }));
    print(&if verbosity.json { document() } else { listing.to_string() }).map(|()| 0)
}

/// The listing of a register image, recognized by its size, which is not a multiple of a record's.
fn image(file: &Path, aperture: u64, live_ins: &[String]) -> Result<String> {
    let bytes = files::read(file)?;
    let records = !bytes.is_empty() && bytes.len().is_multiple_of(RECORD_BYTES) && !image::is_image(&bytes);
    let found = if records {
        let read = image::read_records(&bytes).and_then(|records| image::Image::of_records(&records, aperture));
        read.map(|image| image::Descriptor { image, ..image::Descriptor::default() })
    } else {
        image::Descriptor::read(&bytes)
    };
    let malformed = |e: image::ImageError| {
        Diagnostic::new(Code::Malformed, e.to_string()).at(file.display()).help(format!(
            "the structure has {IMAGE_BYTES:#x} bytes, a record {RECORD_BYTES}; --image ADDRESS for records"
        ))
    };
    let mut descriptor = found.map_err(malformed)?;
    for text in live_ins {
        let wrong = |why: String| Diagnostic::new(Code::Usage, format!("--live-in {text}: {why}")).at(file.display());
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("NAME=VALUE expected".into()))?;
        let value = address(value).map_err(wrong)?;
        descriptor.bind(name, value).map_err(|e| match e {
            image::ImageError::Field { .. } => wrong("the image has no live-in of this name".into()),
            other => wrong(other.to_string()),
        })?;
    }
    Ok(text::list_image(&descriptor))
}

/// Programs of a compiled file that can be lifted.
fn programs(model: &Model) -> Vec<Program> {
    match model {
        Model::Container(container) => container.programs().unwrap_or_default(),
        Model::Program(program) => vec![(**program).clone()],
        Model::Package(package) => package.programs.iter().filter_map(|e| e.program().ok()).collect(),
        Model::Net { .. } | Model::Descriptor(_) => Vec::new(),
    }
}

/// Number of tasks, if the stream decodes.
fn tasks(model: &Model) -> Option<usize> {
    if let Model::Container(container) = model {
        let (_, tasks, error) = container.tasks()?;
        return error.is_none().then_some(tasks.len());
    }
    let [program] = programs(model).try_into().ok()?;
    let program: Program = program;
    Some(program.tasks().ok()?.len())
}

/// Prints form, sizes and counts of the file in a few lines, without decoding tasks.
fn summary(model: &Model, file: &Path, verbosity: Verbosity) -> Result<()> {
    let base = if file.is_file() { loaded(file)? } else { None };
    let lines: Vec<(&str, String)> = match model {
        Model::Container(c) => {
            let sections =
                c.sections().map(|s| format!("{},{} {:#x}", name16_text(&s.segment), name16_text(&s.name), s.bytes));
            let residue = c.residue.iter().map(|r| r.bytes.len()).sum::<usize>();
            let signature = if base.is_some() { TRAILER_BYTES } else { 0 };
            let mut lines = vec![
                ("form", if base.is_some() { "loaded image".into() } else { "container".into() }),
                ("bytes", c.file_bytes.to_string()),
                ("cpu-subtype", c.header.cpu_subtype.to_string()),
                ("compiler", c.compiler_version().unwrap_or_else(|| "unknown".into())),
                ("dialect", c.dialect().map_or("unknown", |d| d.name).into()),
                ("commands", c.commands.len().to_string()),
                ("sections", sections.collect::<Vec<_>>().join(", ")),
                ("procedures", c.procedures().join(", ")),
                ("windows", c.windows().map(|(_, w)| w.name()).collect::<Vec<_>>().join(", ")),
                ("symbols", c.symtab().map_or(0, |t| t.symbols.len()).to_string()),
                ("unexplained-bytes", residue.saturating_sub(signature).to_string()),
            ];
            if let Some(base) = base {
                lines.insert(1, ("base", format!("{base:#x}")));
                lines.push(("signature-bytes", signature.to_string()));
            }
            lines
        }
        Model::Program(p) => vec![
            ("form", "stream".into()),
            ("generation", p.layout.generation.into()),
            ("stream-bytes", p.stream.len().to_string()),
            ("kernel-bytes", p.kernel.len().to_string()),
            ("ports", p.ports.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ")),
        ],
        Model::Descriptor(d) => vec![
            ("form", "dispatch descriptor".into()),
            ("bytes", d.write().len().to_string()),
            ("operations", d.operations().map(|o| o.text("name")).collect::<Vec<_>>().join(", ")),
            ("problems", d.check().len().to_string()),
        ],
        Model::Package(p) => vec![
            ("form", "firmware container".into()),
            ("bytes", p.file_bytes.to_string()),
            ("programs", p.programs.len().to_string()),
            ("problems", p.check().len().to_string()),
        ],
        Model::Net { .. } => return Err(not_compiled(file)),
    };
    if verbosity.json {
        let mut document = json!({ "schema": "anemone.summary/1" });
        for (name, value) in lines {
            document[name] = value.into();
        }
        return print(&format!("{document}\n"));
    }
    print(&lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect::<String>())
}

/// Prints the share of the task streams that register rows explain.
fn coverage(model: &Model, file: &Path, verbosity: Verbosity) -> Result<()> {
    let all: Vec<Coverage> = match model {
        Model::Net { .. } => return Err(not_compiled(file)),
        Model::Container(container) => Coverage::of_container(container).into_iter().collect(),
        Model::Program(_) | Model::Descriptor(_) | Model::Package(_) => {
            programs(model).iter().map(Coverage::of_program).collect()
        }
    };
    if all.is_empty() {
        let message = "no task stream of a known descriptor version";
        return Err(Diagnostic::new(Code::Malformed, message).at(file.display()));
    }
    if verbosity.json {
        return print(&format!("{}\n", json!({ "schema": "anemone.coverage/1", "programs": all })));
    }
    print(&all.iter().map(Coverage::render).collect::<String>())
}
