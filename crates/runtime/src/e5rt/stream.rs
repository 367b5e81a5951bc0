//! Streams: operations encoded, executed, reset; events.

use super::{Operation, Runtime, trace};
use crate::driver::task::lock;
use crate::error::{Code, Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Default wait limit of the second of two overlapped streams with the quirk.
const QUIRK_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct EventState {
    done: Option<std::result::Result<(), Code>>,
}

/// Completion event: fires once, with the result of an operation or a submission.
#[derive(Debug, Default)]
pub struct Event {
    state: Mutex<EventState>,
    fired: Condvar,
}

impl Event {
    /// A new event.
    pub fn new() -> Arc<Event> {
        Arc::default()
    }

    fn fire(&self, result: std::result::Result<(), Code>) {
        let mut state = lock(&self.state);
        if state.done.is_none() {
            state.done = Some(result);
            drop(state);
            self.fired.notify_all();
        }
    }

    /// Waits for the event. Errors: the code of the request, or a time-out.
    pub fn wait(&self, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let mut state = lock(&self.state);
        loop {
            let what = "event";
            match state.done {
                Some(Ok(())) => return Ok(()),
                Some(Err(code)) => return Err(Error::Driver { what, code }),
                None => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Timeout { what, waited_ms: limit.as_millis() as u64, code: Code::TIMEOUT });
            }
            state = self.fired.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns true if the event has fired.
    pub fn is_done(&self) -> bool {
        lock(&self.state).done.is_some()
    }
}

/// An operation with its completion event.
type Encoded = (Arc<Operation>, Arc<Event>);

#[derive(Default)]
struct Inner {
    encoded: Vec<Encoded>,
    in_flight: bool,
    /// Number of threads waiting for submissions in flight.
    waiting: u32,
}

/// Encoded operations and the threads that wait for them.
#[derive(Default)]
struct State {
    inner: Mutex<Inner>,
    settled: Condvar,
}

impl State {
    /// Waits until no submission is in flight.
    fn wait_idle<'a>(&self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        while inner.in_flight {
            inner.waiting += 1;
            inner = self.settled.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.waiting -= 1;
        }
        inner
    }

    fn land(&self) {
        let mut inner = lock(&self.inner);
        inner.in_flight = false;
        if inner.waiting > 0 {
            self.settled.notify_all();
        }
    }
}

/// Configuration of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamConfig {
    /// True for completion by the low-latency path, which the quirk of the M1's overlapped streams does not affect.
    pub low_latency_events: bool,
    /// True if several threads may execute the stream, one after another; if false, the second one is refused.
    pub concurrent_execution: bool,
}

/// A stream.
pub struct Stream {
    config: StreamConfig,
    runtime: Arc<Runtime>,
    state: Arc<State>,
}

impl Stream {
    /// An empty stream.
    pub fn new(runtime: &Arc<Runtime>) -> Stream {
        Stream::with(runtime, StreamConfig::default())
    }

    /// An empty stream with a configuration.
    pub fn with(runtime: &Arc<Runtime>, config: StreamConfig) -> Stream {
        Stream { config, runtime: Arc::clone(runtime), state: Arc::default() }
    }

    /// Appends an operation; its event fires when it is complete. Every port must have a buffer.
    pub fn encode(&self, operation: &Arc<Operation>) -> Result<Arc<Event>> {
        operation.check_bound()?;
        operation.prepare();
        let mut inner = lock(&self.state.inner);
        if inner.in_flight {
            return Err(Error::State { what: "encode", state: "in flight" });
        }
        let event = Event::new();
        inner.encoded.push((Arc::clone(operation), Arc::clone(&event)));
        Ok(event)
    }

    /// Runs the encoded operations and waits for them. An empty stream does nothing.
    pub fn execute(&self) -> Result<()> {
        let Some(work) = self.take_off("execute")? else { return Ok(()) };
        let overlapped = depart(&self.runtime);
        let result = fly(&self.runtime, self.config, (&work, overlapped), None);
        self.state.land();
        result
    }

    /// Runs the encoded operations on another thread; returns the submission's number, and its completion event. After the time limit
    /// the submission is aborted, and the event has the code.
    pub fn submit(&self, limit: Option<Duration>) -> Result<(u64, Arc<Event>)> {
        let complete = Event::new();
        let id = self.runtime.next_submission();
        let Some(work) = self.take_off("submit")? else {
            complete.fire(Ok(()));
            return Ok((id, complete));
        };
        // A stream is in flight from its submission on, even before its thread runs.
        let overlapped = depart(&self.runtime);
        let (runtime, state) = (Arc::clone(&self.runtime), Arc::clone(&self.state));
        let (done, config) = (Arc::clone(&complete), self.config);
        let run = move || {
            drop(runtime.departures.read().unwrap_or_else(PoisonError::into_inner));
            let result = fly(&runtime, config, (&work, overlapped), limit).map_err(|e| e.code());
            state.land();
            done.fire(result);
        };
        let spawned = std::thread::Builder::new().name("ane-stream".into()).spawn(run);
        if let Err(error) = spawned {
            if !overlapped {
                *lock(&self.runtime.flights) = 0;
            }
            self.state.land();
            return Err(Error::system("spawn", "", error));
        }
        Ok((id, complete))
    }

    fn take_off(&self, what: &'static str) -> Result<Option<Vec<Encoded>>> {
        let inner = lock(&self.state.inner);
        if inner.in_flight && !self.config.concurrent_execution {
            return Err(Error::State { what, state: "in flight" });
        }
        let mut inner = self.state.wait_idle(inner);
        inner.in_flight = !inner.encoded.is_empty();
        Ok(inner.in_flight.then(|| inner.encoded.clone()))
    }

    /// Removes the encoded operations; bindings and buffers stay. Waits for submissions in flight.
    pub fn reset(&self) {
        self.state.wait_idle(lock(&self.state.inner)).encoded.clear();
    }
}

/// Marks a stream as in flight; returns true if another one is.
fn depart(runtime: &Runtime) -> bool {
    std::mem::replace(&mut *lock(&runtime.flights), 1) > 0
}

/// Runs operations in order.
fn fly(
    runtime: &Runtime,
    config: StreamConfig,
    (work, overlapped): (&[Encoded], bool),
    limit: Option<Duration>,
) -> Result<()> {
    let begin = Instant::now();
    if overlapped && runtime.quirks.stream_overlap && !config.low_latency_events {
        let limit = limit.unwrap_or(QUIRK_LIMIT);
        std::thread::sleep(limit);
        let error =
            Error::Timeout { what: "overlapped stream", waited_ms: limit.as_millis() as u64, code: Code::ABORTED };
        work.iter().for_each(|(_, event)| event.fire(Err(error.code())));
        return Err(error);
    }
    let mut result = Ok(());
    for (operation, event) in work {
        if result.is_ok() {
            let left = limit.map(|l| l.saturating_sub(begin.elapsed()));
            result = operation.run(left);
        }
        event.fire(result.as_ref().map(|_| ()).map_err(Error::code));
    }
    if !overlapped {
        *lock(&runtime.flights) = 0;
    }
    if let Some(trace) = &runtime.trace {
        trace.span(trace::Lane::Host, "EVALUATE", begin);
    }
    result
}
