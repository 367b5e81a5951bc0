//! Load balancer: assigns programs to engines. With one engine, all programs go to it.

use crate::error::Code;
use anemone_facts::driver::limits::MAX_ENGINES;
use std::collections::BTreeSet;

/// Programs by engine.
#[derive(Clone, Debug)]
pub struct Balancer {
    engines: Vec<BTreeSet<u64>>,
}

impl Balancer {
    /// A balancer for 1 to [`MAX_ENGINES`] engines without resident programs.
    pub fn new(engines: u64) -> Result<Balancer, Code> {
        if (1..=MAX_ENGINES).contains(&engines) {
            Ok(Balancer { engines: vec![BTreeSet::new(); engines as usize] })
        } else {
            Err(Code::BAD_ARGUMENT)
        }
    }

    /// The engine of a program.
    pub fn engine_of(&self, program: u64) -> Option<usize> {
        self.engines.iter().position(|e| e.contains(&program))
    }

    /// Makes a program resident on the first engine with the fewest programs; returns the engine.
    pub fn place(&mut self, program: u64) -> usize {
        if let Some(engine) = self.engine_of(program) {
            return engine;
        }
        let engine = (0..self.engines.len()).min_by_key(|&i| self.engines[i].len()).unwrap_or(0);
        self.engines[engine].insert(program);
        engine
    }

    /// Removes a program.
    pub fn remove(&mut self, program: u64) {
        for engine in &mut self.engines {
            engine.remove(&program);
        }
    }

    /// Number of programs on each engine.
    pub fn resident(&self) -> Vec<usize> {
        self.engines.iter().map(BTreeSet::len).collect()
    }
}
