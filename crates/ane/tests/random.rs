//! Random extents and attributes: the same seeds on every run, so a failure can be looked at again by its number.

mod common;

use common::Score;
use common::draw::Draw;

/// Cases per run.
const CASES: u64 = 400;

#[test]
fn random_operations_match_the_evaluator() {
    let mut score = Score::default();
    for seed in 0..CASES {
        let case = Draw::new(seed).next(&format!("seed {seed}"));
        let outcome = case.check();
        let name = format!("{} {}", case.name, case.summary());
        score.case(&name, outcome);
    }
    score.close();
}
