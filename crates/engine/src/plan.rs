//! Plans: a program is decoded once, and its tasks are checked, lifted to host operations, and optimized.

mod access;
mod aside;
mod blocks;
mod branches;
mod common;
pub(crate) mod commute;
pub(crate) mod dense;
mod epilogues;
mod factors;
mod foresee;
mod gemv;
mod inverted;
pub(crate) mod lift;
pub(crate) mod live;
pub(crate) mod maps;
pub(crate) mod moves;
pub(crate) mod ops;
mod pair;
mod place;
pub(crate) mod product;
mod profile;
mod reduction;
mod resolution;
mod schedule;
pub(crate) mod slices;
mod step;
mod task_batch;
mod text;
mod trace;

pub use profile::{Profile, StepTime};
pub use resolution::Sums;
use step::check_fields;
pub(crate) use step::{Step, Work};
pub use text::PassText;
pub use trace::{Moved, Operand, Site, TaskTrace, Values};

use crate::constants::Constants;
use crate::fault::{Fault, FaultKind};
use crate::field_support::executes;
use crate::fields::Fields;
use crate::machine::{ChainedResults, Machine};
use crate::memory::{Home, Memory, Region, Snapshot, Stamps};
use crate::numerics::Parameters;
use access::Accesses;
use anemone_facts::numerics::Model;
use anemone_facts::{Field, Layout};
use anemone_kernels::workers::{Workers, on_all_threads};
use anemone_program::{Direction, Port, Program};
use branches::Fork;
use bytes::Bytes;
use common::{Common, is_worth_waking};
use lift::Group;
use ops::{Kind, Op};
use pair::{Fused, repack_fused, repack_ops};
use profile::Clock;
use schedule::Schedule;
use std::time::Instant;
use task_batch::TaskBatch;

/// Options of a plan: strictness, number model, tracing, optimization level.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Skip set fields that the engine does not obey, and bits that no row explains. Results are then
    /// unreliable.
    pub lenient: bool,
    /// Number model.
    pub model: Model,
    /// Trace operands and results of every task, for [`Outcome::trace`].
    pub trace: bool,
    /// Optimization level.
    pub level: Level,
}

/// Optimization level of a plan. Results have the same bits at either level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Host operations, fused and rearranged.
    #[default]
    Optimized,
    /// Task after task, in the program's order.
    Unoptimized,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Tasks executed.
    pub tasks: usize,
    /// Faults that `lenient` skipped.
    pub skipped: Vec<Fault>,
    /// Output ports with elements that no task wrote.
    pub incomplete: Vec<String>,
    /// Trace of each task, if [`Options::trace`] is set; otherwise empty.
    pub trace: Vec<TaskTrace>,
}

/// An executable plan of a program, for any number of runs.
///
/// Coefficients and tables that no task can change are read from the program once. Runs do not read the kernel section of
/// the bound memory, unless a task reads it as a tensor.
pub struct Plan {
    common: Common,
    trace: bool,
    steps: Vec<Step>,
    skipped: Vec<Fault>,
    /// Layout of [`Plan::memory`]: bytes to allocate by base register, and the sections that tasks read in every run.
    buffers: Vec<(u8, usize)>,
    sections: Vec<(u8, Bytes)>,
    l2: Region,
    /// End of what operations access of tile memory, and behind it.
    tile_bytes: usize,
    /// Fused group that starts at each task, for runs with known accesses. Empty if there is none.
    together: Vec<Option<Fused>>,
    /// Batch that starts at each task, for such runs.
    fans: Vec<Option<TaskBatch>>,
    /// Memory accesses of each task, in task order; `None` if unknown. Empty if tasks are executed one by one.
    accesses: Vec<Option<Accesses>>,
    /// Operations for runs with known accesses. Empty if tasks are executed one by one.
    ops: Vec<Op>,
    /// Operations among them that run in branches, in order.
    forks: Vec<Fork>,
    /// Written state around a valid run, from the static check or from an earlier run.
    seen: Option<Seen>,
    remarks: Vec<String>,
}

/// Written state around a run whose accesses are valid, and the state that the last run left.
struct Seen {
    /// Written state before and after the run.
    before: Snapshot,
    after: Snapshot,
    /// Stamps of memory after the last run. Equal stamps imply an equal written state.
    left: Stamps,
    incomplete: Vec<String>,
}

/// Executes a program once against bound memory. Outputs are in their regions afterwards.
pub fn run(program: &Program, memory: &mut Memory, options: Options) -> Result<Outcome, Fault> {
    Plan::new(program, options)?.run(memory)
}

/// A pass over the operations of a plan.
struct Pass {
    name: &'static str,
    run: fn(&Common, &[Step], &mut Vec<Op>),
}

/// Passes in execution order.
const PASSES: &[Pass] = &[
    Pass { name: "moves", run: |common, _, ops| moves::run(ops, |home| common.is_own(home)) },
    Pass { name: "products", run: |common, _, ops| product::run(ops, |home| common.is_own(home)) },
    Pass { name: "maps", run: |common, _, ops| maps::run(ops, |home| common.is_own(home)) },
    Pass { name: "slices", run: |common, _, ops| slices::run(ops, |home| common.is_own(home)) },
    Pass { name: "blocks", run: |common, _, ops| blocks::run(ops, |home| common.is_own(home)) },
    Pass { name: "commute", run: |common, _, ops| commute::run(ops, |home| common.is_own(home)) },
    Pass { name: "dense", run: |common, steps, ops| dense::run(ops, steps, |home| common.is_own(home)) },
    Pass { name: "tables", run: |common, _, ops| maps::tables(ops, &common.workers) },
    Pass {
        name: "epilogues",
        run: |common, steps, ops| {
            epilogues::run(ops, steps, tile_memory_bytes(common.layout), |home| common.is_own(home))
        },
    },
    Pass { name: "factors", run: |common, steps, ops| factors::run(ops, steps, |home| common.is_own(home)) },
    Pass { name: "inverted", run: inverted::run },
    Pass { name: "join", run: |_, _, ops| maps::join(ops) },
];

impl Plan {
    /// Decodes and checks every task. Faults that depend on bound memory are reported by [`Plan::run`].
    pub fn new(program: &Program, options: Options) -> Result<Plan, Fault> {
        Plan::observed(program, options, &mut |_| {})
    }

    /// [`Plan::new`] with an observer: `packed` is called with the number of coefficient bytes of each task once they are packed. They are not
    /// read again for that task, so that their pages may be released meanwhile.
    pub fn observed(program: &Program, options: Options, packed: &mut dyn FnMut(usize)) -> Result<Plan, Fault> {
        let layout = program.layout;
        if !executes(layout) {
            let kind = FaultKind::Generation { generation: layout.generation };
            return Err(Fault { task: None, offset: 0, kind });
        }
        let tasks = program.tasks().map_err(|e| Fault { task: None, offset: 0, kind: e.into() })?;
        let model = options.model;
        let mut common =
            Common { layout, mac: model.accumulator(), model, ports: program.ports.clone(), workers: Workers::new() };
        common.workers.awake = is_worth_waking(layout, &tasks, model);
        let mut skipped = Vec::new();
        let mut constants = Constants::of(program, &tasks, !options.trace);
        let mut steps = Vec::with_capacity(tasks.len());
        let (mut nothing, mut nowhere, mut chain) =
            (Memory::new(), Region::unwritten("L2", 0), ChainedResults::default());
        for (index, task) in tasks.into_iter().enumerate() {
            let offset = task.offset;
            let fault = |kind| Fault { task: Some(index), offset, kind };
            let strays = check_fields(layout, &task);
            if options.lenient {
                skipped.extend(strays.into_iter().map(fault));
            } else if let Some(kind) = strays.into_iter().next() {
                return Err(fault(kind));
            }
            let fields = Fields::of(layout, &task);
            let machine = common.machine(&mut nothing, &mut nowhere, &mut chain, &task, &fields);
            let machine = Machine { constants: Some(constants.bytes), ..machine };
            let before = constants.kept_bytes();
            let work = machine.prepare(&mut constants).map_err(fault)?;
            packed(constants.kept_bytes() - before);
            steps.push(Step { task, fields, work });
        }
        let scratch = (program.scratch_bytes > 0).then_some((Program::SCRATCH_BAR, program.scratch_bytes as usize));
        let buffers = scratch.into_iter().chain(program.ports.iter().map(|p| (p.bar, p.bytes as usize))).collect();
        let stream = Bytes::copy_from_slice(&program.stream);
        let sections = [(Program::STREAM_BAR, stream), (Program::KERNEL_BAR, program.kernel.clone())];
        // A trace needs coefficients, and the exact models read tables in every run.
        let all = options.trace || options.model.rounding().is_some();
        let read = |bar| all || steps.iter().any(|s: &Step| s.names(bar));
        let sections = sections.into_iter().filter(|&(bar, _)| read(bar)).collect();
        let l2 = Region::unwritten("L2", tile_memory_bytes(layout));
        let whole = options.level == Level::Optimized && !options.trace;
        let accesses: Vec<Option<Accesses>> = match whole {
            true => steps.iter().map(|step| common.accesses_of(step)).collect(),
            false => Vec::new(),
        };
        let together = steps.first().filter(|_| whole).map(|first| {
            let mut machine = common.machine(&mut nothing, &mut nowhere, &mut chain, &first.task, &first.fields);
            machine.fusion_groups(&steps, &accesses)
        });
        let together = together.unwrap_or_default();
        let remarks = constants.remarks();
        // Coefficients of a single task are then repacked without a copy.
        drop(constants);
        repack_fused(&mut steps, &together, options.model.accumulator());
        let fans = steps.first().filter(|_| whole).map(|first| {
            common.machine(&mut nothing, &mut nowhere, &mut chain, &first.task, &first.fields).task_batches(&steps)
        });
        let fans = fans.unwrap_or_default();
        for step in &mut steps {
            if let Work::Neural(neural) = &mut step.work {
                neural.select(common.mac, step.fields.get(Field::NeTranspose) == 1);
            }
        }
        let trace = options.trace;
        let ops = Vec::new();
        let mut plan = Plan {
            common,
            trace,
            steps,
            skipped,
            buffers,
            sections,
            l2,
            tile_bytes: 0,
            together,
            fans,
            accesses,
            ops,
            forks: Vec::new(),
            seen: None,
            remarks,
        };
        if whole {
            plan.ops = plan.lifted();
            for pass in PASSES {
                (pass.run)(&plan.common, &plan.steps, &mut plan.ops);
            }
            let accesses = plan.ops.iter().flat_map(Op::accesses);
            plan.tile_bytes =
                accesses.filter(|of| of.home == Home::Tile).map(|of| of.end() as usize).max().unwrap_or(0);
            repack_ops(&mut plan.steps, &plan.ops);
            plan.forks = branches::find(&plan.common, &plan.steps, &plan.ops);
            plan.common.workers.awake |= !plan.forks.is_empty();
        }
        Ok(plan)
    }

    /// Calls `look` with the machine of every task, in task order, without bound memory.
    fn each_task<T>(&self, look: impl Fn(&Machine, &Step) -> T) -> Vec<T> {
        let (mut nothing, mut nowhere, mut chain) =
            (Memory::new(), Region::unwritten("L2", 0), ChainedResults::default());
        let steps = self.steps.iter().map(|step| {
            look(&self.common.machine(&mut nothing, &mut nowhere, &mut chain, &step.task, &step.fields), step)
        });
        steps.collect()
    }

    /// Operations after lifting, before any pass.
    fn lifted(&self) -> Vec<Op> {
        let lifted = self.each_task(|machine, step| machine.lifted(step));
        let own = |home| self.common.is_own(home);
        lift::lift(&self.steps, lifted, &self.accesses, own, |i| match (self.together.get(i), self.fans.get(i)) {
            (Some(Some(of)), _) => Group::Fused(Box::new(of.clone())),
            (_, Some(Some(of))) => Group::TaskBatch(Box::new(of.clone())),
            _ => Group::Single,
        })
    }

    /// Kernel selected for every operation, one line each, with the reasons for rejections.
    pub fn selection(&self) -> String {
        let rejected = self.each_task(|machine, step| match &step.work {
            Work::Planar(_) => machine.planar_kernel().1,
            Work::Neural(neural) => {
                neural.operands.as_ref().err().map(|why| ("memory to memory", *why)).into_iter().collect()
            }
            _ => Vec::new(),
        });
        text::selection(&self.ops, &self.steps, self.common.mac, &rejected)
    }

    /// Text of the operations before the first pass, and after each one.
    pub fn passes(&self) -> Vec<PassText> {
        let mut ops = self.lifted();
        let tasks = self.steps.len();
        let mut texts = vec![PassText { name: "lift", text: text::listing(&ops, tasks) }];
        for pass in PASSES {
            (pass.run)(&self.common, &self.steps, &mut ops);
            texts.push(PassText { name: pass.name, text: text::listing(&ops, tasks) });
        }
        texts
    }

    /// Operations that run in branches on different threads: one line for each fork. It depends on the number of threads.
    pub fn branches(&self) -> String {
        self.forks.iter().map(|fork| format!("{fork}\n")).collect()
    }

    /// Memory for this plan: [`Memory::for_program`] without the sections of the program that no run reads.
    pub fn memory(&self) -> Memory {
        let mut memory = Memory::new();
        self.sections.iter().for_each(|(bar, bytes)| memory.share(*bar, bytes));
        self.buffers.iter().for_each(|&(bar, bytes)| memory.allocate(bar, bytes));
        memory
    }

    /// Executes the program against bound memory. Outputs are in their regions afterwards.
    ///
    /// Memory accesses do not depend on data: they are checked before a run, from the fields of all tasks. If that check fails, or
    /// tasks are executed one by one, the first run checks every row. Later runs on memory of the same sizes, with at least as
    /// much written before, check sizes alone. Optimized runs may omit intermediate results from the program's own memory.
    pub fn run(&mut self, memory: &mut Memory) -> Result<Outcome, Fault> {
        self.run_while(memory, &|| true)
    }

    /// Remarks on avoidable costs of the plan, one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Number of tasks of the program.
    pub fn tasks(&self) -> usize {
        self.steps.len()
    }

    /// [`Plan::run`] with cancellation: calls `go_on` before every task. The outcome of a cancelled run has fewer tasks than the program, and
    /// its memory contents must not be used.
    pub fn run_while(&mut self, memory: &mut Memory, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Outcome, Fault> {
        self.run_timed(memory, go_on, &mut Clock::default())
    }

    fn run_timed(
        &mut self,
        memory: &mut Memory,
        go_on: &(dyn Fn() -> bool + Sync),
        clock: &mut Clock,
    ) -> Result<Outcome, Fault> {
        let unchanged = self.seen.as_ref().is_some_and(|seen| memory.stamps() == seen.left);
        let mut known = unchanged || self.seen.as_ref().is_some_and(|seen| memory.covers(&seen.before));
        if !known && let Some((before, after)) = self.foreseen(memory) {
            self.seen = Some(Seen { before, after, left: memory.stamps(), incomplete: Vec::new() });
            known = true;
        }
        let before = (!known).then(|| memory.snapshot());
        if !unchanged {
            // Invalidates what earlier runs know of these regions, whatever the result of this one.
            memory.restamp();
        }
        if !known {
            self.seen = None;
            // A trusted run does not test what is written.
            self.l2.forget();
        }
        self.l2.set_trusted(known);
        memory.set_trusted(known);
        // Scratch memory is the program's own only if nothing was written to it before the run.
        let own = known && self.seen.as_ref().is_some_and(|seen| seen.before.is_blank(Program::SCRATCH_BAR));
        let optimized = own && !self.ops.is_empty();
        self.l2.resize(tile_memory_bytes(self.common.layout).max(if optimized { self.tile_bytes } else { 0 }));
        let awake = self.common.workers.awake;
        let mut done = Ok((0, Vec::new()));
        let mut work = || match optimized {
            true => done = self.execute_ops(memory, go_on, clock).map(|tasks| (tasks, Vec::new())),
            false => done = self.execute(memory, go_on),
        };
        on_all_threads(awake, &mut work);
        memory.set_trusted(false);
        let (tasks, trace) = done?;
        if tasks < self.steps.len() {
            return Ok(Outcome { tasks, skipped: Vec::new(), incomplete: Vec::new(), trace });
        }
        if let (Some(seen), false) = (&self.seen, unchanged) {
            memory.mark(&seen.after);
        }
        if let (Some(seen), true) = (&self.seen, unchanged) {
            let incomplete = seen.incomplete.clone();
            return Ok(Outcome { tasks, skipped: self.skipped.clone(), incomplete, trace });
        }
        let outputs = self.common.ports.iter().filter(|p| p.direction == Direction::Output);
        let incomplete: Vec<String> = outputs.filter(|p| !port_written(memory, p)).map(|p| p.name.clone()).collect();
        let left = memory.restamp();
        match (before, &mut self.seen) {
            (Some(before), seen) => {
                *seen = Some(Seen { before, after: memory.snapshot(), left, incomplete: incomplete.clone() });
            }
            (None, Some(seen)) => (seen.left, seen.incomplete) = (left, incomplete.clone()),
            (None, None) => {}
        }
        Ok(Outcome { tasks, skipped: self.skipped.clone(), incomplete, trace })
    }

    /// Runs `runs` + 1 times and times the steps of all runs but the first. No steps if tasks are executed one by one.
    pub fn profile(&mut self, memory: &mut Memory, runs: usize) -> Result<Profile, Fault> {
        self.run(memory)?;
        let macs = |op: &Op| match &op.kind {
            Kind::Product(product) => product.macs(),
            _ => self.steps.get(op.tasks.clone()).unwrap_or(&[]).iter().map(|s| s.fields.macs()).sum(),
        };
        let mut profile = Profile::of(&self.ops, macs);
        for _ in 0..runs.max(1) {
            let mut clock = Clock::of_steps(self.ops.len());
            let start = Instant::now();
            self.run_timed(memory, &|| true, &mut clock)?;
            profile.add(start.elapsed().as_nanos() as u64, clock);
        }
        Ok(profile)
    }

    /// Written state before and after a run; `None` unless its accesses are known to be valid.
    fn foreseen(&self, memory: &Memory) -> Option<(Snapshot, Snapshot)> {
        let tile_bytes = tile_memory_bytes(self.common.layout);
        (!self.ops.is_empty()).then(|| foresee::foresee(&self.accesses, memory, tile_bytes)).flatten()
    }

    /// Executes the operations of a run with known accesses. Returns the number of tasks done.
    fn execute_ops(
        &mut self,
        memory: &mut Memory,
        go_on: &(dyn Fn() -> bool + Sync),
        clock: &mut Clock,
    ) -> Result<usize, Fault> {
        let Plan { common, steps, l2, ops, forks, .. } = self;
        let schedule = Schedule { common, steps };
        let stopped = branches::execute(&schedule, ops, forks, (memory, l2), go_on, clock)?;
        Ok(stopped.map_or(steps.len(), |op| ops[op].tasks.start))
    }

    fn execute(
        &mut self,
        memory: &mut Memory,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(usize, Vec<TaskTrace>), Fault> {
        let mut trace = Vec::new();
        let mut chain = ChainedResults::default();
        for (index, step) in self.steps.iter().enumerate() {
            if !go_on() {
                return Ok((index, trace));
            }
            let mut machine = self.common.machine(memory, &mut self.l2, &mut chain, &step.task, &step.fields);
            let fault = |kind| Fault { task: Some(index), offset: step.task.offset, kind };
            let done = match self.trace {
                true => machine.execute_traced(&step.work).map(|task| trace.push(task)),
                false => machine.execute(&step.work),
            };
            done.map_err(fault)?;
        }
        Ok((self.steps.len(), trace))
    }
}

/// Bytes of tile memory that the address field of a source can address.
fn tile_memory_bytes(layout: &Layout) -> usize {
    layout.row(Field::SrcL2Base).map_or(0, |row| (row.max() as usize + 1) << row.lo)
}

fn port_written(memory: &Memory, port: &Port) -> bool {
    let Some(region) = memory.region(port.bar) else { return false };
    let (s, row) = (port.strides, port.shape.w as u64 * port.element.bytes());
    (0..port.shape.n as u64).all(|n| {
        (0..port.shape.c as u64).all(|c| {
            (0..port.shape.h as u64)
                .all(|h| region.is_written(n * s.batch_bytes + c * s.plane_bytes + h * s.row_bytes, row))
        })
    })
}
