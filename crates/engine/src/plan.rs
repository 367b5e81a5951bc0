//! What is done once for a program: the chain decoded, every task checked and prepared for its runs.

use crate::constants::Constants;
use crate::fault::{Fault, FaultKind};
use crate::honours::{Treatment, executes, treatment};
use crate::machine::{Chain, Machine};
use crate::memory::{Memory, Region, Snapshot, Stamps};
use crate::native::Own;
use crate::ne::{Neural, put_in_blocks};
use crate::numerics::Parameters;
use crate::trace::TaskTrace;
use anemone_facts::code::{class, neural};
use anemone_facts::numerics::Model;
use anemone_facts::{Field, Layout, Space};
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::workers::{Workers, on_all_threads};
use anemone_program::{Direction, Port, Program, Task};

/// How strictly to execute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Pass over set fields that the engine does not obey, and over bits that no row explains. Results are then not
    /// to be trusted.
    pub lenient: bool,
    /// How to compute.
    pub model: Model,
    /// Look at the operands and results of every task, for [`Outcome::trace`].
    pub trace: bool,
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Tasks executed.
    pub tasks: usize,
    /// Faults that `lenient` skipped.
    pub skipped: Vec<Fault>,
    /// Output ports with elements that no task wrote.
    pub incomplete: Vec<String>,
    /// What each task did, where [`Options::trace`] asks for it.
    pub trace: Vec<TaskTrace>,
}

/// A program made ready to run any number of times.
///
/// Coefficients and tables that no task can change are taken from the program, once. Later runs do not look at the
/// kernel section that their memory binds, except where a task reads it as a tensor.
pub struct Plan {
    common: Common,
    trace: bool,
    steps: Vec<Step>,
    skipped: Vec<Fault>,
    /// What the program's own memory has: sizes by base register, and the sections that some task reads in every run.
    buffers: Vec<(u8, usize)>,
    sections: Vec<(u8, Vec<u8>)>,
    l2: Region,
    /// How many tasks are done together from each one on, in runs whose accesses are known.
    together: Vec<usize>,
    /// How many may be done as one from each one on, in such runs.
    fans: Vec<usize>,
    /// The last checked run that went well.
    seen: Option<Seen>,
    remarks: Vec<String>,
}

/// What a checked run found, and the last run left.
struct Seen {
    /// What was written before and after it.
    before: Snapshot,
    after: Snapshot,
    /// The memory that the last run left. On memory of the same stamps nothing is written or not that was not then.
    left: Stamps,
    incomplete: Vec<String>,
}

/// What all tasks have in common.
struct Common {
    layout: &'static Layout,
    mac: Option<&'static AccumulatorSpec>,
    model: Model,
    ports: Vec<Port>,
    workers: Workers,
}

impl Common {
    fn machine<'a>(
        &'a self,
        memory: &'a mut Memory,
        l2: &'a mut Region,
        chain: &'a mut Chain,
        task: &'a Task,
        fields: &'a Fields,
    ) -> Machine<'a> {
        let &Common { layout, mac, model, ref ports, ref workers } = self;
        Machine {
            layout,
            memory,
            constants: None,
            l2,
            chain,
            task,
            fields,
            workers,
            mac,
            model,
            depth: 0,
            source_depth: 0,
            ports,
        }
    }
}

/// One task, decoded.
pub(crate) struct Step {
    pub(crate) task: Task,
    pub(crate) fields: Fields,
    pub(crate) work: Work,
}

impl Step {
    /// Whether a run looks at what is bound to a base register for this task.
    fn names(&self, bar: u8) -> bool {
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

/// What the task's unit has to do.
pub(crate) enum Work {
    Neural(Box<Neural>),
    Planar,
    /// Not Apple's: a native layer in this project's own encoding.
    Own(Box<Own>),
    /// The descriptor says to skip it.
    Skipped,
}

/// Raw bits of every field, first element of arrays; 0 where the descriptor does not write the register.
pub(crate) struct Fields(Box<[u32; Field::COUNT]>);

impl Fields {
    fn of(layout: &Layout, task: &Task) -> Fields {
        let mut values = Box::new([0; Field::COUNT]);
        for row in layout.rows {
            values[row.field as usize] = task.get(layout, row.field).unwrap_or(0);
        }
        Fields(values)
    }

    pub(crate) fn get(&self, field: Field) -> u32 {
        self.0[field as usize]
    }

    /// About as many multiplications as the task asks for, or elements that it writes.
    fn operations(&self) -> u64 {
        let product = |of: &[Field]| of.iter().map(|&f| u64::from(self.get(f)).max(1)).fold(1, u64::saturating_mul);
        let channels = if self.get(Field::UnicastEn) == 1 { Field::UnicastCin } else { Field::Cin };
        let convolved = self.get(Field::TaskClass) == class::NEURAL && self.get(Field::NeOpMode) == neural::MAC;
        let taps = if convolved { product(&[channels, Field::Kh, Field::Kw]) } else { 1 };
        product(&[Field::NumGroups, Field::Cout, Field::Hout, Field::Wout, Field::Dout]).saturating_mul(taps)
    }
}

/// Operations that make it worth waking the other threads for a whole run.
const HEAVY: u64 = 1 << 23;

/// Executes a program against bound memory, once. Outputs are in their regions afterwards.
pub fn run(program: &Program, memory: &mut Memory, options: Options) -> Result<Outcome, Fault> {
    Plan::new(program, options)?.run(memory)
}

impl Plan {
    /// Decodes and checks every task. Faults that depend on the memory bound come with [`Plan::run`].
    pub fn new(program: &Program, options: Options) -> Result<Plan, Fault> {
        let layout = program.layout;
        if !executes(layout) {
            let kind = FaultKind::Generation { generation: layout.generation };
            return Err(Fault { task: None, offset: 0, kind });
        }
        let tasks = program.tasks().map_err(|e| Fault { task: None, offset: 0, kind: e.into() })?;
        let model = options.model;
        let mut common =
            Common { layout, mac: model.accumulator(), model, ports: program.ports.clone(), workers: Workers::new() };
        let mut skipped = Vec::new();
        let mut constants = Constants::of(program, &tasks);
        let mut steps = Vec::with_capacity(tasks.len());
        let (mut nothing, mut nowhere, mut chain) = (Memory::new(), Region::unwritten("L2", 0), Chain::default());
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
            let work = machine.prepare(&mut constants).map_err(fault)?;
            steps.push(Step { task, fields, work });
        }
        let scratch = (program.scratch_bytes > 0).then_some((Program::SCRATCH_BAR, program.scratch_bytes as usize));
        let buffers = scratch.into_iter().chain(program.ports.iter().map(|p| (p.bar, p.bytes as usize))).collect();
        let sections = [(Program::STREAM_BAR, &program.stream), (Program::KERNEL_BAR, &program.kernel)];
        // A trace looks at coefficients, and the exact models read tables in every run.
        let all = options.trace || options.model.rounding().is_some();
        let sections = sections.into_iter().filter(|&(bar, _)| all || steps.iter().any(|s: &Step| s.names(bar)));
        let sections = sections.map(|(bar, bytes)| (bar, bytes.clone())).collect();
        let l2 = Region::unwritten("L2", tile_memory_bytes(layout));
        let operations = steps.iter().map(|step| step.fields.operations()).fold(0, u64::saturating_add);
        common.workers.awake = operations >= HEAVY;
        let together = steps.first().filter(|_| !options.trace).map(|first| {
            common.machine(&mut nothing, &mut nowhere, &mut chain, &first.task, &first.fields).together(&steps)
        });
        let together = together.unwrap_or_default();
        let remarks = constants.remarks();
        // What one task alone has is put in blocks in place.
        drop(constants);
        put_in_blocks(&mut steps, &together, options.model.accumulator());
        let fans = steps.first().filter(|_| !options.trace).map(|first| {
            common.machine(&mut nothing, &mut nowhere, &mut chain, &first.task, &first.fields).fans(&steps)
        });
        let fans = fans.unwrap_or_default();
        let trace = options.trace;
        Ok(Plan { common, trace, steps, skipped, buffers, sections, l2, together, fans, seen: None, remarks })
    }

    /// Memory for this plan: as [`Memory::for_program`], without the sections of the program that no run reads.
    pub fn memory(&self) -> Memory {
        let mut memory = Memory::new();
        self.sections.iter().for_each(|(bar, bytes)| memory.bind(*bar, bytes));
        self.buffers.iter().for_each(|&(bar, bytes)| memory.allocate(bar, bytes));
        memory
    }

    /// Executes the program against bound memory. Outputs are in their regions afterwards.
    ///
    /// The first run checks every row that it reads or writes. Which rows those are does not depend on data, so later
    /// runs on memory of the same sizes, with no less written before, check sizes alone. They may leave out of the program's
    /// own memory what one task writes for the next one.
    pub fn run(&mut self, memory: &mut Memory) -> Result<Outcome, Fault> {
        self.run_while(memory, &|| true)
    }

    /// What makes the plan slower than it could be, one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Tasks of the program.
    pub fn tasks(&self) -> usize {
        self.steps.len()
    }

    /// As [`Plan::run`], but asks before every task whether to go on. A run that was stopped says so by its number of tasks;
    /// what it wrote is not to be used.
    pub fn run_while(&mut self, memory: &mut Memory, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Outcome, Fault> {
        let unchanged = self.seen.as_ref().is_some_and(|seen| memory.stamps() == seen.left);
        let known = unchanged || self.seen.as_ref().is_some_and(|seen| memory.covers(&seen.before));
        let before = (!known).then(|| memory.snapshot());
        if !unchanged {
            // Whatever comes of this run, earlier ones know these regions no longer.
            memory.restamp();
        }
        if !known {
            self.seen = None;
            // A run that is trusted asks nobody what is written.
            self.l2.forget();
        }
        self.l2.trust(known);
        memory.trust(known);
        let done = match self.common.workers.awake {
            true => on_all_threads(|| self.execute(memory, go_on)),
            false => self.execute(memory, go_on),
        };
        memory.trust(false);
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

    fn execute(
        &mut self,
        memory: &mut Memory,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(usize, Vec<TaskTrace>), Fault> {
        let mut trace = Vec::new();
        let mut chain = Chain::default();
        let known = self.l2.is_trusted();
        let mut index = 0;
        while let Some(step) = self.steps.get(index) {
            if !go_on() {
                return Ok((index, trace));
            }
            let mut machine = self.common.machine(memory, &mut self.l2, &mut chain, &step.task, &step.fields);
            let fault = |kind| Fault { task: Some(index), offset: step.task.offset, kind };
            let count = self.together.get(index).copied().unwrap_or(1);
            if known && count > 1 {
                let done = machine.at_once(&self.steps[index..], count).map_err(fault)?;
                if done > 0 {
                    index += done;
                    continue;
                }
            }
            let fan = self.fans.get(index).copied().unwrap_or(1);
            if known && fan > 1 && machine.fan(&self.steps[index..][..fan]).map_err(fault)? {
                index += fan;
                continue;
            }
            let done = match self.trace {
                true => machine.execute_traced(&step.work).map(|task| trace.push(task)),
                false => machine.execute(&step.work),
            };
            done.map_err(fault)?;
            index += 1;
        }
        Ok((self.steps.len(), trace))
    }
}

/// What the address field of a source in tile memory can reach.
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

/// Fields with a value the engine does not obey, and bits that no row explains.
fn check_fields(layout: &'static Layout, task: &Task) -> Vec<FaultKind> {
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
    fn prepare(&self, constants: &mut Constants) -> Result<Work, FaultKind> {
        if self.get(Field::TdSkip) == 1 {
            return Ok(Work::Skipped);
        }
        if self.is_own() {
            return Ok(Work::Own(Box::new(self.prepare_own()?)));
        }
        self.check_depth()?;
        match self.get(Field::TaskClass) {
            class::NEURAL => Ok(Work::Neural(Box::new(self.prepare_neural(constants)?))),
            class::PLANAR_ONE
            | class::PLANAR_TWO
            | class::PLANAR_AFFINE
            | class::PLANAR_REDUCE
            | class::PLANAR_REDUCE_TWO => Ok(Work::Planar),
            value => Err(FaultKind::NotHonoured {
                field: Field::TaskClass,
                value,
                reason: "no sample has a task of this class",
            }),
        }
    }
}
