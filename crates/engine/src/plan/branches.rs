//! Branches: consecutive short operations that fall into parts which do not read each other's results, such as the two directions of a
//! recurrent layer. Each branch runs on a thread of its own, which gains more than splitting each operation.
//!
//! Memory is reused, so that branches write to the same addresses. The first branch runs in the program's memory; each other one has a
//! memory of its own, of the same addresses, into which the boxes it reads are copied before, and from which the boxes that are
//! read after the branches are copied.

use super::common::Common;
use super::live::LiveBytes;
use super::moves::readers;
use super::ops::{Kind, Op};
use super::profile::Clock;
use super::schedule::Schedule;
use super::{Step, Work};
use crate::fault::Fault;
use crate::machine::ChainedResults;
use crate::memory::{Home, Memory, Region};
use crate::operand::MemRef;
use anemone_facts::Field;
use anemone_facts::code::residency;
use anemone_kernels::cost;
use anemone_kernels::par::{self, share};
use anemone_program::order;
use std::fmt;
use std::ops::Range;

/// Least predicted time that branches must save.
const SAVED_NANOS: usize = 20_000;

/// Predicted time of an operation besides the work on its elements.
const OP_NANOS: usize = 500;

/// Predicted time from which an operation is not taken into a branch, because all threads finish it sooner.
const LONG_NANOS: usize = 4 * cost::SHARED_NANOS;

/// Predicted time of handing parts of an operation to other threads.
const HANDOVER_NANOS: usize = 3_000;

/// Most rows of an operand, so that branches are found in little time.
const MOST_ROWS: u64 = 1 << 10;

/// Number of operations from the start of a run of short operations among which the first of the branches is sought: those
/// before it, whose results several branches read, are executed first.
const MOST_BEFORE: usize = 32;

/// Largest memory of a branch besides the program's.
const MOST_BYTES: u64 = 16 << 20;

/// Operations that are executed in branches.
pub(super) struct Fork {
    /// The operations, without a gap.
    pub(super) ops: Range<usize>,
    /// Those of the branch in the program's memory, ascending.
    first: Vec<usize>,
    others: Vec<Branch>,
    /// Predicted time saved.
    pub(super) saved_nanos: usize,
}

/// A branch in a memory of its own.
struct Branch {
    /// Its operations, ascending.
    ops: Vec<usize>,
    /// Boxes that it reads from the program's memory.
    inputs: Vec<MemRef>,
    /// Boxes that are read after the fork.
    results: Vec<MemRef>,
    common: Common,
    memory: Memory,
    tile: Region,
}

/// Forks of a plan's operations; none if they save too little for threads to be woken.
pub(super) fn find(common: &Common, steps: &[Step], ops: &[Op]) -> Vec<Fork> {
    let forks = forks(common, steps, ops, par::threads());
    let saved = forks.iter().map(|fork| fork.saved_nanos).sum::<usize>();
    if common.workers.awake || saved >= cost::AWAKE_NANOS / 4 { forks } else { Vec::new() }
}

/// Executes operations, those of forks in branches unless steps are timed. Returns the index of the first operation that was not executed
/// because `go_on` returned false.
pub(super) fn execute(
    schedule: &Schedule,
    ops: &[Op],
    forks: &mut [Fork],
    (memory, tile): (&mut Memory, &mut Region),
    go_on: &(dyn Fn() -> bool + Sync),
    clock: &mut Clock,
) -> Result<Option<usize>, Fault> {
    let mut chain = ChainedResults::default();
    let forks = if clock.times_steps() { &mut [] } else { forks };
    let mut forks = forks.iter_mut().peekable();
    let mut next = 0;
    while let Some(op) = ops.get(next) {
        if let Some(fork) = forks.next_if(|fork| fork.ops.start == next) {
            if let Some(stopped) = fork.run(schedule, ops, (memory, tile), go_on)? {
                return Ok(Some(stopped));
            }
            next = fork.ops.end;
            continue;
        }
        if !go_on() {
            return Ok(Some(next));
        }
        clock.step(|| schedule.run(op, memory, tile, &mut chain))?;
        next += 1;
    }
    Ok(None)
}

/// Copies boxes from one memory, with its tile memory, to the same addresses of another.
fn copy_boxes((memory, tile): (&mut Memory, &mut Region), from: (&Memory, &Region), boxes: &[MemRef]) {
    for of in boxes {
        let regions = match of.home {
            Home::Bar(bar) => memory.region_mut(bar).zip(from.0.region(bar)),
            Home::Tile => Some((&mut *tile, from.1)),
        };
        let Some((to, from)) = regions else { continue };
        for row in of.rows() {
            to.copy_from(from, row as usize..(row + of.row_bytes) as usize);
        }
    }
}

fn forks(common: &Common, steps: &[Step], ops: &[Op], threads: usize) -> Vec<Fork> {
    let mut forks = Vec::new();
    let mut start = 0;
    while threads > 1 && start < ops.len() {
        let short = ops[start..].iter().take_while(|op| nanos(op, steps, common).is_some()).count();
        let end = start + short;
        while start < end {
            let run = start..end;
            let Some((ops_of, branches, saved_nanos)) = divide(common, steps, ops, run, threads) else { break };
            start = ops_of.end;
            forks.extend(Fork::new(common, ops, ops_of, branches, saved_nanos));
        }
        start = end + 1;
    }
    forks
}

/// Predicted time of an operation that may be in a branch; `None` for any other, and for a long one.
fn nanos(op: &Op, steps: &[Step], common: &Common) -> Option<usize> {
    let exact = common.mac.is_some();
    let of_tasks = || {
        let steps = steps.get(op.tasks.clone())?;
        let is_alone = |step: &Step| {
            let chains = [Field::SrcType, Field::ResType].iter().any(|&of| step.fields.get(of) == residency::CHAIN);
            let computes = matches!(step.work, Work::Neural(_) | Work::Planar(_));
            computes && !chains && !step.reads_streams()
        };
        steps.iter().all(is_alone).then(|| steps.iter().map(|step| step.fields.nanos(exact)).sum())
    };
    let nanos = match &op.kind {
        Kind::Move(of) => cost::elementwise(of.cost()),
        Kind::Map(of) => cost::elementwise(of.ext.elements().ok()? * of.stages.len()),
        Kind::Product(of) if exact => cost::exact_products(of.macs() as usize),
        Kind::Product(of) => cost::products(of.macs() as usize),
        Kind::Gemv(_) | Kind::Reduction(_) | Kind::Task(_) | Kind::Placed(..) => of_tasks()?,
        Kind::Fused(_) | Kind::TaskBatch(_) => return None,
    };
    let rows = |of: &MemRef| of.axes.iter().map(|axis| axis.count).fold(1, u64::saturating_mul);
    let tracked = op.known && op.accesses().all(|of| of.exact && rows(of) <= MOST_ROWS);
    (tracked && nanos < LONG_NANOS).then_some(OP_NANOS + nanos)
}

/// A part of the run of short operations with its branches, and the predicted time saved; `None` if there is no part that is
/// worth dividing.
fn divide(
    common: &Common,
    steps: &[Step],
    ops: &[Op],
    run: Range<usize>,
    threads: usize,
) -> Option<(Range<usize>, Vec<Vec<usize>>, usize)> {
    let times: Vec<usize> = ops[run.clone()].iter().filter_map(|op| nanos(op, steps, common)).collect();
    if times.iter().sum::<usize>() < 2 * SAVED_NANOS {
        return None;
    }
    let writers = writers(&ops[run.clone()]);
    // Operations before `start` are executed before the branches, which may read their results.
    let mut best: Option<(Range<usize>, Vec<Vec<usize>>, usize)> = None;
    for start in 0..run.len().min(MOST_BEFORE) {
        if let Some((end, branches, saved)) = branches(&times, &writers, start, threads)
            && best.as_ref().is_none_or(|best| saved > best.2)
        {
            best = Some((start..end, branches, saved));
        }
    }
    let (part, mut branches, saved) = best?;
    for i in branches.iter_mut().flatten() {
        *i += run.start;
    }
    Some((run.start + part.start..run.start + part.end, branches, saved))
}

/// For every operation, those before it whose results it reads.
fn writers(ops: &[Op]) -> Vec<Vec<usize>> {
    let mut live: Vec<(usize, Home, LiveBytes)> = Vec::new();
    let mut writers = Vec::with_capacity(ops.len());
    for (i, op) in ops.iter().enumerate() {
        let mut of = Vec::new();
        for read in &op.reads {
            for (writer, home, bytes) in &live {
                if *home == read.home && bytes.meets(read) {
                    of.push(*writer);
                }
            }
        }
        writers.push(of);
        for (_, home, bytes) in &mut live {
            bytes.remove_all(*home, &op.writes);
        }
        live.retain(|(.., bytes)| !bytes.is_empty());
        for written in &op.writes {
            live.extend(LiveBytes::of(written).map(|bytes| (i, written.home, bytes)));
        }
    }
    writers
}

/// Sets of operations that depend on each other, with the time of each.
struct Sets {
    parent: Vec<usize>,
    nanos: Vec<usize>,
}

impl Sets {
    fn root(&mut self, mut i: usize) -> usize {
        while self.parent[i] != i {
            self.parent[i] = self.parent[self.parent[i]];
            i = self.parent[i];
        }
        i
    }
}

/// End of the longest part from `start` in which no operation joins two long sets, its branches, and the predicted time saved; `None` if less
/// than [`SAVED_NANOS`].
fn branches(
    times: &[usize],
    writers: &[Vec<usize>],
    start: usize,
    threads: usize,
) -> Option<(usize, Vec<Vec<usize>>, usize)> {
    let mut sets = Sets { parent: (0..times.len()).collect(), nanos: times.to_vec() };
    let mut end = start;
    while end < times.len() {
        let mut roots = Vec::new();
        let mut long = 0;
        for &i in &writers[end] {
            let root = sets.root(i);
            if i >= start && !roots.contains(&root) {
                long += usize::from(sets.nanos[root] >= SAVED_NANOS);
                roots.push(root);
            }
        }
        if long > 1 {
            break;
        }
        for root in roots {
            sets.parent[root] = end;
            sets.nanos[end] += sets.nanos[root];
        }
        end += 1;
    }
    let mut roots: Vec<usize> = (start..end).filter(|&i| sets.parent[i] == i).collect();
    // The longest set first, each to the branch that is shortest.
    order::by_key(&mut roots, |&root| std::cmp::Reverse(sets.nanos[root]));
    let mut totals = vec![0; threads];
    let mut branch_of = vec![0; end];
    for root in roots {
        let shortest = (0..threads).min_by_key(|&branch| totals[branch])?;
        totals[shortest] += sets.nanos[root];
        branch_of[root] = shortest;
    }
    let mut branches = vec![Vec::new(); threads];
    for i in start..end {
        branches[branch_of[sets.root(i)]].push(i);
    }
    branches.retain(|ops| !ops.is_empty());
    // Otherwise operations are executed one after another, the longer ones of them by all threads.
    let mut serial = 0;
    for &nanos in &times[start..end] {
        serial += if nanos < cost::SHARED_NANOS { nanos } else { nanos / threads + HANDOVER_NANOS };
    }
    let saved = serial.saturating_sub(*totals.iter().max()?);
    (saved >= SAVED_NANOS).then_some((end, branches, saved))
}

impl Fork {
    /// `None` if a later branch overwrites a part of a result, or a branch needs too large a memory.
    fn new(
        common: &Common,
        all: &[Op],
        ops: Range<usize>,
        branches: Vec<Vec<usize>>,
        saved_nanos: usize,
    ) -> Option<Fork> {
        let mut branches = branches.into_iter();
        let first = branches.next()?;
        let others = branches.map(|of| Branch::new(common, all, &ops, of)).collect::<Option<Vec<_>>>()?;
        Some(Fork { ops, first, others, saved_nanos })
    }

    /// Executes all branches. Returns the index of the first operation that was not executed because `go_on` returned false.
    pub(super) fn run(
        &mut self,
        schedule: &Schedule,
        ops: &[Op],
        (memory, tile): (&mut Memory, &mut Region),
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<usize>, Fault> {
        for branch in &mut self.others {
            copy_boxes((&mut branch.memory, &mut branch.tile), (&*memory, &*tile), &branch.inputs);
        }
        let mut first = Ok(None);
        let mut rest = vec![Ok(None); self.others.len()];
        let mut items = vec![(schedule.common, &self.first, &mut *memory, &mut *tile, &mut first)];
        let others = self.others.iter_mut().zip(&mut rest);
        items.extend(others.map(|(of, to)| (&of.common, &of.ops, &mut of.memory, &mut of.tile, to)));
        share(items, true, schedule.common.workers.awake, &|_, (common, indices, memory, tile, result)| {
            let schedule = Schedule { common, steps: schedule.steps };
            let mut chain = ChainedResults::default();
            for &i in indices {
                if !go_on() {
                    *result = Ok(Some(i));
                    return;
                }
                if let Err(fault) = schedule.run(&ops[i], memory, tile, &mut chain) {
                    *result = Err(fault);
                    return;
                }
            }
        });
        for branch in &mut self.others {
            copy_boxes((&mut *memory, &mut *tile), (&branch.memory, &branch.tile), &branch.results);
        }
        let mut stopped = first?;
        for branch in rest {
            if let Some(at) = branch? {
                stopped = Some(stopped.map_or(at, |stopped| stopped.min(at)));
            }
        }
        Ok(stopped)
    }
}

impl Branch {
    fn new(common: &Common, all: &[Op], fork: &Range<usize>, ops: Vec<usize>) -> Option<Branch> {
        let mut inputs: Vec<MemRef> = Vec::new();
        let mut results: Vec<MemRef> = Vec::new();
        let mut memory = Memory::new();
        let mut sizes: Vec<(Home, u64)> = Vec::new();
        for &i in &ops {
            let op = &all[i];
            for of in op.accesses() {
                match sizes.iter_mut().find(|(home, _)| *home == of.home) {
                    Some((_, bytes)) => *bytes = of.end().max(*bytes),
                    None => sizes.push((of.home, of.end())),
                }
            }
            for read in &op.reads {
                let is_own = ops.iter().any(|&j| j < i && all[j].overwrites(read));
                if !is_own && !inputs.contains(read) {
                    inputs.push(read.clone());
                }
            }
            let [written] = &op.writes[..] else { return None };
            let mut later = all[i + 1..fork.end].iter();
            let is_read = match common.is_own(written.home) {
                true => readers(all, i).any(|j| j >= fork.end),
                false => !later.clone().any(|op| op.overwrites(written)),
            };
            if is_read {
                if later.any(|op| op.may_write(written)) {
                    return None;
                }
                results.push(written.clone());
            }
        }
        if sizes.iter().map(|(_, bytes)| bytes).sum::<u64>() > MOST_BYTES {
            return None;
        }
        let mut tile = Region::unwritten("L2", 0);
        for (home, bytes) in sizes {
            match home {
                Home::Bar(bar) => memory.allocate(bar, bytes as usize),
                Home::Tile => tile = Region::unwritten("L2", bytes as usize),
            }
        }
        memory.set_trusted(true);
        tile.set_trusted(true);
        Some(Branch { ops, inputs, results, common: common.alike(), memory, tile })
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |of: &[MemRef]| of.iter().map(MemRef::bytes).sum::<u64>();
        write!(f, "operations {} to {}: {} of them", self.ops.start, self.ops.end - 1, self.first.len())?;
        for Branch { ops, inputs, results, .. } in &self.others {
            write!(f, ", beside {} from {} on ", ops.len(), ops.first().copied().unwrap_or(0))?;
            write!(f, "({} B copied before, {} B after)", bytes(inputs), bytes(results))?;
        }
        Ok(())
    }
}
