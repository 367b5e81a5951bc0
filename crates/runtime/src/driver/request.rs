//! Requests: admitted, queued by urgency, posted one at a time, executed, answered.

use super::client::Client;
use super::resident::Resident;
use super::task::lock;
use super::turns::Turns;
use super::{Driver, Gate, Prepared, Trouble};
use crate::error::Code;
use crate::firmware::call::Call;
use crate::firmware::header::{Form, Header};
use crate::firmware::{Channel, Fault, Outcome, notify};
use crate::os::shared::Shared;
use crate::words::{put32, put64, u32_at, u64_at};
use anemone_facts::driver::commands::wire;
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::structures::{reply, request};
use anemone_program::Direction;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The 40 bytes of a reply.
pub type Reply = [u8; reply::BYTES];

/// What a wake port gets: one message for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Result.
    pub code: Code,
    /// Reply.
    pub reply: Reply,
}

/// Where completion is told.
#[derive(Clone, Debug)]
pub struct WakePort(Sender<Message>);

impl WakePort {
    /// A port, and its receiving end.
    pub fn new() -> (WakePort, Receiver<Message>) {
        let (sender, receiver) = channel();
        (WakePort(sender), receiver)
    }
}

/// A surface in use: identity, memory, device address.
type Bound = (u32, Arc<Shared>, u64);

#[derive(Debug)]
pub(crate) struct Request {
    id: u64,
    client: u64,
    token: u64,
    sequence: u32,
    priority: u32,
    doorbell: u32,
    call: Call,
    command: u32,
    inputs: Vec<Bound>,
    outputs: Vec<Bound>,
    wake: Option<WakePort>,
    resident: Arc<Resident>,
}

#[derive(Debug)]
struct Posted {
    id: u64,
    client: u64,
    priority: u32,
    /// Taken back for a more urgent command; it starts again afterwards.
    aborted: bool,
    /// Stops the walk before its next task.
    stop: Arc<AtomicBool>,
    /// Ended by someone else; its results are not wanted.
    cancelled: Option<Code>,
    /// Nobody waits for its answer any more.
    abandoned: bool,
    /// A request that never completes by itself.
    withheld: Option<Request>,
}

/// Waiting, posted, and answered requests.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By priority, turn within it, and order of arrival.
    waiting: BTreeMap<(u32, u64, u64), Request>,
    turns: Turns,
    posted: Option<Posted>,
    preemptor: Option<Posted>,
    results: BTreeMap<u64, (Code, Reply)>,
    order: u64,
    worker: bool,
    /// Threads that wait for an answer.
    waiters: BTreeMap<u64, Thread>,
    /// Threads in [`Driver::sleep`].
    pub(crate) sleepers: u32,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.posted.is_some() as usize + self.preemptor.is_some() as usize
    }

    fn slot(&mut self, id: u64) -> Option<&mut Posted> {
        [&mut self.posted, &mut self.preemptor].into_iter().flatten().find(|p| p.id == id)
    }
}

fn answer(request: &Request, code: Code) -> Reply {
    let mut out = [0; reply::BYTES];
    put32(&mut out, reply::SEQUENCE, request.sequence);
    put32(&mut out, reply::RESULT, code.0);
    put64(&mut out, reply::TOKEN, request.token);
    put32(&mut out, reply::STATUS, (code == Code::SUCCESS) as u32);
    out
}

/// Priority that a class of service asks for.
pub fn priority_of(qos: u32) -> u32 {
    let row = rows::QOS_PRIORITIES.iter().find(|(class, _)| *class == qos);
    row.map_or(rows::DEFAULT_PRIORITY as u32, |&(_, priority)| priority)
}

impl Client {
    pub(crate) fn send_request(
        &self,
        doorbell: u64,
        input: &[u8],
        output: &mut [u8],
        wake: Option<WakePort>,
    ) -> Result<(), Code> {
        if doorbell >= rows::DOORBELLS {
            return Err(Code::BAD_ARGUMENT);
        }
        let (priority, qos) = (u32_at(input, request::PRIORITY), u32_at(input, request::QOS));
        self.check_priority(priority, qos)?;
        let (token, counts) = (u64_at(input, request::TOKEN), u32_at(input, request::COUNTS));
        let (n_in, n_out) = ((counts & 0xff) as usize, (counts >> 8 & 0xff) as usize);
        if n_in + n_out > 256 {
            return Err(Code::BAD_ARGUMENT);
        }
        let (waits, signals) = (u32_at(input, request::WAITS), u32_at(input, request::SIGNALS));
        let surface = |i: usize| u32_at(input, request::SURFACES + 8 * i);
        let ids: Vec<u32> = (0..n_in + n_out).map(surface).collect();
        let call = Call { waits, signals, ..Call::default() };
        let sequence = u64_at(input, request::SEQUENCE) as u32;
        let (asynchronous, limit) = (wake.is_some(), self.timeout());
        let plan = Plan { token, sequence, priority, doorbell: doorbell as u32, call, command: wire::PROCEDURE_CALL };
        let (id, gate) = self.admit(plan, &ids[..n_in], &ids[n_in..], wake)?;
        if asynchronous {
            self.driver.work(gate);
            return Ok(());
        }
        let (code, reply) = self.driver.wait(gate, id, limit);
        output.copy_from_slice(&reply);
        if code == Code::SUCCESS { Ok(()) } else { Err(code) }
    }

    fn timeout(&self) -> Duration {
        let gate = lock(&self.driver.gate);
        let ms = gate.clients.get(&self.id).map_or(rows::HANDSHAKE_TIMEOUT_MS, |c| c.timeout_ms);
        // A clock far in the future is no limit; this is.
        Duration::from_millis(ms.min(1 << 32))
    }

    pub(crate) fn check_priority(&self, priority: u32, qos: u32) -> Result<(), Code> {
        if u64::from(priority) >= rows::PRIORITIES {
            return Err(Code::BAD_ARGUMENT);
        }
        let reserved = u64::from(priority) < rows::RESERVED_PRIORITIES && !self.stamp.reserved;
        let realtime = qos == 0 && !self.stamp.realtime && !self.stamp.reserved;
        if reserved || realtime { Err(Code::NOT_PRIVILEGED) } else { Ok(()) }
    }

    /// Whether this connection may use an instance: its own task's, or the one it was granted.
    pub(crate) fn may_use(&self, gate: &Gate, token: u64) -> Result<(), Code> {
        let instance = gate.instances.get(&token).ok_or(Code::NOT_FOUND)?;
        let scoped = match self.scope {
            Some(grant) => grant.token == token,
            None => instance.client == self.id || instance.pid == self.task.pid,
        };
        if scoped { Ok(()) } else { Err(Code::NOT_FOUND) }
    }

    /// Checks a request and puts it into the queue. Waits for room where no wake port was given.
    pub(crate) fn admit(
        &self,
        plan: Plan,
        inputs: &[u32],
        outputs: &[u32],
        wake: Option<WakePort>,
    ) -> Result<(u64, MutexGuard<'_, Gate>), Code> {
        let mut gate = lock(&self.driver.gate);
        if !gate.firmware.is_ready() {
            return Err(Code::NOT_READY);
        }
        self.may_use(&gate, plan.token)?;
        let mut deadline = None;
        loop {
            let instance = gate.instances.get(&plan.token).ok_or(Code::NOT_FOUND)?;
            if instance.state != Prepared::Yes {
                return Err(Code::NOT_READY);
            }
            if instance.outstanding < instance.depth.min(gate.share).max(1) {
                break;
            }
            if wake.is_some() {
                return Err(Code::NO_RESOURCES);
            }
            let now = Instant::now();
            let limit = Duration::from_millis(rows::HANDSHAKE_TIMEOUT_MS);
            let left = deadline.get_or_insert(now + limit).saturating_duration_since(now);
            if left.is_zero() {
                return Err(Code::TIMEOUT);
            }
            gate = self.driver.pump(gate, None);
            gate = self.driver.sleep(gate, left);
        }
        let (resident, class) = match gate.instances.get(&plan.token) {
            Some(instance) => (Arc::clone(&instance.resident), instance.priority),
            None => return Err(Code::NOT_FOUND),
        };
        let inputs = self.bind(&mut gate, &resident, Direction::Input, inputs)?;
        let outputs = match self.bind(&mut gate, &resident, Direction::Output, outputs) {
            Ok(outputs) => outputs,
            Err(code) => {
                inputs.iter().for_each(|b| gate.dart.end(self.id, b.2));
                return Err(code);
            }
        };
        if let Some(instance) = gate.instances.get_mut(&plan.token) {
            instance.outstanding += 1;
        }
        gate.next += 1;
        gate.queue.order += 1;
        let (id, order) = (gate.next, gate.queue.order);
        let Plan { token, sequence, priority, doorbell, call, command } = plan;
        let priority = if u64::from(priority) == rows::DEFAULT_PRIORITY { class } else { priority };
        let client = self.id;
        let request =
            Request { id, client, token, sequence, priority, doorbell, call, command, inputs, outputs, wake, resident };
        let turn = gate.queue.turns.enter(priority, client);
        gate.queue.waiting.insert((priority, turn, order), request);
        Ok((id, gate))
    }

    fn bind(&self, gate: &mut Gate, resident: &Resident, way: Direction, ids: &[u32]) -> Result<Vec<Bound>, Code> {
        if resident.ports(way).count() != ids.len() {
            return Err(Code::BAD_ARGUMENT);
        }
        let usage = if way == Direction::Input { 1 } else { 2 };
        let mut bound: Vec<Bound> = Vec::with_capacity(ids.len());
        for (port, &id) in resident.ports(way).zip(ids) {
            let one = |gate: &mut Gate| {
                let surface = gate.surfaces.get(&id).filter(|s| s.client == self.id).ok_or(Code::NOT_FOUND)?;
                let shared = Arc::clone(&surface.shared);
                if (shared.len() as u64) < port.bytes {
                    return Err(Code::BAD_ARGUMENT);
                }
                let iova = match gate.dart.begin(self.id, id, usage) {
                    Err(Code::NOT_FOUND) => {
                        gate.dart.map(self.id, id, shared.len() as u64, usage, 0)?;
                        gate.dart.begin(self.id, id, usage)?
                    }
                    other => other?,
                };
                Ok((id, shared, iova))
            };
            match one(gate) {
                Ok(b) => bound.push(b),
                Err(code) => {
                    bound.iter().for_each(|b| gate.dart.end(self.id, b.2));
                    return Err(code);
                }
            }
        }
        Ok(bound)
    }

    /// Ends every request of this client that waits or runs.
    pub fn cancel_all(&self) {
        let mut gate = lock(&self.driver.gate);
        gate.abort_client(self.id, Code::ABORTED);
        self.driver.pass_on(gate);
    }
}

/// A checked request without its surfaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub token: u64,
    pub sequence: u32,
    pub priority: u32,
    pub doorbell: u32,
    pub call: Call,
    pub command: u32,
}

impl Driver {
    /// Waits for a request, running the engine meanwhile. Woken when it is answered, or when it is the next to run and nobody
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
                // The answer is there now, unless a thread that executes it has yet to see that it is not wanted.
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

    /// Sleeps until something changes.
    pub(crate) fn sleep<'a>(&self, mut gate: MutexGuard<'a, Gate>, limit: Duration) -> MutexGuard<'a, Gate> {
        gate.queue.sleepers += 1;
        let mut gate = self.idle.wait_timeout(gate, limit).unwrap_or_else(PoisonError::into_inner).0;
        gate.queue.sleepers -= 1;
        gate
    }

    /// Tells sleepers of a change, and wakes whoever is to run the engine next.
    pub(crate) fn pass_on(&self, gate: MutexGuard<'_, Gate>) {
        let queue = &gate.queue;
        let next = queue.waiting.first_key_value().filter(|(key, _)| {
            queue.preemptor.is_none()
                && queue.posted.as_ref().is_none_or(|p| key.0 < p.priority && p.withheld.is_none())
        });
        let waiter = next.and_then(|(_, r)| queue.waiters.get(&r.id)).cloned();
        let sleepers = queue.sleepers > 0;
        drop(gate);
        if let Some(thread) = waiter {
            thread.unpark();
        }
        if sleepers {
            self.idle.notify_all();
        }
    }

    /// Leaves the queue to a thread of its own, one at a time.
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
                // Someone else may have the engine; what waits behind it is still this thread's to run.
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

    /// Runs what may run now, until `own` is answered; every execution is outside the gate.
    pub(crate) fn pump<'a>(&'a self, mut gate: MutexGuard<'a, Gate>, own: Option<u64>) -> MutexGuard<'a, Gate> {
        loop {
            if own.is_some_and(|id| gate.queue.results.contains_key(&id)) {
                return gate;
            }
            let Some(request) = gate.schedule(self) else { return gate };
            let resident = Arc::clone(&request.resident);
            let inputs: Vec<Arc<Shared>> = request.inputs.iter().map(|b| Arc::clone(&b.1)).collect();
            let outputs: Vec<Arc<Shared>> = request.outputs.iter().map(|b| Arc::clone(&b.1)).collect();
            let stop = gate.queue.slot(request.id).map(|slot| Arc::clone(&slot.stop)).unwrap_or_default();
            loop {
                drop(gate);
                if let Some(hook) = self.hook() {
                    hook(request.token);
                }
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
                    Ok(Some(results)) => {
                        results.publish(&outputs);
                        Code::SUCCESS
                    }
                    // Stopped for a reason that is over.
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

impl Gate {
    /// The next request that may be posted: the most urgent one when nothing is, or one more urgent than what is.
    fn schedule(&mut self, driver: &Driver) -> Option<Request> {
        loop {
            if !self.firmware.is_ready() || self.queue.preemptor.is_some() {
                return None;
            }
            let (&key, _) = self.queue.waiting.first_key_value()?;
            if let Some(running) = &mut self.queue.posted {
                if key.0 >= running.priority || running.withheld.is_some() {
                    return None;
                }
                running.aborted = true;
                running.stop.store(true, Relaxed);
            }
            let request = self.queue.waiting.remove(&key)?;
            self.queue.turns.taken(key.0, key.1);
            if self.queue.waiting.is_empty() {
                self.queue.turns.idle();
            }
            if let Some(request) = self.post(driver, request) {
                return Some(request);
            }
        }
    }

    /// Posts a request and lets the firmware take it. `None` where it was answered already.
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
            procedure: 0,
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

    fn suffer(&mut self, trouble: Trouble, request: Request) -> Option<Request> {
        match trouble {
            Trouble::QueueStuck => {
                self.now_ns += rows::IDLE_WAIT_NS;
                self.complete(request, Code::ABORTED);
            }
            Trouble::AbortStuck => {
                self.now_ns += 2 * rows::IDLE_WAIT_NS;
                self.complete(request, Code::ABORTED);
                self.stop(Fault::AbortStuck);
                self.recover();
            }
            Trouble::Withheld => {
                let id = request.id;
                if let Some(slot) = self.queue.slot(id) {
                    slot.withheld = Some(request);
                }
            }
            Trouble::StrayAddress(word) => {
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

    /// A posted request is over: notification, then the answer.
    fn complete(&mut self, request: Request, code: Code) {
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
        }
        if request.call.handler != 0 {
            self.firmware.chain.stage_done(request.call.handler);
        }
        let lane = self.lanes.entry(request.client).or_default();
        lane.id = request.client;
        self.timeline.dispatch(lane, None);
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

    /// The answer: once for each request.
    fn finish(&mut self, request: Request, code: Code) {
        request.inputs.iter().chain(&request.outputs).for_each(|b| self.dart.end(request.client, b.2));
        if let Some(instance) = self.instances.get_mut(&request.token) {
            instance.outstanding = instance.outstanding.saturating_sub(1);
        }
        match code {
            Code::SUCCESS => self.counters.completed += 1,
            Code::ABORTED | Code::TIMEOUT => self.counters.aborted += 1,
            _ => {}
        }
        let reply = answer(&request, code);
        match &request.wake {
            // A port whose owner has gone away needs no message.
            Some(port) => drop(port.0.send(Message { code, reply })),
            None => {
                self.queue.results.insert(request.id, (code, reply));
                if let Some(thread) = self.queue.waiters.remove(&request.id) {
                    thread.unpark();
                }
            }
        }
    }

    /// Ends one request, wherever it is.
    fn end_early(&mut self, id: u64, code: Code) {
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

    /// Whether a client has a request that waits or runs.
    pub(crate) fn busy(&self, client: u64) -> bool {
        let posted = [&self.queue.posted, &self.queue.preemptor].into_iter().flatten();
        self.queue.waiting.values().any(|r| r.client == client) || posted.into_iter().any(|p| p.client == client)
    }
}
