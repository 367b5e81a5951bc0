//! Trace of each task's operands and of the bytes moved. Operands are inspected before and after the task, so that runs without a trace have no
//! overhead, and no kernel has to support it.

use super::Work;
use super::resolution::Sums;
use crate::dma::{DST_DMA, Place, RES_L2, SRC1_DMA, SRC1_L2, SRC2_DMA, SRC2_L2, address};
use crate::fault::FaultKind;
use crate::lut::Table;
use crate::machine::Machine;
use crate::memory::Region;
use crate::numerics::Parameters;
use anemone_facts::Field::{self, *};
use anemone_facts::code::{class, kernel, neural, nonlinear, residency};
use anemone_facts::lut::RECORD_BYTES;
use anemone_kernels::interleave::interleaved;
use anemone_kernels::tensor::{Extents, Tensor};
use anemone_program::Element;
use half::f16;

/// Smallest normal fp16 number: 2^-14.
const LEAST_NORMAL: f32 = 6.103_515_6e-5;
/// Exponent of zero and of subnormal numbers.
const SUBNORMAL_EXPONENT: i32 = -14;

/// Place of an operand or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Behind a base register.
    Memory {
        /// The register.
        bar: u8,
        /// Byte offset from its base.
        address: u64,
    },
    /// In tile memory.
    Tile {
        /// Byte address.
        address: u64,
    },
    /// Passed from task to task without memory.
    Chained,
}

/// Statistics of an operand's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Values {
    /// Largest finite magnitude.
    pub largest: f32,
    /// Infinities of both signs.
    pub infinite: u64,
    /// NaN patterns.
    pub nan: u64,
    /// Subnormal numbers.
    pub subnormal: u64,
}

impl Values {
    fn join(&mut self, other: &Values) {
        self.largest = self.largest.max(other.largest);
        self.infinite += other.infinite;
        self.nan += other.nan;
        self.subnormal += other.subnormal;
    }

    /// Adds a row of elements. Magnitudes are compared as integers, which vectorizes.
    fn see(&mut self, row: &[f32]) {
        const INFINITY: u32 = f32::INFINITY.to_bits();
        // Counts of 32 bits vectorize with the elements.
        for part in row.chunks(1 << 16) {
            let (mut largest, mut infinite, mut nan, mut subnormal) = (0, 0, 0, 0);
            for x in part {
                let magnitude = x.abs().to_bits();
                largest = largest.max(if magnitude < INFINITY { magnitude } else { 0 });
                infinite += u32::from(magnitude == INFINITY);
                nan += u32::from(magnitude > INFINITY);
                subnormal += u32::from(magnitude != 0 && magnitude < LEAST_NORMAL.to_bits());
            }
            let (infinite, nan, subnormal) = (infinite.into(), nan.into(), subnormal.into());
            self.join(&Values { largest: f32::from_bits(largest), infinite, nan, subnormal });
        }
    }

    fn is_finite(&self) -> bool {
        self.infinite == 0 && self.nan == 0
    }
}

/// One operand or result of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Location of its first element.
    pub site: Site,
    /// Groups, channels, rows, columns as stored.
    pub shape: [usize; 4],
    /// Bytes between groups, channels and rows; zero for a chained operand.
    pub strides: [u64; 3],
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Statistics of its elements.
    pub values: Values,
}

impl Operand {
    /// Bytes of its elements.
    pub fn bytes(&self) -> u64 {
        self.element_bytes * self.shape.iter().map(|&n| n as u64).product::<u64>()
    }
}

/// Bytes moved by each DMA engine and by tile memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Source 1 from memory.
    pub source1: u64,
    /// Source 2 from memory.
    pub source2: u64,
    /// Coefficients and tables, by the stated sizes of their streams.
    pub coefficients: u64,
    /// Result to memory.
    pub destination: u64,
    /// Read from tile memory.
    pub l2_read: u64,
    /// Written to tile memory.
    pub l2_written: u64,
}

/// Trace of one task: operands, results, bytes moved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTrace {
    /// Value of the task's class field.
    pub class: u32,
    /// Byte offset of the descriptor in the stream.
    pub offset: u32,
    /// Sources, in order.
    pub inputs: Vec<Operand>,
    /// The result at each of its destinations.
    pub outputs: Vec<Operand>,
    /// Coefficients, if the task has any.
    pub coefficients: Option<Values>,
    /// Bytes moved.
    pub moved: Moved,
    /// Multiply-accumulates, padding included.
    pub macs: u64,
    /// Infinite results of finite sources, unless the task produces infinities on purpose.
    pub saturated: u64,
    /// Subnormal operands of which the model drops every product.
    pub denormals_flushed: u64,
    /// NaN elements of sources that the model reads as numbers.
    pub nan_coerced: u64,
    /// Sample of the fixed-point sums compared with floating point; empty in `fast`.
    pub sums: Sums,
}

impl TaskTrace {
    /// Largest finite magnitude of any result.
    pub fn largest(&self) -> f32 {
        self.outputs.iter().fold(0.0, |m, o| m.max(o.values.largest))
    }
}

impl TaskTrace {
    /// Merges another plane of the same task: locations and shapes stay those of the first plane, coefficients count once.
    fn join(&mut self, plane: TaskTrace) {
        let inputs = self.inputs.iter_mut().zip(&plane.inputs);
        for (operand, other) in inputs.chain(self.outputs.iter_mut().zip(&plane.outputs)) {
            operand.values.join(&other.values);
        }
        let (sum, other) = (&mut self.moved, plane.moved);
        sum.source1 += other.source1;
        sum.source2 += other.source2;
        sum.destination += other.destination;
        sum.l2_read += other.l2_read;
        sum.l2_written += other.l2_written;
        self.saturated += plane.saturated;
        self.denormals_flushed += plane.denormals_flushed;
        self.nan_coerced += plane.nan_coerced;
        self.sums.join(&plane.sums);
    }
}

impl Machine<'_> {
    /// Executes the task and returns its trace.
    pub(crate) fn execute_traced(&mut self, work: &Work) -> Result<TaskTrace, FaultKind> {
        if let Work::Own(_) = work {
            self.execute(work)?;
            return Ok(TaskTrace { offset: self.task.offset, ..TaskTrace::default() });
        }
        let mut whole = TaskTrace { class: self.get(TaskClass), offset: self.task.offset, ..TaskTrace::default() };
        if let Work::Skipped = work {
            return Ok(whole);
        }
        for plane in self.source_depths() {
            self.source_depth = plane;
            let trace = self.look_before()?;
            if plane == 0 { whole = trace } else { whole.join(trace) }
        }
        whole.macs = self.fields.macs();
        for depth in self.computed_depths() {
            self.execute_at(depth, work)?;
            let mut trace = TaskTrace { inputs: whole.inputs.clone(), ..TaskTrace::default() };
            self.look_after(&mut trace)?;
            trace.inputs.clear();
            if depth == 0 {
                whole.outputs = std::mem::take(&mut trace.outputs);
            }
            whole.join(trace);
        }
        self.chain.pass_on();
        Ok(whole)
    }

    /// Inspects sources and coefficients before the task runs.
    fn look_before(&self) -> Result<TaskTrace, FaultKind> {
        let class = self.get(TaskClass);
        let mut trace = TaskTrace { class, offset: self.task.offset, ..TaskTrace::default() };
        let (first, second) = match class {
            class::NEURAL => (self.stated_extents().0, None),
            _ => self.planar_sources(),
        };
        let source = match self.get(SrcType) {
            residency::L2 => self.in_tile(&SRC1_L2, first)?,
            residency::CHAIN => match self.chain.peek(self.source_depth) {
                Some(tensor) => in_chain(tensor),
                None => return Err(FaultKind::NothingChained),
            },
            _ => self.seen_in_memory(&SRC1_DMA, [RBase0, Rbe0], first, Src1Interleave)?,
        };
        match source.site {
            Site::Memory { .. } => trace.moved.source1 = source.bytes(),
            Site::Tile { .. } => trace.moved.l2_read = source.bytes(),
            Site::Chained => {}
        }
        if self.get(SrcType) == residency::DMA_KEEP {
            trace.moved.l2_written = source.bytes();
        }
        trace.inputs.push(source);
        if let Some(ext) = second {
            let source = match self.get(Src2Type) {
                1 => self.seen_in_memory(&SRC2_DMA, [RBase1, Rbe1], ext, Src2Interleave)?,
                _ => self.in_tile(&SRC2_L2, ext)?,
            };
            match source.site {
                Site::Memory { .. } => trace.moved.source2 = source.bytes(),
                _ => trace.moved.l2_read += source.bytes(),
            }
            trace.inputs.push(source);
        }
        let engines = self.layout.row(CoeffEn).map_or(0, |row| row.count as u32);
        let enabled = (0..engines).filter(|&i| self.task.get_at(self.layout, CoeffEn, i) == Some(1));
        trace.moved.coefficients = enabled.map(|i| self.task.bytes_at(self.layout, CoeffSize, i)).sum();
        let extras = self.layout.row(ExtraEn).map_or(0, |row| row.count as u32);
        let enabled = (0..extras).filter(|&i| self.task.get_at(self.layout, ExtraEn, i) == Some(1));
        trace.moved.coefficients += enabled.map(|i| self.task.bytes_at(self.layout, ExtraSize, i)).sum::<u64>();
        if class == class::NEURAL && self.get(NeOpMode) == neural::MAC {
            self.look_at_array(&mut trace)?;
        }
        if self.model.rounding().is_some() {
            trace.nan_coerced = trace.inputs.iter().map(|i| i.values.nan).sum();
        }
        Ok(trace)
    }

    /// Counts multiply-accumulates, and operands that are too small for them.
    fn look_at_array(&self, trace: &mut TaskTrace) -> Result<(), FaultKind> {
        let (input, output) = self.stated_extents();
        let per_output = if self.get(UnicastEn) == 1 { self.size(UnicastCin).max(1) } else { input.c };
        output.elements()?;
        if self.get(KernelMode) != kernel::REAL {
            return Ok(());
        }
        let taps = per_output * self.kernel_planes() * self.size(Kh).max(1) * self.size(Kw).max(1);
        let mut weights = Values::default();
        let groups = if self.get(GroupKernelReuse) == 1 { 1 } else { input.g };
        for g in 0..groups {
            let of_group = self.coefficients(g, output.c, taps)?.weights;
            let mut row = Vec::with_capacity(taps);
            for first in (0..of_group.len()).step_by(taps.max(1)) {
                row.clear();
                row.extend((first..of_group.len().min(first + taps)).map(|i| of_group.get(i).to_f32()));
                weights.see(&row);
            }
        }
        if let (Some(mac), Some(source)) = (self.mac, trace.inputs.first()) {
            // The largest partner decides: an operand is lost if even that product is dropped.
            let lost =
                |largest: f32| mac.flush_subnormals || SUBNORMAL_EXPONENT + exponent(largest) < mac.least_exponent_sum;
            let x = source.values;
            trace.denormals_flushed = if lost(weights.largest) { x.subnormal } else { 0 };
            trace.denormals_flushed += if lost(x.largest) { weights.subnormal } else { 0 };
        }
        trace.coefficients = Some(weights);
        trace.sums = self.sample_sums(input, output)?;
        Ok(())
    }

    /// Inspects results after the task has run.
    fn look_after(&self, trace: &mut TaskTrace) -> Result<(), FaultKind> {
        let ext = match self.get(TaskClass) {
            class::NEURAL => transposed_if(self.stated_extents().1, self.get(NeTranspose) == 1),
            class => {
                let ext = self.stated_extents().1;
                let reduced = matches!(class, class::PLANAR_REDUCE | class::PLANAR_REDUCE_TWO);
                let ext = if reduced { Extents { h: 1, w: 1, ..ext } } else { ext };
                transposed_if(ext, self.get(ResultTranspose) == 1)
            }
        };
        let place = self.get(ResType);
        if matches!(place, residency::DMA | residency::DMA_KEEP) {
            let result = self.seen_in_memory(&DST_DMA, [WBase, Wbe], ext, DstInterleave)?;
            trace.moved.destination = result.bytes();
            trace.outputs.push(result);
        }
        if matches!(place, residency::L2 | residency::DMA_KEEP) {
            let result = self.in_tile(&RES_L2, ext)?;
            trace.moved.l2_written += result.bytes();
            trace.outputs.push(result);
        }
        if let (residency::CHAIN, Some(tensor)) = (place, self.chain.last()) {
            trace.outputs.push(in_chain(tensor));
        }
        if trace.inputs.iter().all(|i| i.values.is_finite()) && !self.states_infinity()? {
            trace.saturated = trace.outputs.first().map_or(0, |o| o.values.infinite);
        }
        Ok(())
    }

    /// Returns true if infinities are intended results, as in masks and comparisons: from the task's table, or from a factor beyond the range of
    /// fp16, which no network contains.
    fn states_infinity(&self) -> Result<bool, FaultKind> {
        if self.get(TaskClass) == class::NEURAL {
            let table = self.get(NonlinearMode) == nonlinear::LUT;
            return Ok(table && Table::read(self.table_record(RECORD_BYTES as u64)?)?.states_infinity());
        }
        let factor = f32::from_bits(self.get(PeFinalScale)) * self.half(PeScale);
        Ok(factor.abs() > f16::MAX.to_f32() || self.half(PeBias).is_infinite())
    }

    /// Extents of source 1 and of the result from the task's fields.
    fn stated_extents(&self) -> (Extents, Extents) {
        let g = self.size(NumGroups).max(1);
        let input = Extents { g, c: self.size(Cin), h: self.size(Hin), w: self.size(Win) };
        (input, Extents { g, c: self.size(Cout), h: self.size(Hout), w: self.size(Wout) })
    }

    fn seen_in_memory(&self, place: &Place, bar: [Field; 2], ext: Extents, by: Field) -> Result<Operand, FaultKind> {
        let register = self.bar(bar[0], bar[1])?;
        let region = self.memory.region(register).ok_or(FaultKind::Unbound { field: bar[0], bar: register })?;
        let (address, strides) = self.place(place);
        let stored = interleaved(ext, self.interleave(by));
        let element = self.element(place.format)?;
        let values = read_values(region, place.base, element, address, strides, stored)?;
        let (site, element_bytes) = (Site::Memory { bar: register, address }, element.bytes());
        Ok(Operand { site, shape: stored.array(), strides, element_bytes, values })
    }

    fn in_tile(&self, place: &Place, ext: Extents) -> Result<Operand, FaultKind> {
        let (address, strides) = self.place(place);
        let element = self.element(place.format)?;
        let values = read_values(self.l2, place.base, element, address, strides, ext)?;
        let (site, element_bytes) = (Site::Tile { address }, element.bytes());
        Ok(Operand { site, shape: ext.array(), strides, element_bytes, values })
    }
}

fn transposed_if(ext: Extents, exchanged: bool) -> Extents {
    if exchanged { ext.transposed() } else { ext }
}

fn in_chain(tensor: &Tensor) -> Operand {
    let mut values = Values::default();
    values.see(&tensor.data);
    let (site, element_bytes) = (Site::Chained, Element::Float16.bytes());
    Operand { site, shape: tensor.ext.array(), strides: [0; 3], element_bytes, values }
}

fn read_values(
    region: &Region,
    field: Field,
    element: Element,
    base: u64,
    strides: [u64; 3],
    ext: Extents,
) -> Result<Values, FaultKind> {
    ext.elements()?;
    let mut values = Values::default();
    let mut row = vec![0.0; ext.w];
    for g in 0..ext.g {
        for c in 0..ext.c {
            for h in 0..ext.h {
                region.read_row(field, address(base, strides, g, c, h), element, &mut row)?;
                values.see(&row);
            }
        }
    }
    Ok(values)
}

/// Base-2 exponent of an fp16 number; zero and subnormal numbers have the least one.
fn exponent(x: f32) -> i32 {
    ((x.to_bits() >> 23 & 0xff) as i32 - 127).max(SUBNORMAL_EXPONENT)
}
