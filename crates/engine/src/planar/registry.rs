//! Kernel registry of the planar engine, one row per kernel; the first row that accepts a task is selected at planning.

use crate::direct::{Operands, Stored};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::numerics::{Parameters, binary_op};
use anemone_facts::Field::*;
use anemone_facts::code::{class, padding, planar, pool, residency, second};
use anemone_kernels::num::wide::Exact;
use anemone_kernels::params::BinaryOp;
use anemone_kernels::registry::{Rejected, select, when};
use anemone_kernels::rows::Form;
use anemone_kernels::tensor::Extents;

/// A kernel of the registry. Its operands are rows of fp16 elements in memory.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Tests by its fields whether the kernel accepts a task; the error is the reason for the rejection.
    accepts: fn(&Machine) -> Result<(), &'static str>,
    run: fn(&mut Machine, &Operands) -> Result<(), FaultKind>,
}

impl Row {
    /// Executes the current task.
    pub(crate) fn run(&self, machine: &mut Machine, operands: &Operands) -> Result<(), FaultKind> {
        (self.run)(machine, operands)
    }
}

/// Kernel selected for a task at planning.
pub(crate) enum Selected {
    /// A kernel of the registry, with its operands.
    InPlace(&'static Row, Box<Operands>),
    /// Through tensors, for every form of task.
    Tensors,
}

impl Selected {
    /// Name of the kernel.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Selected::InPlace(row, _) => row.name,
            Selected::Tensors => "tensors",
        }
    }
}

/// Kernels in order of preference.
static ROWS: [Row; 3] = [
    Row { name: "rows of two", accepts: is_pair, run: |machine, operands| machine.combine_in_place(operands) },
    Row { name: "pooling windows", accepts: is_pooling, run: |machine, operands| machine.pool_in_place(operands) },
    Row {
        name: "rows with prologue and epilogue",
        accepts: is_by_rows,
        run: |machine, operands| match machine.model.rounding() {
            Some(_) => machine.lines_in_place::<Exact>(operands),
            None => machine.lines_in_place::<f32>(operands),
        },
    },
];

fn is_pair(machine: &Machine) -> Result<(), &'static str> {
    when(machine.get(TaskClass) == class::PLANAR_TWO, "it has one source, or channels have factors, or it reduces")?;
    when(keeps_extents(machine), "source and result have different extents")?;
    let operation = binary_op(machine.get(PeOp)).is_some_and(|op| op != BinaryOp::SquareOfSum);
    when(operation, "the operation is not a sum, product, maximum or minimum")?;
    when(
        machine.is_plain_pair(),
        "a source is scaled, negated, transposed or broadcast along columns, or an activation follows",
    )
}

fn is_pooling(machine: &Machine) -> Result<(), &'static str> {
    let one = machine.get(TaskClass) == class::PLANAR_ONE && machine.get(PeSecond) == second::NONE;
    when(one && machine.get(Cout) == machine.get(Cin), "it has two sources, or reduces")?;
    let (input, window) = (machine.input_extents(), machine.pooling_window());
    when(!window.is_trivial(), "it has no window")?;
    let output = Extents { h: machine.size(Hout), w: machine.size(Wout), ..input };
    when(machine.check_windows(&window, input, output).is_ok(), "a window lies outside of the source")?;
    let max = match (machine.get(PePool), machine.get(PaddingMode)) {
        (pool::SUM, _) => false,
        (pool::MAX, padding::NEGATIVE) => true,
        _ => return Err("the reduction is not a sum or maximum"),
    };
    when(
        machine.is_plain() && machine.get(InputRelu) == 0,
        "the source is scaled or transposed, or an activation follows",
    )?;
    when(machine.model.rounding().is_none() || max, "an exact model sums the windows")
}

fn is_by_rows(machine: &Machine) -> Result<(), &'static str> {
    let one = machine.get(PeSecond) == second::NONE;
    let windowed = machine.get(TaskClass) == class::PLANAR_ONE && !machine.pooling_window().is_trivial();
    when(!windowed, "it has a window")?;
    when(keeps_extents(machine), "source and result have different extents")?;
    when(!machine.input_extents().array().contains(&0), "an operand has no elements")?;
    when(one || machine.get(SrcType) != residency::DMA_KEEP, "the first source is kept in tile memory")?;
    let squares = machine.get(TaskClass) == class::PLANAR_REDUCE && machine.get(PeOp) != planar::ADD;
    when(!squares, "it reduces the squares of one source")?;
    let reduces = machine.reduces();
    when(!reduces || machine.source_depths() == (0..1), "it reduces planes")?;
    when(machine.transposes_columns_alone(reduces), "a source or the result of several columns is transposed")?;
    when(machine.takes_magnitude().is_ok(), "it has a condition")?;
    let computes = machine.operand_form().is_ok_and(|form| machine.operation::<f32>(form == Form::One).is_ok());
    when(computes, "its operands or its operation have another form")?;
    let in_turn = !reduces || machine.fold().is_ok_and(|fold| fold.goes_on());
    when(in_turn, "the model rounds the terms of its sum")
}

fn keeps_extents(machine: &Machine) -> bool {
    [(Cout, Cin), (Wout, Win), (Hout, Hin)].iter().all(|&(out, of)| machine.get(out) == machine.get(of))
}

impl Machine<'_> {
    /// Kernel of the current planar task, with the name and reason of each kernel rejected before it.
    pub(crate) fn planar_kernel(&self) -> (Selected, Rejected) {
        let (input, second) = self.planar_sources();
        let operands = self.operands(Stored { input, second, output: self.planar_result() });
        let accepts = |row: &Row| (row.accepts)(self).and_then(|()| operands.clone());
        let (row, rejected) = select(&ROWS, |row| row.name, accepts);
        let selected = row.map_or(Selected::Tensors, |(row, operands)| Selected::InPlace(row, Box::new(operands)));
        (selected, rejected)
    }
}
