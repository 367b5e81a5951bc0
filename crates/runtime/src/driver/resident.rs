//! A resident program: state that is loaded once, and the executors that run it.

use crate::clock::Stages;
use crate::driver::Arithmetic;
use crate::driver::task::lock;
use crate::error::Code;
use crate::firmware::counters::{self, Counts};
use crate::os::shared::Shared;
use anemone_engine::{Memory, Options, Plan};
use anemone_facts::Field;
use anemone_facts::chips::CHIPS;
use anemone_program::{Direction, Port, Program, Task, cost};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Bytes of kernel data that an adapter replaces: offset, content.
pub type Patch = (u64, Vec<u8>);

/// Translated memory of a port: physical pieces for its device address.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// Surface.
    pub memory: Arc<Shared>,
    /// Pieces: byte offset in the port, byte offset in the surface, bytes.
    pub pieces: Vec<(u64, u64, u64)>,
}

impl Route {
    fn read(&self, to: &mut [u8]) {
        for &(at, from, bytes) in &self.pieces {
            if let Some(slot) = to.get_mut(at as usize..(at + bytes) as usize) {
                self.memory.read_at(from as usize, slot);
            }
        }
    }

    fn write(&self, from: &[u8]) {
        for &(at, to, bytes) in &self.pieces {
            if let Some(slot) = from.get(at as usize..(at + bytes) as usize) {
                self.memory.write_at(to as usize, slot);
            }
        }
    }
}

/// Executors kept for later runs: one for the command in flight and one for a preempting command.
const KEPT: usize = 2;
/// Largest size of the buffers of one program in bytes.
const MAX_BUFFER_BYTES: u64 = 1 << 32;

struct Executor {
    plan: Plan,
    memory: Memory,
    /// Number of the resident's expansions in memory, including this one.
    live: Arc<AtomicU64>,
    /// Number of memory releases before it was created.
    given_back: u64,
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Modelled stages of a program's dispatch on the first chip of its generation.
pub fn modelled(program: &Program) -> Option<Stages> {
    let chip = CHIPS.iter().find(|chip| chip.layout.is_some_and(|l| l.generation == program.layout.generation))?;
    cost::of_program(program, chip).as_ref().map(Stages::of)
}

/// A program with its executors, which are created on demand.
pub struct Resident {
    program: Arc<Program>,
    patches: Vec<Patch>,
    options: Options,
    idle: Mutex<Vec<Executor>>,
    /// Number of expansions in memory, including running ones.
    live: Arc<AtomicU64>,
    /// Number of times that their memory was released.
    given_back: AtomicU64,
    expansions: AtomicU64,
    /// Counters of one run, by task.
    counted: OnceLock<Vec<Counts>>,
    /// Modelled stages of a dispatch.
    stages: OnceLock<Option<Stages>>,
    /// Number of completed runs.
    runs: AtomicU64,
}

impl std::fmt::Debug for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resident({})", self.program.name)
    }
}

impl Resident {
    /// A runnable program. Refused if its buffers are too large.
    pub fn new(program: Arc<Program>, patches: Vec<Patch>, arithmetic: Arithmetic) -> Result<Resident, Code> {
        let all = program.ports.iter().fold(program.scratch_bytes, |all, p| all.saturating_add(p.bytes));
        let fits = |(at, bytes): &Patch| {
            at.checked_add(bytes.len() as u64).is_some_and(|end| end <= program.kernel.len() as u64)
        };
        if all > MAX_BUFFER_BYTES {
            return Err(Code::NO_MEMORY);
        }
        if !patches.iter().all(fits) {
            return Err(Code::BAD_ARGUMENT);
        }
        let options = arithmetic.options(&program)?;
        Ok(Resident {
            program,
            patches,
            options,
            idle: Mutex::default(),
            live: Arc::default(),
            given_back: AtomicU64::new(0),
            expansions: AtomicU64::new(0),
            counted: OnceLock::new(),
            stages: OnceLock::new(),
            runs: AtomicU64::new(0),
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Bytes of this resident in addition to the program.
    pub fn own_bytes(&self) -> usize {
        self.patches.iter().map(|p| p.1.len()).sum()
    }

    /// Number of times the program was expanded for a run: one, unless runs overlap.
    pub fn expansions(&self) -> u64 {
        self.expansions.load(Ordering::Relaxed)
    }

    /// Records a completed run, and adds its counters to `all`.
    pub(crate) fn ran(&self, all: &mut Counts) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.of_one_run().iter().for_each(|task| counters::add(all, task, 1));
    }

    fn of_one_run(&self) -> &[Counts] {
        self.counted.get_or_init(|| counters::of_program(&self.program))
    }

    /// Modelled stages of a dispatch, if rates of its generation are known.
    pub(crate) fn stages(&self) -> Option<Stages> {
        *self.stages.get_or_init(|| modelled(&self.program))
    }

    /// Counters of each task, over all completed runs.
    pub fn counters(&self) -> Vec<Counts> {
        let runs = self.runs.load(Ordering::Relaxed);
        let mut all = vec![Counts::default(); self.of_one_run().len()];
        all.iter_mut().zip(self.of_one_run()).for_each(|(sum, run)| counters::add(sum, run, runs));
        all
    }

    /// Ports of a direction, in order.
    pub fn ports(&self, direction: Direction) -> impl Iterator<Item = &Port> {
        self.program.ports_of(direction)
    }

    fn take(&self) -> Result<Executor, Code> {
        if let Some(executor) = lock(&self.idle).pop() {
            return Ok(executor);
        }
        self.expansions.fetch_add(1, Ordering::Relaxed);
        let plan = if self.patches.is_empty() {
            Plan::new(&self.program, self.options)
        } else {
            let mut program = (*self.program).clone();
            program.edit_kernel(|kernel| {
                for (at, bytes) in &self.patches {
                    if let Some(slot) = kernel.get_mut(*at as usize..*at as usize + bytes.len()) {
                        slot.copy_from_slice(bytes);
                    }
                }
            });
            Plan::new(&program, self.options)
        };
        let plan = plan.map_err(|fault| {
            tracing::warn!(%fault, "a program that the engine refuses");
            Code::ERROR
        })?;
        let memory = plan.memory();
        self.live.fetch_add(1, Ordering::Relaxed);
        let given_back = self.given_back.load(Ordering::Relaxed);
        Ok(Executor { plan, memory, live: self.live.clone(), given_back })
    }

    /// First task that accesses bytes relative to a base register.
    pub(crate) fn first_task(&self, bar: u8, bytes: Range<u64>, write: bool) -> Option<usize> {
        if bar == Program::STREAM_BAR {
            return Some(0);
        }
        let executor = self.take().ok()?;
        let known = executor.plan.first_access(bar, bytes, write);
        drop(Results { resident: self, executor: Some(executor) });
        let fields: &[Field] = if write { &[Field::WBase] } else { &[Field::RBase0, Field::RBase1, Field::KBase0] };
        let names = |task: &Task| fields.iter().any(|&f| task.get(self.program.layout, f) == Some(u32::from(bar)));
        known.or_else(|| self.program.tasks().ok()?.iter().position(names))
    }

    /// Releases the memory of executors, of running ones when they end; the next run expands the program again. Returns true
    /// if there was any.
    pub(crate) fn unwire(&self) -> bool {
        let any = self.live.load(Ordering::Relaxed) > 0;
        self.given_back.fetch_add(1, Ordering::Relaxed);
        lock(&self.idle).clear();
        any
    }

    /// Runs the program; if `stop` is set between two tasks, it ends without results. Inputs are read completely before
    /// anything is written; outputs are buffered until [`Results::publish`].
    pub(crate) fn run(&self, inputs: &[Route], stop: &AtomicBool) -> Result<Option<Results<'_>>, Code> {
        let mut executor = self.take()?;
        for (port, route) in self.ports(Direction::Input).zip(inputs) {
            let region = executor.memory.region_mut(port.bar).ok_or(Code::ERROR)?;
            route.read(region.bytes_mut());
        }
        match executor.plan.run_while(&mut executor.memory, &|| !stop.load(Ordering::Relaxed)) {
            Ok(outcome) if outcome.tasks < executor.plan.tasks() => {
                // Partial results in its memory are overwritten by the next run.
                drop(Results { resident: self, executor: Some(executor) });
                Ok(None)
            }
            Ok(outcome) if outcome.incomplete.is_empty() => {
                Ok(Some(Results { resident: self, executor: Some(executor) }))
            }
            Ok(outcome) => {
                tracing::warn!(port = ?outcome.incomplete.first(), "an output is not wholly written");
                Err(Code::ERROR)
            }
            Err(fault) => {
                tracing::warn!(%fault, "a fault of the engine");
                Err(Code::ERROR)
            }
        }
    }
}

/// Results of a run that are not yet visible.
pub(crate) struct Results<'a> {
    resident: &'a Resident,
    executor: Option<Executor>,
}

impl Results<'_> {
    /// Makes all outputs visible.
    pub(crate) fn publish(&self, outputs: &[Route]) {
        let Some(executor) = &self.executor else { return };
        for (port, route) in self.resident.ports(Direction::Output).zip(outputs) {
            if let Some(region) = executor.memory.region(port.bar) {
                route.write(region.bytes());
            }
        }
    }
}

impl Drop for Results<'_> {
    fn drop(&mut self) {
        let mut idle = lock(&self.resident.idle);
        let given_back = self.resident.given_back.load(Ordering::Relaxed);
        if idle.len() < KEPT {
            idle.extend(self.executor.take().filter(|executor| executor.given_back == given_back));
        }
    }
}
