//! Random extents and attributes: the same cases on every run; a failure is made smaller and kept.

use crate::common;

use anemone_net::*;
use common::draw::{Draw, choices, drawn};
use common::suite::{Case, case};
use proptest::prelude::*;

/// Cases per run.
const CASES: u32 = 400;
/// Cases of windows beyond the chip's.
const WIDE_CASES: u32 = 110;

impl Draw {
    /// Kernel, stride, padding and extent of one axis: now and then beyond what one task takes.
    fn wide_axis(&mut self) -> ([usize; 3], (usize, usize), usize) {
        let taps = self.pick(&[1, 2, 3, 4, 7, 9, 14, 17, 25, 30, 33]);
        let dilation = if taps < 5 { self.pick(&[1, 1, 2, 6, 13, 20]) } else { 1 };
        let stride = self.pick(&[1, 1, 1, 2, 3, 4, 5, 8, 16, taps]);
        let reach = (taps - 1) * dilation + 1;
        let pads = match self.below(3) {
            0 => (0, 0),
            1 => (reach / 2, reach / 2),
            _ => (self.below(reach), self.below(reach)),
        };
        let least = reach.saturating_sub(pads.0 + pads.1).max(1);
        ([taps, dilation, stride], pads, least + self.below(20))
    }

    /// Convolutions, transposed ones and poolings over one, two or three axes, of any size.
    fn wide(&mut self, name: &str) -> Case {
        let rank = self.pick(&[1, 2, 2, 2, 3]);
        let mut axes: Vec<_> = (0..rank).map(|_| self.wide_axis()).collect();
        if rank == 3 {
            // Small enough to be computed in a moment.
            axes[0] = ([self.size(3), 1, self.size(2)], (0, 1), 3 + self.below(3));
        }
        let of = |i: usize| axes.iter().map(|(a, ..)| a[i]).collect::<Vec<usize>>();
        let (kernel, dilations, strides) = (of(0), of(1), of(2));
        let pads: Vec<(usize, usize)> = axes.iter().map(|a| a.1).collect();
        let sizes: Vec<usize> = axes.iter().map(|a| a.2).collect();
        let with = |first: Vec<usize>, rest: &[usize]| [first.as_slice(), rest].concat();
        let (groups, per, out) = (self.pick(&[1, 1, 2, 3]), self.size(4), self.size(5));
        let live = self.below(8) == 0;
        match self.below(4) {
            0 => {
                let kind = self.pick(&[
                    PoolKind::Max,
                    PoolKind::Average { exclude_padding: true },
                    PoolKind::Average { exclude_padding: false },
                ]);
                let sizes: Vec<usize> = sizes.iter().zip(&kernel).map(|(&n, &k)| n.max(k)).collect();
                let pads = pads.iter().zip(&kernel).map(|(p, &k)| (p.0.min(k / 2), p.1.min(k / 2))).collect();
                let ceil_mode = self.below(3) == 1;
                let kind = OpKind::Pool { kind, kernel, strides, pads, ceil_mode };
                case(name, kind, &[&with(vec![1, self.size(5)], &sizes)])
            }
            1 => {
                let sizes: Vec<usize> = sizes.iter().map(|&n| 1 + n % 9).collect();
                let long = |i: usize| (sizes[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1;
                let cut = |i: usize| cut_of(pads[i], long(i));
                let pads = (0..rank).map(cut).collect();
                let output_pads = strides.iter().map(|&s| s / 2).collect();
                let kind = OpKind::ConvTranspose { strides, pads, output_pads, dilations, groups };
                let x = with(vec![1, groups * per], &sizes);
                let w = with(vec![groups * per, out], &kernel);
                if live { case(name, kind, &[&x, &w]) } else { case(name, kind, &[&x]).with(&[&w, &[groups * out]]) }
            }
            _ => {
                let groups = if self.below(5) == 0 { per * groups } else { groups };
                let per = if groups > 3 { 1 } else { per };
                let kind = OpKind::Conv { strides, pads, dilations, groups };
                let x = with(vec![self.pick(&[1, 1, 2]), groups * per], &sizes);
                let w = with(vec![groups * out, per], &kernel);
                if live { case(name, kind, &[&x, &w]) } else { case(name, kind, &[&x]).with(&[&w, &[groups * out]]) }
            }
        }
    }
}

/// Crop of a transposed convolution's result, before and after: less than all of it.
fn cut_of((before, after): (usize, usize), long: usize) -> (usize, usize) {
    let before = before.min(long / 3);
    (before, after.min(long / 3))
}

/// Compiles and executes a case, and compares it with the evaluator.
fn matches_the_evaluator(case: &Case) -> Result<(), TestCaseError> {
    let outcome = std::panic::catch_unwind(|| case.check()).unwrap_or_else(|_| Err("a panic".into()));
    outcome.map(drop).map_err(|why| TestCaseError::fail(format!("{}: {why}", case.summary())))
}

proptest! {
    #![proptest_config(drawn(CASES))]

    #[test]
    fn random_operations_match_the_evaluator(choices in choices()) {
        matches_the_evaluator(&Draw::choosing(choices).next("drawn"))?;
    }
}

proptest! {
    #![proptest_config(drawn(WIDE_CASES))]

    #[test]
    fn windows_of_any_size_match_the_evaluator(choices in choices()) {
        matches_the_evaluator(&Draw::choosing(choices).wide("drawn"))?;
    }
}
