//! A model kept ready: planned once for every caller that runs at the same time.

use crate::chain::{Chain, ChainExecution};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::executable::Executable;
use crate::tensor::{Array, View, views};
use anemone_engine as engine;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// A model that is run many times, from any number of threads. Plans, buffers and threads are kept between runs, one set for
/// each caller that runs at the same time.
pub struct Session {
    executable: Arc<Executable>,
    options: engine::Options,
    threads: Option<usize>,
    idle: Mutex<Vec<Ready>>,
}

/// Plans and buffers of one caller, and its threads where the session has a number of its own.
pub struct Ready {
    pool: Option<ThreadPool>,
    execution: ChainExecution<Held>,
}

/// The chain of an executable that is shared.
struct Held(Arc<Executable>);

impl Deref for Held {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        &self.0.chain
    }
}

impl Session {
    /// `threads`: as many for each run; `None` shares the threads of the process, one for each core.
    pub fn new(executable: Arc<Executable>, options: engine::Options, threads: Option<usize>) -> Session {
        Session { executable, options, threads, idle: Mutex::default() }
    }

    /// Runs once, as [`Executable::run`].
    pub fn run(&self, inputs: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
        let ready = self.bind(self.ready()?, &views(inputs))?;
        self.finish(ready)
    }

    /// Plans and buffers for one run: those of an earlier one where they are free, else new ones.
    pub fn ready(&self) -> Result<Ready> {
        self.idle().map_or_else(|| self.plan(), Ok)
    }

    /// Plans and buffers of an earlier run, if they are free.
    pub fn idle(&self) -> Option<Ready> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Writes a run's inputs, and zeros for states that are not among them, into its buffers: the callers' elements are not
    /// needed afterwards. A single program has them converted straight from where they are.
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

    /// Runs once on the inputs that were bound.
    pub fn finish(&self, mut ready: Ready) -> Result<Vec<(String, Array)>> {
        let Ready { pool, execution } = &mut ready;
        let run = match pool {
            Some(pool) => pool.install(|| execution.run_bound()),
            None => execution.run_bound(),
        };
        let mut outputs = run?.outputs;
        // After a fault, buffers are not kept: a task was left half done.
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
