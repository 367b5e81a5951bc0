//! Outcome of a run: warnings, comparison with expected outputs, written files, the report.

use super::arrays::Wanted;
use super::parts::write;
use super::report::{Expectations, RoundingSource, is_within, report};
use super::stages::Prepared;
use super::{Flags, tables, tolerance};
use crate::cli::trace::{self, Risk};
use crate::cli::{Verbosity, print};
use anemone::execute::{cost_between, level_cost, own_extents, rounding_cost};
use anemone::tensor::{Array, views};
use anemone::warnings::{self, Warning};
use anemone::{Result, Run, files};
use anemone_compile::here::names_of_tasks;
use serde_json::{Value, json};
use std::cell::OnceCell;

/// The risk with the names of its tasks. Tasks are numbered over all programs; only a single program has names.
fn named(prepared: &Prepared, risk: Risk) -> Risk {
    let chain = &prepared.chain;
    let one = chain.is_single();
    match prepared.net.as_deref().filter(|_| one && risk.points()) {
        Some(net) => risk.named(names_of_tasks(net, prepared.chip, &prepared.compiler)),
        None => risk,
    }
}

/// Compares, writes and reports the results of a run. Returns true if an expectation is violated.
pub fn conclude(
    flags: &Flags,
    prepared: &Prepared,
    wanted: &Wanted,
    options: anemone_engine::Options,
    inputs: &[(String, Array)],
    mut run: Run,
    verbosity: Verbosity,
) -> Result<bool> {
    let (chain, net) = (&prepared.chain, prepared.net.as_deref());
    run.skipped.iter().for_each(|f| verbosity.note(format!("skipped: {f}")));
    if let Some(net) = net {
        own_extents(net, &mut run.outputs);
    }
    let moved = OnceCell::new();
    let tolerance = |name: &str, wanted: &Array| {
        let cost = || match net {
            Some(net) => rounding_cost(net, inputs, name).map(RoundingSource::Network),
            None => {
                let again = moved.get_or_init(|| tolerance::run_moved(chain, options, inputs)).as_deref()?;
                cost_between(&run.outputs, again, name).map(RoundingSource::Inputs)
            }
        };
        let plain = tolerance::of(flags, net, cost, name, &wanted.data);
        let found = run.outputs.iter().find(|(output, _)| output == name);
        let beyond = found.is_some_and(|(_, found)| !is_within(found, wanted, &plain));
        let levels = net.filter(|_| beyond && plain.rounding.is_some()).and_then(|net| level_cost(net, inputs, name));
        match levels.map(RoundingSource::Levels) {
            Some(cost) => tolerance::of(flags, net, || Some(cost), name, &wanted.data),
            None => plain,
        }
    };
    let labels = wanted.labels.as_deref().zip(flags.labels.as_deref());
    let written: Vec<&str> = wanted.targets.iter().map(|(name, _)| name.as_str()).collect();
    let expected = Expectations { outputs: &wanted.expected, labels, tolerance: &tolerance, written: &written };
    let (outputs, missed) = report(&run.outputs, &expected, verbosity)?;
    // After the results, because an evaluation in fp32 can take longer than the run.
    // A network of any size, where an exit code depends on it.
    let most = if flags.strict_numerics { u64::MAX } else { warnings::OF_ONE_RUN };
    let exact = chain.exact_whole();
    let found = |net| warnings::of_run(net, options.model, &views(inputs), &run.outputs, &exact, most);
    let warnings = net.map_or_else(Vec::new, found);
    if let Some(net) = net.filter(|net| !warnings::is_compared(net, most)) {
        verbosity.note(format!(
            "not compared with fp32: about {:.0e} multiplications and elements, at most {most:.0e} are compared without --strict-numerics",
            warnings::work(net) as f64, most = most as f64
        ));
    }
    warnings.iter().for_each(|w| verbosity.warn(format!("warning: {w}")));
    let strict = flags.strict_numerics && !warnings.is_empty();
    if missed {
        tables::name_cause(net, prepared.chip, &prepared.compiler, inputs, &expected, options, verbosity);
    }
    let failed = missed || strict;
    // Runtime and plan do not count values, so that a risk of zeros would be wrong. A recorded run counts them.
    let traced = options.trace && (!flags.via.wanted() || !run.trace.is_empty());
    let risk = traced.then(|| named(prepared, Risk::of(&run.trace)));
    let time = chain.modelled(prepared.chip);
    if !verbosity.json && !verbosity.quiet {
        let right = !wanted.expected.is_empty() && !missed;
        risk.as_ref().map_or(Ok(()), |risk| print(&format!("{}\n", risk.text(right))))?;
        time.as_ref().map_or(Ok(()), |time| print(&format!("modelled: {time}\n")))?;
    }
    if let Some(path) = &flags.trace {
        let program = &chain.programs()[0];
        let document = trace::document(program, prepared.chip.target, options.model, &run.trace, risk.as_ref());
        files::write_all(&[(path, format!("{document:#}\n").as_bytes())])?;
    }
    if !failed {
        write(&wanted.targets, &run.outputs, net)?;
    } else if !wanted.targets.is_empty() {
        let why = if strict { "a warning about the numbers is given" } else { "an expectation is not met" };
        verbosity.warn(format!("no output is written: {why}"));
    }
    if verbosity.json {
        let (risk, time) = (risk.as_ref().map(Risk::json), time.as_ref().map(trace::time));
        print(&format!("{}\n", document(flags, prepared, options, &run, [risk, time], outputs, &warnings)))?;
    }
    if flags.via.wanted() {
        let (programs, hosts) = (chain.programs().len(), chain.hosts().len());
        verbosity.detail(format!("{programs} programs and {hosts} host segments dispatched"));
    } else {
        verbosity.detail(format!("{} tasks executed", run.tasks));
    }
    Ok(failed)
}

/// The report as JSON.
fn document(
    flags: &Flags,
    prepared: &Prepared,
    options: anemone_engine::Options,
    run: &Run,
    [risk, modelled]: [Option<Value>; 2],
    outputs: Vec<Value>,
    warnings: &[Warning],
) -> Value {
    json!({
        "schema": "anemone.run/1", "chip": prepared.chip.target, "tasks": run.tasks, "numerics": options.model.name(),
        "programs": prepared.chain.programs().len(), "host_segments": prepared.chain.hosts().len(),
        "loops": prepared.chain.loops().iter().map(|repeat| repeat.turns).collect::<Vec<_>>(),
        "modelled": modelled, "risk": risk, "runs": flags.repeat, "outputs": outputs,
        "warnings": warnings.iter().map(Warning::json).collect::<Vec<_>>(),
        "compared_with_fp32": prepared.net.as_deref().is_some_and(|net| flags.strict_numerics || warnings::is_compared(net, warnings::OF_ONE_RUN)),
    })
}
