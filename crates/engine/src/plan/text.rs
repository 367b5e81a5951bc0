//! Text form of a plan: one line for each operation, and its operands.

use super::ops::{Kind, Move, Op, Placed};
use super::{Step, Work};
use crate::constants::FROM_TASKS;
use crate::memory::Home;
use anemone_facts::Field;
use anemone_kernels::copy::{self, CopyAxis};
use anemone_kernels::epilogue::Activation;
use anemone_kernels::map::{MapInput, MapKind};
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::registry::Rejected;
use std::fmt;

/// A plan after a pass.
#[derive(Clone, Debug)]
pub struct PassText {
    /// Name of the pass, or `lift` for the initial operations.
    pub name: &'static str,
    /// Operations in order.
    pub text: String,
}

/// The list of operations.
pub(super) fn listing(ops: &[Op], tasks: usize) -> String {
    use fmt::Write;
    let mut text = String::new();
    let moves = ops.iter().filter(|op| op.as_move().is_some()).count();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "; {} operations of {tasks} tasks, {moves} of them copies", ops.len());
    for (i, op) in ops.iter().enumerate() {
        let _ = writeln!(text, "{i}: {op}");
    }
    text
}

/// One line for each operation: its kernel, and the reasons for which the kernels before it in the registry were rejected. `rejected` has the
/// reasons that follow from the fields of each task.
pub(super) fn selection(
    ops: &[Op],
    steps: &[Step],
    mac: Option<&'static AccumulatorSpec>,
    rejected: &[Rejected],
) -> String {
    let mut text = String::new();
    for (i, op) in ops.iter().enumerate() {
        let by_fields = rejected.get(op.tasks.start).cloned().unwrap_or_default();
        let (kernel, rejected) = match (&op.kind, steps.get(op.tasks.start)) {
            (Kind::Move(of), _) => {
                let (form, rejected) = copy::select(&of.axes);
                (format!("strided copy: {form}"), rejected)
            }
            (Kind::Map(map), _) => ("stages block by block".to_string(), vec![("its task's kernel", map.reason())]),
            (Kind::Product(_), _) => {
                let kernel = "selected in every run, when coefficients are packed".to_string();
                (kernel, vec![("coefficients packed at planning", FROM_TASKS)])
            }
            (Kind::Reduction(_), _) => ("rows with prologue and epilogue".to_string(), by_fields),
            (Kind::Gemv(_), _) => ("gemv".to_string(), Vec::new()),
            (Kind::Fused(of), _) => (of.kernel().to_string(), Vec::new()),
            (Kind::TaskBatch(_), _) => ("packed gemm, its source packed once".to_string(), Vec::new()),
            (Kind::Task(_) | Kind::Placed(..), Some(Step { work: Work::Neural(neural), fields, .. })) => {
                let (kernel, rejected) = neural.selection(mac, fields.get(Field::NeTranspose) == 1);
                let mut all = by_fields;
                all.extend_from_slice(&rejected);
                (kernel, all)
            }
            (Kind::Task(_) | Kind::Placed(..), Some(Step { work: Work::Planar(kernel), .. })) => {
                (kernel.name().to_string(), by_fields)
            }
            (Kind::Task(_) | Kind::Placed(..), _) => ("its unit".to_string(), Vec::new()),
        };
        text += &format!("{i}: task {}, {}: {kernel}", op.tasks.start, op.class());
        let mut before = " (not ";
        for (name, why) in &rejected {
            text += &format!("{before}{name}: {why}");
            before = "; ";
        }
        text += if rejected.is_empty() { "\n" } else { ")\n" };
    }
    text
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.tasks.end.saturating_sub(1);
        match (&self.kind, self.tasks.start == last) {
            (Kind::Move(of), _) => return write!(f, "copy {of} ; task {}", self.tasks.start),
            (Kind::Map(map), _) => {
                write!(f, "{} ; {} tasks, the last is task {}", map.name(), map.tasks, self.tasks.start)?;
                for (at, stage) in map.stages.iter().enumerate() {
                    let name = match &stage.kind {
                        MapKind::Activate { bias, scale, activation } => {
                            let function = match activation {
                                Activation::None => "nothing more",
                                Activation::Relu => "relu",
                                Activation::Clamp(..) => "clamp",
                                Activation::Table(_) | Activation::Unread => "table",
                            };
                            format!("(x + {bias}) * {scale}, {function}")
                        }
                        MapKind::Combine(of) => format!("{:?}", of.operation.op),
                        MapKind::Convert(_) => "exact epilogue".to_string(),
                        MapKind::LookUp(_) => "table of several stages".to_string(),
                        MapKind::CombineExactly(of) => {
                            let width = if of.narrow.is_some() { "fp32" } else { "fp64" };
                            format!("exact {:?} in {width}", of.of.operation.op)
                        }
                    };
                    write!(f, "\n    v{at} = {name} of")?;
                    for input in &stage.inputs {
                        match input {
                            MapInput::Operand(i) => write!(f, " operand {i}")?,
                            MapInput::Value(i) => write!(f, " v{i}")?,
                        }
                    }
                }
            }
            (Kind::Product(product), _) => {
                write!(f, "{} ; {} tasks, the last is task {last}", self.class(), product.tasks)?;
            }
            (Kind::Placed(Placed { after, factors: Some(_), tasks, .. }), _) => {
                let table = if after.is_some() { ", table" } else { "" };
                write!(f, "{} with factors{table} ; {tasks} tasks, the last is task {last}", self.class())?;
            }
            (Kind::Placed(Placed { after: Some(_), tasks, .. }), _) => {
                write!(f, "{}, table ; {tasks} tasks, the first is task {}", self.class(), self.tasks.start)?;
            }
            (Kind::Fused(of), _) if of.has_table() => {
                write!(f, "{}, table ; tasks {} to {last}", self.class(), self.tasks.start)?;
            }
            (_, true) => write!(f, "{} ; task {}", self.class(), self.tasks.start)?,
            (_, false) => write!(f, "{} ; tasks {} to {last}", self.class(), self.tasks.start)?,
        }
        if !self.known {
            return write!(f, ", accesses unknown");
        }
        self.reads.iter().try_for_each(|read| write!(f, "\n    reads  {read}"))?;
        self.writes.iter().try_for_each(|written| write!(f, "\n    writes {written}"))
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |f: &mut fmt::Formatter<'_>, (home, base): (Home, usize)| match home {
            Home::Bar(bar) => write!(f, "bar{bar}+{base}"),
            Home::Tile => write!(f, "tile+{base}"),
        };
        place(f, self.to)?;
        write!(f, " <- ")?;
        place(f, self.from)?;
        write!(f, " (elements)")?;
        self.axes.iter().try_for_each(|CopyAxis { count, to, from }| write!(f, " {count}({to}<-{from})"))
    }
}
