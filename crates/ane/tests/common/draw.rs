//! Operations with random extents and attributes.

use super::Random;
use super::suite::{Case, case};
use anemone_net::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases on every run; `ANE_CASES` sets their number.
pub fn drawn(cases: u32) -> ProptestConfig {
    let cases = std::env::var("ANE_CASES").ok().and_then(|s| s.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), max_shrink_iters: 400, ..ProptestConfig::default() }
}

/// Choices for a few operations; what they do not decide follows from them.
pub fn choices() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), 48)
}

/// Draws operations; the same seed, and the same choices, draw the same ones.
pub struct Draw {
    /// Choices that proptest made, so that it can make them smaller.
    choices: std::vec::IntoIter<u64>,
    /// Numbers behind the last choice.
    random: Random,
}

impl Draw {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Draw {
        let mut random = Random::new(seed + 1);
        random.next();
        Draw { choices: Vec::new().into_iter(), random }
    }

    /// A generator that begins with these choices.
    pub fn choosing(choices: Vec<u64>) -> Draw {
        Draw { choices: choices.into_iter(), ..Draw::new(0) }
    }

    fn next_number(&mut self) -> u64 {
        self.choices.next().unwrap_or_else(|| self.random.next())
    }

    pub fn size(&mut self, most: u64) -> usize {
        (1 + self.next_number() % most) as usize
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next_number() % n as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.size(9)).collect()
    }

    /// A convolution that fits: kernel, stride, padding, dilation and groups at random.
    fn convolution(&mut self, name: &str) -> Case {
        let groups = self.pick(&[1, 1, 2, 3]);
        let (per, out) = (self.size(6), groups * self.size(20));
        let kernel = [self.size(5), self.size(5)];
        let dilations = [self.size(2), self.size(2)];
        let reach = [0, 1].map(|i| (kernel[i] - 1) * dilations[i] + 1);
        let pads = [0, 1].map(|i| (self.below(reach[i]), self.below(reach[i])));
        let size = [0, 1].map(|i| reach[i] + self.below(12));
        let strides = [self.size(4), self.size(4)];
        let kind =
            OpKind::Conv { strides: strides.to_vec(), pads: pads.to_vec(), dilations: dilations.to_vec(), groups };
        let x = [self.size(2), groups * per, size[0], size[1]];
        case(name, kind, &[&x]).with(&[&[out, per, kernel[0], kernel[1]], &[out]])
    }

    fn pool(&mut self, name: &str) -> Case {
        let kernel = [self.size(4), self.size(4)];
        let pads = [0, 1].map(|i| (self.below(kernel[i]), self.below(kernel[i])));
        let strides = [self.size(3), self.size(3)];
        let kind = OpKind::Pool {
            kind: self.pick(&[
                PoolKind::Max,
                PoolKind::Average { exclude_padding: true },
                PoolKind::Average { exclude_padding: false },
            ]),
            kernel: kernel.to_vec(),
            strides: strides.to_vec(),
            pads: pads.to_vec(),
            ceil_mode: self.below(2) == 1,
        };
        let x = [self.size(2), self.size(8), kernel[0] + self.below(9), kernel[1] + self.below(9)];
        case(name, kind, &[&x])
    }

    /// The next operation.
    pub fn next(&mut self, name: &str) -> Case {
        let rank = 1 + self.below(4);
        match self.below(10) {
            0 | 1 => self.convolution(name),
            2 => self.pool(name),
            3 => {
                let mut a = self.shape(rank);
                let mut b = a.clone();
                for i in 0..rank {
                    match self.below(4) {
                        0 => a[i] = 1,
                        1 => b[i] = 1,
                        _ => {}
                    }
                }
                let drop = self.below(rank);
                if b[..drop].iter().all(|&n| n == 1) {
                    b.drain(..drop);
                }
                let f = self.pick(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min]);
                case(name, OpKind::Binary(f), &[&a, &b])
            }
            4 => {
                let axes: Vec<usize> = (0..rank).filter(|_| self.below(2) == 1).collect();
                let axes = if axes.is_empty() { vec![rank - 1] } else { axes };
                let kind = self.pick(&[ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min]);
                case(name, OpKind::Reduce { kind, axes, keep_dims: self.below(2) == 1 }, &[&self.shape(rank)])
            }
            5 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    perm.swap(i, self.below(i + 1));
                }
                case(name, OpKind::Transpose { perm }, &[&self.shape(rank)])
            }
            6 => {
                let x = self.shape(rank);
                let total: usize = x.iter().product();
                let factor = (1..=total).filter(|f| total.is_multiple_of(*f)).nth(self.below(2)).unwrap_or(1);
                case(name, OpKind::Reshape, &[&x]).result(&[factor, total / factor])
            }
            7 => {
                let axis = self.below(rank);
                let a = self.shape(rank);
                let (mut b, mut c) = (a.clone(), a.clone());
                (b[axis], c[axis]) = (self.size(40), self.size(40));
                case(name, OpKind::Concat { axis }, &[&a, &b, &c])
            }
            8 => {
                let x: Vec<usize> = (0..rank).map(|_| self.size(40)).collect();
                let begin: Vec<usize> = x.iter().map(|&n| self.below(n)).collect();
                let end: Vec<usize> = x.iter().zip(&begin).map(|(&n, &b)| b + 1 + self.below(n - b)).collect();
                let stride: Vec<usize> = x.iter().map(|_| self.size(3)).collect();
                case(name, OpKind::Slice { begin, end, stride }, &[&x])
            }
            _ => {
                let (m, k, n) = (self.size(40), self.size(40), self.size(40));
                let (transpose_x, transpose_y) = (self.below(2) == 1, self.below(2) == 1);
                let x = if transpose_x { [k, m] } else { [m, k] };
                let y = if transpose_y { [n, k] } else { [k, n] };
                let kind = OpKind::MatMul { transpose_x, transpose_y };
                match self.below(2) {
                    0 => case(name, kind, &[&x, &y]),
                    _ => case(name, kind, &[&x]).with(&[&y]),
                }
            }
        }
    }
}
