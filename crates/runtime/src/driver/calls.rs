//! Selector calls by name: encoding of their structures, decoding of the replies.

use super::client::{Arguments, Client, Create, Created, Submit};
use super::request::WakePort;
use super::task::lock;
use crate::error::{Code, Error};
use crate::firmware::chain::Set;
use crate::words::{put32, put64, u64_at};
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::structures::{
    active, arguments, chain, create, destroy, handshake, inputs, instance, outputs, prepare,
};

impl Client {
    /// Selector 0 with the standard usage; returns the session token.
    pub fn open(&self) -> Result<u64, Code> {
        let mut input = [0; handshake::BYTES];
        input[handshake::USAGE_OR_TOKEN] = 1;
        put64(&mut input, handshake::TIMEOUT, rows::HANDSHAKE_TIMEOUT_MS);
        let mut output = [0; handshake::BYTES];
        self.structures(0, &input, &mut output)?;
        Ok(u64_at(&output, handshake::USAGE_OR_TOKEN))
    }

    /// A call with structures only.
    pub fn structures(&self, selector: u32, input: &[u8], output: &mut [u8]) -> Result<(), Code> {
        let a = Arguments { struct_in: Some(input), struct_out: Some(output), ..Arguments::default() };
        match self.call(selector, a) {
            Code::SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// Control selector 3.
    pub fn create(&self, what: Create<'_>) -> Result<Created, Code> {
        let bytes = what.image.len() + what.signature.len();
        let image = self.task.stage_shared([what.image.clone(), what.signature.into()])?;
        let mut blob = [0; arguments::BYTES];
        put64(&mut blob, arguments::IMAGE, image);
        put64(&mut blob, arguments::IMAGE_BYTES, bytes as u64);
        let hash = what.image.digest();
        blob[arguments::MODEL_HASH..arguments::MODEL_HASH + 32].copy_from_slice(&hash);
        put32(&mut blob, arguments::PROCEDURES, 1);
        put32(&mut blob, arguments::QOS, rows::DEFAULT_QOS as u32);
        put32(&mut blob, arguments::BOOLEANS, 0x10);
        put32(&mut blob, arguments::STATS_MASK, what.stats_mask);
        let name = &what.name.as_bytes()[..what.name.len().min(63)];
        blob[arguments::NAME..arguments::NAME + name.len()].copy_from_slice(name);
        let done = self.create_at(&blob);
        self.task.unstage(image);
        self.task.unstage(image + what.image.len() as u64);
        done
    }

    /// Error for a code of create: the limit of programs per process has an error of its own.
    pub fn why_not_created(&self, code: Code) -> Error {
        let own = lock(&self.driver.gate).instances.values().filter(|i| i.pid == self.task.pid).count() as u64;
        match code {
            Code::NO_RESOURCES if own >= rows::PROCESS_PROGRAMS => Error::Recompile { limit: rows::PROCESS_PROGRAMS },
            code => Error::driver("create", code),
        }
    }

    /// Control selector 3 with a given argument blob.
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

    /// Control selector 8: an instance of a resident program. `adapter` replaces kernel data of this instance only: a
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

    /// Control selector 4; returns the intermediate buffer.
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

    /// Control selector 9; returns the handler.
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

    /// Direct selector 3: posts the output set that the handler's next call writes and keeps.
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

    /// Direct selector 4: triggers the handler's call, with a later time stamp than the one before, and waits for it.
    pub fn inputs_are_ready(&self, token: u64, handler: u64, timestamp: u64, surfaces: &[u32]) -> Result<(), Code> {
        if surfaces.len() as u64 > rows::TRIGGER_INPUTS {
            return Err(Code::BAD_ARGUMENT);
        }
        let mut input = vec![0; inputs::BYTES];
        put64(&mut input, inputs::TOKEN, token);
        put64(&mut input, inputs::HANDLER, handler);
        put64(&mut input, inputs::TIMESTAMP, timestamp);
        put32(&mut input, inputs::INPUTS, surfaces.len() as u32);
        put32(&mut input, inputs::FLAGS, rows::DEFAULT_PRIORITY as u32);
        for (i, &surface) in surfaces.iter().enumerate() {
            put32(&mut input, inputs::SURFACES + 12 * i, surface);
        }
        self.structures(4, &input, &mut [])
    }

    /// Returns true if a handler's output set is free: not posted, and not written by a call.
    pub fn is_idle(&self, handler: u64) -> bool {
        lock(&self.driver.gate).firmware.chain.set(handler) == Some(Set::None)
    }

    /// Selector 2 without a wake port: waits until done.
    pub fn submit(&self, submit: &Submit<'_>) -> Result<[u8; 40], Code> {
        match self.send(submit, None)? {
            (Code::SUCCESS, reply) => Ok(reply),
            (code, _) => Err(code),
        }
    }

    /// As [`Client::submit`]; a translation fault is returned with its address and task.
    pub fn run(&self, submit: &Submit<'_>) -> Result<(), Error> {
        match self.send(submit, None).map_err(|code| Error::driver("submit", code))? {
            (Code::SUCCESS, _) => Ok(()),
            (code, reply) => Err(Error::submission(code, &reply)),
        }
    }

    /// Selector 2 with a wake port: returns at once, and one message follows.
    pub fn submit_async(&self, submit: &Submit<'_>, wake: WakePort) -> Result<(), Code> {
        match self.send(submit, Some(wake))?.0 {
            Code::SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    fn send(&self, submit: &Submit<'_>, wake: Option<WakePort>) -> Result<(Code, [u8; 40]), Code> {
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
        let code = self.call(2, a);
        Ok((code, output))
    }
}
