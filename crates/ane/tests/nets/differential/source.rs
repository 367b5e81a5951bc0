//! Choices that make a case: drawn at random and recorded, or given. A case is made again from its choices, and made
//! simpler by making them smaller: zero is always the plainest choice.

use crate::common::Random;

pub struct Source {
    choices: Vec<u32>,
    at: usize,
    random: Option<Random>,
}

impl Source {
    /// Random choices.
    pub fn seeded(seed: u64) -> Source {
        let mut random = Random::new(seed + 1);
        for _ in 0..4 {
            random.next();
        }
        Source { choices: Vec::new(), at: 0, random: Some(random) }
    }

    /// These choices, then zeros.
    pub fn given(choices: Vec<u32>) -> Source {
        Source { choices, at: 0, random: None }
    }

    /// Choices taken so far.
    pub fn taken(&self) -> &[u32] {
        &self.choices[..self.at.min(self.choices.len())]
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        if self.at == self.choices.len() {
            let next = self.random.as_mut().map_or(0, |random| (random.next() >> 20) as u32);
            // Kept as what it means, so that a smaller choice is a simpler one.
            self.choices.push(next % n as u32);
        }
        let choice = self.choices[self.at] as usize % n;
        self.at += 1;
        choice
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// The simplest choices that still `fails`, within a number of trials: shorter, then zeros, then halves.
pub fn shrink(choices: &[u32], trials: usize, fails: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    let mut best = choices.to_vec();
    let mut left = trials;
    let mut attempt = |best: &mut Vec<u32>, candidate: Vec<u32>| {
        if left == 0 || candidate == *best {
            return false;
        }
        left -= 1;
        let better = fails(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    for _ in 0..4 {
        let before = best.clone();
        let mut size = best.len();
        while size > 0 {
            let mut start = 0;
            while start < best.len() {
                let end = (start + size).min(best.len());
                let mut zeroed = best.clone();
                zeroed[start..end].fill(0);
                if !attempt(&mut best, zeroed) {
                    let mut without = best.clone();
                    without.drain(start..end);
                    attempt(&mut best, without);
                }
                start += size;
            }
            size /= 2;
        }
        for at in 0..best.len() {
            while best.get(at).is_some_and(|&c| c > 0) {
                let mut smaller = best.clone();
                smaller[at] /= 2;
                if !attempt(&mut best, smaller) {
                    break;
                }
            }
        }
        if best == before {
            break;
        }
    }
    best
}
