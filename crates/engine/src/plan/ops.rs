//! Host operations: what a program's tasks are lifted to. An operation has resolved operands; the order of the list is the order of
//! execution, and operands say what depends on what.

use super::maps::Map;
use crate::memory::Home;
use crate::operand::MemRef;
use anemone_kernels::copy::{CopyAxis, NanRule, normalized};
use std::ops::Range;

/// One operation of a plan.
#[derive(Clone)]
pub(crate) struct Op {
    /// The tasks that it stands for.
    pub(crate) tasks: Range<usize>,
    pub(crate) kind: Kind,
    pub(crate) reads: Vec<MemRef>,
    pub(crate) writes: Vec<MemRef>,
    /// Whether `reads` and `writes` are all that it accesses. Otherwise it may access everything.
    pub(crate) known: bool,
}

/// What an operation does.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Elementwise stages.
    Map(Box<Map>),
    /// Elements go elsewhere as they are.
    Move(Move),
    /// Tasks as their units execute them, with a name for the eye.
    Tasks(&'static str),
}

/// Elements copied from one box to another. Distances are in fp16 elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) rule: NanRule,
    pub(crate) to: (Home, usize),
    pub(crate) from: (Home, usize),
    /// As [`normalized`] leaves them.
    pub(crate) axes: Vec<CopyAxis>,
}

/// Bytes of an element.
const ELEMENT_BYTES: u64 = 2;

impl Move {
    /// `None` where the boxes do not have the same elements, or an element of the result is written twice.
    pub(crate) fn new(rule: NanRule, to: (Home, usize), from: (Home, usize), axes: &[CopyAxis]) -> Option<Move> {
        let this = Move { rule, to, from, axes: normalized(axes) };
        let written = this.written();
        (!written.is_empty() && written.is_nested()).then_some(this)
    }

    /// The box that it reads.
    pub(crate) fn read(&self) -> MemRef {
        self.side(self.from, |axis| axis.from)
    }

    /// The box that it writes.
    pub(crate) fn written(&self) -> MemRef {
        self.side(self.to, |axis| axis.to)
    }

    fn side(&self, (home, base): (Home, usize), stride: impl Fn(&CopyAxis) -> usize) -> MemRef {
        let axes: Vec<(u64, u64)> =
            self.axes.iter().map(|axis| (axis.count as u64, ELEMENT_BYTES * stride(axis) as u64)).collect();
        MemRef::new(home, ELEMENT_BYTES * base as u64, &axes, ELEMENT_BYTES)
    }

    /// Where an element of the result was before; `None` for an element that is not copied.
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

    /// Elements that are copied.
    pub(crate) fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }

    /// Elements of the regions from the first that is read, and written, to the last.
    pub(crate) fn ranges(&self) -> [Range<usize>; 2] {
        let reach = |stride: fn(&CopyAxis) -> usize| {
            self.axes.iter().map(|axis| (axis.count - 1) * stride(axis)).sum::<usize>() + 1
        };
        let (from, to) = (self.from.1, self.to.1);
        [from..from + reach(|axis| axis.from), to..to + reach(|axis| axis.to)]
    }

    /// Time of an element, in that of one in a long row.
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

    /// A measure of the time it takes.
    pub(crate) fn cost(&self) -> usize {
        self.elements().saturating_mul(self.effort())
    }
}

impl Op {
    /// A copy for tasks.
    pub(crate) fn moves(tasks: Range<usize>, of: Move) -> Op {
        Op { tasks, reads: vec![of.read()], writes: vec![of.written()], kind: Kind::Move(of), known: true }
    }

    /// Tasks that it stands for.
    pub(crate) fn task_count(&self) -> usize {
        match &self.kind {
            Kind::Map(map) => map.tasks,
            Kind::Move(_) | Kind::Tasks(_) => self.tasks.len(),
        }
    }

    /// What it does, in a word or two.
    pub(crate) fn class(&self) -> &'static str {
        match &self.kind {
            Kind::Move(_) => "copy",
            Kind::Map(map) => map.name(),
            Kind::Tasks(name) => name,
        }
    }

    /// The copy that the operation is.
    pub(crate) fn as_move(&self) -> Option<&Move> {
        match &self.kind {
            Kind::Move(of) => Some(of),
            Kind::Map(_) | Kind::Tasks(_) => None,
        }
    }

    /// Whether it may read some of what lies there.
    pub(crate) fn may_read(&self, of: &MemRef) -> bool {
        !self.known || self.reads.iter().any(|read| read.overlaps(of))
    }

    /// Whether it may write some of what lies there.
    pub(crate) fn may_write(&self, of: &MemRef) -> bool {
        !self.known || self.writes.iter().any(|written| written.overlaps(of))
    }

    /// Whether nothing is left there of what was before it.
    pub(crate) fn overwrites(&self, of: &MemRef) -> bool {
        let covers = |written: &MemRef| {
            let whole = written.axes.is_empty() && written.base_bytes <= of.base_bytes && of.end() <= written.end();
            written.exact && written.home == of.home && (written == of || whole)
        };
        self.known && self.writes.iter().any(covers)
    }
}
