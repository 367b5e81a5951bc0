//! Execution of requests on the waiting thread, outside the gate, one thread at a time.

use super::Reply;
use crate::driver::task::lock;
use crate::driver::{Driver, Gate};
use crate::error::Code;
use anemone_facts::driver::structures::reply;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

impl Driver {
    /// Waits for a request, running the engine meanwhile. Woken when it is answered, or when it is next and no thread
    /// runs the engine.
    pub(crate) fn wait<'a>(&'a self, mut gate: MutexGuard<'a, Gate>, id: u64, limit: Duration) -> (Code, Reply) {
        let deadline = Instant::now() + limit;
        loop {
            gate = self.pump(gate, Some(id));
            if let Some(done) = gate.queue.results.remove(&id) {
                gate.queue.waiters.remove(&id);
                self.pass_on(gate);
                return done;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                gate.end_early(id, Code::TIMEOUT);
                if let Some(slot) = gate.queue.slot(id) {
                    slot.abandoned = true;
                }
                gate.queue.waiters.remove(&id);
                // The answer is available, unless a thread that executes the request has yet to notice its cancellation.
                let answer = gate.queue.results.remove(&id).unwrap_or((Code::TIMEOUT, [0; reply::BYTES]));
                self.pass_on(gate);
                return answer;
            }
            gate.queue.waiters.entry(id).or_insert_with(std::thread::current);
            drop(gate);
            std::thread::park_timeout(left);
            gate = lock(&self.gate);
        }
    }

    /// Sleeps until the state changes.
    pub(crate) fn sleep<'a>(&self, mut gate: MutexGuard<'a, Gate>, limit: Duration) -> MutexGuard<'a, Gate> {
        gate.queue.sleepers += 1;
        let mut gate = self.idle.wait_timeout(gate, limit).unwrap_or_else(PoisonError::into_inner).0;
        gate.queue.sleepers -= 1;
        gate
    }

    /// Notifies sleepers of a change, and wakes the thread that is to run the engine next.
    pub(crate) fn pass_on(&self, gate: MutexGuard<'_, Gate>) {
        let queue = &gate.queue;
        let next = gate.next_ready().filter(|key| {
            queue.preemptor.is_none()
                && queue.posted.as_ref().is_none_or(|p| key.0 < p.priority && p.withheld.is_none())
        });
        let next = next.and_then(|key| queue.waiting.get(&key));
        let waiter = next.and_then(|r| queue.waiters.get(&r.id)).cloned();
        let sleepers = queue.sleepers > 0;
        drop(gate);
        if let Some(thread) = waiter {
            thread.unpark();
        }
        if sleepers {
            self.idle.notify_all();
        }
    }

    /// Processes the queue on a thread of its own, one at a time.
    pub(crate) fn work(self: &Arc<Self>, mut gate: MutexGuard<'_, Gate>) {
        if std::mem::replace(&mut gate.queue.worker, true) {
            self.pass_on(gate);
            return;
        }
        drop(gate);
        let driver = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("ane-engine".into()).spawn(move || {
            let mut gate = lock(&driver.gate);
            loop {
                gate = driver.pump(gate, None);
                // Another thread may run the engine; requests waiting behind it are still this thread's to run.
                if gate.queue.waiting.is_empty() {
                    gate.queue.worker = false;
                    return;
                }
                gate = driver.sleep(gate, Duration::from_millis(50));
            }
        });
        if spawned.is_err() {
            let mut gate = lock(&self.gate);
            gate.queue.worker = false;
            drop(self.pump(gate, None));
        }
    }

    /// Runs ready requests until `own` is answered; every execution is outside the gate.
    pub(crate) fn pump<'a>(&'a self, mut gate: MutexGuard<'a, Gate>, own: Option<u64>) -> MutexGuard<'a, Gate> {
        loop {
            if own.is_some_and(|id| gate.queue.results.contains_key(&id)) {
                return gate;
            }
            let Some(request) = gate.schedule(self) else { return gate };
            let resident = Arc::clone(&request.resident);
            let stop = gate.queue.slot(request.id).map(|slot| Arc::clone(&slot.stop)).unwrap_or_default();
            loop {
                if let Some(hook) = self.hook() {
                    drop(gate);
                    hook(request.token);
                    gate = lock(&self.gate);
                }
                let inputs = match gate.read_routes(&request) {
                    Ok(inputs) => inputs,
                    Err(stray) => {
                        gate.strayed(request, stray);
                        break;
                    }
                };
                drop(gate);
                let results = resident.run(&inputs, &stop);
                gate = lock(&self.gate);
                let Some(slot) = gate.queue.slot(request.id) else { break };
                if let Some(code) = slot.cancelled {
                    let (id, abandoned) = (request.id, slot.abandoned);
                    gate.complete(request, code);
                    if abandoned {
                        gate.queue.results.remove(&id);
                    }
                    break;
                }
                if std::mem::take(&mut slot.aborted) {
                    gate.counters.preempted += 1;
                    while gate.queue.preemptor.is_some() {
                        gate = self.sleep(gate, Duration::from_millis(50));
                    }
                    let again = gate.queue.slot(request.id).is_some_and(|p| !p.aborted && p.cancelled.is_none());
                    if again {
                        stop.store(false, Relaxed);
                    }
                    continue;
                }
                let code = match &results {
                    Ok(Some(results)) => match gate.write_routes(&request) {
                        Ok(outputs) => {
                            results.publish(&outputs);
                            Code::SUCCESS
                        }
                        Err(stray) => {
                            gate.strayed(request, stray);
                            break;
                        }
                    },
                    // Stopped by a preemption that is already over.
                    Ok(None) => Code::ABORTED,
                    Err(code) => *code,
                };
                gate.complete(request, code);
                break;
            }
            if gate.queue.sleepers > 0 {
                self.idle.notify_all();
            }
        }
    }
}
