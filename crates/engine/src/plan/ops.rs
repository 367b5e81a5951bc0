//! Host operations: the intermediate representation of a plan. Operands are resolved; operations are in execution order, and overlapping
//! operands are the dependences.

use super::gemv::Gemv;
use super::maps::Map;
use super::pair::Fused;
use super::product::Product;
use super::reduction::Reduction;
use super::task_batch::TaskBatch;
use crate::direct::{Operands, Span};
use crate::memory::Home;
use crate::ne::Beside;
use crate::operand::MemRef;
use anemone_kernels::copy::{CopyAxis, NanRule, normalized};
use anemone_kernels::table::Table;
use std::ops::Range;
use std::sync::Arc;

/// One operation of a plan.
#[derive(Clone)]
pub struct Op {
    /// Tasks that the operation replaces; for a fused chain only the last one (see `Op::task_count`).
    pub tasks: Range<usize>,
    /// Its kind.
    pub kind: Kind,
    /// Operands read.
    pub reads: Vec<MemRef>,
    /// Operands written.
    pub writes: Vec<MemRef>,
    /// True if `reads` and `writes` are all its accesses; otherwise it may access anything.
    pub known: bool,
}

/// Kind of an operation.
#[derive(Clone)]
pub enum Kind {
    /// Elementwise stages.
    Map(Box<Map>),
    /// A strided copy.
    Move(Move),
    /// A product of two operands in memory.
    Product(Box<Product>),
    /// A convolution fused with the depthwise convolution that reads its result, and possibly with what follows.
    Fused(Box<Fused>),
    /// Pointwise convolutions of one source.
    TaskBatch(Box<TaskBatch>),
    /// Sums or maxima over the rows and columns of each channel.
    Reduction(Box<Reduction>),
    /// A matrix-vector product with constant coefficients.
    Gemv(Box<Gemv>),
    /// A task executed by its unit, with its name for listings.
    Task(&'static str),
    /// The same, with other operands or another epilogue than its fields state.
    Placed(Placed),
}

/// A task that reads or writes other places than its fields state, or ends with a table.
#[derive(Clone)]
pub struct Placed {
    /// Its name for listings.
    pub name: &'static str,
    /// Operands in place of those that its fields state.
    pub operands: Box<Operands>,
    /// Table of its results, in place of them.
    pub after: Option<Arc<Table>>,
    /// Factors of the channels of its source.
    pub(crate) factors: Option<Span>,
    /// Number of tasks that it replaces.
    pub tasks: usize,
}

/// A copy from one strided box to another. Offsets and strides are in fp16 elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Treatment of NaN.
    pub rule: NanRule,
    /// Memory and first element written.
    pub to: (Home, usize),
    /// Memory and first element read.
    pub from: (Home, usize),
    /// Axes, [`normalized`].
    pub axes: Vec<CopyAxis>,
}

/// Bytes of an element.
const ELEMENT_BYTES: u64 = 2;

impl Move {
    /// A copy over normalized axes; `None` if it is empty, or may write an element twice.
    pub fn new(rule: NanRule, to: (Home, usize), from: (Home, usize), axes: &[CopyAxis]) -> Option<Move> {
        let this = Move { rule, to, from, axes: normalized(axes) };
        let written = this.written();
        (!written.is_empty() && written.is_nested()).then_some(this)
    }

    /// Source box.
    pub(crate) fn read(&self) -> MemRef {
        self.side(self.from, |axis| axis.from)
    }

    /// Destination box.
    pub(crate) fn written(&self) -> MemRef {
        self.side(self.to, |axis| axis.to)
    }

    fn side(&self, (home, base): (Home, usize), stride: impl Fn(&CopyAxis) -> usize) -> MemRef {
        let axes: Vec<(u64, u64)> =
            self.axes.iter().map(|axis| (axis.count as u64, ELEMENT_BYTES * stride(axis) as u64)).collect();
        MemRef::new(home, ELEMENT_BYTES * base as u64, &axes, ELEMENT_BYTES)
    }

    /// Source offset of the element at a destination offset, both in elements of their region; `None` if the copy does not write it.
    pub(crate) fn source_of(&self, element: usize) -> Option<usize> {
        let mut offset = element.checked_sub(self.to.1)?;
        let mut source = self.from.1;
        for axis in &self.axes {
            let at = offset / axis.to;
            if at >= axis.count {
                return None;
            }
            offset -= at * axis.to;
            source += at * axis.from;
        }
        (offset == 0).then_some(source)
    }

    /// Number of elements copied.
    pub(crate) fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }

    /// Element ranges of source and destination, each from the first to the last element accessed.
    pub fn ranges(&self) -> [Range<usize>; 2] {
        let reach = |stride: fn(&CopyAxis) -> usize| {
            self.axes.iter().map(|axis| (axis.count - 1) * stride(axis)).sum::<usize>() + 1
        };
        let (from, to) = (self.from.1, self.to.1);
        [from..from + reach(|axis| axis.from), to..to + reach(|axis| axis.to)]
    }

    /// Relative cost per element; 1 for long contiguous rows.
    fn effort(&self) -> usize {
        match self.axes.split_last() {
            Some((inner, _)) if inner.to == 1 && inner.from == 1 => {
                if inner.count >= 16 {
                    1
                } else {
                    3
                }
            }
            Some((inner, outer)) if inner.to == 1 && inner.count >= 8 => {
                let turned = outer.iter().any(|axis| axis.from == 1 && axis.count >= 8);
                if turned { 2 } else { 5 }
            }
            _ => 6,
        }
    }

    /// Estimated cost: elements times cost per element.
    pub(crate) fn cost(&self) -> usize {
        self.elements().saturating_mul(self.effort())
    }
}

impl Placed {
    /// A task with other operands.
    pub(super) fn new(name: &'static str, operands: Operands, tasks: usize) -> Placed {
        Placed { name, operands: Box::new(operands), after: None, factors: None, tasks }
    }

    pub(super) fn beside(&self) -> Beside<'_> {
        Beside { after: self.after.as_ref(), factors: self.factors.as_ref() }
    }
}

impl Op {
    /// The operation for a copy that replaces `tasks`.
    pub fn moves(tasks: Range<usize>, of: Move) -> Op {
        Op { tasks, reads: vec![of.read()], writes: vec![of.written()], kind: Kind::Move(of), known: true }
    }

    /// The task with other operands; `None` for operations of other kinds.
    pub(super) fn placed(&self, operands: Operands) -> Option<Placed> {
        match &self.kind {
            Kind::Task(name) => Some(Placed::new(name, operands, self.tasks.len())),
            Kind::Placed(of) => Some(Placed { operands: Box::new(operands), ..of.clone() }),
            _ => None,
        }
    }

    /// Number of tasks that the operation replaces, including those of all fused stages.
    pub(crate) fn task_count(&self) -> usize {
        match &self.kind {
            Kind::Map(map) => map.tasks,
            Kind::Product(product) => product.tasks,
            Kind::Reduction(of) => of.tasks,
            Kind::Move(_) | Kind::Gemv(_) | Kind::Fused(_) | Kind::TaskBatch(_) => self.tasks.len(),
            Kind::Placed(of) => of.tasks,
            Kind::Task(_) => self.tasks.len(),
        }
    }

    /// Kind of computation in a few words, for listings.
    pub(crate) fn class(&self) -> &'static str {
        match &self.kind {
            Kind::Move(_) => "copy",
            Kind::Map(map) => map.name(),
            Kind::Product(_) => "product of two operands",
            Kind::Reduction(_) => "reduction",
            Kind::Gemv(_) => "matrix by vector",
            Kind::Fused(_) => "fused convolutions",
            Kind::TaskBatch(_) => "pointwise convolutions of one source",
            Kind::Task(name) | Kind::Placed(Placed { name, .. }) => name,
        }
    }

    /// The copy, if the operation is one.
    pub fn as_move(&self) -> Option<&Move> {
        match &self.kind {
            Kind::Move(of) => Some(of),
            _ => None,
        }
    }

    /// The product, if the operation is one.
    pub(super) fn as_product(&self) -> Option<&Product> {
        match &self.kind {
            Kind::Product(of) => Some(of),
            _ => None,
        }
    }

    /// Returns false only if the operation is known to write no byte of `of`.
    pub(crate) fn may_write(&self, of: &MemRef) -> bool {
        !self.known || self.writes.iter().any(|written| written.overlaps(of))
    }

    /// Returns false only if the operation is known to write no byte of any of the boxes.
    pub(crate) fn may_write_any(&self, boxes: &[MemRef]) -> bool {
        boxes.iter().any(|of| self.may_write(of))
    }

    /// Everything that the operation reads and writes.
    pub(crate) fn accesses(&self) -> impl Iterator<Item = &MemRef> + Clone {
        self.reads.iter().chain(&self.writes)
    }

    /// Returns true if the operation is known to overwrite every byte of `of`.
    pub(crate) fn overwrites(&self, of: &MemRef) -> bool {
        let covers = |written: &MemRef| {
            let whole = written.axes.is_empty() && written.base_bytes <= of.base_bytes && of.end() <= written.end();
            written.exact && written.home == of.home && (written == of || whole)
        };
        self.known && self.writes.iter().any(covers)
    }
}
