//! Result of compiling a network with this compiler. If an operation is refused, the rest is compiled without it, so that
//! all refusals are reported. The other verdicts of the dry run concern Apple's compiler.

use crate::compiler::compile;
use crate::error::Error;
use crate::options::Options;
use crate::remarks::{Log, Progress, Stage};
use crate::segments;
use anemone_facts::chips::Chip;
use anemone_net::{Net, ValueId, loops};
use anemone_program::cost;
use std::collections::HashMap;

/// Largest number of refusals that are reported: each costs a compilation.
const MOST_REFUSALS: usize = 16;

/// An operation that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Name of the operation; `None` if the network as a whole is refused.
    pub op: Option<String>,
    /// Reason of the refusal, in one line.
    pub message: String,
}

/// Result of compiling a network for a chip.
#[derive(Clone, Debug, PartialEq)]
pub enum Here {
    /// A program.
    Compiled {
        /// Number of tasks.
        tasks: usize,
        /// Estimated run time on silicon in nanoseconds, with its lower and upper bound, if the chip has measured rates.
        time_ns: Option<[u64; 3]>,
        /// Estimated time of each task on the engine in nanoseconds, with the name of the result it computes or that name with
        /// a suffix behind a dot; empty if the chip has no measured rates.
        by_task: Vec<(String, f64)>,
    },
    /// Operations that prevent a program, in network order; a limited number is reported.
    Refused(Vec<Refused>),
}

impl Here {
    /// Returns true if the network compiles to a program.
    pub fn compiles(&self) -> bool {
        matches!(self, Here::Compiled { .. })
    }
}

/// Names of the tasks, as the compiler logs them; the log is forwarded to another one.
struct Names<'a> {
    names: Vec<String>,
    log: &'a mut dyn Log,
}

impl Log for Names<'_> {
    fn wants(&self) -> bool {
        false
    }

    fn stage(&mut self, _: Stage) {}

    fn tasks(&mut self, names: Vec<String>) {
        self.names = names;
    }

    fn progress(&mut self, progress: Progress) {
        self.log.progress(progress);
    }

    fn stopped(&self) -> bool {
        self.log.stopped()
    }
}

/// Name of the result that each task of a network's program computes, in task order; empty if the network does not compile.
pub fn names_of_tasks(net: &Net, chip: &'static Chip, options: &Options) -> Vec<String> {
    let mut names = Names { names: Vec::new(), log: &mut () };
    if compile(net, chip, options, &mut names).is_err() {
        return Vec::new();
    }
    let results = results(net);
    names.names.iter().map(|name| result_of(name, &results).to_string()).collect()
}

/// Compiles a network for a chip and logs to `log`. `None` for chips without a compiler.
pub fn here(net: &Net, chip: &'static Chip, log: &mut dyn Log) -> Option<Here> {
    chip.layout?;
    if loops::any(net) {
        return Some(in_turns(net, chip, log));
    }
    let mut rest = net.clone();
    let mut refusals: Vec<Refused> = Vec::new();
    loop {
        let mut names = Names { names: Vec::new(), log };
        let error = match compile(&rest, chip, &Options::default(), &mut names) {
            Ok(_) if !refusals.is_empty() => break,
            Ok(program) => {
                let time_ns = cost::of_program(&program, chip).map(|cost| {
                    let (least, most) = cost.band_ns();
                    [cost.total_ns(), least, most]
                });
                let times = cost::of_tasks(&program, chip).unwrap_or_default();
                let results = results(net);
                let by_task = names.names.iter().map(|name| result_of(name, &results).to_string()).zip(times).collect();
                let tasks = program.tasks().map_or(0, |tasks| tasks.len());
                return Some(Here::Compiled { tasks, time_ns, by_task });
            }
            Err(error) => error,
        };
        let op = error.op().map(str::to_string);
        // An error about the remainder as a whole does not apply to the network.
        if op.is_none() && !refusals.is_empty() {
            break;
        }
        let cut = op.as_ref().is_some_and(|op| without(&mut rest, op));
        refusals.push(Refused { op, message: error.to_string() });
        if !cut || refusals.len() == MOST_REFUSALS {
            break;
        }
    }
    Some(Here::Refused(refusals))
}

/// Result of compiling a network with loops: the tasks of all programs, and the time of a run with all its dispatches.
fn in_turns(net: &Net, chip: &'static Chip, log: &mut dyn Log) -> Here {
    let cut = match segments::cut(net, chip, &Options::default(), log) {
        Ok(cut) if cut.reasons.is_empty() => cut,
        Ok(cut) => {
            let told = |(op, error): (String, Error)| Refused { op: Some(op), message: error.to_string() };
            return Here::Refused(cut.reasons.into_iter().take(MOST_REFUSALS).map(told).collect());
        }
        Err(error) => {
            return Here::Refused(vec![Refused { op: error.op().map(str::to_string), message: error.to_string() }]);
        }
    };
    let mut programs = Vec::new();
    cut.segments.iter().for_each(|segment| segment.programs(1, &mut programs));
    let tasks = programs.iter().map(|(program, _)| program.tasks().map_or(0, |tasks| tasks.len())).sum();
    let mut time_ns = Some([0; 3]);
    for (program, times) in programs {
        time_ns = time_ns.zip(cost::of_program(program, chip)).map(|(all, cost): ([u64; 3], _)| {
            let (least, most) = cost.band_ns();
            let one = [cost.total_ns(), least, most];
            std::array::from_fn(|i| all[i].saturating_add(one[i].saturating_mul(times as u64)))
        });
    }
    Here::Compiled { tasks, time_ns, by_task: Vec::new() }
}

/// Map from operation names to the name of the first result.
fn results(net: &Net) -> HashMap<&str, &str> {
    let named = net.ops.iter().filter_map(|op| Some((op.name.as_str(), net.value(*op.outputs.first()?).name.as_str())));
    named.collect()
}

/// The result of the operation whose name, perhaps with a suffix behind a dot, is the task's; else the task's name.
fn result_of<'a>(task: &'a str, results: &HashMap<&'a str, &'a str>) -> &'a str {
    let mut names = std::iter::successors(Some(task), |name| name.rsplit_once('.').map(|(before, _)| before));
    names.find_map(|name| results.get(name).copied()).unwrap_or(task)
}

/// Removes the operations with that name; results that are read become inputs. Returns true if something is left to compile.
fn without(net: &mut Net, name: &str) -> bool {
    let (cut, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut net.ops).into_iter().partition(|op| op.name == name);
    net.ops = kept;
    let given: Vec<ValueId> = cut.iter().flat_map(|op| op.outputs.iter().copied()).collect();
    net.outputs.retain(|id| !given.contains(id));
    let read = |id: &ValueId| net.ops.iter().any(|op| op.inputs.contains(id));
    let live: Vec<ValueId> = given.into_iter().filter(read).collect();
    net.inputs.extend(live);
    !cut.is_empty() && !net.ops.is_empty() && !net.outputs.is_empty()
}
