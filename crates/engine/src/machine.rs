//! Execution context of one task: the memory it accesses and the fields it reads.

use crate::fault::FaultKind;
use crate::field_support::POSITIVE_SHIFTS;
use crate::fields::Fields;
use crate::memory::{Memory, Region};
use anemone_facts::Field::{
    self, AccBias, AccBiasShift, KBase0, Kbe0, PostRightShift, PostScale, Src1Interleave, Src2Interleave,
};
use anemone_facts::Layout;
use anemone_facts::numerics::Model;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::tensor::Tensor;
use anemone_kernels::workers::Workers;
use anemone_program::{Port, Program, Task};

/// State that persists between tasks, and the current task.
pub(crate) struct Machine<'a> {
    pub(crate) layout: &'static Layout,
    pub(crate) memory: &'a mut Memory,
    /// The kernel section during planning, before any memory is bound.
    pub(crate) constants: Option<&'a [u8]>,
    pub(crate) l2: &'a mut Region,
    /// Results passed from task to task without memory.
    pub(crate) chain: &'a mut ChainedResults,
    pub(crate) task: &'a Task,
    pub(crate) fields: &'a Fields,
    pub(crate) workers: &'a Workers,
    /// Fixed-point accumulator; `None` for fp32 sums.
    pub(crate) mac: Option<&'static AccumulatorSpec>,
    /// Number model of all other arithmetic.
    pub(crate) model: Model,
    /// Index of the current depth plane of the result.
    pub(crate) depth: u64,
    /// Index of the source depth plane that is read for it.
    pub(crate) source_depth: u64,
    /// Ports of the program, with their base registers.
    pub(crate) ports: &'a [Port],
}

/// Chained results, by depth plane.
#[derive(Default)]
pub(crate) struct ChainedResults {
    /// Planes of the previous task; `None` once taken.
    handed: Vec<Option<Tensor>>,
    /// Planes of the current task.
    kept: Vec<Tensor>,
}

impl ChainedResults {
    /// A plane of the previous task's result: moved out if it is read `once`, cloned otherwise.
    pub(crate) fn plane(&mut self, plane: u64, once: bool) -> Option<Tensor> {
        let plane = self.handed.get_mut(plane as usize)?;
        if once { plane.take() } else { plane.clone() }
    }

    /// [`ChainedResults::plane`] by reference.
    pub(crate) fn peek(&self, plane: u64) -> Option<&Tensor> {
        self.handed.get(plane as usize)?.as_ref()
    }

    /// Stores the next plane of the current result.
    pub(crate) fn keep(&mut self, plane: Tensor) {
        self.kept.push(plane);
    }

    /// The plane that was stored last.
    pub(crate) fn last(&self) -> Option<&Tensor> {
        self.kept.last()
    }

    /// Ends the current task: its result becomes that of the previous task.
    pub(crate) fn pass_on(&mut self) {
        if !self.kept.is_empty() {
            self.handed = std::mem::take(&mut self.kept).into_iter().map(Some).collect();
        }
    }
}

impl Machine<'_> {
    /// The same context for another task.
    pub(crate) fn at_task<'a>(&'a mut self, task: &'a Task, fields: &'a Fields) -> Machine<'a> {
        Machine { memory: &mut *self.memory, l2: &mut *self.l2, chain: &mut *self.chain, task, fields, ..*self }
    }

    /// Raw bits of a field; 0 where the descriptor does not write its register.
    pub(crate) fn get(&self, field: Field) -> u32 {
        self.fields.get(field)
    }

    /// [`Machine::get`] as a size.
    pub(crate) fn size(&self, field: Field) -> usize {
        self.get(field) as usize
    }

    /// Number of adjacent channels that an interleave field states. A second source without a number of its own has that of the first one
    /// (`docs/evidence.md`, key `h13-bytes`).
    pub(crate) fn interleave(&self, field: Field) -> usize {
        let own = self.size(field);
        let shared = own == 0 && field == Src2Interleave;
        if shared { self.size(Src1Interleave).max(1) } else { own.max(1) }
    }

    /// Bytes of a field whose unit is a shifted byte count.
    pub(crate) fn bytes(&self, field: Field) -> u64 {
        u64::from(self.get(field)) << self.layout.row(field).map_or(0, |row| row.lo)
    }

    /// Number of an fp16 field.
    pub(crate) fn half(&self, field: Field) -> f32 {
        half::f16::from_bits(self.get(field) as u16).to_f32()
    }

    /// Bias that is common to all sums.
    pub(crate) fn added(&self) -> f32 {
        self.half(AccBias) * self.power_of_two(AccBiasShift)
    }

    /// Scale that is applied to all sums after the bias.
    pub(crate) fn factor(&self) -> f32 {
        self.half(PostScale) / self.power_of_two(PostRightShift)
    }

    /// Two to the power of a field's value. Values that are not executed count as zero.
    fn power_of_two(&self, field: Field) -> f32 {
        let power = Some(self.get(field)).filter(|power| POSITIVE_SHIFTS.contains(power));
        (1u32 << power.unwrap_or(0)) as f32
    }

    /// Base register number from its field.
    pub(crate) fn bar(&self, base: Field, enable: Field) -> Result<u8, FaultKind> {
        self.require(enable, 1, "the base register is used")?;
        Ok(self.get(base) as u8)
    }

    /// Bytes of kernel data at an address relative to `KBase0`.
    pub(crate) fn kernel_bytes(&self, address: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let bar = self.bar(KBase0, Kbe0)?;
        if let Some(constants) = self.constants.filter(|_| bar == Program::KERNEL_BAR) {
            let end = address.checked_add(bytes).filter(|&end| end <= constants.len() as u64);
            return end.map(|end| &constants[address as usize..end as usize]).ok_or_else(|| FaultKind::Stray {
                field: Field::CoeffBase,
                region: format!("BAR {bar}"),
                address,
                bytes,
                limit: constants.len() as u64,
            });
        }
        let region = self.memory.region(bar).ok_or(FaultKind::Unbound { field: KBase0, bar })?;
        region.read_bytes(Field::CoeffBase, address, bytes as usize)
    }

    pub(crate) fn require(&self, field: Field, wanted: u32, reason: &str) -> Result<(), FaultKind> {
        let value = self.get(field);
        if value == wanted {
            return Ok(());
        }
        Err(FaultKind::Inconsistent { field, value, reason: format!("{wanted} expected: {reason}") })
    }
}
