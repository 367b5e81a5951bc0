//! Execution of a chain: programs, host segments and iterations of loops in sequence.

use super::{Part, ProgramChain, named_outputs, tensors};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::execute::{Execution, Run, check_together};
use crate::host;
use crate::tensor::{Array, View, views};
use anemone_engine as engine;
use anemone_net::Net;
use anemone_program::e5::{Repeat, Source};
use std::ops::{Deref, Range};

/// A chain planned once, to be run many times.
pub struct ChainExecution<C> {
    chain: C,
    executions: Vec<Execution>,
    /// Inputs of the next run, if several programs or host segments read them.
    bound: Vec<(String, Array)>,
}

impl<C: Deref<Target = ProgramChain>> ChainExecution<C> {
    /// Checks and plans every program.
    pub fn new(chain: C, options: engine::Options) -> Result<Self> {
        check_together(&chain.programs)?;
        let executions = chain.programs.iter().map(|p| Execution::new(p, options)).collect::<Result<_>>()?;
        Ok(ChainExecution { chain, executions, bound: Vec::new() })
    }

    /// Runs every program once, as [`Execution::run`]; tasks and traces are concatenated.
    pub fn run(&mut self, inputs: &[(String, Array)]) -> Result<Run> {
        self.bind(&views(inputs))?;
        self.run_bound()
    }

    /// Binds the inputs of one [`ChainExecution::run_bound`]: for a single program they are written in place, for others
    /// they are copied.
    pub fn bind(&mut self, inputs: &[(&str, View)]) -> Result<()> {
        if let ([only], true) = (self.executions.as_mut_slice(), self.chain.is_single()) {
            return only.bind(inputs);
        }
        self.bound = inputs.iter().map(|(name, view)| (name.to_string(), view.to_array())).collect();
        Ok(())
    }

    /// Runs every program once on the bound inputs.
    pub fn run_bound(&mut self) -> Result<Run> {
        if let ([only], true) = (self.executions.as_mut_slice(), self.chain.is_single()) {
            return only.run_bound();
        }
        let mut whole = Run { outputs: Vec::new(), tasks: 0, skipped: Vec::new(), trace: Vec::new() };
        let mut known = std::mem::take(&mut self.bound);
        self.steps(0..self.chain.order.len(), &mut known, &mut whole)?;
        for name in self.chain.outputs() {
            let at = known.iter().rposition(|(n, _)| n == name);
            let at = at.ok_or_else(|| Diagnostic::new(Code::Fault, format!("no program writes the output {name}")))?;
            whole.outputs.push(known[at].clone());
        }
        Ok(whole)
    }

    /// Runs steps by position; their results are appended to `known`.
    fn steps(&mut self, range: Range<usize>, known: &mut Vec<(String, Array)>, whole: &mut Run) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            match self.chain.order[at] {
                Part::Host(host) => known.extend(on_host(&self.chain.hosts[host].1, known)?),
                Part::Program(program) => {
                    let run = self.executions[program].run(known)?;
                    whole.tasks += run.tasks;
                    whole.skipped.extend(run.skipped);
                    whole.trace.extend(run.trace);
                    known.extend(run.outputs);
                }
                Part::Begin(l) => {
                    let end = self.chain.order.iter().position(|part| *part == Part::End(l));
                    let end = end.ok_or_else(|| Diagnostic::new(Code::Defect, "a loop without an end"))?;
                    self.turns(l, at + 1..end, known, whole)?;
                    at = end;
                }
                Part::End(_) => {}
            }
            at += 1;
        }
        Ok(())
    }

    /// Runs a loop whose iteration consists of these steps.
    fn turns(
        &mut self,
        l: usize,
        steps: Range<usize>,
        known: &mut Vec<(String, Array)>,
        whole: &mut Run,
    ) -> Result<()> {
        let Repeat { turns, carried, scanned, collected, .. } = self.chain.loops[l].clone();
        let mut now: Vec<Array> = Vec::new();
        for value in &carried {
            now.push(source(&value.start, value.now.storage, &value.now.shape, known)?);
        }
        let mut from: Vec<Array> = Vec::new();
        for scan in &scanned {
            from.push(source(&scan.whole, scan.part.storage, &scan.part.shape, known)?);
        }
        let elements = |shape: &[u64]| shape.iter().product::<u64>() as usize;
        let mut made: Vec<Vec<f32>> =
            collected.iter().map(|scan| vec![0.0; elements(&scan.part.shape) * turns as usize]).collect();
        let before = known.len();
        for turn in 0..turns {
            known.extend(carried.iter().map(|value| value.now.name.clone()).zip(now.drain(..)));
            for (scan, from) in scanned.iter().zip(&from) {
                let mut data = vec![0.0; elements(&scan.part.shape)];
                for (there, here, length) in scan.runs(turn, turns) {
                    data[here..here + length].copy_from_slice(&from.data[there..there + length]);
                }
                let shape = scan.part.shape.iter().map(|&n| n as usize).collect();
                known.push((scan.part.name.clone(), Array { shape, data }));
            }
            self.steps(steps.clone(), known, whole)?;
            for (scan, made) in collected.iter().zip(&mut made) {
                let part = last_array(known, &scan.part.name)?;
                for (there, here, length) in scan.runs(turn, turns) {
                    let run = part.data.get(here..here + length).ok_or_else(|| unfit(&scan.part.name))?;
                    made[there..there + length].copy_from_slice(run);
                }
            }
            for value in &carried {
                now.push(last_array(known, &value.next)?.clone());
            }
            known.truncate(before);
        }
        known.extend(carried.into_iter().map(|value| value.last).zip(now));
        for (scan, data) in collected.into_iter().zip(made) {
            let mut shape: Vec<usize> = scan.part.shape.iter().map(|&n| n as usize).collect();
            shape[scan.axis] *= turns as usize;
            if let Source::Tensor(name) = scan.whole {
                known.push((name, Array { shape, data }));
            }
        }
        Ok(())
    }
}

/// The last array of that name.
fn last_array<'a>(known: &'a [(String, Array)], name: &str) -> Result<&'a Array> {
    let found = known.iter().rev().find(|(own, _)| own == name).map(|(_, array)| array);
    found.ok_or_else(|| Diagnostic::new(Code::Fault, format!("no program writes {name}")))
}

fn unfit(name: &str) -> Diagnostic {
    Diagnostic::new(Code::Malformed, format!("{name} has fewer elements than its loop reads"))
}

/// Initial value or whole tensor of a loop, with at least as many elements as `shape`.
fn source(from: &Source, storage: u32, shape: &[u64], known: &[(String, Array)]) -> Result<Array> {
    let array = match from {
        Source::Tensor(name) => last_array(known, name)?.clone(),
        Source::Constant(bytes) => {
            let data = host::numbers(storage, bytes).ok_or_else(|| unfit("a constant"))?;
            Array { shape: vec![data.len()], data }
        }
    };
    let name = if let Source::Tensor(name) = from { name } else { "a constant" };
    match array.data.len() as u64 >= shape.iter().product() {
        true => Ok(array),
        false => Err(unfit(name)),
    }
}

/// Runs a host segment on the arrays known so far.
fn on_host(net: &Net, known: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
    let outputs = host::evaluate(net, &tensors(net, known, false)?)
        .map_err(|e| Diagnostic::new(Code::Fault, e).help("check the indices that it reads"))?;
    Ok(named_outputs(net, outputs))
}
