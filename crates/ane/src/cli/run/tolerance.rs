//! The tolerance of a run's outputs: from flags, or from the cost of rounding.

use super::Flags;
use super::report::{RoundingSource, Tolerance};
use anemone::tensor::Array;
use anemone::{ProgramChain, execute};
use anemone_net::Net;

/// Parses a tolerance: a number of at least zero.
pub fn value(text: &str) -> std::result::Result<f32, String> {
    match text.parse::<f32>() {
        Ok(x) if x >= 0.0 => Ok(x),
        _ => Err("a number of at least 0 is expected".into()),
    }
}

/// Returns true for an output of integers or truth values, which must be equal.
pub fn is_whole(net: &Net, output: &str) -> bool {
    let value = net.outputs.iter().map(|&id| net.value(id)).find(|value| value.name == output);
    value.is_some_and(|value| !value.ty.dtype.is_float())
}

/// Outputs of a program for inputs changed by one unit in the last place; `None` without such inputs, or if the run fails.
pub fn run_moved(
    chain: &ProgramChain,
    options: anemone_engine::Options,
    inputs: &[(String, Array)],
) -> Option<Vec<(String, Array)>> {
    let options = anemone_engine::Options { trace: false, ..options };
    let moved = execute::moved(inputs)?;
    Some(chain.execution(options).ok()?.run(&moved).ok()?.outputs)
}

/// The tolerance of an output. `cost` measures the cost of rounding in it, if the flags give no tolerance.
pub fn of(
    flags: &Flags,
    net: Option<&Net>,
    cost: impl Fn() -> Option<RoundingSource>,
    output: &str,
    wanted: &[f32],
) -> Tolerance {
    if !flags.tolerance.is_empty() {
        return Tolerance { bounds: flags.tolerance.clone(), ..Tolerance::default() };
    }
    if flags.atol.is_some() || flags.rtol.is_some() {
        let (atol, rtol) = (flags.atol.unwrap_or(0.0), flags.rtol.unwrap_or(0.0));
        return Tolerance { atol, rtol, ..Tolerance::default() };
    }
    if net.is_some_and(|net| is_whole(net, output)) {
        return Tolerance::default();
    }
    Tolerance::by_default(wanted, cost())
}
