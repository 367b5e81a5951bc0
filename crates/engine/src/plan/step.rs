//! Decoded tasks: fields by name, and the work of their units.

use crate::fault::FaultKind;
use crate::honours::{Treatment, treatment};
use crate::native::Own;
use crate::ne::Neural;
use anemone_facts::code::{class, kernel, neural};
use anemone_facts::{Field, Layout, Space};
use anemone_kernels::cost;
use anemone_program::Task;

/// A decoded task.
pub(crate) struct Step {
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
            Work::Planar => false,
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
    Planar,
    /// Not Apple's: a native layer in this project's own encoding.
    Own(Box<Own>),
    /// No work: the descriptor's skip bit is set.
    Skipped,
}

/// Raw bits of every field, first element of arrays; 0 where the descriptor does not write the register.
pub(crate) struct Fields(Box<[u32; Field::COUNT]>);

impl Fields {
    pub(super) fn of(layout: &Layout, task: &Task) -> Fields {
        let mut values = Box::new([0; Field::COUNT]);
        for row in layout.rows {
            values[row.field as usize] = task.get(layout, row.field).unwrap_or(0);
        }
        Fields(values)
    }

    pub(crate) fn get(&self, field: Field) -> u32 {
        self.0[field as usize]
    }

    /// Multiply-accumulates of a neural task, padding included; 0 for other tasks, and where each channel reads itself alone.
    pub(crate) fn macs(&self) -> u64 {
        if self.is_convolution() { self.operations() } else { 0 }
    }

    /// Returns true for a neural task that sums products, or channels.
    fn is_convolution(&self) -> bool {
        let sums = self.get(Field::KernelMode) == kernel::REAL || self.get(Field::UnicastEn) == 0;
        self.get(Field::TaskClass) == class::NEURAL && self.get(Field::NeOpMode) == neural::MAC && sums
    }

    /// Predicted time on one thread, in nanoseconds; `exact` in fixed point.
    pub(crate) fn nanos(&self, exact: bool) -> usize {
        let operations = usize::try_from(self.operations()).unwrap_or(usize::MAX);
        match (self.macs() > 0, exact) {
            (true, false) => cost::products(operations),
            (true, true) => cost::exact_products(operations),
            (false, _) => cost::elementwise(operations),
        }
    }

    /// Estimated operations: multiply-accumulates of a neural task in MAC mode, or elements written by any other.
    pub(super) fn operations(&self) -> u64 {
        let product = |of: &[Field]| of.iter().map(|&f| u64::from(self.get(f)).max(1)).fold(1, u64::saturating_mul);
        let channels = if self.get(Field::UnicastEn) == 1 { Field::UnicastCin } else { Field::Cin };
        let taps = match (self.is_convolution(), self.get(Field::KernelMode)) {
            (true, kernel::REAL) => product(&[channels, Field::Kd, Field::Kh, Field::Kw]),
            (true, _) => product(&[channels]),
            (false, _) => 1,
        };
        product(&[Field::NumGroups, Field::Cout, Field::Hout, Field::Wout, Field::Dout]).saturating_mul(taps)
    }
}

/// Faults of a task's words: fields of a value that the engine does not obey, and bits that no row explains.
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
