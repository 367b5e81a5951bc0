//! Scheduling behind the gate: selection of the next request, its passage through the firmware, and its answer.

use super::{Event, Message, Posted, Request, answer};
use crate::clock::penalty_ns;
use crate::driver::{Driver, Gate, InjectedFault};
use crate::error::Code;
use crate::firmware::call::Call;
use crate::firmware::header::{Form, Header};
use crate::firmware::{Channel, Fault, Outcome, notify};
use anemone_facts::driver::limits as rows;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Gate {
    /// Key of the most urgent request whose events are reached.
    pub(super) fn next_ready(&self) -> Option<(u32, u64, u64)> {
        let reached =
            |pid: u32, (event, value): &Event| self.events.get(&(pid, *event)).is_some_and(|now| now >= value);
        let ready = |r: &Request| r.waits.iter().all(|event| reached(r.pid, event));
        self.queue.waiting.iter().find(|(_, r)| ready(r)).map(|(&key, _)| key)
    }

    /// Raises a process's event to a value, never lowering it. Requests that wait for it may run.
    pub(crate) fn raise(&mut self, pid: u32, event: u32, value: u64) {
        let now = self.events.entry((pid, event)).or_default();
        *now = (*now).max(value);
        self.counters.signalled += 1;
    }

    /// The next request to post: the most urgent one if none is posted, or one more urgent than the posted one.
    pub(super) fn schedule(&mut self, driver: &Driver) -> Option<Request> {
        loop {
            if !self.firmware.is_ready() || self.queue.preemptor.is_some() {
                return None;
            }
            let key = self.next_ready()?;
            let next = self.queue.waiting.get(&key)?;
            let crosses = next.call.secure != self.firmware.is_secure();
            if let Some(running) = &mut self.queue.posted {
                // No request preempts one on the other side of the secure boundary.
                if key.0 >= running.priority || running.withheld.is_some() || crosses {
                    return None;
                }
                running.aborted = true;
                running.stop.store(true, Relaxed);
            }
            let request = self.queue.waiting.remove(&key)?;
            if crosses && let Err(code) = self.cross(request.call.secure) {
                self.finish(request, code);
                continue;
            }
            self.queue.turns.taken(key.0, key.1);
            if self.queue.waiting.is_empty() {
                self.queue.turns.idle();
            }
            if let Some(request) = self.post(driver, request) {
                return Some(request);
            }
        }
    }

    /// Crosses the secure boundary: power off and on, all residency wiped.
    fn cross(&mut self, enter: bool) -> Result<(), Code> {
        self.firmware.cross(enter)?;
        self.counters.secure_phases += u64::from(enter);
        self.now_ns += penalty_ns(rows::LONG_GAP_NS);
        Ok(())
    }

    /// Posts a request and lets the firmware take it. `None` if it was answered immediately.
    fn post(&mut self, driver: &Driver, request: Request) -> Option<Request> {
        let as_preemptor = self.queue.posted.is_some();
        let ids = match self.reload(driver, request.token) {
            Ok(ids) => ids,
            Err(code) => {
                self.finish(request, code);
                return None;
            }
        };
        let header = Header {
            id: request.command,
            size: Call::BYTES as u32,
            priority: request.priority,
            program: ids.0 as i32,
            process: ids.1 as i32,
            procedure: request.procedure,
        };
        let mut message = Vec::with_capacity(Header::BYTES + Call::BYTES);
        match header.encode(Form::Loop) {
            Ok(header) => message.extend_from_slice(&header),
            Err(code) => {
                self.finish(request, code);
                return None;
            }
        }
        message.extend_from_slice(&request.call.encode());
        if let Err(code) = self.firmware.post(Channel::Chain, &message) {
            self.finish(request, code);
            return None;
        }
        self.counters.doorbells += 1;
        self.counters.last_store = 1 << request.doorbell;
        *self.counters.doorbells_by_index.entry(request.doorbell).or_default() += 1;
        match self.firmware.step(Channel::Chain) {
            Some(Outcome::Granted(..)) => {}
            Some(Outcome::Dropped) => {
                self.finish(request, Code::NOT_FOUND);
                return None;
            }
            Some(Outcome::Rejected(code)) => {
                self.finish(request, code);
                return None;
            }
            _ => {
                self.finish(request, Code::ABORTED);
                self.abort_all();
                self.recover();
                return None;
            }
        }
        if !self.firmware.power.start(rows::CLUSTERS as u32) {
            self.firmware.drained();
            self.finish(request, Code::NOT_READY);
            return None;
        }
        let (id, client, priority) = (request.id, request.client, request.priority);
        let posted = Posted {
            id,
            client,
            priority,
            aborted: false,
            stop: Arc::default(),
            cancelled: None,
            abandoned: false,
            withheld: None,
        };
        let slot = if as_preemptor { &mut self.queue.preemptor } else { &mut self.queue.posted };
        *slot = Some(posted);
        let now_posted = 1 + as_preemptor as u32;
        self.counters.most_posted = self.counters.most_posted.max(now_posted);
        match self.trouble.take() {
            None => Some(request),
            Some(trouble) => self.suffer(trouble, request),
        }
    }

    fn suffer(&mut self, trouble: InjectedFault, request: Request) -> Option<Request> {
        match trouble {
            InjectedFault::QueueStuck => {
                self.now_ns += rows::IDLE_WAIT_NS;
                self.complete(request, Code::ABORTED);
            }
            InjectedFault::AbortStuck => {
                self.now_ns += 2 * rows::IDLE_WAIT_NS;
                self.complete(request, Code::ABORTED);
                self.stop(Fault::AbortStuck);
                self.recover();
            }
            InjectedFault::Withheld => {
                let id = request.id;
                if let Some(slot) = self.queue.slot(id) {
                    slot.withheld = Some(request);
                }
            }
            InjectedFault::StrayAddress(word) => {
                let beyond = rows::APERTURE_BYTES;
                self.dart.translate(request.client, 0, beyond, false, word);
                if self.dart.fault().is_none() {
                    return Some(request);
                }
                self.complete(request, Code::ABORTED);
                self.stop(Fault::Translation);
                self.recover();
            }
        }
        None
    }

    /// Completes a posted request: notification, then the answer.
    pub(super) fn complete(&mut self, request: Request, code: Code) {
        for slot in [&mut self.queue.posted, &mut self.queue.preemptor] {
            if slot.as_ref().is_some_and(|p| p.id == request.id) {
                *slot = None;
            }
        }
        if self.queue.posted.is_none() && self.queue.preemptor.is_none() {
            self.firmware.drained();
            self.firmware.power.end();
        }
        if code == Code::SUCCESS {
            request.resident.ran(&mut self.firmware.counters);
            let queue = request.call.queue as usize;
            let image = self.instances.get(&request.token).and_then(|instance| self.images.get(&instance.image));
            let partitions = image.map_or(1, |image| self.firmware.partitions(image.program, request.procedure));
            if let Some(pushed) = self.counters.engine_requests.get_mut(queue) {
                *pushed += partitions;
            }
            self.counters.chained += u64::from(request.call.handler != 0);
        }
        if code == Code::SUCCESS {
            request.signals.iter().for_each(|&(event, value)| self.raise(request.pid, event, value));
        }
        let next = self.next_ready().and_then(|key| self.queue.waiting.get(&key));
        let next_secure = next.is_some_and(|next| next.call.secure);
        if request.call.secure && self.queue.posted.is_none() && !next_secure && self.firmware.is_secure() {
            // The boundary is crossed back at once: no state of a secure client remains.
            let _ = self.cross(false);
        }
        if request.call.handler != 0 {
            self.firmware.chain.stage_done(request.call.handler);
        }
        let lane = self.lanes.entry(request.client).or_default();
        lane.id = request.client;
        let stages = self.controls.throttled(request.resident.stages());
        self.timeline.dispatch(lane, stages);
        self.now_ns = self.now_ns.max(self.timeline.free_ns());
        self.counters.interrupts += 2;
        let mut steps = Vec::new();
        let told = self.firmware.fabric.notify(request.doorbell, &mut steps);
        self.finish(request, code);
        if told == notify::Outcome::Fatal {
            self.stop(Fault::Uncorrectable);
            self.recover();
        }
    }

    /// Delivers the answer, once per request.
    fn finish(&mut self, request: Request, code: Code) {
        let used = request.inputs.iter().chain(&request.outputs).chain(&request.sections);
        used.for_each(|b| self.dart.end(request.client, b.iova));
        if let Some(instance) = self.instances.get_mut(&request.token) {
            instance.outstanding = instance.outstanding.saturating_sub(1);
            let idle = self.queue.posted.is_none() && self.queue.waiting.is_empty();
            if instance.saving && idle {
                self.power_off();
            }
        }
        match code {
            Code::SUCCESS => self.counters.completed += 1,
            Code::ABORTED | Code::TIMEOUT => self.counters.aborted += 1,
            _ => {}
        }
        let reply = answer(&request, code);
        match &request.wake {
            // A port whose receiver is gone needs no message.
            Some(port) => drop(port.0.send(Message { code, reply })),
            None => {
                self.queue.results.insert(request.id, (code, reply));
                if let Some(thread) = self.queue.waiters.remove(&request.id) {
                    thread.unpark();
                }
            }
        }
    }

    /// Ends one request in any state.
    pub(super) fn end_early(&mut self, id: u64, code: Code) {
        let waiting = self.queue.waiting.iter().find(|(_, r)| r.id == id).map(|(&key, _)| key);
        if let Some(request) = waiting.and_then(|key| self.queue.waiting.remove(&key)) {
            self.finish(request, code);
            return;
        }
        let Some(slot) = self.queue.slot(id) else { return };
        match slot.withheld.take() {
            Some(request) => self.complete(request, code),
            None => {
                slot.cancelled = Some(code);
                slot.stop.store(true, Relaxed);
            }
        }
    }

    /// Ends every request of a client.
    pub(crate) fn abort_client(&mut self, client: u64, code: Code) {
        let waiting = self.queue.waiting.values().filter(|r| r.client == client).map(|r| r.id);
        let posted = [&self.queue.posted, &self.queue.preemptor].into_iter().flatten();
        let mut all: Vec<u64> = waiting.collect();
        all.extend(posted.filter(|p| p.client == client).map(|p| p.id));
        all.into_iter().for_each(|id| self.end_early(id, code));
    }

    /// Ends every request.
    pub(crate) fn abort_all(&mut self) {
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|client| self.abort_client(client, Code::ABORTED));
    }

    /// Returns true if a client has a waiting or running request.
    pub(crate) fn busy(&self, client: u64) -> bool {
        let posted = [&self.queue.posted, &self.queue.preemptor].into_iter().flatten();
        self.queue.waiting.values().any(|r| r.client == client) || posted.into_iter().any(|p| p.client == client)
    }
}
