//! Raw field values of a task, and work estimates derived from them.

use anemone_facts::code::{class, kernel, neural};
use anemone_facts::{Field, Layout};
use anemone_kernels::cost;
use anemone_program::Task;

/// Raw bits of every field, first element of arrays; 0 where the descriptor does not write the register.
pub(crate) struct Fields(Box<[u32; Field::COUNT]>);

impl Fields {
    pub(crate) fn of(layout: &Layout, task: &Task) -> Fields {
        let mut values = Box::new([0; Field::COUNT]);
        for row in layout.rows {
            values[row.field as usize] = task.get(layout, row.field).unwrap_or(0);
        }
        Fields(values)
    }

    pub(crate) fn get(&self, field: Field) -> u32 {
        self.0[field as usize]
    }

    /// Multiply-accumulates of a neural task, padding included; 0 for other tasks and for depthwise copies.
    pub(crate) fn macs(&self) -> u64 {
        if self.is_convolution() { self.operations() } else { 0 }
    }

    /// Returns true for a neural task that sums products or channels.
    fn is_convolution(&self) -> bool {
        let sums = self.get(Field::KernelMode) == kernel::REAL || self.get(Field::UnicastEn) == 0;
        self.get(Field::TaskClass) == class::NEURAL && self.get(Field::NeOpMode) == neural::MAC && sums
    }

    /// Predicted single-thread time in nanoseconds; `exact` is true for fixed-point accumulators.
    pub(crate) fn nanos(&self, exact: bool) -> usize {
        let operations = usize::try_from(self.operations()).unwrap_or(usize::MAX);
        match (self.macs() > 0, exact) {
            (true, false) => cost::products(operations),
            (true, true) => cost::exact_products(operations),
            (false, _) => cost::elementwise(operations),
        }
    }

    /// Estimated operations: multiply-accumulates of a neural task in MAC mode, or elements written by any other.
    pub(crate) fn operations(&self) -> u64 {
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
