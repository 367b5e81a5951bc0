//! Predicted time of one dispatch of a program on silicon: the stages of a dispatch, copies by bytes, and the engine's time from
//! the work in its tasks. Rates and their error are rows of [`anemone_facts::cost`].

use anemone_facts::chips::Chip;
use anemone_facts::code::{self, class, kernel, neural};
use anemone_facts::cost::{MACS_PER_CYCLE, Rates, rates};
use anemone_facts::driver::limits as stages;
use anemone_facts::kernel::ENGINES;
use anemone_facts::{Field, Layout};

use crate::{Direction, Program, Task};

mod timeline;

pub use timeline::{Span, Unit, co_issued, timeline};

/// Engine time of the measured small graph, which the round trip of the firmware includes: 2 % of its budget.
pub const SMALL_ENGINE_NS: u64 = stages::ROUND_TRIP_NS / 50;

/// Predicted time of a dispatch, by stage, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Binding and the runtime.
    pub bind_ns: u64,
    /// Copies of inputs and outputs by the host.
    pub copy_ns: u64,
    /// Building the request.
    pub build_ns: u64,
    /// The doorbell.
    pub kick_ns: u64,
    /// Firmware, to the engine and back.
    pub firmware_ns: u64,
    /// The engine.
    pub engine_ns: u64,
    /// Completion.
    pub complete_ns: u64,
    /// Rates of the chip, with their source and error.
    pub rates: &'static Rates,
}

impl Cost {
    /// Time from call to result.
    pub fn total_ns(&self) -> u64 {
        self.bind_ns + self.copy_ns + self.inside_ns()
    }

    /// Time from entry to return of the submit selector.
    pub fn inside_ns(&self) -> u64 {
        self.build_ns + self.kick_ns + self.round_trip_ns() + self.complete_ns
    }

    /// Time of firmware and engine.
    pub fn round_trip_ns(&self) -> u64 {
        self.firmware_ns + self.engine_ns
    }

    /// Bounds of the time that contain nine in ten measured points.
    pub fn band_ns(&self) -> (u64, u64) {
        let (total, most) = (self.total_ns(), u64::from(self.rates.most_percent));
        (total.saturating_mul(100) / (100 + most), total.saturating_mul(100 + most) / 100)
    }

    /// Sum over programs that are dispatched one after the other, with the first one's rates; `None` without programs.
    pub fn sum(all: impl IntoIterator<Item = Cost>) -> Option<Cost> {
        all.into_iter().reduce(|a, b| Cost {
            bind_ns: a.bind_ns + b.bind_ns,
            copy_ns: a.copy_ns + b.copy_ns,
            build_ns: a.build_ns + b.build_ns,
            kick_ns: a.kick_ns + b.kick_ns,
            firmware_ns: a.firmware_ns + b.firmware_ns,
            engine_ns: a.engine_ns + b.engine_ns,
            complete_ns: a.complete_ns + b.complete_ns,
            rates: a.rates,
        })
    }
}

impl std::fmt::Display for Cost {
    /// One line: total, bounds, and stages.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        let (least, most) = self.band_ns();
        write!(
            f,
            "{:.0} us a run on the {} ({:.0} to {:.0}): {:.0} dispatch overhead, {:.1} copies, {:.1} engine",
            us(self.total_ns()),
            self.rates.machine,
            us(least),
            us(most),
            us(self.total_ns() - self.copy_ns - self.engine_ns),
            us(self.copy_ns),
            us(self.engine_ns)
        )
    }
}

/// Predicted time of one dispatch on a chip; `None` if the chip has no rates or clock, or the stream is not a chain of tasks.
pub fn of_program(program: &Program, chip: &Chip) -> Option<Cost> {
    let (rates, clock_hz) = (rates(chip.target)?, chip.hal.f_max_hz?);
    let engine: f64 = tasks_ns(program, rates, clock_hz as f64)?.iter().sum();
    let bytes = |direction| program.ports_of(direction).map(|p| p.shape.elements() * p.element.bytes()).sum::<u64>();
    let copy = bytes(Direction::Input) as f64 / rates.in_bytes_per_ns;
    let copy = copy + bytes(Direction::Output) as f64 / rates.out_bytes_per_ns;
    Some(Cost {
        bind_ns: stages::BIND_NS,
        copy_ns: copy as u64,
        build_ns: stages::BUILD_NS,
        kick_ns: stages::KICK_NS,
        firmware_ns: stages::ROUND_TRIP_NS - SMALL_ENGINE_NS,
        engine_ns: engine as u64,
        complete_ns: stages::COMPLETE_NS,
        rates,
    })
}

/// Predicted time of each task on the engine in nanoseconds, in stream order; `None` as for [`of_program`]. Their sum is
/// [`Cost::engine_ns`]: of two tasks that run at once, the second is charged only the time beyond the first.
pub fn of_tasks(program: &Program, chip: &Chip) -> Option<Vec<f64>> {
    tasks_ns(program, rates(chip.target)?, chip.hal.f_max_hz? as f64)
}

fn tasks_ns(program: &Program, rates: &Rates, clock_hz: f64) -> Option<Vec<f64>> {
    let spans = timeline::spans(program.layout, &program.tasks().ok()?, rates, clock_hz);
    let mut now = 0.0f64;
    let beyond = |span: &Span| {
        let before = now;
        now = before.max(span.end_ns);
        now - before
    };
    Some(spans.iter().map(beyond).collect())
}

/// Time of one task in nanoseconds without its overhead: the longest of multiply-accumulates, coefficients, activations through memory and
/// planar elements.
fn work_ns(layout: &Layout, task: &Task, rates: &Rates, clock_hz: f64) -> f64 {
    let get = |field| u64::from(task.get(layout, field).unwrap_or(0));
    let product =
        |fields: &[Field]| fields.iter().fold(get(Field::NumGroups).max(1), |n, &f| n.saturating_mul(get(f).max(1)));
    let kind = task.get(layout, Field::TaskClass).unwrap_or(class::NEURAL);
    let sources = product(&[Field::Cin, Field::Hin, Field::Win]);
    let results = product(&[Field::Cout, Field::Hout, Field::Wout]);
    let size = |field| if task.get(layout, field) == Some(code::format::FP16) { 2 } else { 1 };
    let moved = get(Field::Rbe0) * sources.saturating_mul(size(Field::InFmt))
        + get(Field::Rbe1) * sources.saturating_mul(size(Field::Src2Fmt))
        + get(Field::Wbe) * results.saturating_mul(size(Field::OutFmt));
    let coefficients: u64 = (0..ENGINES as u32)
        .filter(|&i| task.get_at(layout, Field::CoeffEn, i) == Some(1))
        .map(|i| task.bytes_at(layout, Field::CoeffSize, i))
        .sum();
    let taps = get(Field::Kw).max(1).saturating_mul(get(Field::Kh).max(1));
    let mut macs = 0;
    if kind == class::NEURAL && task.get(layout, Field::NeOpMode) == Some(neural::MAC) {
        let channels = if get(Field::UnicastEn) == 1 { get(Field::UnicastCin) } else { get(Field::Cin) }.max(1);
        let real = task.get(layout, Field::KernelMode) == Some(kernel::REAL);
        macs = results.saturating_mul(channels).saturating_mul(if real { taps } else { 1 });
    }
    let planar = if kind == class::NEURAL { 0 } else { sources.max(results).saturating_mul(taps) };
    let parts = [
        macs as f64 / MACS_PER_CYCLE as f64 / clock_hz * 1e9,
        coefficients as f64 / rates.weight_bytes_per_ns,
        moved as f64 / rates.activation_bytes_per_ns,
        planar as f64 / rates.planar_per_ns,
    ];
    parts.into_iter().fold(0.0, f64::max)
}
