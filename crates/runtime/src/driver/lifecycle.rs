//! Programs: create, instance, prepare, unprepare, destroy; mappings; chaining; the end of a client.

use super::client::{Client, Created, Handled};
use super::controls::Holder;
use super::images::{read_patches, read_programs};
use super::request::Plan;
use super::resident::Resident;
use super::sign::TRAILER_BYTES;
use super::task::lock;
use super::{ClientState, Driver, Gate, Image, Instance, Prepared, Procedure, Section};
use crate::error::Code;
use crate::firmware::call::Call;
use crate::words::{put32, put64, u32_at, u64_at};
use anemone_facts::driver::commands::wire;
use anemone_facts::driver::counters::driver_mask;
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::structures::{
    active, arguments, chain, chained, create, inputs, instance, map, outputs, prepare,
};
use anemone_program::firmware::{self, Package};
use anemone_program::{Direction, Program};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// First of the surface identities that are the driver's own.
pub(crate) const FIRST_INTERNAL: u32 = 0x8000_0000;
/// Largest program image in bytes.
const MAX_IMAGE_BYTES: u64 = 1 << 32;

/// Programs in the form of the firmware.
fn packaged<'a>(programs: impl Iterator<Item = &'a Program>) -> Result<Package, Code> {
    let all: Vec<&Program> = programs.collect();
    firmware::unhashed(&all).map_err(|_| Code::BAD_ARGUMENT)
}

impl Client {
    pub(crate) fn program_create(&self, input: &[u8]) -> Handled {
        let (at, length) = (u64_at(input, create::ARGUMENTS), u64_at(input, create::ARGUMENTS_BYTES));
        let (result, result_bytes) = (u64_at(input, create::RESULT), u64_at(input, create::RESULT_BYTES));
        if at == 0 || result == 0 || length != arguments::BYTES as u64 || result_bytes < Created::BYTES as u64 {
            return Err(Code::BAD_ARGUMENT);
        }
        let blob = self.task.fetch(at, length)?;
        let (image, bytes) = (u64_at(&blob, arguments::IMAGE), u64_at(&blob, arguments::IMAGE_BYTES));
        if bytes > MAX_IMAGE_BYTES {
            return Err(Code::BAD_ARGUMENT);
        }
        // The checked bytes must be the used bytes: they are a copy, or immutable.
        let image_bytes = bytes.checked_sub(TRAILER_BYTES as u64).ok_or(Code::NOT_PERMITTED)?;
        let trailer = self.task.fetch(image.wrapping_add(image_bytes), TRAILER_BYTES as u64)?;
        let image = self.task.fetch_image(image, image_bytes)?;
        self.driver.trust.check(&image, &trailer)?;
        let (form, programs) = read_programs(&image).ok_or(Code::BAD_ARGUMENT)?;
        let package = packaged(programs.iter())?;
        let arithmetic = self.driver.config.arithmetic;
        let resident = |program| Resident::new(Arc::new(program), Vec::new(), arithmetic).map(Arc::new);
        let residents = programs.into_iter().map(resident).collect::<Result<Vec<_>, Code>>()?;
        let mask = driver_mask(u32_at(&blob, arguments::STATS_MASK));

        let mut gate = lock(&self.driver.gate);
        if !gate.firmware.is_ready() {
            return Err(Code::NOT_READY);
        }
        let own = gate.instances.values().filter(|i| i.pid == self.task.pid).count() as u64;
        if own >= rows::PROCESS_PROGRAMS {
            return Err(Code::NO_RESOURCES);
        }
        let id = gate.firmware.load(&package)?;
        let process = match gate.firmware.create_process(id) {
            Ok(process) => process,
            Err(code) => {
                gate.firmware.unload(id);
                return Err(code);
            }
        };
        let mapped = residents.iter().map(|resident| {
            let sections = gate.map_load(self.id, resident)?;
            Ok(Procedure { resident: Arc::clone(resident), sections })
        });
        let procedures = match mapped.collect::<Result<Vec<_>, Code>>() {
            Ok(procedures) => procedures,
            Err(code) => {
                gate.firmware.terminate_process(process);
                gate.firmware.unload(id);
                return Err(code);
            }
        };
        let (key, intermediate) = (self.driver.mint(&mut gate), self.driver.mint(&mut gate));
        let epoch = gate.firmware.epoch;
        let owner = self.task.identity.clone();
        drop(package);
        let made = Image { form, procedures, owner, intermediate, program: id, epoch, instances: 0 };
        gate.images.insert(key, made);
        gate.balancer.place(key);
        let created = self.instantiate(&mut gate, key, residents, process, mask)?;
        drop(gate);
        self.task.put(result, &created.encode())
    }

    fn instantiate(
        &self,
        gate: &mut Gate,
        image: u64,
        residents: Vec<Arc<Resident>>,
        process: u32,
        stats_mask: u32,
    ) -> Result<Created, Code> {
        let token = self.driver.mint(gate);
        let epoch = gate.firmware.epoch;
        let entry = gate.images.get_mut(&image).ok_or(Code::NOT_FOUND)?;
        entry.instances += 1;
        let created = Created { token, intermediate: entry.intermediate, program: entry.program, process };
        let instance = Instance {
            image,
            residents,
            client: self.id,
            process,
            epoch,
            state: Prepared::No,
            outstanding: 0,
            depth: rows::PROGRAM_OUTSTANDING as u32,
            priority: rows::DEFAULT_PRIORITY as u32,
            stats_mask,
            handlers: Vec::new(),
            outputs: BTreeMap::new(),
            pid: self.task.pid,
            secure: false,
            saving: false,
            wired: false,
        };
        gate.instances.insert(token, instance);
        Ok(created)
    }

    pub(crate) fn program_instance(&self, input: &[u8]) -> Handled {
        let (base, at) = (u64_at(input, instance::BASE), u64_at(input, instance::ARGUMENTS));
        let result = u64_at(input, instance::RESULT);
        if result == 0 || at == 0 {
            return Err(Code::BAD_ARGUMENT);
        }
        let length = u64_at(&self.task.fetch(at, 8)?, 0);
        let adapter = self.task.fetch(at + 8, length)?;
        let patches = read_patches(&adapter)?;
        let mut gate = lock(&self.driver.gate);
        let key = gate.instances.get(&base).map(|i| i.image).ok_or(Code::NOT_FOUND)?;
        let image = gate.images.get(&key).ok_or(Code::NOT_FOUND)?;
        if image.owner != self.task.identity {
            return Err(Code::NOT_PERMITTED);
        }
        let mut residents: Vec<Arc<Resident>> = image.procedures.iter().map(|p| Arc::clone(&p.resident)).collect();
        // An adapter applies to the first procedure.
        if !patches.is_empty() {
            let program = Arc::clone(residents[0].program());
            residents[0] = Arc::new(Resident::new(program, patches, self.driver.config.arithmetic)?);
        }
        let program = gate.reload_image(key)?;
        let process = gate.firmware.create_process(program)?;
        let created = self.instantiate(&mut gate, key, residents, process, 0)?;
        let depth = u32_at(input, instance::DEPTH);
        if let Some(made) = gate.instances.get_mut(&created.token).filter(|_| depth > 0) {
            made.depth = depth.min(rows::PROGRAM_OUTSTANDING as u32);
        }
        drop(gate);
        self.task.put(result, &created.encode())
    }

    pub(crate) fn program_prepare(&self, input: &[u8], output: &mut [u8]) -> Handled {
        let token = u64_at(input, prepare::TOKEN);
        let mut gate = lock(&self.driver.gate);
        self.may_use(&gate, token)?;
        gate.reload(&self.driver, token)?;
        let found = gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?;
        if found.stats_mask != 0 {
            // The images made here have no statistics section: a mask is accepted at creation, and refused at load.
            return Err(Code::UNSUPPORTED);
        }
        found.state = Prepared::Yes;
        let image = found.image;
        let intermediate = gate.images.get(&image).map_or(0, |i| i.intermediate);
        output.copy_from_slice(input);
        put64(output, prepare::INTERMEDIATE, intermediate);
        let at = |usage| gate.dart.mappings(self.id).find(|m| m.usage == usage).map_or(0, |m| m.iova);
        put64(output, prepare::TEXT, at(9));
        put64(output, prepare::KERNEL, at(8));
        Ok(())
    }

    pub(crate) fn program_unprepare(&self, input: &[u8]) -> Handled {
        let token = u64_at(input, prepare::TOKEN);
        let mut gate = lock(&self.driver.gate);
        self.may_use(&gate, token)?;
        let found = gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?;
        if found.outstanding > 0 {
            return Err(Code::BUSY);
        }
        found.state = Prepared::No;
        let handlers = std::mem::take(&mut found.handlers);
        for handler in handlers {
            gate.firmware.chain.invalidate(handler);
        }
        Ok(())
    }

    pub(crate) fn program_destroy(&self, input: &[u8]) -> Handled {
        let token = u64_at(input, 0);
        let mut gate = lock(&self.driver.gate);
        self.may_use(&gate, token)?;
        if gate.instances.get(&token).is_some_and(|i| i.outstanding > 0) {
            return Err(Code::BUSY);
        }
        gate.remove(token);
        Ok(())
    }

    /// Closes the connection: waiting requests are aborted, the executing one is awaited, all objects of the client are released.
    pub fn close(&self) {
        let mut gate = lock(&self.driver.gate);
        match gate.clients.get_mut(&self.id) {
            Some(entry) if entry.state != ClientState::Closed => entry.state = ClientState::Closed,
            _ => return,
        }
        gate.abort_client(self.id, Code::ABORTED);
        self.driver.idle.notify_all();
        while gate.busy(self.id) {
            gate = self.driver.sleep(gate, Duration::from_millis(50));
        }
        let own: Vec<u64> = gate.instances.iter().filter(|(_, i)| i.client == self.id).map(|(&t, _)| t).collect();
        own.into_iter().for_each(|token| gate.remove(token));
        let gone: Vec<u32> = gate.surfaces.iter().filter(|(_, s)| s.client == self.id).map(|(&id, _)| id).collect();
        for surface in gone {
            gate.surfaces.remove(&surface);
            gate.dart.forget(surface);
        }
        gate.dart.close(self.id);
        gate.lanes.remove(&self.id);
        let pid = self.task.pid;
        if gate.clients.values().all(|c| c.pid != pid || c.state == ClientState::Closed) {
            gate.events.retain(|(of, _), _| *of != pid);
            gate.hints.remove(&Holder::Process(pid));
        }
    }

    pub(crate) fn chaining_prepare(&self, input: &[u8], output: &mut [u8]) -> Handled {
        if !self.stamp.chaining {
            return Err(Code::UNSUPPORTED);
        }
        let (token, group) = (u64_at(input, chain::TOKEN), u32_at(input, chain::FLAGS));
        let mut gate = lock(&self.driver.gate);
        self.may_use(&gate, token)?;
        let handler = gate.firmware.chain.install(group)?;
        gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?.handlers.push(handler);
        put64(output, chained::HANDLER, handler);
        put32(output, chained::GROUP, group);
        Ok(())
    }

    fn chained(&self, gate: &Gate, token: u64, handler: u64) -> Handled {
        if !self.stamp.chaining {
            return Err(Code::UNSUPPORTED);
        }
        self.may_use(gate, token)?;
        let known = gate.instances.get(&token).is_some_and(|i| i.handlers.contains(&handler));
        if known { Ok(()) } else { Err(Code::NOT_FOUND) }
    }

    pub(crate) fn set_active(&self, input: &[u8]) -> Handled {
        let (token, handler) = (u64_at(input, active::TOKEN), u64_at(input, active::HANDLER));
        let mut gate = lock(&self.driver.gate);
        self.chained(&gate, token, handler)?;
        gate.firmware.chain.activate(handler)
    }

    pub(crate) fn output_set_enqueue(&self, input: &[u8]) -> Handled {
        let (token, handler) = (u64_at(input, outputs::TOKEN), u64_at(input, outputs::HANDLER));
        let (set, count) = (u32_at(input, outputs::SET), u32_at(input, outputs::BUFFERS));
        let mut gate = lock(&self.driver.gate);
        self.chained(&gate, token, handler)?;
        let found = gate.instances.get(&token).ok_or(Code::NOT_FOUND)?;
        let ports = found.resident().ports(Direction::Output).count();
        if u64::from(set) >= rows::OUTPUT_SETS || count as usize != ports {
            return Err(Code::BAD_ARGUMENT);
        }
        let listed = self.task.fetch(u64_at(input, outputs::SURFACES), 4 * u64::from(count))?;
        let surfaces: Vec<u32> = (0..count as usize).map(|i| u32_at(&listed, 4 * i)).collect();
        gate.firmware.chain.enqueue(handler)?;
        if let Some(found) = gate.instances.get_mut(&token) {
            found.outputs.insert(handler, surfaces);
        }
        Ok(())
    }

    /// Triggers a handler. The firmware drops and counts a stale time stamp or a missing set; the selector succeeds.
    pub(crate) fn inputs_ready(&self, input: &[u8]) -> Handled {
        let (token, handler) = (u64_at(input, inputs::TOKEN), u64_at(input, inputs::HANDLER));
        let count = u32_at(input, inputs::INPUTS);
        if u64::from(count) > rows::TRIGGER_INPUTS {
            return Err(Code::BAD_ARGUMENT);
        }
        if !self.stamp.chaining {
            return Err(Code::UNSUPPORTED);
        }
        let surface = |i: usize| u32_at(input, inputs::SURFACES + 12 * i);
        let given: Vec<u32> = (0..count as usize).map(surface).collect();
        let timestamp = u64_at(input, inputs::TIMESTAMP);
        let posted = {
            let mut gate = lock(&self.driver.gate);
            self.may_use(&gate, token)?;
            let found = gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?;
            if found.state != Prepared::Yes {
                return Err(Code::NOT_READY);
            }
            let posted = found.outputs.get(&handler).cloned();
            if posted.is_none() {
                gate.firmware.drops.cache += 1;
                return Ok(());
            }
            posted.unwrap_or_default()
        };
        let call = Call { inputs: count, handler, timestamp, ..Call::default() };
        let plan = Plan {
            token,
            sequence: 0,
            priority: rows::DEFAULT_PRIORITY as u32,
            doorbell: u32_at(input, inputs::FLAGS) % rows::DOORBELLS as u32,
            call,
            command: wire::PROCEDURE_CALL_TRIGGER_CACHE_REQUEST,
            procedure: 0,
            waits: Vec::new(),
            intermediate: None,
            signals: Vec::new(),
        };
        let (id, gate) = self.admit(plan, &given, &posted, None)?;
        match self.driver.wait(gate, id, Duration::from_millis(rows::HANDSHAKE_TIMEOUT_MS)).0 {
            Code::SUCCESS => {
                let mut gate = lock(&self.driver.gate);
                if let Some(found) = gate.instances.get_mut(&token) {
                    found.outputs.remove(&handler);
                }
                Ok(())
            }
            // Dropped by the firmware: no error is returned.
            Code::NOT_FOUND => Ok(()),
            code => Err(code),
        }
    }

    pub(crate) fn memory_map(&self, session: u64, input: &[u8]) -> Result<u64, Code> {
        let mut gate = lock(&self.driver.gate);
        if gate.clients.get(&self.id).is_none_or(|c| c.session != session) {
            return Err(Code::NOT_FOUND);
        }
        let (surface, usage) = self.mapped(&gate, input)?;
        let bytes = gate.surfaces.get(&surface).map(|s| s.shared.len() as u64).ok_or(Code::NOT_FOUND)?;
        gate.dart.map(self.id, surface, bytes, usage, 0)
    }

    pub(crate) fn memory_unmap(&self, input: &[u8]) -> Handled {
        let mut gate = lock(&self.driver.gate);
        let (surface, usage) = self.mapped(&gate, input)?;
        gate.dart.unmap(self.id, surface, usage)
    }

    /// The single surface that a mapping request names.
    fn mapped(&self, gate: &Gate, input: &[u8]) -> Result<(u32, u32), Code> {
        let (count, usage) = (u32_at(input, map::COUNT), u32_at(input, map::USAGE));
        if count != 1 {
            return Err(Code::BAD_ARGUMENT);
        }
        let id = u32_at(input, map::SURFACES);
        let surface = gate.surfaces.get(&id).ok_or(Code::NOT_FOUND)?;
        if !surface.is_for(self) && !self.stamp.data {
            return Err(Code::NOT_FOUND);
        }
        Ok((id, usage))
    }
}

impl Gate {
    /// Creates the mappings of a load, in order of the rows.
    fn map_load(&mut self, client: u64, resident: &Resident) -> Result<Vec<Section>, Code> {
        let program = resident.program();
        let ports = |way| resident.ports(way).map(|p| p.bytes).sum::<u64>();
        let mut sections = Vec::new();
        for (i, &usage) in rows::LOAD_USAGES.iter().enumerate() {
            let bytes = match usage {
                1 => ports(Direction::Input),
                2 => ports(Direction::Output),
                8 => program.kernel.len() as u64,
                9 if i < 4 => program.stream.len() as u64,
                7 => program.scratch_bytes,
                _ => rows::PAGE_BYTES,
            };
            let surface = self.next_internal()?;
            self.dart.map(client, surface, bytes.max(1), usage, 0)?;
            let bar = match usage {
                8 => Program::KERNEL_BAR,
                9 if i < 4 => Program::STREAM_BAR,
                7 => Program::SCRATCH_BAR,
                _ => continue,
            };
            if bytes > 0 {
                sections.push(Section { usage, surface, bytes, bar });
            }
        }
        Ok(sections)
    }

    pub(super) fn next_internal(&mut self) -> Result<u32, Code> {
        self.next += 1;
        u32::try_from(self.next).ok().and_then(|n| n.checked_add(FIRST_INTERNAL)).ok_or(Code::NO_RESOURCES)
    }

    /// The image's program identity; reloads the image if the firmware lost it.
    fn reload_image(&mut self, key: u64) -> Result<u32, Code> {
        let epoch = self.firmware.epoch;
        let image = self.images.get(&key).ok_or(Code::NOT_FOUND)?;
        if image.epoch == epoch {
            return Ok(image.program);
        }
        let package = packaged(image.procedures.iter().map(|p| p.resident.program().as_ref()))?;
        let program = self.firmware.load(&package)?;
        if let Some(image) = self.images.get_mut(&key) {
            (image.program, image.epoch) = (program, epoch);
        }
        Ok(program)
    }

    /// Program and process of an instance; reloads them if the firmware lost them.
    pub(crate) fn reload(&mut self, _: &Driver, token: u64) -> Result<(u32, u32), Code> {
        let epoch = self.firmware.epoch;
        let found = self.instances.get(&token).ok_or(Code::NOT_FOUND)?;
        let (image, old, process) = (found.image, found.epoch, found.process);
        let program = self.reload_image(image)?;
        if old == epoch {
            return Ok((program, process));
        }
        let process = self.firmware.create_process(program)?;
        if let Some(found) = self.instances.get_mut(&token) {
            (found.process, found.epoch) = (process, epoch);
        }
        Ok((program, process))
    }

    /// Removes an instance, and its image with the last one.
    pub(crate) fn remove(&mut self, token: u64) {
        let Some(gone) = self.instances.remove(&token) else { return };
        for &handler in &gone.handlers {
            self.firmware.chain.invalidate(handler);
        }
        if gone.epoch == self.firmware.epoch {
            self.firmware.terminate_process(gone.process);
        }
        let Some(image) = self.images.get_mut(&gone.image) else { return };
        image.instances -= 1;
        if image.instances == 0 {
            if image.epoch == self.firmware.epoch {
                let program = image.program;
                self.firmware.unload(program);
            }
            if let Some(image) = self.images.remove(&gone.image) {
                let sections = image.procedures.iter().flat_map(|p| &p.sections);
                sections.for_each(|s| self.dart.forget(s.surface));
            }
            self.balancer.remove(gone.image);
        }
    }
}
