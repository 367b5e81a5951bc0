//! Stages of a run: reading, compiling, comparing by layer, executing.

use super::arrays::shapes;
use super::parts::{adapt, around_attention, hosts_told, require_single_program, segmented, traced};
use super::report::summary;
use super::{Flags, Numerics, by_layer};
use crate::cli::conventions::CompatName;
use crate::cli::{FIRST, Verbosity, by_the_book, chip, print, target, via};
use anemone::connection::{Adapter, Request};
use anemone::tensor::Array;
use anemone::{Code, Diagnostic, Model, ProgramChain, Result, Run};
use anemone_compile::{Compat, Options};
use anemone_facts::chips::Chip;
use anemone_facts::numerics;
use anemone_net::Net;

/// Reads the model, and refuses what Apple's compiler or the book refuses if requested.
pub fn read(flags: &Flags, verbosity: Verbosity) -> Result<(Model, &'static Chip)> {
    // An unknown name is reported before the model is read.
    if flags.target != FIRST {
        chip(&flags.target)?;
    }
    let mut choices = flags.choices.choices()?;
    choices.options.shapes = shapes(&flags.input);
    let model = Model::load_with(&flags.model, &choices)?;
    let chip = target(&flags.target, &model)?;
    if let Model::Net { net, notes } = &model {
        verbosity.reader_notes(notes);
        by_the_book(flags.convention, &flags.model, net, chip, verbosity)?;
        if flags.strict
            && let Some(refused) = anemone::check::refused(&flags.model, &choices, chip, true)?.first
        {
            return Err(refused);
        }
    }
    Ok((model, chip))
}

/// A model ready for execution.
pub struct Prepared {
    pub chain: ProgramChain,
    /// The network, unless the file is a compiled program.
    pub net: Option<Box<Net>>,
    pub chip: &'static Chip,
    /// Options of its compilation.
    pub compiler: Options,
    /// True for a dispatch descriptor, which states its states.
    described: bool,
    /// Pieces of kernel data replaced by an adapter.
    adapter: Vec<(u64, Vec<u8>)>,
    /// Session of the runtime, if the chain is that of its compiled program.
    session: Option<via::Session>,
}

/// Compiles the model if needed, and checks its programs.
pub fn prepare(flags: &Flags, model: Model, chip: &'static Chip, verbosity: Verbosity) -> Result<Prepared> {
    let compat = flags.compat.map_or_else(Compat::default, CompatName::compat);
    let activations = flags.activations.activations();
    let compiler = Options { compat, convention: flags.convention.convention(), activations, ..Options::default() };
    let bar = verbosity.progress(format!("compiling for {}", chip.target));
    let in_file = |d: Diagnostic| d.or_at(flags.model.display());
    let described = matches!(model, Model::Descriptor(_));
    refuse_extents(flags).map_err(in_file)?;
    let mut session = None;
    let compiled = match &model {
        Model::Net { net, .. } if by_runtime(flags) => driven(flags, chip, compiler, verbosity).map(|(chain, open)| {
            session = Some(open);
            (chain, Some(net.clone()))
        }),
        Model::Net { net, .. } if flags.cut_attention => {
            around_attention(net, chip, &compiler).map(|chain| (chain, Some(net.clone())))
        }
        Model::Net { .. } if !flags.engine_only => segmented(model, chip, &compiler, verbosity),
        _ => model.chain(&flags.model, chip, &compiler),
    };
    bar.finish_and_clear();
    let (mut chain, net) = compiled.map_err(in_file)?;
    let adapter = flags.adapter.as_deref().map(|path| adapt(&mut chain, path)).transpose()?.unwrap_or_default();
    require_single_program(&chain, flags.trace.is_some() || flags.plan.profile.is_some()).map_err(in_file)?;
    if described {
        hosts_told(&chain, verbosity);
    }
    chain.programs().iter().try_for_each(anemone::execute::check).map_err(in_file)?;
    Ok(Prepared { chain, net, chip, compiler, described, adapter, session })
}

/// Refuses choices that the runtime's own compilation, which begins with a file, cannot be told.
fn refuse_extents(flags: &Flags) -> Result<()> {
    let choices = &flags.choices;
    let given = [
        ("--dim", !choices.dim.is_empty()),
        ("--shape", !choices.shape.is_empty()),
        ("--value", !choices.value.is_empty()),
        ("--model-root", choices.model_root.is_some()),
    ];
    let Some((name, _)) = given.iter().find(|(_, given)| flags.via.wanted() && *given) else { return Ok(()) };
    let message = format!("{name} with --via: the runtime compiles the model as its file has it");
    let help =
        format!("write the model so chosen into a file, and run that: ane convert MODEL {name} ... -o fixed.mil");
    Err(Diagnostic::new(Code::Usage, message).help(help))
}

/// Returns true if the runtime's own compilation gives the same network: it has no options for extents, functions or weights.
fn by_runtime(flags: &Flags) -> bool {
    flags.via.wanted() && flags.choices.is_plain() && flags.choices.model_root.is_none() && flags.adapter.is_none()
}

/// The model loaded by the runtime, and the chain of its compiled program, so that it is compiled only once.
fn driven(
    flags: &Flags,
    chip: &'static Chip,
    compiler: Options,
    verbosity: Verbosity,
) -> Result<(ProgramChain, via::Session)> {
    let request = Request { engine_only: flags.engine_only, compiler, ..Request::new(&flags.model, chip.target) };
    let session = flags.via.open(&request, flags.numerics.arithmetic(), verbosity)?;
    let chain = anemone::runtime::chain(&flags.model, session.bundle())?;
    for (_, part) in chain.hosts() {
        let ops: Vec<String> =
            part.ops.iter().map(|op| format!("{} ({})", part.value(op.outputs[0]).name, op.kind.name())).collect();
        verbosity.note(format!("on the host: {}", ops.join(", ")));
    }
    hosts_told(&chain, verbosity);
    Ok((chain, session))
}

impl Prepared {
    /// Options of the engine.
    pub fn execution(&self, flags: &Flags) -> Result<anemone_engine::Options> {
        let model = match flags.numerics {
            Numerics::Fast => numerics::Model::Fast,
            Numerics::Exact => self.chain.exact_model()?,
        };
        Ok(anemone_engine::Options { lenient: flags.lenient, model, ..Default::default() })
    }
}

/// Compares every layer with the network's own values, if requested. Returns the exit code.
pub fn compare_layers(
    flags: &Flags,
    prepared: &Prepared,
    inputs: &[(String, Array)],
    verbosity: Verbosity,
) -> Result<Option<u8>> {
    let Some(given) = &flags.by_layer else { return Ok(None) };
    if verbosity.json && !flags.expect.is_empty() {
        let message = "--json gives one document: either --by-layer or --expect";
        return Err(Diagnostic::new(Code::Usage, message));
    }
    let Some(net) = &prepared.net else {
        let message = "--by-layer compares with a network; this file is a compiled program";
        return Err(Diagnostic::new(Code::Usage, message).at(flags.model.display()));
    };
    let execution = prepared.execution(flags)?;
    let question = by_layer::Question {
        net,
        chip: prepared.chip,
        options: &prepared.compiler,
        execution,
        inputs,
        given: given.as_deref(),
        engine_only: flags.engine_only,
    };
    question.answer(verbosity).map(Some)
}

/// Executes the model the requested number of times, by the engine or through a driver. Each run starts with the states of the one before.
pub fn execute(
    flags: &Flags,
    prepared: &Prepared,
    options: anemone_engine::Options,
    inputs: &mut [(String, Array)],
    verbosity: Verbosity,
) -> Result<Run> {
    let Prepared { chain, net, chip, described, adapter, .. } = prepared;
    let in_file = |d: Diagnostic| d.or_at(flags.model.display());
    let bar = verbosity.progress("executing".into());
    if flags.repeat > 1 && net.is_none() && !described {
        verbosity.note(
            "only a dispatch descriptor (.e5) states which ports are states: every run begins with the same inputs",
        );
    }
    let mut execution = if flags.via.wanted() { None } else { Some(chain.execution(options).map_err(in_file)?) };
    let request = Request {
        engine_only: flags.engine_only,
        compiler: prepared.compiler,
        function: flags.choices.function.as_deref(),
        adapter: (!adapter.is_empty()).then(|| Adapter::Pieces(adapter.clone())),
        ..Request::new(&flags.model, chip.target)
    };
    let open = || flags.via.open(&request, flags.numerics.arithmetic(), verbosity);
    let opened = (flags.via.wanted() && prepared.session.is_none()).then(open).transpose().map_err(in_file)?;
    let session = prepared.session.as_ref().or(opened.as_ref());
    let mut steps = Vec::new();
    let mut run = loop {
        let run = match &mut execution {
            None => session.map_or_else(|| Ok(Run::default()), |session| session.run(inputs)),
            Some(execution) => execution.run(inputs),
        };
        let run = run.map_err(in_file)?;
        steps.push(run.outputs.iter().map(|(name, array)| (name.clone(), summary(array))).collect::<Vec<_>>());
        if steps.len() == flags.repeat as usize {
            break run;
        }
        chain.hand_over(&run.outputs, inputs);
    };
    bar.finish_and_clear();
    if let Some(session) = session {
        session.print_counters(verbosity);
    }
    // The last run is reported with its expectations.
    if !verbosity.json && !verbosity.quiet {
        for (i, step) in steps.iter().enumerate().take(steps.len() - 1) {
            for (name, text) in step {
                print(&format!("run {}: {name}{text}\n", i + 1))?;
            }
        }
    }
    if flags.via.wanted() {
        // The driver reports requests, not tasks: a run executes all tasks of each program.
        run.tasks = chain.programs().iter().filter_map(|program| program.tasks().ok()).map(|tasks| tasks.len()).sum();
        if flags.trace.is_some() {
            run.trace = traced(chain, options, inputs, &run).map_err(in_file)?;
        }
    }
    Ok(run)
}
