//! A prepared model: one plan for every simultaneous caller.

use crate::chain::{ChainExecution, ProgramChain};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::executable::Executable;
use crate::tensor::{Array, View, views};
use anemone_engine as engine;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// A model for many runs, from any number of threads. Plans, buffers and threads are kept between runs, one set for
/// each simultaneous caller.
pub struct Session {
    executable: Arc<Executable>,
    options: engine::Options,
    threads: Option<usize>,
    idle: Mutex<Vec<Ready>>,
}

/// Plans and buffers of one caller, and its threads if the session has its own.
pub struct Ready {
    pool: Option<ThreadPool>,
    execution: ChainExecution<Held>,
}

/// The chain of a shared executable.
struct Held(Arc<Executable>);

impl Deref for Held {
    type Target = ProgramChain;

    fn deref(&self) -> &ProgramChain {
        &self.0.chain
    }
}

impl Session {
    /// `threads`: number of threads for each run; `None` shares the process's threads, one per core.
    pub fn new(executable: Arc<Executable>, options: engine::Options, threads: Option<usize>) -> Session {
        Session { executable, options, threads, idle: Mutex::default() }
    }

    /// Runs once, as [`Executable::run`].
    pub fn run(&self, inputs: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
        let ready = self.bind(self.ready()?, &views(inputs))?;
        self.finish(ready)
    }

    /// Plans and buffers for one run: free ones of an earlier run, else new ones.
    pub fn ready(&self) -> Result<Ready> {
        self.idle().map_or_else(|| self.plan(), Ok)
    }

    /// Plans and buffers of an earlier run, if there are free ones.
    pub fn idle(&self) -> Option<Ready> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Writes a run's inputs, and zeros for missing states, to its buffers: the callers' elements are not
    /// needed afterwards. For a single program they are converted in place.
    pub fn bind(&self, mut ready: Ready, inputs: &[(&str, View)]) -> Result<Ready> {
        let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
        let bound = self.executable.states_beside(&names).and_then(|states| {
            let all = [inputs, &views(&states)].concat();
            ready.execution.bind(&all)
        });
        match bound {
            Ok(()) => Ok(ready),
            Err(refusal) => {
                self.keep(ready);
                Err(refusal)
            }
        }
    }

    /// Runs once on the bound inputs.
    pub fn finish(&self, mut ready: Ready) -> Result<Vec<(String, Array)>> {
        let Ready { pool, execution } = &mut ready;
        let run = match pool {
            Some(pool) => pool.install(|| execution.run_bound()),
            None => execution.run_bound(),
        };
        let mut outputs = run?.outputs;
        // After a fault, buffers are dropped: a task may be incomplete.
        self.keep(ready);
        self.executable.give_own_extents(&mut outputs);
        Ok(outputs)
    }

    fn keep(&self, ready: Ready) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(ready);
    }

    fn plan(&self) -> Result<Ready> {
        let held = Held(self.executable.clone());
        held.programs().iter().try_for_each(crate::execute::check)?;
        let Some(threads) = self.threads else {
            return Ok(Ready { pool: None, execution: ChainExecution::new(held, self.options)? });
        };
        let none = |e| Diagnostic::new(Code::Usage, format!("{threads} threads: {e}")).help("at least 1 is needed");
        if threads == 0 {
            return Err(none("a run needs one".to_string()));
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| none(e.to_string()))?;
        let execution = pool.install(|| ChainExecution::new(held, self.options))?;
        Ok(Ready { pool: Some(pool), execution })
    }
}
