//! `ane compile`: compiles a model to a container.

mod emit;
mod procedures;
mod report;
mod stages;

use super::conventions::{ActivationsName, CompatName, ConventionName};
use super::{FIRST, ModelFlags, Verbosity, chip, target};
use anemone::chain::{Cut, ProgramChain};
use anemone::compile::compile_until;
use anemone::forms::Form;
use anemone::{Code, Diagnostic, Model, Result, files, runtime};
use anemone_compile::{Compat, Options, pipeline, segments};
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use procedures::Procedures;
use stages::Stages;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane compile model.mlpackage
  ane compile model.mlpackage -t m1-max -o model.hwx
  ane compile model.mlpackage -o out/ --emit hwx,bin,anec
  ane compile net.plist -o out/ --emit e5,hwx
  ane compile net.plist -o out/ --compat zin-4.2.1 --dump-ir stages/
  ane compile model.mlpackage -o model.hwx --dump-ir stages/ --stop-after absorb-affines

A dispatch descriptor (e5) calls one program a segment, and each native layer is a segment: where it is \
among the forms, each segment is compiled alone, and the other forms have a file a segment. `ane run` \
finds the containers of a descriptor in its folder. Operations that have no way to the engine become host segments, \
which a descriptor carries as processor calls; without e5 among the forms they are refused.")]
pub struct Flags {
    /// Package (.mlpackage), MIL text (.mil), ONNX (.onnx), netplist (.plist) or .mlmodel
    model: PathBuf,
    /// Chip (m1, a14), product (iphone12) or compiler target (h13); `first` is the first that supports the model's native layers
    #[arg(short, long, default_value = "m1")]
    target: String,
    /// File, or folder for one file per form; a name without an extension gets that of the form [default: beside the model, with its
    /// name]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Forms to write: hwx, bin, anec, e5, firmware, loaded, image, records [default: by the file's extension, else hwx]
    #[arg(long, value_delimiter = ',', value_parser = super::forms())]
    emit: Vec<Form>,
    /// Compiler whose register words and container layout are reproduced [default: the fewest tasks and bytes that the chip allows, in the
    /// layout of zin-4.2.1, which every reader accepts]
    #[arg(long)]
    compat: Option<CompatName>,
    /// Write every stage to this folder: its text, a drawing (.dot), and the reasons for fusions, splits and partitions
    #[arg(long)]
    dump_ir: Option<PathBuf>,
    /// Stop after this pass, writing its text and no program: see `ane passes`
    #[arg(long, value_name = "PASS", requires = "dump_ir", value_parser = pass())]
    stop_after: Option<&'static pipeline::Pass>,
    /// Run only the first N optional passes, to bisect a faulty one
    #[arg(long, value_name = "N")]
    pass_limit: Option<usize>,
    /// Disable this optional pass: see `ane passes`
    #[arg(long, value_name = "PASS", value_parser = pass())]
    disable: Vec<&'static pipeline::Pass>,
    /// Lower functions beyond ReLU to one table each, to more precise steps, or to tables if their errors are small
    #[arg(long, value_enum, default_value_t)]
    activations: ActivationsName,
    /// Expand compressed weights to fp16, even if the chip supports their form: programs have plain coefficients only
    #[arg(long)]
    expand_weights: bool,
    /// Compile without the cache
    #[arg(long)]
    no_cache: bool,
    /// Folder of the cache [default: the user's cache]
    #[arg(long, value_name = "FOLDER", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Compile MIL text that Apple's compiler is known to refuse, if this one can
    #[arg(long)]
    force: bool,
    /// Write the resolved layout of every port to a JSON file beside the first file: FILE.layout.json
    #[arg(long)]
    sidecar: bool,
    /// Apple's verdict: refuse what Apple's compiler refuses, even if only for its form, which is a warning otherwise; no host segments
    #[arg(long, conflicts_with = "force")]
    strict: bool,
    /// Source to follow where the book's chapters and the bytes of Apple's programs disagree (docs/conflicts.md):
    /// `book` also refuses what the book refuses on the chip
    #[arg(long, value_enum, default_value_t)]
    convention: ConventionName,
    /// Partition around scaled dot-product attention, as the book does: a program for each attention and for the operations between
    #[arg(long)]
    cut_attention: bool,
    /// Refuse a model that needs host segments, even if a dispatch descriptor could store them
    #[arg(long, default_value_if("strict", "true", "true"))]
    engine_only: bool,
    #[command(flatten)]
    choices: ModelFlags,
}

/// Reads a pass by name.
fn pass() -> impl TypedValueParser<Value = &'static pipeline::Pass> {
    PossibleValuesParser::new(pipeline::ALL.iter().map(|p| p.name))
        .try_map(|name| pipeline::by_name(&name).ok_or("no such pass"))
}

/// A model to compile, and the refusals of Apple's compiler for it.
struct Request {
    model: Model,
    /// Procedures of a netplist with several.
    procedures: Vec<String>,
    chip: &'static Chip,
    /// Output path; `None` if no program is written.
    output: Option<PathBuf>,
    forms: Vec<Form>,
    /// Refusal that applies unless host segments take the operation.
    refused: Option<Diagnostic>,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let Request { model, procedures, chip, output, forms, refused } = read(&flags, verbosity)?;
    let options = options(&flags)?;
    if !procedures.is_empty() && flags.stop_after.is_none() {
        let Some(output) = &output else { return Ok(0) };
        let all = Procedures { names: &procedures, chip, forms: &forms, output };
        return procedures::compile(&flags, &all, &options, verbosity);
    }
    let text = format!("compiling for {}", chip.target);
    let bar = verbosity.progress(text.clone());
    let kept = flags.dump_ir.is_some().then(Vec::new);
    let mut stages = Stages { kept, below: PathBuf::new(), unkept: None, bar: (bar.clone(), text) };
    let stopped = flags.stop_after.map(|pass| compile_until(&model, chip, &options, &mut stages, pass));
    let compiled = stopped.is_none().then(|| chain(&flags, model, chip, &options, &forms, &mut stages));
    bar.finish_and_clear();
    // Stages are most useful when compilation fails.
    if let Some(folder) = &flags.dump_ir {
        stages.write(folder)?;
    }
    if let (Some(stopped), Some(pass)) = (stopped, flags.stop_after) {
        stopped.map_err(|d| d.or_at(flags.model.display()))?;
        verbosity.note(format!("stopped after {}: no program is written", pass.name));
        return Ok(0);
    }
    let (Some(compiled), Some(output)) = (compiled, output) else { return Ok(0) };
    let (chain, reasons) = compiled.map_err(|d| d.or_at(flags.model.display()))?;
    if let Some(refused) = refused.filter(|_| chain.hosts().is_empty()) {
        return Err(refused);
    }
    reasons.iter().for_each(|reason| verbosity.note(format!("on the host: {reason}")));
    stages.unkept.iter().for_each(|why| verbosity.note(anemone::places::not_kept(why)));
    let written = emit::write(&flags, &chain, chip, &forms, &output, &options)?;
    report::print_report(&flags, &chain, chip, &forms, &written, verbosity)?;
    Ok(0)
}

/// Reads the model, and refuses what Apple's compiler or the book refuses if requested.
fn read(flags: &Flags, verbosity: Verbosity) -> Result<Request> {
    // An unknown name is reported before the model is read.
    if flags.target != FIRST {
        chip(&flags.target)?;
    }
    let choices = flags.choices.choices()?;
    let procedures = anemone::procedures::several(&flags.model, &choices)?;
    let model = Model::load_with(&flags.model, &choices)?;
    let chip = target(&flags.target, &model)?;
    let beside = flags.stop_after.is_none().then(|| emit::default_output(flags));
    let output = flags.output.clone().or(beside);
    let forms = output.as_ref().map(|output| emit::forms(flags, output)).unwrap_or_default();
    let may_host = !flags.engine_only && forms.contains(&Form::E5);
    let refused = match flags.force {
        true => anemone::check::AppleRefusals::default(),
        false => anemone::check::refused(&flags.model, &choices, chip, flags.strict)?,
    };
    refused.forms.iter().for_each(|form| verbosity.note(format!("warning: Apple's compiler refuses {form}")));
    let refused = refused.first;
    // Host segments may take the refused operations, if they are allowed.
    if let Some(refused) = &refused
        && (!may_host || flags.strict)
    {
        return Err(refused.clone());
    }
    if let Model::Net { net, notes } = &model {
        verbosity.reader_notes(notes);
        super::by_the_book(flags.convention, &flags.model, net, chip, verbosity)?;
    } else {
        return Err(Diagnostic::new(Code::Usage, "the file is compiled already").at(flags.model.display()));
    }
    Ok(Request { model, procedures, chip, output, forms, refused })
}

/// Options of the compiler from the flags.
fn options(flags: &Flags) -> Result<Options> {
    let mut options = Options {
        compat: flags.compat.map_or_else(Compat::default, CompatName::compat),
        convention: flags.convention.convention(),
        activations: flags.activations.activations(),
        pass_limit: flags.pass_limit,
        expand_weights: flags.expand_weights,
        ..Options::default()
    };
    for pass in &flags.disable {
        let refused = |name| {
            Diagnostic::new(Code::Usage, format!("{name} cannot be disabled: `ane passes` lists optional passes"))
        };
        pass.disable(&mut options).map_err(refused)?;
    }
    Ok(options)
}

/// The programs of a network for these forms.
fn chain(
    flags: &Flags,
    model: Model,
    chip: &'static Chip,
    options: &Options,
    forms: &[Form],
    stages: &mut Stages,
) -> Result<(ProgramChain, Vec<String>)> {
    let Model::Net { net, .. } = model else {
        return Err(Diagnostic::new(Code::Usage, "the file is compiled already"));
    };
    // A loop is not unrolled, and integers stay exact, if a form can store parts of the host.
    if !flags.engine_only && forms.contains(&Form::E5) && segments::may_divide(&net) {
        return ProgramChain::with_host(&net, chip, options);
    }
    let mut segments = 0;
    let cut = match flags.cut_attention {
        true => Cut::Attention,
        false if forms.contains(&Form::E5) => Cut::Natives,
        false => Cut::Whole,
    };
    let compiled = ProgramChain::of_net(&net, cut, |segment: &Net| {
        // A segment that is the whole network has its name.
        if segment.name != net.name {
            stages.below = PathBuf::from(format!("segment-{segments}"));
            segments += 1;
        }
        cached_or_compiled(
            flags,
            Model::Net { net: Box::new(segment.clone()), notes: Vec::new() },
            chip,
            options,
            stages,
        )
    });
    match compiled {
        Err(refused) if !flags.engine_only => match ProgramChain::with_host(&net, chip, options) {
            Ok(chain) if forms.contains(&Form::E5) => Ok(chain),
            Ok(_) => {
                Err(refused.or_help("--emit hwx,e5: a dispatch descriptor has a place for operations on the host"))
            }
            Err(_) => Err(refused),
        },
        compiled => compiled.map(|chain| (chain, Vec::new())),
    }
}

/// Largest size of a program's weights for the cache, in bytes.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// Program from the cache, or compiled and then stored. Flags that inspect the passes, and `--no-cache`, bypass the cache.
fn cached_or_compiled(
    flags: &Flags,
    model: Model,
    chip: &'static Chip,
    options: &Options,
    stages: &mut Stages,
) -> Result<Program> {
    let looking = flags.no_cache || flags.dump_ir.is_some() || flags.pass_limit.is_some();
    let store = if looking { None } else { anemone::places::cache(flags.cache.clone()).ok() };
    let Some((store, key)) = store.and_then(|store| Some((store, runtime::key(&model, chip, options)?))) else {
        return Ok(model.compile(chip, options, &mut files::Releasing::new(stages))?.program);
    };
    let _claim = store.claim(&key);
    if let Some(program) = store.fetch(&key).and_then(|bundle| runtime::program(&bundle)) {
        return Ok(program);
    }
    let compiled = model.compile(chip, options, &mut files::Releasing::new(stages))?;
    // Reading back and checking a large program takes as long as compiling it, and three times its memory.
    if compiled.program.kernel.len() > MOST_KEPT_BYTES {
        return Ok(compiled.program);
    }
    if let Ok(bundle) = runtime::bundle(&compiled, chip) {
        // A read-only cache is not an error.
        stages.unkept = store.store(&key, &bundle).err().map(|error| error.to_string()).or(stages.unkept.take());
    }
    Ok(compiled.program)
}
