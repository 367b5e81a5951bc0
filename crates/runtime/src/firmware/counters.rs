//! The 24 counters of each task descriptor of a run. They are modelled: bytes follow from the descriptor's extents and streams,
//! cycles from the bytes and the rates in `facts`, and there is no throttling.

use anemone_facts::chips::CHIPS;
use anemone_facts::code::{self, class};
use anemone_facts::driver::counters::{self as rows, COUNT};
use anemone_facts::kernel::ENGINES;
use anemone_facts::{Field, Layout};
use anemone_program::{Program, Task};

/// Counters in the order of [`super::stats::names`].
pub type Counts = [u64; COUNT];

/// Counters of one run, by task. Empty if the stream is not a chain of tasks.
pub fn of_program(program: &Program) -> Vec<Counts> {
    program.tasks().map_or(Vec::new(), |tasks| tasks.iter().map(|task| of_task(program.layout, task)).collect())
}

/// Counters of one execution of a task.
pub fn of_task(layout: &Layout, task: &Task) -> Counts {
    let get = |field| u64::from(task.get(layout, field).unwrap_or(0));
    let product =
        |fields: &[Field]| fields.iter().fold(get(Field::NumGroups).max(1), |n, &f| n.saturating_mul(get(f).max(1)));
    let kind = task.get(layout, Field::TaskClass).unwrap_or(class::NEURAL);
    let neural = kind == class::NEURAL;
    let size = |field| if task.get(layout, field) == Some(code::format::FP16) { 2 } else { 1 };
    let (sources, results) =
        (product(&[Field::Cin, Field::Hin, Field::Win]), product(&[Field::Cout, Field::Hout, Field::Wout]));
    let operands = if kind == class::PLANAR_TWO { 2 } else { 1 };
    let source = sources.saturating_mul(size(Field::InFmt) * operands);
    let result = results.saturating_mul(size(Field::OutFmt));
    let kernel: u64 = (0..ENGINES as u32).map(|i| task.bytes_at(layout, Field::CoeffSize, i)).sum();
    let taps = get(Field::Kw).max(1).saturating_mul(get(Field::Kh).max(1));
    let macs = match (neural, kernel > 0) {
        (true, true) => results.saturating_mul(taps).saturating_mul(get(Field::Cin).max(1)),
        (true, false) => results,
        (false, _) => 0,
    };
    let clock = CHIPS[0].hal.f_max_hz.unwrap_or(0) / 1_000_000;
    // The bandwidth of the cost estimate: bytes in half a microsecond.
    let moving = |n: u64| n.saturating_mul(clock) / (2 * code::ESTIMATE_BYTES);
    let computing = macs.div_ceil(rows::MACS_PER_CYCLE);
    let planar = if neural { 0 } else { sources.max(results).saturating_mul(taps).div_ceil(rows::PLANAR_PER_CYCLE) };
    let busy = computing.max(planar);
    let all = busy.max(moving(source + kernel + result)).max(1);
    let (waits_in, waits_out) = (moving(source).saturating_sub(busy), moving(result).saturating_sub(busy));
    let waits_kernel = moving(kernel).saturating_sub(busy);
    let only = |on: bool, n: u64| if on { n } else { 0 };
    let whole = task.get(layout, Field::KernelFmt) != Some(code::format::FP16) && kernel > 0;
    [
        // NE: nominal, compute, throttle, stalls for input, output, kernel.
        only(neural, all),
        computing,
        0,
        only(neural, waits_in),
        only(neural, waits_out),
        only(neural, waits_kernel),
        // L2: nominal, throttle, stalls of reads and writes.
        all,
        0,
        waits_in,
        waits_out,
        // L2PE: compute, stalls.
        planar,
        only(!neural, waits_in),
        only(!neural, waits_out),
        // Precision.
        only(!whole, computing),
        only(whole, computing),
        // KM.
        only(neural, waits_kernel),
        // Bytes.
        source + kernel,
        source + kernel + result,
        kernel,
        source,
        result,
        only(neural, source),
        only(neural, result),
        // Energy.
        macs.saturating_mul(rows::FEMTOJOULES_PER_MAC) / 1000,
    ]
}

/// Adds `times` runs.
pub fn add(to: &mut Counts, run: &Counts, times: u64) {
    to.iter_mut().zip(run).for_each(|(sum, n)| *sum = sum.saturating_add(n.saturating_mul(times)));
}
