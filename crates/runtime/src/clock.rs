//! The modelled clock: time of a dispatch on an M1 by the measured budget. Nothing here sleeps.

use anemone_facts::driver::limits as rows;
use anemone_program::cost::Cost;

/// Stages of one dispatch, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Binding, runtime, copies.
    pub bind_ns: u64,
    /// Building the request.
    pub build_ns: u64,
    /// Doorbell.
    pub kick_ns: u64,
    /// Wait for the engine, and its wake-up.
    pub wait_ns: u64,
    /// Firmware round trip.
    pub round_trip_ns: u64,
    /// Completion.
    pub complete_ns: u64,
}

impl Stages {
    /// The measured budget of a small dispatch on an idle, awake engine.
    pub const SMALL: Stages = Stages {
        bind_ns: rows::BIND_NS,
        build_ns: rows::BUILD_NS,
        kick_ns: rows::KICK_NS,
        wait_ns: 0,
        round_trip_ns: rows::ROUND_TRIP_NS,
        complete_ns: rows::COMPLETE_NS,
    };

    /// The stages of a program's dispatch on an idle, awake engine, from its estimated cost.
    pub fn of(cost: &Cost) -> Stages {
        Stages {
            bind_ns: cost.bind_ns + cost.copy_ns,
            build_ns: cost.build_ns,
            kick_ns: cost.kick_ns,
            wait_ns: 0,
            round_trip_ns: cost.round_trip_ns(),
            complete_ns: cost.complete_ns,
        }
    }

    /// Time from call to result.
    pub fn total_ns(&self) -> u64 {
        self.bind_ns + self.inside_ns()
    }

    /// Time from entry to return of the submit selector.
    pub fn inside_ns(&self) -> u64 {
        self.build_ns + self.kick_ns + self.wait_ns + self.round_trip_ns + self.complete_ns
    }
}

/// The timeline of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Identity of the caller.
    pub id: u64,
    /// Current time of the caller.
    pub now_ns: u64,
}

/// The timeline of the engine, which executes one command at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeline {
    free_ns: u64,
    last: Option<u64>,
}

impl Timeline {
    /// One dispatch of a caller, with the stages `of` or those of a small program. Advances both timelines.
    pub fn dispatch(&mut self, lane: &mut Lane, of: Option<Stages>) -> Stages {
        let mut stages = of.unwrap_or(Stages::SMALL);
        let ready = lane.now_ns + stages.bind_ns;
        let idle = ready.saturating_sub(self.free_ns);
        stages.wait_ns = self.free_ns.saturating_sub(ready);
        if self.last.is_some_and(|l| l != lane.id) && stages.wait_ns > 0 {
            stages.wait_ns += rows::HANDOVER_NS;
        } else if self.last.is_some() {
            stages.wait_ns += penalty_ns(idle);
        }
        lane.now_ns = ready + stages.inside_ns();
        (self.free_ns, self.last) = (lane.now_ns, Some(lane.id));
        stages
    }

    /// Time at which the engine becomes free, in nanoseconds.
    pub fn free_ns(&self) -> u64 {
        self.free_ns
    }
}

/// Latency of the first call after an idle gap, in nanoseconds: rises to half a millisecond at a gap of 100 ms, stays there,
/// and is 260 ms once everything is powered off.
pub fn penalty_ns(idle_ns: u64) -> u64 {
    match idle_ns {
        n if n >= rows::LONG_GAP_NS => rows::LONG_PENALTY_NS,
        n if n >= rows::SHORT_GAP_NS => rows::SHORT_PENALTY_NS,
        // A gap shorter than a dispatch does not count.
        n if n <= Stages::SMALL.total_ns() => 0,
        n => rows::SHORT_PENALTY_NS * n / rows::SHORT_GAP_NS,
    }
}

/// Ticks of the 24 MHz time stamp.
pub fn ticks(ns: u64) -> u64 {
    (u128::from(ns) * 1000 * 24 / 1_000_000) as u64
}

/// Time of a small client beside a heavy one that always has a command waiting: its own minimum, and one command of the other.
pub fn contended_ns(heavy_command_ns: u64) -> u64 {
    rows::VICTIM_FLOOR_NS + heavy_command_ns
}
