//! `ane convert`: conversion between forms of networks, and between forms of programs.

mod compiled;
mod network;

use super::{ModelFlags, Verbosity};
use anemone::convert::NetForm;
use anemone::forms::Form;
use anemone::{Code, Diagnostic, Result};
use anemone_facts::formats::dialects::Dialect;
use anemone_facts::formats::raw::anec;
use anemone_program::e5::State;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane convert model.mlpackage --to mil                    the text on standard output
  ane convert model.onnx --dim N=1 -o model.mlpackage
  ane convert model.mlpackage -o small.mlpackage --palettize 4
  ane convert net.plist --to dot | dot -Tsvg > net.svg
  ane convert model.hwx -o model.anec
  ane convert model.anec --to hwx -o model.hwx --compat zin-9.509
  ane convert model.hwx --to e5 -o model.e5 --state cache_in=cache_out

Forms of networks: mil, mlpackage, netplist (schema 1.0.10), netplist-1.0.9, dot, json. MIL text and packages come out as they stand, unless weights are \
compressed; from other forms, weights go to weights/weight.bin (netplist: net.weights) beside the file.

Forms of programs: hwx (container), bin (raw stream and kernel data), anec (open Linux driver), e5 (dispatch descriptor that \
goes with the container), firmware (firmware container), loaded (the container at the addresses of one load, signed), image and \
records (the register image of descriptor version 10 of a program of one task, and its sparse records). A dispatch descriptor holds no program: nothing can be made of \
it. A network becomes a program with `ane compile`.")]
pub struct Flags {
    /// Package, MIL text, ONNX model, netplist or .mlmodel; or a compiled .hwx, .anec, .bin, .anefw or .e5
    file: PathBuf,
    /// Form to write [default: by the extension of the output file]
    #[arg(long, value_parser = target())]
    to: Option<Target>,
    /// File (for mlpackage: folder) to write; mil, dot and json go to standard output if omitted
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Palettize weights to 2^BITS values each: 1, 2, 3, 4, 6 or 8
    #[arg(long, value_name = "BITS", group = "smaller", help_heading = "Networks")]
    palettize: Option<u32>,
    /// Quantize weights to 8-bit integers with a scale for each output channel
    #[arg(long, group = "smaller", help_heading = "Networks")]
    int8: bool,
    /// Prune the smallest weights to zero: the share of them, 0 to 1
    #[arg(long, value_name = "SHARE", group = "smaller", help_heading = "Networks")]
    prune: Option<f32>,
    /// Seed of the inputs for measuring compression
    #[arg(long, default_value_t = 0, help_heading = "Networks")]
    seed: u64,
    #[command(flatten, next_help_heading = "Networks")]
    choices: ModelFlags,
    /// Compiler whose container layout is used [default: that of the file, else zin-4.2.1]
    #[arg(long, value_parser = super::dialects(), help_heading = "Programs")]
    compat: Option<&'static Dialect>,
    /// Byte offset of the data in an .anec file: 0x1000, or 0x800 for the first loaders
    #[arg(long, value_parser = data_offset, value_name = "BYTES", help_heading = "Programs")]
    anec_data: Option<usize>,
    /// Address of the first page, for loaded images; for image and records, whose address slots then contain device addresses of
    /// that load
    #[arg(long, value_parser = super::dump::address, value_name = "ADDRESS", help_heading = "Programs")]
    base: Option<u64>,
    /// A tensor kept between calls, for .e5: input port and output port
    #[arg(long, value_parser = state, value_name = "IN=OUT", help_heading = "Programs")]
    state: Vec<State>,
}

/// Output form.
#[derive(Clone, Copy)]
enum Target {
    Network(NetForm),
    Program(Form),
}

impl Target {
    /// All forms, with their names for `--to`.
    fn all() -> impl Iterator<Item = (&'static str, Target)> {
        let networks = NetForm::ALL.iter().map(|row| (row.1, Target::Network(row.0)));
        networks.chain(Form::ALL.iter().map(|form| (form.name(), Target::Program(*form))))
    }

    fn of_extension(extension: &str) -> Option<Self> {
        NetForm::of(extension).map(Target::Network).or_else(|| Form::of_extension(extension).map(Target::Program))
    }
}

fn target() -> impl TypedValueParser<Value = Target> {
    PossibleValuesParser::new(Target::all().map(|(name, _)| name))
        .try_map(|name| Target::all().find(|(known, _)| *known == name).map(|(_, target)| target).ok_or("no such form"))
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

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let extension = flags.output.as_deref().and_then(Path::extension).and_then(|e| e.to_str()).unwrap_or_default();
    match flags.to.or_else(|| Target::of_extension(extension)) {
        Some(Target::Network(form)) => network::run(&flags, form, verbosity),
        Some(Target::Program(form)) => compiled::run(flags, form, verbosity),
        None => {
            let names: Vec<&str> = Target::all().map(|(name, _)| name).collect();
            let message = match &flags.output {
                Some(output) => format!("{}: no form has this extension", output.display()),
                None => "the form to write is given neither by --to nor by --output".to_string(),
            };
            let extensions = NetForm::ALL.iter().map(|row| row.2).chain(Form::ALL.iter().map(|form| form.extension()));
            let extensions: Vec<&str> = extensions.collect();
            let help = format!("give --to {}; or an extension: {}", names.join(", --to "), extensions.join(", "));
            Err(Diagnostic::new(Code::Usage, message).help(help))
        }
    }
}
