//! A user client: the dispatcher in front of the handlers, and calls by name that build the structures.

use super::request::WakePort;
use super::task::{Grant, Stamp, Task, lock};
use super::{ClientState, Driver, Surface};
use crate::error::{Code, Error};
use crate::firmware::chain::Set;
use crate::os::shared::Shared;
use crate::words::{put32, put64, u64_at};
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::properties;
use anemone_facts::driver::selectors::{self, Client as Kind, Selector};
use anemone_facts::driver::structures::{
    active, arguments, chain, create, destroy, handshake, inputs, instance, outputs, prepare, request, status,
};
use std::sync::Arc;

/// Arguments of a selector call. An absent structure is a null pointer.
#[derive(Default)]
pub struct Arguments<'a> {
    /// Scalars in.
    pub scalars_in: &'a [u64],
    /// Structure in.
    pub struct_in: Option<&'a [u8]>,
    /// Scalars out.
    pub scalars_out: &'a mut [u64],
    /// Structure out.
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
    /// The one instance that a granted connection may use.
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Create<'a> {
    /// Signed image.
    pub image: &'a [u8],
    /// Name.
    pub name: &'a str,
    /// Mask of counters.
    pub stats_mask: u32,
}

/// Order in which surfaces are bound, and how urgent the request is.
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
    /// Doorbell index.
    pub doorbell: u64,
}

impl Submit<'_> {
    /// A request of the default class.
    pub fn new<'a>(token: u64, inputs: &'a [u32], outputs: &'a [u32]) -> Submit<'a> {
        let (priority, qos) = (rows::DEFAULT_PRIORITY as u32, rows::DEFAULT_QOS as u32);
        Submit { token, sequence: 0, priority, qos, inputs, outputs, doorbell: 0 }
    }

    /// The request's bytes.
    pub fn encode(&self) -> Result<[u8; request::BYTES], Code> {
        let (n_in, n_out) = (self.inputs.len(), self.outputs.len());
        if n_in > 255 || n_out > 255 || n_in + n_out > 256 {
            return Err(Code::BAD_ARGUMENT);
        }
        let mut out = [0; request::BYTES];
        put64(&mut out, request::TOKEN, self.token);
        put64(&mut out, request::SEQUENCE, self.sequence);
        put32(&mut out, request::PRIORITY, self.priority);
        put32(&mut out, request::QOS, self.qos);
        put32(&mut out, request::COUNTS, n_in as u32 | (n_out as u32) << 8);
        put32(&mut out, request::CATEGORY, rows::IO_CATEGORY as u32);
        for (i, &surface) in self.inputs.iter().chain(self.outputs).enumerate() {
            put32(&mut out, request::SURFACES + 8 * i, surface);
            put32(&mut out, request::SURFACES + 8 * i + 4, i as u32);
        }
        Ok(out)
    }
}

impl Client {
    /// Kind of the client.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Grant of a connection that is limited to one program; `None` for others.
    pub fn scope(&self) -> Option<Grant> {
        self.scope
    }

    /// The task that opened it.
    pub fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Calls a selector: index, the four exact sizes, wake port, handler, in this order.
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

    /// Puts a buffer under a surface identity that requests name.
    pub fn add_surface(&self, shared: Arc<Shared>) -> Result<u32, Code> {
        let mut gate = lock(&self.driver.gate);
        let id = gate.next_surface;
        gate.next_surface =
            id.checked_add(1).filter(|&n| n < super::lifecycle::FIRST_INTERNAL).ok_or(Code::NO_RESOURCES)?;
        gate.surfaces.insert(id, Surface { shared, client: self.id });
        Ok(id)
    }

    /// Takes a surface back. Not while a request uses it.
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
        Ok(())
    }

    /// Selector 0 with the standard usage; the session token.
    pub fn open(&self) -> Result<u64, Code> {
        let mut input = [0; handshake::BYTES];
        input[handshake::USAGE_OR_TOKEN] = 1;
        put64(&mut input, handshake::TIMEOUT, rows::HANDSHAKE_TIMEOUT_MS);
        let mut output = [0; handshake::BYTES];
        self.structures(0, &input, &mut output)?;
        Ok(u64_at(&output, handshake::USAGE_OR_TOKEN))
    }

    /// A call of structures alone.
    pub fn structures(&self, selector: u32, input: &[u8], output: &mut [u8]) -> Result<(), Code> {
        let a = Arguments { struct_in: Some(input), struct_out: Some(output), ..Arguments::default() };
        match self.call(selector, a) {
            Code::SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// Control selector 3.
    pub fn create(&self, what: Create<'_>) -> Result<Created, Code> {
        let image = self.task.stage(what.image)?;
        let mut blob = [0; arguments::BYTES];
        put64(&mut blob, arguments::IMAGE, image);
        put64(&mut blob, arguments::IMAGE_BYTES, what.image.len() as u64);
        let hash = super::sign::sha256(what.image);
        blob[arguments::MODEL_HASH..arguments::MODEL_HASH + 32].copy_from_slice(&hash);
        put32(&mut blob, arguments::PROCEDURES, 1);
        put32(&mut blob, arguments::QOS, rows::DEFAULT_QOS as u32);
        put32(&mut blob, arguments::BOOLEANS, 0x10);
        put32(&mut blob, arguments::STATS_MASK, what.stats_mask);
        let name = &what.name.as_bytes()[..what.name.len().min(63)];
        blob[arguments::NAME..arguments::NAME + name.len()].copy_from_slice(name);
        let done = self.create_at(&blob);
        self.task.unstage(image);
        done
    }

    /// Error for a refusal of create: the process's own limit has an error of its own.
    pub fn why_not_created(&self, code: Code) -> Error {
        let own = lock(&self.driver.gate).instances.values().filter(|i| i.pid == self.task.pid).count() as u64;
        match code {
            Code::NO_RESOURCES if own >= rows::PROCESS_PROGRAMS => Error::Recompile { limit: rows::PROCESS_PROGRAMS },
            code => Error::driver("create", code),
        }
    }

    /// Control selector 3 with an argument blob as it stands.
    pub fn create_at(&self, blob: &[u8]) -> Result<Created, Code> {
        let at = self.task.stage(blob)?;
        let result = self.task.stage(&[0; Created::BYTES])?;
        let mut input = [0; create::BYTES];
        put64(&mut input, create::ARGUMENTS, at);
        put64(&mut input, create::ARGUMENTS_BYTES, blob.len() as u64);
        put64(&mut input, create::RESULT, result);
        put64(&mut input, create::RESULT_BYTES, Created::BYTES as u64);
        let done = self.structures(3, &input, &mut []);
        let created = done.and_then(|()| self.task.fetch(result, Created::BYTES as u64)).map(|b| Created::decode(&b));
        self.task.unstage(at);
        self.task.unstage(result);
        created
    }

    /// Control selector 8: an instance of a resident program. `adapter` replaces kernel data of this instance alone: a
    /// list of (u64 offset, u64 length, bytes).
    pub fn create_instance(&self, base: u64, adapter: &[u8]) -> Result<Created, Code> {
        let mut sized = (adapter.len() as u64).to_le_bytes().to_vec();
        sized.extend_from_slice(adapter);
        let at = self.task.stage(&sized)?;
        let result = self.task.stage(&[0; Created::BYTES])?;
        let mut input = [0; instance::BYTES];
        put64(&mut input, instance::BASE, base);
        put64(&mut input, instance::ARGUMENTS, at);
        put64(&mut input, instance::RESULT, result);
        let done = self.structures(8, &input, &mut []);
        let created = done.and_then(|()| self.task.fetch(result, Created::BYTES as u64)).map(|b| Created::decode(&b));
        self.task.unstage(at);
        self.task.unstage(result);
        created
    }

    fn with_token(&self, selector: u32, token: u64, input_bytes: usize, output_bytes: usize) -> Result<Vec<u8>, Code> {
        let mut input = vec![0; input_bytes];
        put64(&mut input, 0, token);
        let mut output = vec![0; output_bytes];
        self.structures(selector, &input, &mut output)?;
        Ok(output)
    }

    /// Control selector 4; the intermediate buffer.
    pub fn prepare(&self, token: u64) -> Result<u64, Code> {
        let output = self.with_token(4, token, prepare::BYTES, prepare::BYTES)?;
        Ok(u64_at(&output, prepare::INTERMEDIATE))
    }

    /// Control selector 5.
    pub fn unprepare(&self, token: u64) -> Result<(), Code> {
        self.with_token(5, token, prepare::BYTES, 0).map(drop)
    }

    /// Control selector 6.
    pub fn destroy(&self, token: u64) -> Result<(), Code> {
        self.with_token(6, token, destroy::BYTES, 0).map(drop)
    }

    /// Control selector 9; the handler.
    pub fn chain(&self, token: u64) -> Result<u64, Code> {
        let output = self.with_token(9, token, chain::BYTES, 24)?;
        Ok(u64_at(&output, 0))
    }

    /// Direct selector 8: makes a handler its group's active one.
    pub fn activate(&self, token: u64, handler: u64) -> Result<(), Code> {
        let mut input = [0; active::BYTES];
        put64(&mut input, active::TOKEN, token);
        put64(&mut input, active::HANDLER, handler);
        self.structures(8, &input, &mut [])
    }

    /// Direct selector 3: the output set that the handler's next call writes and keeps.
    pub fn enqueue_outputs(&self, token: u64, handler: u64, surfaces: &[u32]) -> Result<(), Code> {
        let list: Vec<u8> = surfaces.iter().flat_map(|s| s.to_le_bytes()).collect();
        let at = self.task.stage(&list)?;
        let mut input = [0; outputs::BYTES];
        put64(&mut input, outputs::TOKEN, token);
        put64(&mut input, outputs::HANDLER, handler);
        put32(&mut input, outputs::BUFFERS, surfaces.len() as u32);
        put64(&mut input, outputs::SURFACES, at);
        let done = self.structures(3, &input, &mut []);
        self.task.unstage(at);
        done
    }

    /// Direct selector 4: the handler's call, with a later time stamp than the one before; until done.
    pub fn inputs_are_ready(&self, token: u64, handler: u64, timestamp: u64, surfaces: &[u32]) -> Result<(), Code> {
        if surfaces.len() as u64 > rows::TRIGGER_INPUTS {
            return Err(Code::BAD_ARGUMENT);
        }
        let mut input = vec![0; inputs::BYTES];
        put64(&mut input, inputs::TOKEN, token);
        put64(&mut input, inputs::HANDLER, handler);
        put64(&mut input, inputs::TIMESTAMP, timestamp);
        put32(&mut input, inputs::INPUTS, surfaces.len() as u32);
        for (i, &surface) in surfaces.iter().enumerate() {
            put32(&mut input, inputs::SURFACES + 12 * i, surface);
        }
        self.structures(4, &input, &mut [])
    }

    /// Returns true if a handler's output set is free: nothing is posted and no call writes it.
    pub fn is_idle(&self, handler: u64) -> bool {
        lock(&self.driver.gate).firmware.chain.set(handler) == Some(Set::None)
    }

    /// Selector 2 without a wake port: until done.
    pub fn submit(&self, submit: &Submit<'_>) -> Result<[u8; 40], Code> {
        self.send(submit, None)
    }

    /// Selector 2 with a wake port: returns at once, one message follows.
    pub fn submit_async(&self, submit: &Submit<'_>, wake: WakePort) -> Result<(), Code> {
        self.send(submit, Some(wake)).map(|_| ())
    }

    fn send(&self, submit: &Submit<'_>, wake: Option<WakePort>) -> Result<[u8; 40], Code> {
        let input = submit.encode()?;
        let mut output = [0; 40];
        let scalars = [submit.doorbell];
        let a = Arguments {
            scalars_in: &scalars,
            struct_in: Some(&input),
            struct_out: Some(&mut output),
            wake,
            ..Arguments::default()
        };
        match self.call(2, a) {
            Code::SUCCESS => Ok(output),
            code => Err(code),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
        lock(&self.driver.gate).clients.remove(&self.id);
    }
}
