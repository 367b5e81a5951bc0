//! Rewrites of networks, by the texts before and after them.

mod addends;
mod affines;
mod averages;
mod columns;
mod convolved;
mod dead;
mod decompose;
mod drop;
mod fold;
mod forward;
mod gathers;
mod heads;
mod matmul;
mod norms;
mod parts;
mod planes;
mod portions;
mod quantized;
mod ranges;
mod recognize;
mod scatter;
mod scores;
mod slices;
mod small;
mod summed;
mod whole;
mod wrapped;

use anemone_compile::testing::{self, Remarks};
use anemone_compile::{Options, Result};
use anemone_net::{Net, text};

/// Asserts that a pass turns one text into the other. Element types are not compared from `drop_conversions`
/// on, since all become fp16.
fn becomes(pass: fn(&mut Net, &Options, &mut Remarks) -> Result<()>, before: &str, after: &str) {
    let mut net = text::parse(before, &[]).expect("the case parses");
    pass(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    let after = text::parse(after, &[]).expect("the expected text parses");
    assert_eq!(text::print(&net).0, text::print(&after).0);
}

/// [`testing::decompose`] for the first chip.
fn decompose(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    testing::decompose(net, &anemone_facts::chips::CHIPS[0], options, reasons)
}

/// [`testing::transpose_scores`] for the first chip.
fn transpose_scores(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    testing::transpose_scores(net, &anemone_facts::chips::CHIPS[0], options, reasons)
}
