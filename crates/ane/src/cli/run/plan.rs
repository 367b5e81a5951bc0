//! `ane run --plan`, `--dump-plan` and `--profile`: execution of a program by the software engine, and its times.

use super::super::{Verbosity, print};
use anemone::execute::Execution;
use anemone::tensor::Array;
use anemone::{Code, Diagnostic, ProgramChain, Result, files};
use anemone_engine::{Level, Options, Profile, StepTime};
use anemone_program::Program;
use anemone_program::order;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Execution of a program by the engine.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum PlanLevel {
    /// Host operations, fused and rearranged
    Optimized,
    /// Task after task
    Unoptimized,
}

#[derive(clap::Args)]
pub struct Flags {
    /// Execution by the engine: fused host operations, or task by task; results have the same bits. No task is traced
    #[arg(long, value_enum, conflicts_with_all = ["trace", "via"])]
    plan: Option<PlanLevel>,
    /// Write the plan's operations to a folder: before the first pass, after each one, the kernel of each, which
    /// ANE_LOG=select prints as well, and those that run on different threads
    #[arg(long, value_name = "DIR", conflicts_with = "reference")]
    dump_plan: Option<PathBuf>,
    /// Print the time of each step of a run, the minimum over RUNS runs
    #[arg(long, value_name = "RUNS", num_args = 0..=1, require_equals = true, default_missing_value = "20",
          value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with_all = ["reference", "expect", "output", "trace", "repeat", "by_layer", "via"])]
    pub profile: Option<u32>,
}

impl Flags {
    /// Options with the requested level, without a trace; or with a trace.
    pub fn options(&self, options: Options) -> Options {
        let level = match self.plan {
            None | Some(PlanLevel::Optimized) => Level::Optimized,
            Some(PlanLevel::Unoptimized) => Level::Unoptimized,
        };
        Options { trace: self.plan.is_none(), level, ..options }
    }

    /// Writes and prints what the flags request; returns an exit code if nothing else is requested.
    pub fn show(
        &self,
        chain: &ProgramChain,
        options: Options,
        inputs: &[(String, Array)],
        verbosity: Verbosity,
    ) -> Result<Option<u8>> {
        if let Some(folder) = &self.dump_plan {
            dump(chain, options, folder)?;
        }
        if logs_selection() {
            verbosity.note(selection(chain, options)?.trim_end());
        } else if verbosity.verbose {
            verbosity.detail(selection(chain, options)?.trim_end());
        }
        match (self.profile, chain.programs()) {
            (Some(runs), [program, ..]) => {
                profile(program, options, inputs, runs as usize, verbosity)?;
                Ok(Some(0))
            }
            _ => Ok(None),
        }
    }
}

/// Writes the plan of every program, before the first pass and after each one, with its kernels and branches.
fn dump(chain: &ProgramChain, options: Options, folder: &Path) -> Result<()> {
    let cannot = |e| Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(folder.display());
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let mut written: Vec<(PathBuf, String)> = Vec::new();
    for (i, program) in chain.programs().iter().enumerate() {
        let prefix = if chain.programs().len() > 1 { format!("program{i}-") } else { String::new() };
        let execution = Execution::new(program, Options { trace: false, ..options })?;
        let plan = execution.plan();
        let passes = plan.passes().into_iter().map(|pass| (pass.name, pass.text));
        let others = [("select", plan.selection()), ("branches", plan.branches())];
        for (at, (name, text)) in passes.chain(others).enumerate() {
            written.push((folder.join(format!("{prefix}{at:02}-{name}.txt")), text));
        }
    }
    let all: Vec<(&Path, &[u8])> = written.iter().map(|(path, text)| (path.as_path(), text.as_bytes())).collect();
    files::write_all(&all)
}

/// Returns true if `ANE_LOG` requests the kernel selection of a plan's operations.
fn logs_selection() -> bool {
    std::env::var("ANE_LOG").is_ok_and(|topics| topics.split(',').any(|topic| topic.trim() == "select"))
}

/// The selected kernel of every operation of every program.
fn selection(chain: &ProgramChain, options: Options) -> Result<String> {
    let of = |program| Ok(Execution::new(program, Options { trace: false, ..options })?.plan().selection());
    chain.programs().iter().map(of).collect()
}

/// Measures the steps of a program's plan.
fn profile(
    program: &Program,
    options: Options,
    inputs: &[(String, Array)],
    runs: usize,
    verbosity: Verbosity,
) -> Result<()> {
    let mut execution = Execution::new(program, Options { trace: false, ..options })?;
    let profile = execution.profile(inputs, runs)?;
    if verbosity.json {
        return print(&format!("{}\n", document(&profile)));
    }
    print(&table(&profile))
}

/// Sums of a class of steps.
#[derive(Default)]
struct Class {
    steps: usize,
    tasks: usize,
    nanos: u64,
    bytes: u64,
    macs: u64,
}

fn classes(profile: &Profile) -> Vec<(&'static str, Class)> {
    let mut classes: BTreeMap<&'static str, Class> = BTreeMap::new();
    for step in &profile.steps {
        let class = classes.entry(step.class).or_default();
        class.steps += 1;
        class.tasks += step.tasks;
        class.nanos += step.nanos;
        class.bytes += step.bytes;
        class.macs += step.macs;
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    order::by_key(&mut classes, |(_, class)| std::cmp::Reverse(class.nanos));
    classes
}

fn table(profile: &Profile) -> String {
    let all: u64 = profile.steps.iter().map(|step| step.nanos).sum();
    let share = |nanos: u64| 100.0 * nanos as f64 / all.max(1) as f64;
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let mut text = format!(
        "{:34} {:>6} {:>6} {:>10} {:>6} {:>10} {:>8} {:>10}\n",
        "class", "steps", "tasks", "ms", "%", "MB", "GB/s", "GFLOP/s"
    );
    for (name, class) in classes(profile) {
        let per_second = |count: u64| count as f64 / class.nanos.max(1) as f64;
        let flops = if class.macs > 0 { format!("{:.1}", per_second(2 * class.macs)) } else { String::new() };
        text += &format!(
            "{name:34} {:>6} {:>6} {:>10.3} {:>6.1} {:>10.2} {:>8.1} {flops:>10}\n",
            class.steps,
            class.tasks,
            ms(class.nanos),
            share(class.nanos),
            class.bytes as f64 / 1e6,
            per_second(class.bytes),
        );
    }
    text += &format!(
        "{} steps of {} tasks: {:.3} ms in all, the shortest of {} runs {:.3} ms\n\nlongest steps:\n",
        profile.steps.len(),
        profile.steps.iter().map(|step| step.tasks).sum::<usize>(),
        ms(all),
        profile.runs,
        ms(profile.run_nanos),
    );
    let mut longest: Vec<(usize, &StepTime)> = profile.steps.iter().enumerate().collect();
    order::by_key(&mut longest, |(_, step)| std::cmp::Reverse(step.nanos));
    for (i, step) in longest.iter().take(LONGEST) {
        text += &format!(
            "{i:>6} {:34} task {:<6} {:>10.3} ms {:>5.1} % {:>9.2} MB\n",
            step.class,
            step.first_task,
            ms(step.nanos),
            share(step.nanos),
            step.bytes as f64 / 1e6,
        );
    }
    text
}

/// Number of steps that the table lists.
const LONGEST: usize = 12;

fn document(profile: &Profile) -> Value {
    let classes = classes(profile).into_iter().map(|(name, class)| {
        json!({ "class": name, "steps": class.steps, "tasks": class.tasks, "ns": class.nanos,
                "bytes": class.bytes, "macs": class.macs })
    });
    let steps = profile.steps.iter().map(|step| {
        json!({ "class": step.class, "first_task": step.first_task, "tasks": step.tasks, "ns": step.nanos,
                "bytes": step.bytes, "macs": step.macs })
    });
    json!({
        "schema": "anemone.profile/1", "runs": profile.runs, "run_ns": profile.run_nanos,
        "classes": classes.collect::<Vec<_>>(), "steps": steps.collect::<Vec<_>>(),
    })
}
