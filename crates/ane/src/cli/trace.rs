//! Trace of a run's tasks, as JSON and as one line of numeric risk.

use anemone_engine::{Operand, Site, Sums, TaskTrace, Values};
use anemone_facts::numerics::Model;
use anemone_facts::{Coding, Field};
use anemone_program::Program;
use anemone_program::cost::{self, Cost};
use serde_json::{Value, json};
use std::fmt;

/// Numeric risk over all tasks: largest magnitude, saturations, flushed denormals, coerced NaN, and sums below the array's resolution.
pub struct Risk {
    /// Largest finite magnitude of any result.
    largest: f32,
    saturated: u64,
    denormals_flushed: u64,
    nan_coerced: u64,
    /// Index of the task with the largest value, and of the first one that saturates.
    at: [Option<usize>; 2],
    /// Sampled sums of all tasks, and tasks whose fixed-point errors are beyond [`NOISE`]: index and sums.
    sums: Sums,
    lossy: Vec<(usize, Sums)>,
    /// Name of the result of each task, if known.
    names: Vec<String>,
}

/// Fixed-point error of a task's sums, relative to their size, from which it is reported. Smaller ones, and single small sums beside larger
/// ones, occur in nearly every network, without effect on its results.
const NOISE: f64 = 1.0 / 128.0;

/// Safe magnitude of sums: half of the magnitude at which the array's accumulator overflows.
const SAFE_LOG2: i32 = 14;

/// Power of two by which operands of a product can grow before its largest sum comes near the accumulator's limit.
fn growth_log2(sums: &Sums) -> i32 {
    if sums.largest > 0.0 { (SAFE_LOG2 - sums.largest.log2().ceil() as i32).max(0) } else { 0 }
}

impl Risk {
    pub fn of(tasks: &[TaskTrace]) -> Risk {
        let sum = |of: fn(&TaskTrace) -> u64| tasks.iter().map(of).sum();
        let largest = tasks.iter().map(TaskTrace::largest).fold(0f32, f32::max);
        let lossy = tasks.iter().enumerate().filter(|(_, t)| t.sums.noise() > NOISE).map(|(i, t)| (i, t.sums));
        Risk {
            largest,
            saturated: sum(|t| t.saturated),
            denormals_flushed: sum(|t| t.denormals_flushed),
            nan_coerced: sum(|t| t.nan_coerced),
            at: [tasks.iter().position(|t| t.largest() == largest), tasks.iter().position(|t| t.saturated > 0)],
            sums: Sums {
                sampled: sum(|t| t.sums.sampled),
                lost: sum(|t| t.sums.lost),
                largest: tasks.iter().map(|t| t.sums.largest).fold(0f32, f32::max),
                power: tasks.iter().map(|t| t.sums.power).sum(),
                error: tasks.iter().map(|t| t.sums.error).sum(),
            },
            lossy: lossy.collect(),
            names: Vec::new(),
        }
    }

    /// Returns true if a task saturates, or its sums have errors beyond [`NOISE`].
    pub fn points(&self) -> bool {
        self.at[1].is_some() || !self.lossy.is_empty()
    }

    /// The same, with the name of each task's result.
    pub fn named(self, names: Vec<String>) -> Risk {
        Risk { names, ..self }
    }

    /// The text, without the loss of sums if all outputs are as expected.
    pub fn text(&self, right: bool) -> String {
        if right { Summary(self).to_string() } else { self.to_string() }
    }

    /// The name of a task's result behind its index; empty if unknown.
    fn mention(&self, task: usize) -> String {
        self.name(Some(task)).map_or(String::new(), |name| format!(", `{name}`"))
    }

    fn name(&self, task: Option<usize>) -> Option<&String> {
        self.names.get(task?)
    }

    fn first_lossy(&self) -> Option<usize> {
        self.lossy.first().map(|(task, _)| *task)
    }

    pub fn json(&self) -> Value {
        let [largest_task, first_saturated_task] = self.at;
        json!({
            "largest": self.largest, "largest_task": largest_task,
            "saturated": self.saturated, "first_saturated_task": first_saturated_task,
            "denormals_flushed": self.denormals_flushed, "nan_coerced": self.nan_coerced,
            "first_saturated": self.name(first_saturated_task),
            "sums": sums(&self.sums), "first_lossy_task": self.first_lossy(), "first_lossy": self.name(self.first_lossy()),
        })
    }
}

/// Sampled sums, and the power of two by which their operands can grow.
fn sums(sums: &Sums) -> Value {
    json!({
        "sampled": sums.sampled, "lost": sums.lost, "largest": sums.largest, "noise": sums.noise(),
        "growth_log2": (sums.sampled > 0).then(|| growth_log2(sums)),
    })
}

/// The text of a risk without the loss of sums.
struct Summary<'a>(&'a Risk);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Summary(risk) = *self;
        write!(f, "largest value {}", risk.largest)?;
        if let Some(task) = risk.at[0] {
            write!(f, " (task {task})")?;
        }
        write!(f, ", saturated {}", risk.saturated)?;
        if let Some(task) = risk.at[1] {
            write!(f, " (first in task {task}{})", risk.mention(task))?;
        }
        write!(f, ", denormals flushed {}, NaN coerced {}", risk.denormals_flushed, risk.nan_coerced)
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", Summary(self))?;
        let Some((first, of_first)) = self.lossy.first() else { return Ok(()) };
        let Sums { sampled, lost, .. } = self.sums;
        write!(
            f,
            "\nsums below the array's resolution of 2^-16: {lost} of {sampled} sampled, in {} tasks, ",
            self.lossy.len()
        )?;
        write!(
            f,
            "first in task {first}{} ({} of {}, the largest {:.1e}, errors {:.1e} of their size)",
            self.mention(*first),
            of_first.lost,
            of_first.sampled,
            of_first.largest,
            of_first.noise()
        )?;
        match growth_log2(of_first) {
            0 => write!(f, "; its largest sums leave no headroom for a scale"),
            digits => write!(
                f,
                "; weights or operands there times 2^{digits} at most, and its result divided by it, keep them"
            ),
        }
    }
}

/// The whole record; `risk` is that of its tasks, `None` if their values were not counted.
pub fn document(program: &Program, chip: &str, model: Model, tasks: &[TaskTrace], risk: Option<&Risk>) -> Value {
    let ports = program.ports.iter().map(|p| json!({ "name": p.name, "bar": p.bar })).collect::<Vec<_>>();
    json!({
        "schema": "anemone.trace/1", "chip": chip, "program": program.name, "numerics": model.name(), "ports": ports,
        "tasks": tasks.iter().enumerate().map(|(i, t)| task(i, t)).collect::<Vec<_>>(),
        "timeline": spans(program, chip),
        "risk": risk.map(Risk::json),
    })
}

/// Modelled timeline: unit, start and end of every task in nanoseconds; two units are busy at once if neighbours are independent.
fn spans(program: &Program, chip: &str) -> Value {
    let chip = anemone_facts::silicon::by_name(chip);
    let Some(spans) = chip.and_then(|chip| cost::timeline(program, chip)) else { return Value::Null };
    let one = |span: &cost::Span| {
        let unit = if span.unit == cost::Unit::Neural { "neural" } else { "planar" };
        json!({ "task": span.task, "unit": unit, "begin_ns": span.begin_ns, "end_ns": span.end_ns })
    };
    spans.iter().map(one).collect::<Vec<_>>().into()
}

fn task(index: usize, t: &TaskTrace) -> Value {
    let m = t.moved;
    json!({
        "task": index, "offset": t.offset, "class": class(t.class),
        "inputs": t.inputs.iter().map(operand).collect::<Vec<_>>(),
        "outputs": t.outputs.iter().map(operand).collect::<Vec<_>>(),
        "coefficients": t.coefficients.as_ref().map(values),
        "bytes": {
            "source1": m.source1, "source2": m.source2, "coefficients": m.coefficients,
            "destination": m.destination, "l2_read": m.l2_read, "l2_written": m.l2_written,
        },
        "macs": t.macs, "largest": t.largest(), "saturated": t.saturated,
        "denormals_flushed": t.denormals_flushed, "nan_coerced": t.nan_coerced,
        "sums": (t.sums.sampled > 0).then(|| sums(&t.sums)),
    })
}

/// The name of a field's value, else the value.
fn class(value: u32) -> Value {
    match Field::TaskClass.info().coding {
        Coding::Names(names) => names.get(value as usize).filter(|n| !n.is_empty()).map_or(json!(value), |n| json!(n)),
        _ => json!(value),
    }
}

fn operand(o: &Operand) -> Value {
    let mut value = values(&o.values);
    match o.site {
        Site::Memory { bar, address } => (value["bar"], value["address"]) = (json!(bar), json!(address)),
        Site::Tile { address } => value["l2_address"] = json!(address),
        Site::Chained => value["chained"] = json!(true),
    }
    value["shape"] = json!(o.shape);
    value["strides"] = json!(o.strides);
    value["bytes"] = json!(o.bytes());
    value
}

fn values(v: &Values) -> Value {
    json!({ "largest": v.largest, "infinite": v.infinite, "nan": v.nan, "subnormal": v.subnormal })
}

/// A modelled time as JSON.
pub fn time(cost: &Cost) -> Value {
    let (least, most) = cost.band_ns();
    json!({
        "machine": cost.rates.machine, "total_ns": cost.total_ns(), "least_ns": least, "most_ns": most,
        "bind_ns": cost.bind_ns, "copy_ns": cost.copy_ns, "build_ns": cost.build_ns, "kick_ns": cost.kick_ns,
        "firmware_ns": cost.firmware_ns, "engine_ns": cost.engine_ns, "complete_ns": cost.complete_ns,
        "points": cost.rates.points, "median_error_percent": cost.rates.median_percent,
    })
}
