//! What is known to be wrong in compiled networks, as conditions on operands: a result that is right where these are left out
//! counts as known. A row that nothing needs any more fails the test.

use anemone_net::*;

/// When an element is affected.
// Every condition is kept while the list is short: a finding is recorded by a row alone.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    Always,
    /// An operand is infinite, NaN, or not certain to be neither.
    NotFinite,
    Nan,
    /// The first operand is zero or below.
    NotPositive,
}

/// Something that is known to be wrong.
pub struct Known {
    pub operations: &'static [&'static str],
    /// Of floats, or of integers and truth values.
    pub floats: bool,
    pub when: When,
    pub reason: &'static str,
}

pub static KNOWN: &[Known] = &[Known {
    operations: &["max", "min", "relu", "relu6", "max_pool", "reduce_max", "reduce_min", "threshold", "clip"],
    floats: true,
    when: When::Nan,
    reason: "the engine's greater and smaller of NaN and a number is the number",
}];

impl Known {
    pub fn is_about(&self, kind: &OpKind, operand: DType) -> bool {
        // A choice by a truth value is one of its sides' type: the caller gives that.
        self.operations.contains(&kind.name()) && operand.is_float() == self.floats
    }

    /// Whether an element is affected, from its operands and their bounds.
    pub fn affects(&self, operands: &[(f32, f32)]) -> bool {
        match self.when {
            When::Always => true,
            When::NotFinite => operands.iter().any(|(x, bound)| !x.is_finite() || bound.is_infinite()),
            When::Nan => operands.iter().any(|(x, _)| x.is_nan()),
            When::NotPositive => operands.first().is_some_and(|(x, _)| *x <= 0.0 || x.is_nan()),
        }
    }
}
