//! A user client: the dispatcher of selector calls to their handlers.

use super::request::{Event, WakePort};
use super::task::{Grant, Stamp, Task, lock};
use super::{ClientState, Driver, Surface};
use crate::cache::Image;
use crate::error::Code;
use crate::os::shared::Shared;
use crate::words::{put32, put64, u64_at};
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::properties;
use anemone_facts::driver::selectors::{self, Client as Kind, Selector};
use anemone_facts::driver::structures::{handshake, request, status};
use bytes::Bytes;
use std::sync::Arc;

/// Arguments of a selector call. An absent structure is a null pointer.
#[derive(Default)]
pub struct Arguments<'a> {
    /// Input scalars.
    pub scalars_in: &'a [u64],
    /// Input structure.
    pub struct_in: Option<&'a [u8]>,
    /// Output scalars.
    pub scalars_out: &'a mut [u64],
    /// Output structure.
    pub struct_out: Option<&'a mut [u8]>,
    /// Port for the completion message; the call then returns at once.
    pub wake: Option<WakePort>,
}

/// An open connection.
#[derive(Debug)]
pub struct Client {
    pub(crate) driver: Arc<Driver>,
    pub(crate) task: Arc<Task>,
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) stamp: Stamp,
    /// The only instance that a connection with a grant may use.
    pub(crate) scope: Option<Grant>,
}

/// A result of a selector's handler.
pub(crate) type Handled = Result<(), Code>;

/// Result of create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// Token of the instance.
    pub token: u64,
    /// Intermediate buffer.
    pub intermediate: u64,
    /// Program identity in the firmware.
    pub program: u32,
    /// Process identity in the firmware.
    pub process: u32,
}

impl Created {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn encode(&self) -> [u8; Created::BYTES] {
        let mut out = [0; Created::BYTES];
        put64(&mut out, 0, self.token);
        put64(&mut out, 8, self.intermediate);
        put32(&mut out, 16, self.program);
        put32(&mut out, 20, self.process);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Created {
        let w = crate::words::u32_at;
        Created {
            token: u64_at(bytes, 0),
            intermediate: u64_at(bytes, 8),
            program: w(bytes, 16),
            process: w(bytes, 20),
        }
    }
}

/// Request to create an instance.
#[derive(Clone, Debug, Default)]
pub struct Create<'a> {
    /// Signed image; its signature is `signature` if it is not at its end.
    pub image: Image,
    /// Signature that follows the image in memory; empty if it is part of the image.
    pub signature: Bytes,
    /// Name.
    pub name: &'a str,
    /// Mask of counters.
    pub stats_mask: u32,
}

/// A submission: surfaces in binding order, and the urgency of the request.
#[derive(Clone, Copy, Debug)]
pub struct Submit<'a> {
    /// Instance.
    pub token: u64,
    /// Sequence.
    pub sequence: u64,
    /// Priority.
    pub priority: u32,
    /// Class of service.
    pub qos: u32,
    /// Input surfaces in the order of ports.
    pub inputs: &'a [u32],
    /// Output surfaces in the order of ports.
    pub outputs: &'a [u32],
    /// Number of the procedure; 0 is the first.
    pub procedure: u8,
    /// Surface of the intermediate region, at most one; without it the program's own is used.
    pub intermediates: &'a [u32],
    /// Doorbell index.
    pub doorbell: u64,
    /// Shared events that must reach a value before it runs.
    pub waits: &'a [Event],
    /// Shared events that it signals when it is done.
    pub signals: &'a [Event],
}

impl Submit<'_> {
    /// A request of the default class.
    pub fn new<'a>(token: u64, inputs: &'a [u32], outputs: &'a [u32]) -> Submit<'a> {
        let (priority, qos) = (rows::DEFAULT_PRIORITY as u32, rows::DEFAULT_QOS as u32);
        // One doorbell per task queue: the class of service determines both.
        let doorbell = u64::from(priority);
        let (intermediates, waits, signals): (&[u32], &[Event], &[Event]) = (&[], &[], &[]);
        let (sequence, procedure) = (0, 0);
        Submit { token, sequence, priority, qos, inputs, outputs, procedure, intermediates, doorbell, waits, signals }
    }

    /// The request's bytes.
    pub fn encode(&self) -> Result<[u8; request::BYTES], Code> {
        let [n_in, n_out, between] = [self.inputs, self.outputs, self.intermediates].map(<[u32]>::len);
        if n_in > 255
            || n_out > 255
            || between > 1
            || n_in + n_out + between > 256
            || self.waits.len() + self.signals.len() > 12
        {
            return Err(Code::BAD_ARGUMENT);
        }
        let mut out = [0; request::BYTES];
        put64(&mut out, request::TOKEN, self.token);
        put64(&mut out, request::SEQUENCE, self.sequence);
        put32(&mut out, request::PRIORITY, self.priority);
        put32(&mut out, request::QOS, self.qos);
        let (procedure, between) = (
            u32::from(self.procedure) << rows::REQUEST_PROCEDURE_SHIFT,
            (between as u32) << rows::REQUEST_INTERMEDIATE_SHIFT,
        );
        put32(&mut out, request::COUNTS, n_in as u32 | (n_out as u32) << 8 | procedure | between);
        put32(&mut out, request::CATEGORY, rows::IO_CATEGORY as u32);
        for (i, &surface) in self.inputs.iter().chain(self.outputs).chain(self.intermediates).enumerate() {
            put32(&mut out, request::SURFACES + 8 * i, surface);
            put32(&mut out, request::SURFACES + 8 * i + 4, i as u32);
        }
        put32(&mut out, request::WAITS, self.waits.len() as u32);
        put32(&mut out, request::SIGNALS, self.signals.len() as u32);
        for (i, &(event, value)) in self.waits.iter().chain(self.signals).enumerate() {
            put32(&mut out, request::EVENTS + 24 * i, event);
            put64(&mut out, request::EVENTS + 24 * i + 8, value);
        }
        Ok(out)
    }
}

impl Client {
    /// Kind of the client.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Size in bytes of the intermediate region of an instance's first procedure; `None` for a token that this connection may not use.
    pub fn intermediate_bytes(&self, token: u64) -> Option<u64> {
        let gate = lock(&self.driver.gate);
        self.may_use(&gate, token).ok()?;
        gate.instances.get(&token).map(|instance| instance.resident().program().scratch_bytes)
    }

    /// Grant of a connection that is limited to one program; `None` for others.
    pub fn scope(&self) -> Option<Grant> {
        self.scope
    }

    /// The task that opened the connection.
    pub fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Calls a selector. Checks index, the four exact sizes and the wake port, in this order, before the handler runs.
    pub fn call(&self, selector: u32, mut arguments: Arguments<'_>) -> Code {
        let Some(record) = selectors::of(self.kind).get(selector as usize) else { return Code::BAD_ARGUMENT };
        let sizes = [
            (arguments.scalars_in.len(), record.scalars_in),
            (arguments.struct_in.map_or(0, <[u8]>::len), record.struct_in_bytes),
            (arguments.scalars_out.len(), record.scalars_out),
            (arguments.struct_out.as_ref().map_or(0, |s| s.len()), record.struct_out_bytes),
        ];
        if sizes.iter().any(|&(found, exact)| found as u64 != u64::from(exact)) {
            return Code::BAD_ARGUMENT;
        }
        if arguments.wake.is_some() && !record.asynchronous {
            return Code::BAD_ARGUMENT;
        }
        match self.handle(record, &mut arguments) {
            Ok(()) => Code::SUCCESS,
            Err(code) => code,
        }
    }

    fn handle(&self, record: &Selector, a: &mut Arguments<'_>) -> Handled {
        {
            let mut gate = lock(&self.driver.gate);
            let entry = gate.clients.get(&self.id).ok_or(Code::CLOSED)?;
            match entry.state {
                ClientState::Closed => return Err(Code::CLOSED),
                ClientState::Created if record.index != 0 => return Err(Code::NOT_OPEN),
                ClientState::Open if record.index == 0 => return Err(Code::CLOSED),
                _ => {}
            }
            *gate.counters.calls.entry((self.kind == Kind::Control, record.index)).or_default() += 1;
        }
        let input = a.struct_in.unwrap_or(&[]);
        let nothing: &mut [u8] = &mut [];
        let output: &mut [u8] = a.struct_out.as_deref_mut().unwrap_or(nothing);
        match (self.kind, record.index) {
            (Kind::Hints, _) => Err(Code::UNSUPPORTED),
            (_, 0) => self.handshake(input, output),
            (_, 1) => {
                self.close();
                Ok(())
            }
            (_, 2) => self.send_request(a.scalars_in[0], input, output, a.wake.take()),
            (Kind::Control, 3) => self.program_create(input),
            (Kind::Control, 4) => self.program_prepare(input, output),
            (Kind::Control, 5) => self.program_unprepare(input),
            (Kind::Control, 6) => self.program_destroy(input),
            (Kind::Control, 7) => self.status(output),
            (Kind::Control, 8) => self.program_instance(input),
            (Kind::Control, 9) => self.chaining_prepare(input, output),
            (Kind::Control, 10) => {
                a.scalars_out[0] = properties::VERSION;
                Ok(())
            }
            (Kind::Control, 11..=15) if self.driver.config.internal => Ok(()),
            (Kind::Control, _) => Err(Code::UNSUPPORTED),
            (Kind::Direct, 3) => self.output_set_enqueue(input),
            (Kind::Direct, 4) => self.inputs_ready(input),
            (Kind::Direct, 5) => {
                a.scalars_out[0] = self.memory_map(a.scalars_in[0], input)?;
                Ok(())
            }
            (Kind::Direct, 6) => self.memory_unmap(input),
            (Kind::Direct, 7) => self.session_hint(input, output),
            (Kind::Direct, 8) => self.set_active(input),
            (Kind::Direct, _) => Err(Code::UNSUPPORTED),
        }
    }

    fn handshake(&self, input: &[u8], output: &mut [u8]) -> Handled {
        match input[handshake::USAGE_OR_TOKEN] {
            1 => {}
            2 => return Err(Code::USAGE_UNSUPPORTED),
            _ => return Err(Code::BAD_ARGUMENT),
        }
        let mut gate = lock(&self.driver.gate);
        let session = self.driver.mint(&mut gate);
        let entry = gate.clients.get_mut(&self.id).ok_or(Code::CLOSED)?;
        entry.state = ClientState::Open;
        entry.session = session;
        let asked = u64_at(input, handshake::TIMEOUT);
        entry.timeout_ms = if asked == 0 { rows::HANDSHAKE_TIMEOUT_MS } else { asked };
        output[..handshake::VERSION].copy_from_slice(&input[..handshake::VERSION]);
        output[handshake::VERSION..].fill(0);
        put64(output, handshake::USAGE_OR_TOKEN, session);
        put32(output, handshake::VERSION, rows::HANDSHAKE_VERSION as u32);
        put32(output, handshake::VERSION_2, rows::HANDSHAKE_VERSION_2 as u32);
        put64(output, handshake::ENGINES, properties::ENGINES);
        put64(output, handshake::CPU_SUBTYPE, properties::CPU_SUBTYPE);
        Ok(())
    }

    fn status(&self, output: &mut [u8]) -> Handled {
        let gate = lock(&self.driver.gate);
        let count =
            |kind| gate.clients.values().filter(|c| c.kind == kind && c.state != ClientState::Closed).count() as u32;
        put64(output, status::STATE, gate.firmware.is_ready() as u64 | (gate.firmware.is_secure() as u64) << 1);
        put32(output, status::CONTROL_CLIENTS, count(Kind::Control));
        put32(output, status::DIRECT_CLIENTS, count(Kind::Direct));
        put32(output, status::PROGRAMS, gate.firmware.loaded() as u32);
        put32(output, status::PENDING, gate.queue.len() as u32);
        put64(output, status::RESTARTS, gate.firmware.restarts);
        Ok(())
    }

    /// Registers a buffer under a surface identity for requests.
    pub fn add_surface(&self, shared: Arc<Shared>) -> Result<u32, Code> {
        let mut gate = lock(&self.driver.gate);
        let id = gate.next_surface;
        gate.next_surface =
            id.checked_add(1).filter(|&n| n < super::lifecycle::FIRST_INTERNAL).ok_or(Code::NO_RESOURCES)?;
        gate.surfaces.insert(id, Surface { shared, client: self.id, pid: self.task.pid });
        Ok(id)
    }

    /// Releases a surface, unless a request uses it.
    pub fn remove_surface(&self, surface: u32) -> Result<(), Code> {
        let mut gate = lock(&self.driver.gate);
        if gate.surfaces.get(&surface).is_none_or(|s| s.client != self.id) {
            return Err(Code::NOT_FOUND);
        }
        for &(usage, _, _) in rows::USAGES {
            if gate.dart.unmap(self.id, surface, usage) == Err(Code::BUSY) {
                return Err(Code::BUSY);
            }
        }
        gate.surfaces.remove(&surface);
        gate.dart.forget(surface);
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
        lock(&self.driver.gate).clients.remove(&self.id);
    }
}
