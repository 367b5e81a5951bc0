//! Modelled time of each operation on the engine: the sum over the tasks with its name.

use super::Answer;
use anemone_compile::here::Here;
use anemone_net::outline::Outline;
use anemone_program::order;
use std::collections::HashMap;

/// Modelled times on the engine, in nanoseconds, without copies and dispatch overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Time of each operation, by position; 0 for operations fused into others.
    pub by_op: Vec<f64>,
    /// Time of tasks without an operation of the model: copies added by the compiler.
    pub other: f64,
}

impl Times {
    /// Sum of all tasks.
    pub fn total(&self) -> f64 {
        self.by_op.iter().sum::<f64>() + self.other
    }

    /// Operations that take time, the longest first.
    pub fn longest(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.by_op.len()).filter(|&at| self.by_op[at] > 0.0).collect();
        order::by(&mut order, |&a, &b| self.by_op[b].total_cmp(&self.by_op[a]));
        order
    }
}

/// Times of the operations on a chip. `None` if the model does not compile for the chip, or the chip has no measured rates.
pub fn of(outline: &Outline, answer: &Answer) -> Option<Times> {
    let Some(Here::Compiled { by_task, .. }) = &answer.here else { return None };
    if by_task.is_empty() {
        return None;
    }
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (at, op) in outline.ops.iter().enumerate() {
        let names = op.outputs.iter().map(|output| output.name.as_str()).chain([op.name.as_str()]);
        names.for_each(|name| {
            positions.entry(name).or_insert(at);
        });
    }
    let mut times = Times { by_op: vec![0.0; outline.ops.len()], other: 0.0 };
    for (name, ns) in by_task {
        match whole_or_before_dot(name).find_map(|name| positions.get(name)) {
            Some(&at) => times.by_op[at] += ns,
            None => times.other += ns,
        }
    }
    Some(times)
}

/// A name, its prefix before the last dot, and so on.
pub fn whole_or_before_dot(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.rsplit_once('.').map(|(before, _)| before))
}
