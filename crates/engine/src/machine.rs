//! One task at work: the memory it sees and the fields it reads.

use crate::fault::FaultKind;
use crate::memory::{Memory, Region};
use crate::plan::{Fields, Work};
use crate::tensor::{LIMIT, Tensor};
use crate::work::Workers;
use anemone_facts::code::{class, residency};
use anemone_facts::numerics::{Mac, Model};
use anemone_facts::{Field, Layout};
use anemone_program::{Port, Program, Task};
use std::ops::Range;

/// State between tasks, and the task at hand.
pub(crate) struct Machine<'a> {
    pub(crate) layout: &'static Layout,
    pub(crate) memory: &'a mut Memory,
    /// The kernel section while the task is planned, before any memory is bound.
    pub(crate) constants: Option<&'a [u8]>,
    pub(crate) l2: &'a mut Region,
    /// Result of the task before, where it was chained.
    pub(crate) chain: &'a mut Option<Tensor>,
    pub(crate) task: &'a Task,
    pub(crate) fields: &'a Fields,
    pub(crate) workers: &'a Workers,
    /// The array's arithmetic; `None` is fp32 sums.
    pub(crate) mac: Option<&'static Mac>,
    /// How everything else computes.
    pub(crate) model: Model,
    /// Which of the volumes' planes is at work, from the front.
    pub(crate) depth: u64,
    /// Where inputs and outputs of the program stand.
    pub(crate) ports: &'a [Port],
}

impl Machine<'_> {
    /// Plane after plane: kernels have a depth of one.
    pub(crate) fn execute(&mut self, work: &Work) -> Result<(), FaultKind> {
        self.depths().try_for_each(|depth| self.execute_at(depth, work))
    }

    /// Planes of the task's volumes, as [`Machine::check_depth`] admits them.
    pub(crate) fn depths(&self) -> Range<u64> {
        0..u64::from(self.get(Field::Din)).max(1)
    }

    pub(crate) fn execute_at(&mut self, depth: u64, work: &Work) -> Result<(), FaultKind> {
        self.depth = depth;
        match work {
            Work::Neural(neural) => self.neural(neural),
            Work::Planar => self.planar(),
            Work::Own(own) => self.own(own),
        }
    }

    /// Volumes: planes of a task of its own each, one behind the other.
    pub(crate) fn check_depth(&self) -> Result<(), FaultKind> {
        let refused = |field, reason| Err(FaultKind::NotHonoured { field, value: self.get(field), reason });
        let depth = u64::from(self.get(Field::Din)).max(1);
        if u64::from(self.get(Field::Dout)).max(1) != depth {
            return refused(Field::Dout, "kernels have a depth of one, so that the result is as deep as the source");
        }
        if depth == 1 {
            return Ok(());
        }
        if [class::PLANAR_REDUCE, class::PLANAR_REDUCE_TWO].contains(&self.get(Field::TaskClass)) {
            return refused(Field::Din, "no source says whether a reduction covers the depth");
        }
        for field in [Field::SrcType, Field::ResType] {
            if self.get(field) == residency::CHAIN {
                return refused(field, "no source says how a volume is chained");
            }
        }
        let per_group = |c, h, w| [c, h, w].iter().map(|&f| u64::from(self.get(f))).product::<u64>();
        let (input, output) =
            (per_group(Field::Cin, Field::Hin, Field::Win), per_group(Field::Cout, Field::Hout, Field::Wout));
        let groups = u64::from(self.get(Field::NumGroups)).max(1);
        let elements = input.max(output).saturating_mul(groups).saturating_mul(depth);
        if elements > LIMIT {
            return Err(FaultKind::TooLarge { elements, limit: LIMIT });
        }
        Ok(())
    }

    /// Raw bits of a field; 0 where the descriptor does not write its register.
    pub(crate) fn get(&self, field: Field) -> u32 {
        self.fields.get(field)
    }

    /// As [`Machine::get`], for sizes.
    pub(crate) fn size(&self, field: Field) -> usize {
        self.get(field) as usize
    }

    /// Byte quantity of a shifted field.
    pub(crate) fn bytes(&self, field: Field) -> u64 {
        u64::from(self.get(field)) << self.layout.row(field).map_or(0, |row| row.lo)
    }

    /// fp16 field as a number.
    pub(crate) fn half(&self, field: Field) -> f32 {
        half::f16::from_bits(self.get(field) as u16).to_f32()
    }

    /// The base register that a field names.
    pub(crate) fn bar(&self, base: Field, enable: Field) -> Result<u8, FaultKind> {
        self.require(enable, 1, "the base register is used")?;
        Ok(self.get(base) as u8)
    }

    /// Kernel data at an address behind `KBase0`.
    pub(crate) fn kernel_bytes(&self, address: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let bar = self.bar(Field::KBase0, Field::Kbe0)?;
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
        let region = self.memory.region(bar).ok_or(FaultKind::Unbound { field: Field::KBase0, bar })?;
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
