//! Decoded tasks: fields by name, and the work of their units.

use crate::constants::Constants;
use crate::direct::Operands;
use crate::fault::FaultKind;
use crate::field_support::{Treatment, treatment};
use crate::fields::Fields;
use crate::machine::Machine;
use crate::native::Own;
use crate::ne::{Beside, Neural, Operation};
use crate::packed::Packed;
use crate::planar;
use crate::planar::registry::Selected;
use anemone_facts::code::class;
use anemone_facts::{Field, Layout, Space};
use anemone_kernels::epilogue::Activation;
use anemone_program::Task;

/// A decoded task.
pub struct Step {
    pub(crate) task: Task,
    pub(crate) fields: Fields,
    pub(crate) work: Work,
}

impl Step {
    /// Returns true if every run reads coefficients or a table from memory.
    pub(crate) fn reads_streams(&self) -> bool {
        matches!(&self.work, Work::Neural(neural) if neural.reads_streams())
    }

    /// Returns true if a run accesses memory behind base register `bar` for this task.
    pub(super) fn names(&self, bar: u8) -> bool {
        let named = |base, enable| self.fields.get(enable) == 1 && self.fields.get(base) == u32::from(bar);
        let streams = match &self.work {
            Work::Neural(neural) => neural.reads_streams(),
            Work::Planar(_) => false,
            Work::Own(own) => return own.names(bar),
            Work::Skipped => return false,
        };
        named(Field::RBase0, Field::Rbe0)
            || named(Field::RBase1, Field::Rbe1)
            || named(Field::WBase, Field::Wbe)
            || streams && named(Field::KBase0, Field::Kbe0)
    }
}

/// Work of a task, by unit.
pub(crate) enum Work {
    Neural(Box<Neural>),
    /// Planar engine, with the kernel that was selected.
    Planar(Box<planar::registry::Selected>),
    /// Native layer in this project's own encoding.
    Own(Box<Own>),
    /// No work: the descriptor's skip bit is set.
    Skipped,
}

impl Work {
    /// Operands of a task that is executed from memory to memory.
    pub(super) fn operands(&self) -> Option<&Operands> {
        match self {
            Work::Neural(neural) => neural.operands.as_ref().ok(),
            Work::Planar(kernel) => match kernel.as_ref() {
                Selected::InPlace(_, operands) => Some(operands),
                Selected::Tensors => None,
            },
            Work::Own(_) | Work::Skipped => None,
        }
    }

    /// Returns true for a convolution in fp32 with constant coefficients whose results have no activation.
    pub(super) fn ends_plain(&self) -> bool {
        let Work::Neural(neural) = self else { return false };
        let Operation::Convolution(convolution) = &neural.operation else { return false };
        matches!(convolution.coefficients, Some(Packed::Fast(_))) && matches!(neural.activation, Activation::None)
    }
}

/// Faults of a task's words: field values that the engine does not obey, and bits that no row explains.
pub(super) fn check_fields(layout: &'static Layout, task: &Task) -> Vec<FaultKind> {
    let unexplained = task.unexplained(layout).into_iter().map(|(space, addr, bits)| FaultKind::Unexplained {
        space: match space {
            Space::Header => "header word",
            Space::Register => "register",
        },
        addr,
        bits,
    });
    let refused = layout.rows.iter().flat_map(|row| {
        (0..row.count as u32).filter_map(move |i| match treatment(row.field) {
            Treatment::Only(values, reason) => {
                let value = task.get_at(layout, row.field, i)?;
                (!values.contains(&value)).then_some(FaultKind::NotHonoured { field: row.field, value, reason })
            }
            Treatment::Obeyed | Treatment::NoEffect => None,
        })
    });
    unexplained.chain(refused).collect()
}

impl Machine<'_> {
    /// The same context for another task.
    pub(crate) fn at<'a>(&'a mut self, step: &'a Step) -> Machine<'a> {
        self.at_task(&step.task, &step.fields)
    }

    /// Executes the task for every depth plane of the result.
    pub(crate) fn execute(&mut self, work: &Work) -> Result<(), FaultKind> {
        self.computed_depths().try_for_each(|depth| self.execute_at(depth, work))?;
        self.chain.pass_on();
        Ok(())
    }

    /// [`Machine::execute`] with other operands, for tasks that are executed from memory to memory, in one depth plane.
    pub(crate) fn execute_placed(&mut self, work: &Work, operands: &Operands, beside: Beside) -> Result<(), FaultKind> {
        (self.depth, self.source_depth) = (0, 0);
        match work {
            Work::Neural(neural) => self.compute_in_place(neural, operands, beside)?,
            Work::Planar(kernel) => match kernel.as_ref() {
                Selected::InPlace(row, _) => row.run(self, operands)?,
                Selected::Tensors => return self.execute(work),
            },
            Work::Own(_) | Work::Skipped => return self.execute(work),
        }
        self.chain.pass_on();
        Ok(())
    }

    /// Executes the task for one depth plane. [`crate::machine::ChainedResults::pass_on`] ends the task after the last one.
    pub(crate) fn execute_at(&mut self, depth: u64, work: &Work) -> Result<(), FaultKind> {
        (self.depth, self.source_depth) = (depth, depth);
        match work {
            Work::Neural(neural) => self.neural(neural),
            Work::Planar(kernel) => self.planar(kernel),
            Work::Own(own) => self.own(own),
            Work::Skipped => Ok(()),
        }
    }
}

impl Machine<'_> {
    /// Checks the task of the machine, and prepares its work.
    pub(super) fn prepare(&self, constants: &mut Constants) -> Result<Work, FaultKind> {
        if self.get(Field::TdSkip) == 1 {
            return Ok(Work::Skipped);
        }
        if self.is_own() {
            return Ok(Work::Own(Box::new(self.prepare_own()?)));
        }
        self.check_depth()?;
        self.check_planar()?;
        match self.get(Field::TaskClass) {
            class::NEURAL => Ok(Work::Neural(Box::new(self.prepare_neural(constants)?))),
            class::PLANAR_ONE
            | class::PLANAR_TWO
            | class::PLANAR_AFFINE
            | class::PLANAR_REDUCE
            | class::PLANAR_REDUCE_TWO => Ok(Work::Planar(Box::new(self.planar_kernel().0))),
            value => Err(FaultKind::NotHonoured {
                field: Field::TaskClass,
                value,
                reason: "no sample has a task of this class",
            }),
        }
    }
}
