//! Trace of a session in the JSON format of Perfetto and Chrome. The host's track is measured; the tracks of driver,
//! firmware and engine are the modelled budget of each dispatch, which their names state.

use crate::clock::Stages;
use crate::driver::task::lock;
use anemone_program::cost::SMALL_ENGINE_NS;
use std::sync::Mutex;
use std::time::Instant;

/// Track of a trace: the component in which an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// This process, measured.
    Host = 1,
    /// The driver, modelled.
    Driver = 2,
    /// The firmware, modelled.
    Firmware = 3,
    /// The engine, modelled.
    Engine = 4,
}

/// A named span.
#[derive(Clone, Debug)]
pub struct Span {
    /// Track.
    pub lane: Lane,
    /// Name.
    pub name: String,
    /// Start in nanoseconds since the trace began.
    pub start_ns: u64,
    /// Length in nanoseconds.
    pub length_ns: u64,
}

/// Largest number of spans; later ones are dropped.
const MAX_SPANS: usize = 1 << 18;

/// A trace.
#[derive(Debug)]
pub struct Trace {
    origin: Instant,
    spans: Mutex<Vec<Span>>,
}

impl Default for Trace {
    fn default() -> Self {
        Trace { origin: Instant::now(), spans: Mutex::default() }
    }
}

impl Trace {
    fn push(&self, lane: Lane, name: &str, start_ns: u64, length_ns: u64) {
        let mut spans = lock(&self.spans);
        if spans.len() < MAX_SPANS {
            spans.push(Span { lane, name: name.into(), start_ns, length_ns });
        }
    }

    fn since(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.origin).as_nanos() as u64
    }

    /// Adds a measured span that ends now.
    pub fn span(&self, lane: Lane, name: &str, begin: Instant) {
        let start = self.since(begin);
        self.push(lane, name, start, self.since(Instant::now()).saturating_sub(start));
    }

    /// Adds the modelled stages of a dispatch that began at this time, and the engine's part of its round trip.
    pub fn stages(&self, begin: Instant, s: Stages) {
        let mut at = self.since(begin);
        let idle = Stages::SMALL.round_trip_ns - SMALL_ENGINE_NS;
        let engine = s.round_trip_ns.saturating_sub(idle);
        for (lane, name, length) in [
            (Lane::Driver, "build request", s.build_ns),
            (Lane::Driver, "doorbell", s.kick_ns),
            (Lane::Firmware, "round trip", s.round_trip_ns),
            (Lane::Driver, "completion", s.complete_ns),
        ] {
            self.push(lane, name, at, length);
            if lane == Lane::Firmware {
                self.push(Lane::Engine, "execute", at + (length - engine) / 2, engine);
            }
            at += length;
        }
    }

    /// Spans so far.
    pub fn spans(&self) -> Vec<Span> {
        lock(&self.spans).clone()
    }

    /// The JSON document.
    pub fn json(&self) -> String {
        let lanes = [
            (Lane::Host, "host"),
            (Lane::Driver, "driver (modelled)"),
            (Lane::Firmware, "firmware (modelled)"),
            (Lane::Engine, "engine (modelled)"),
        ];
        let mut events: Vec<serde_json::Value> = lanes
            .iter()
            .map(|&(lane, name)| {
                serde_json::json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": lane as u8, "args": {"name": name}})
            })
            .collect();
        events.extend(lock(&self.spans).iter().map(|s| {
            let (ts, dur) = (s.start_ns as f64 / 1000.0, s.length_ns as f64 / 1000.0);
            serde_json::json!({"ph": "X", "name": s.name, "pid": 1, "tid": s.lane as u8, "ts": ts, "dur": dur})
        }));
        serde_json::json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
    }
}
