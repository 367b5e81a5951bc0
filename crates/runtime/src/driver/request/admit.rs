//! Admission of requests: checks of the client's rights, its program and its surfaces, and queuing.

use super::{Bound, Plan, Request, WakePort, priority_of};
use crate::driver::client::Client;
use crate::driver::resident::Resident;
use crate::driver::task::lock;
use crate::driver::{Gate, Prepared, Section};
use crate::error::Code;
use crate::firmware::call::Call;
use crate::words::{u32_at, u64_at};
use anemone_facts::driver::commands::wire;
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::structures::request;
use anemone_program::{Direction, Program};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

/// Largest number of events of a request: those it waits for, then those it signals.
const EVENT_SLOTS: u32 = 12;

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
        let between = (counts >> rows::REQUEST_INTERMEDIATE_SHIFT & 0xff) as usize;
        if n_in + n_out + between > 256 || between > 1 {
            return Err(Code::BAD_ARGUMENT);
        }
        let (waits, signals) = (u32_at(input, request::WAITS), u32_at(input, request::SIGNALS));
        let surface = |i: usize| u32_at(input, request::SURFACES + 8 * i);
        let ids: Vec<u32> = (0..n_in + n_out).map(surface).collect();
        let intermediate = (between == 1).then(|| surface(n_in + n_out));
        let call = Call { waits, signals, ..Call::default() };
        let event = |i: u32| {
            let at = request::EVENTS + 24 * i as usize;
            (i < EVENT_SLOTS).then(|| (u32_at(input, at), u64_at(input, at + 8))).filter(|(event, _)| *event != 0)
        };
        let (first, last) = (waits.min(EVENT_SLOTS), waits.saturating_add(signals).min(EVENT_SLOTS));
        let (waits, signals) = ((0..first).filter_map(event).collect(), (first..last).filter_map(event).collect());
        let sequence = u64_at(input, request::SEQUENCE) as u32;
        let (asynchronous, limit) = (wake.is_some(), self.timeout());
        let (doorbell, command) = (doorbell as u32, wire::PROCEDURE_CALL);
        let procedure = counts >> rows::REQUEST_PROCEDURE_SHIFT & 0xff;
        let plan = Plan { token, sequence, priority, doorbell, call, command, procedure, intermediate, waits, signals };
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
        // A deadline far in the future is no limit, so it is clamped.
        Duration::from_millis(ms.min(1 << 32))
    }

    pub(crate) fn check_priority(&self, priority: u32, qos: u32) -> Result<(), Code> {
        if u64::from(priority) >= rows::PRIORITIES {
            return Err(Code::BAD_ARGUMENT);
        }
        let reserved = u64::from(priority) < rows::RESERVED_PRIORITIES && !self.stamp.reserved;
        let realtime = u64::from(qos) == rows::REALTIME_QOS && !self.stamp.realtime && !self.stamp.reserved;
        if reserved || realtime { Err(Code::NOT_PRIVILEGED) } else { Ok(()) }
    }

    /// Checks that this connection may use an instance: one of its own task, or the granted one.
    pub(crate) fn may_use(&self, gate: &Gate, token: u64) -> Result<(), Code> {
        let instance = gate.instances.get(&token).ok_or(Code::NOT_FOUND)?;
        let scoped = match self.scope {
            Some(grant) => grant.token == token,
            None => instance.client == self.id || instance.pid == self.task.pid,
        };
        if scoped { Ok(()) } else { Err(Code::NOT_FOUND) }
    }

    /// Checks a request and queues it. Waits for a free slot if there is no wake port.
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
        let (resident, class, secure) = match gate.instances.get(&plan.token) {
            Some(instance) => {
                let resident = instance.residents.get(plan.procedure as usize).ok_or(Code::BAD_ARGUMENT)?;
                (Arc::clone(resident), instance.priority, instance.secure)
            }
            None => return Err(Code::NOT_FOUND),
        };
        let class = gate.clients.get(&self.id).and_then(|c| c.priority).unwrap_or(class);
        let inputs = self.bind(&mut gate, &resident, Direction::Input, inputs)?;
        let outputs = match self.bind(&mut gate, &resident, Direction::Output, outputs) {
            Ok(outputs) => outputs,
            Err(code) => {
                inputs.iter().for_each(|b| gate.dart.end(self.id, b.iova));
                return Err(code);
            }
        };
        let sections = match self.sections(&mut gate, &plan) {
            Ok(sections) => sections,
            Err(code) => {
                inputs.iter().chain(&outputs).for_each(|b| gate.dart.end(self.id, b.iova));
                return Err(code);
            }
        };
        if let Some(instance) = gate.instances.get_mut(&plan.token) {
            instance.outstanding += 1;
        }
        gate.next += 1;
        gate.queue.order += 1;
        let (id, order) = (gate.next, gate.queue.order);
        let Plan { token, sequence, priority, doorbell, call, command, procedure, waits, signals, .. } = plan;
        let priority = if u64::from(priority) == rows::DEFAULT_PRIORITY { class } else { priority };
        let priority = gate.hinted(self, priority);
        // One queue per priority: the class of service determines both.
        let call = Call { queue: priority, secure: call.secure || secure, ..call };
        let (client, pid) = (self.id, self.task.pid);
        let request = Request {
            id,
            client,
            token,
            sequence,
            priority,
            doorbell,
            call,
            command,
            inputs,
            outputs,
            sections,
            waits,
            signals,
            pid,
            stray: None,
            wake,
            resident,
            procedure,
        };
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
                let surface = gate.surfaces.get(&id).filter(|s| s.is_for(self)).ok_or(Code::NOT_FOUND)?;
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
                Ok(Bound { memory: Some(shared), surface: id, iova, bytes: port.bytes, bar: port.bar })
            };
            match one(gate) {
                Ok(b) => bound.push(b),
                Err(code) => {
                    bound.iter().for_each(|b| gate.dart.end(self.id, b.iova));
                    return Err(code);
                }
            }
        }
        Ok(bound)
    }

    /// Kernel, text and scratch of a procedure of an instance's program, mapped for this client. A surface for the intermediate region
    /// replaces the program's own.
    fn sections(&self, gate: &mut Gate, plan: &Plan) -> Result<Vec<Bound>, Code> {
        let Gate { instances, images, dart, surfaces, .. } = gate;
        let image = instances.get(&plan.token).and_then(|i| images.get(&i.image)).ok_or(Code::NOT_FOUND)?;
        let sections = &image.procedures.get(plan.procedure as usize).ok_or(Code::BAD_ARGUMENT)?.sections;
        if let Some(id) = plan.intermediate {
            let surface = surfaces.get(&id).filter(|s| s.is_for(self)).ok_or(Code::NOT_FOUND)?;
            let scratch = sections.iter().find(|s| s.bar == Program::SCRATCH_BAR).ok_or(Code::BAD_ARGUMENT)?;
            if (surface.shared.len() as u64) < scratch.bytes {
                return Err(Code::BAD_ARGUMENT);
            }
        }
        let mut bound: Vec<Bound> = Vec::with_capacity(sections.len());
        for &Section { usage, surface, bytes, bar } in sections {
            let surface = plan.intermediate.filter(|_| bar == Program::SCRATCH_BAR).unwrap_or(surface);
            let begun = match dart.begin(self.id, surface, usage) {
                Err(Code::NOT_FOUND) => {
                    dart.map(self.id, surface, bytes, usage, 0).and_then(|_| dart.begin(self.id, surface, usage))
                }
                other => other,
            };
            match begun {
                Ok(iova) => bound.push(Bound { memory: None, surface, iova, bytes, bar }),
                Err(code) => {
                    bound.iter().for_each(|b| dart.end(self.id, b.iova));
                    return Err(code);
                }
            }
        }
        Ok(bound)
    }

    /// Sets the class of service of the connection: it determines the priority of requests with the default one, instead of the
    /// instance's class.
    pub fn set_class(&self, qos: u32) -> Result<(), Code> {
        let mut gate = lock(&self.driver.gate);
        gate.clients.get_mut(&self.id).ok_or(Code::CLOSED)?.priority = Some(priority_of(qos));
        Ok(())
    }

    /// Ends every waiting or running request of this client.
    pub fn cancel_all(&self) {
        let mut gate = lock(&self.driver.gate);
        gate.abort_client(self.id, Code::ABORTED);
        self.driver.pass_on(gate);
    }
}
