//! Kernel registry of the planar engine, one row each: the first row that accepts a task is selected when the task is planned.

use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::numerics::{Parameters, binary_op};
use anemone_facts::Field::*;
use anemone_facts::code::{class, condition, format, padding, pool, residency, second};
use anemone_kernels::num::wide::Exact;
use anemone_kernels::params::BinaryOp;
use anemone_kernels::tensor::Extents;

/// A kernel of the registry.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Tests whether the kernel accepts a task, by its fields; the error is the reason why not.
    accepts: fn(&Machine) -> Result<(), &'static str>,
    /// False, and nothing is done, if memory lacks an operand or operands overlap.
    run: fn(&mut Machine) -> Result<bool, FaultKind>,
}

impl Row {
    /// Executes the task at hand. False, and nothing is done, if that needs tensors.
    pub(crate) fn run(&self, machine: &mut Machine) -> Result<bool, FaultKind> {
        (self.run)(machine)
    }
}

/// Kernels in order of preference.
static ROWS: [Row; 4] = [
    Row { name: "rows of two", accepts: is_pair, run: |machine| machine.combine_in_place(machine.input_extents()) },
    Row {
        name: "pooling windows",
        accepts: is_pooling,
        run: |machine| {
            let (input, window) = (machine.input_extents(), machine.pooling_window());
            let output = Extents { h: machine.size(Hout), w: machine.size(Wout), ..input };
            if machine.check_windows(&window, input, output).is_err() {
                return Ok(false);
            }
            let max = machine.get(PePool) == pool::MAX;
            machine.pool_in_place(window.over(input, output), input, output, max)
        },
    },
    Row {
        name: "rows with prologue and epilogue",
        accepts: is_by_rows,
        run: |machine| match machine.model.rounding() {
            Some(_) => machine.lines_in_place::<Exact>(),
            None => machine.lines_in_place::<f32>(),
        },
    },
    Row { name: "tensors", accepts: |_| Ok(()), run: |_| Ok(false) },
];

fn when(holds: bool, else_because: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(else_because) }
}

fn is_pair(machine: &Machine) -> Result<(), &'static str> {
    when(machine.get(TaskClass) == class::PLANAR_TWO, "it has one source, or channels have factors, or it reduces")?;
    when(keeps_extents(machine), "source and result have different extents")?;
    let operation = binary_op(machine.get(PeOp)).is_some_and(|op| op != BinaryOp::SquareOfSum);
    when(operation, "the operation is another than sum, product, maximum and minimum")?;
    when(
        machine.is_plain_pair(),
        "a source is scaled, negated, transposed or repeated along rows, or a function follows",
    )?;
    lies_in_rows(machine)
}

fn is_pooling(machine: &Machine) -> Result<(), &'static str> {
    let one = machine.get(TaskClass) == class::PLANAR_ONE && machine.get(PeSecond) == second::NONE;
    when(one && machine.get(Cout) == machine.get(Cin), "it has two sources, or reduces")?;
    when(!machine.pooling_window().is_trivial(), "it has no window")?;
    let max = match (machine.get(PePool), machine.get(PaddingMode)) {
        (pool::SUM, _) => false,
        (pool::MAX, padding::NEGATIVE) => true,
        _ => return Err("windows are reduced to another than sum and maximum"),
    };
    when(
        machine.is_plain() && machine.get(InputRelu) == 0,
        "the source is scaled or transposed, or a function follows",
    )?;
    when(machine.model.rounding().is_none() || max, "sums of windows are exact")?;
    lies_in_rows(machine)
}

fn is_by_rows(machine: &Machine) -> Result<(), &'static str> {
    let one = machine.get(PeSecond) == second::NONE;
    let windowed = machine.get(TaskClass) == class::PLANAR_ONE && !machine.pooling_window().is_trivial();
    when(!windowed, "it has a window")?;
    when(keeps_extents(machine), "source and result have different extents")?;
    when(one || machine.get(SrcType) != residency::DMA_KEEP, "the first source is kept in tile memory")?;
    let reduces = [class::PLANAR_REDUCE, class::PLANAR_REDUCE_TWO].contains(&machine.get(TaskClass));
    when(machine.transposes_columns_alone(reduces), "a source or the result of several columns is transposed")?;
    when([condition::NONE, condition::ABS].contains(&machine.get(PeCond)), "it has a condition")?;
    let in_turn = !reduces || machine.fold().is_ok_and(|fold| fold.goes_on());
    when(in_turn, "its sum has adders of their own")?;
    lies_in_rows(machine)
}

fn keeps_extents(machine: &Machine) -> bool {
    [(Cout, Cin), (Wout, Win), (Hout, Hin)].iter().all(|&(out, of)| machine.get(out) == machine.get(of))
}

/// Tests whether all operands are rows of fp16 elements.
fn lies_in_rows(machine: &Machine) -> Result<(), &'static str> {
    const SPARSE: &str = "an operand is interleaved, or not of fp16 elements";
    let two = machine.planar_sources().1.is_some();
    let halves = |field| machine.get(field) == format::FP16;
    let fetched = machine.get(SrcType) == residency::L2 || halves(Src1MemFmt) && machine.size(Src1Interleave) <= 1;
    let sent = machine.get(ResType) == residency::L2 || halves(DstMemFmt) && machine.size(DstInterleave) <= 1;
    let second = !two
        || halves(Src2Fmt) && (machine.get(Src2Type) == 0 || halves(Src2MemFmt) && machine.size(Src2Interleave) <= 1);
    when(halves(InFmt) && halves(OutFmt) && fetched && sent && second, SPARSE)
}

impl Machine<'_> {
    /// Kernel of the planar task at hand, and for each one before it in the registry why it does not execute the task.
    pub(crate) fn planar_kernel(&self) -> (&'static Row, Vec<(&'static str, &'static str)>) {
        let mut rejected = Vec::new();
        for row in &ROWS[..ROWS.len() - 1] {
            match (row.accepts)(self) {
                Ok(()) => return (row, rejected),
                Err(why) => rejected.push((row.name, why)),
            }
        }
        (&ROWS[ROWS.len() - 1], rejected)
    }
}
