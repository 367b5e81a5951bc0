//! Profile: run times of a plan's operations.

use super::ops::Op;
use std::time::Instant;

/// Shortest time of each step over several runs.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Number of timed runs.
    pub runs: usize,
    /// Time of the shortest run.
    pub run_nanos: u64,
    /// Steps in execution order.
    pub steps: Vec<StepTime>,
}

/// A step of a plan: one host operation.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// Index of a replaced task: the first one, or the last one for a fused chain.
    pub first_task: usize,
    /// Number of replaced tasks.
    pub tasks: usize,
    /// Kind of computation.
    pub class: &'static str,
    /// Shortest time.
    pub nanos: u64,
    /// Bytes of its operands, read and written. Coefficients count only if every run reads them from memory.
    pub bytes: u64,
    /// Multiply-accumulates.
    pub macs: u64,
}

/// Step times of the current run.
#[derive(Default)]
pub(super) struct Clock {
    /// `None` if steps are not timed.
    times: Option<Vec<u64>>,
}

impl Clock {
    pub(super) fn of_steps(steps: usize) -> Clock {
        Clock { times: Some(Vec::with_capacity(steps)) }
    }

    /// Returns true if steps are timed.
    pub(super) fn times_steps(&self) -> bool {
        self.times.is_some()
    }

    /// Executes a step, and records its time if steps are timed.
    #[inline]
    pub(super) fn step<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let Some(times) = &mut self.times else { return work() };
        let start = Instant::now();
        let result = work();
        times.push(start.elapsed().as_nanos() as u64);
        result
    }
}

impl Profile {
    /// A profile without times, before the first run.
    pub(super) fn of(ops: &[Op], macs: impl Fn(&Op) -> u64) -> Profile {
        let bytes = |op: &Op| op.accesses().map(|of| of.bytes()).sum();
        let steps = ops.iter().map(|op| StepTime {
            first_task: op.tasks.start,
            tasks: op.task_count(),
            class: op.class(),
            nanos: u64::MAX,
            bytes: bytes(op),
            macs: macs(op),
        });
        Profile { runs: 0, run_nanos: u64::MAX, steps: steps.collect() }
    }

    /// Merges the times of a run.
    pub(super) fn add(&mut self, run_nanos: u64, clock: Clock) {
        self.runs += 1;
        self.run_nanos = self.run_nanos.min(run_nanos);
        let times = clock.times.unwrap_or_default();
        for (step, nanos) in self.steps.iter_mut().zip(times) {
            step.nanos = step.nanos.min(nanos);
        }
    }
}
