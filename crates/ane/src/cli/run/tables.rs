//! Activation tables as the cause of an error: functions lowered to one table each, and the result of a run without them.

use super::super::Verbosity;
use super::report::{Expectations, all_within};
use anemone::{Array, ProgramChain};
use anemone_compile::{Activations, Log, Options, Stage};
use anemone_facts::chips::Chip;
use anemone_net::Net;

/// Number of functions in the message.
const NAMED: usize = 4;

/// Collects the remarks of the pass that replaces functions by tables.
#[derive(Default)]
struct Tables(Vec<String>);

impl Tables {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|reason| reason.split(':').next())
    }
}

impl Log for Tables {
    fn wants(&self) -> bool {
        true
    }

    fn stage(&mut self, stage: Stage) {
        if stage.name.ends_with("functions-into-tables") {
            self.0.extend(stage.reasons.into_iter().filter(|reason| reason.contains("become one table")));
        }
    }
}

/// Names of the results of functions lowered to one table each; empty if the network does not compile as a whole.
pub fn of(net: &Net, chip: &'static Chip, options: &Options) -> Vec<String> {
    let mut tables = Tables::default();
    match anemone_compile::compile(net, chip, options, &mut tables) {
        Ok(_) => tables.names().map(str::to_string).collect(),
        Err(_) => Vec::new(),
    }
}

/// For a network that violates an expectation, reports its tables, and whether it meets the expectation without them.
pub fn name_cause(
    net: Option<&Net>,
    chip: &'static Chip,
    options: &Options,
    inputs: &[(String, Array)],
    expected: &Expectations,
    execution: anemone_engine::Options,
    verbosity: Verbosity,
) {
    let execution = anemone_engine::Options { trace: false, ..execution };
    let cause = net.and_then(|net| explained(net, chip, options, inputs, expected, execution));
    cause.into_iter().for_each(|cause| verbosity.note(cause));
}

fn explained(
    net: &Net,
    chip: &'static Chip,
    options: &Options,
    inputs: &[(String, Array)],
    expected: &Expectations,
    execution: anemone_engine::Options,
) -> Option<String> {
    if options.activations == Activations::Accurate {
        return None;
    }
    let mut tables = Tables::default();
    let whole = anemone_compile::compile(net, chip, options, &mut tables).is_ok();
    if whole && tables.0.is_empty() {
        return None;
    }
    let precise = Options { activations: Activations::Accurate, ..*options };
    let (chain, _) = ProgramChain::whole(net, chip, &precise).ok()?;
    let run = chain.execution(execution).ok()?.run(inputs).ok()?;
    let mut outputs = run.outputs;
    anemone::execute::own_extents(net, &mut outputs);
    let within = all_within(&outputs, expected);
    if tables.0.is_empty() && !within {
        return None;
    }
    let names: Vec<&str> = tables.names().collect();
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let errors = tables.0.iter().filter_map(|reason| reason.rsplit(' ').next()?.parse::<f64>().ok());
    let cause = match names.len() {
        0 => "functions are tables".to_string(),
        n => {
            let more = if n > NAMED { ", ..." } else { "" };
            let largest = errors.fold(0.0, f64::max);
            let (functions, each) = if n == 1 { ("function is", "") } else { ("functions are", " each") };
            format!("{n} {functions} one table{each}, off by {largest:.1e} at most ({first}{more})")
        }
    };
    let with = match within {
        true => format!("meets the expectation, in {} tasks", run.tasks),
        false => "misses the expectation too".to_string(),
    };
    Some(format!("{cause}; --activations accurate {with}"))
}
