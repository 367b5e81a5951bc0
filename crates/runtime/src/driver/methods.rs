//! The less common methods of the direct-path client, by name, some behind the second access check; hints of the hint client.

use super::client::{Client, Handled};
use super::controls::{Holder, MAX_KEPT};
use super::task::lock;
use super::{ClientEntry, Gate, Image, Surface};
use crate::error::Code;
use crate::firmware::header::{Form, Header};
use crate::firmware::{Channel, Outcome, power};
use crate::words::{put32, u32_at};
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::selectors::{Client as Kind, HINT_METHODS, METHODS, Method};
use anemone_facts::driver::structures::hinted;

/// Result of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A number.
    Number(u64),
    /// Lines of text.
    Lines(Vec<String>),
}

type Answered = Result<Answer, Code>;

/// Method by its name, with or without `ANE_`, and true if it belongs to the hint client.
pub fn named(name: &str) -> Option<(&'static Method, bool)> {
    let name = name.strip_prefix("ANE_").unwrap_or(name);
    let of = |rows: &'static [Method]| rows.iter().find(|method| method.name == name);
    of(METHODS).map(|method| (method, false)).or_else(|| of(HINT_METHODS).map(|method| (method, true)))
}

fn number(n: u64) -> Answered {
    Ok(Answer::Number(n))
}

/// The argument at a position.
fn at(numbers: &[u64], i: usize) -> Result<u64, Code> {
    numbers.get(i).copied().ok_or(Code::BAD_ARGUMENT)
}

impl Client {
    pub(crate) fn session_hint(&self, input: &[u8], output: &mut [u8]) -> Handled {
        if !self.stamp.hints {
            return Err(Code::UNSUPPORTED);
        }
        let given = (u32_at(input, 8), u32_at(input, 12));
        let mut gate = lock(&self.driver.gate);
        gate.clients.get_mut(&self.id).ok_or(Code::CLOSED)?.hint = given;
        put32(output, hinted::HINT, given.0);
        put32(output, hinted::VALUE, given.1);
        Ok(())
    }

    /// Calls a method by name with numbers (`ane explain NAME` describes it). Registers, raw commands and the exclave group
    /// need the property that was read when the client was opened: without it they are `NOT_PRIVILEGED`.
    pub fn method(&self, name: &str, numbers: &[u64]) -> Answered {
        if self.kind == Kind::Hints {
            return self.give_hint(name, numbers);
        }
        let name = name.strip_prefix("ANE_").unwrap_or(name);
        let &Method { name, guarded, .. } = METHODS.iter().find(|m| m.name == name).ok_or(Code::UNSUPPORTED)?;
        if self.kind != Kind::Direct {
            return Err(Code::UNSUPPORTED);
        }
        if guarded && !self.stamp.privileged {
            return Err(Code::NOT_PRIVILEGED);
        }
        if name.starts_with("MPM") && !self.stamp.memory {
            return Err(Code::NOT_PRIVILEGED);
        }
        let mut gate = lock(&self.driver.gate);
        let done = match name {
            _ if name.starts_with("Exclave") => gate.exclave(name, numbers),
            _ if name.contains("DART") || name.contains("Dart") => gate.translation(name, numbers, self.task.pid),
            "GetClientsInfo" | "ShowSharedMemoryAllocations" | "ShowModelMemoryStatus" => Ok(gate.diagnostic(name)),
            "FWSharedEventDoorbellRing" => {
                let event = u32::try_from(at(numbers, 0)?).map_err(|_| Code::BAD_ARGUMENT)?;
                let now = gate.events.get(&(self.task.pid, event)).copied().unwrap_or(0);
                if gate.events.len() >= MAX_KEPT && now == 0 {
                    return Err(Code::NO_RESOURCES);
                }
                let value = numbers.get(1).copied().unwrap_or(now + 1);
                gate.raise(self.task.pid, event, value);
                number(now.max(value))
            }
            "MPMMemoryMapRequest" => gate.map_managed(at(numbers, 0)?).map(Answer::Number),
            "MPMMemoryUnmapRequest" => gate.unmap_managed(at(numbers, 0)?).map(|()| Answer::Number(0)),
            "ReadANERegister" => number(gate.register(at(numbers, 0)?)),
            "WriteANERegister" => gate.store(at(numbers, 0)?, at(numbers, 1)?),
            "SendCommand" => gate.command(numbers),
            _ => gate.power_method(name, numbers),
        };
        if done.is_ok() {
            *gate.controls.called.entry(name).or_default() += 1;
        }
        // A raised event may make a request ready.
        self.driver.pass_on(gate);
        done
    }

    /// `setClientHint` for the process, `shareCoalitionHint` for all of its team: hint and levels; 0 removes the hint.
    fn give_hint(&self, name: &str, numbers: &[u64]) -> Answered {
        let (may, holder) = match name {
            "setClientHint" => (self.stamp.hints, Holder::Process(self.task.pid)),
            "shareCoalitionHint" => (self.stamp.coalition, Holder::Team(self.task.identity.team.clone())),
            _ => return Err(Code::UNSUPPORTED),
        };
        if !may {
            return Err(Code::NOT_PRIVILEGED);
        }
        let word = |i| at(numbers, i).and_then(|n| u32::try_from(n).map_err(|_| Code::BAD_ARGUMENT));
        let hint = word(0)?;
        let mut gate = lock(&self.driver.gate);
        match hint {
            0 => drop(gate.hints.remove(&holder)),
            1 | 2 => drop(gate.hints.insert(holder, (hint, word(1)?))),
            _ => return Err(Code::BAD_ARGUMENT),
        }
        number(u64::from(hint))
    }
}

impl Gate {
    fn power_method(&mut self, name: &str, numbers: &[u64]) -> Answered {
        let power = &mut self.firmware.power;
        match name {
            "PowerOn" => number(power.base_on() as u64),
            "PowerOff" if self.queue.len() > 0 => Err(Code::BUSY),
            "PowerOff" => {
                self.power_off();
                number(0)
            }
            "IsPowered" => number(!matches!(power.state, power::State::AllOff) as u64),
            "SetPowerManagement" => {
                power.managed = at(numbers, 0)? != 0;
                number(0)
            }
            "SetDynamicPowerGating" => {
                power.set_gating(at(numbers, 0)? != 0);
                number(0)
            }
            "SetPowerGatingHysteresisTime" => {
                let ns = at(numbers, 0)?.checked_mul(1_000_000).filter(|&ns| ns >= rows::SHORT_GAP_NS);
                power.hysteresis_ns = ns.ok_or(Code::BAD_ARGUMENT)?;
                number(0)
            }
            "SetThrottlingPercentage" => {
                self.controls.throttling = Some(at(numbers, 0)?).filter(|&n| n < 100).ok_or(Code::BAD_ARGUMENT)?;
                number(0)
            }
            "AddPersistentClient" => {
                power.persistent = power.persistent.saturating_add(1);
                number(u64::from(power.persistent))
            }
            "RemovePersistentClient" => {
                power.persistent = power.persistent.checked_sub(1).ok_or(Code::NOT_FOUND)?;
                number(u64::from(power.persistent))
            }
            // The firmware is loaded at the start.
            _ => Err(Code::UNSUPPORTED),
        }
    }

    /// Controls of the translation unit, for the mappings of one process.
    fn translation(&mut self, name: &str, numbers: &[u64], pid: u32) -> Answered {
        let own: Vec<u64> = self.clients.iter().filter(|(_, c)| c.pid == pid).map(|(&id, _)| id).collect();
        let dart = &mut self.dart;
        match name {
            "SetDARTCacheTTL" => {
                dart.set_ttl(numbers.first().copied().filter(|&n| n > 0));
                number(0)
            }
            "FlushInactiveDARTMappings" => number(own.iter().map(|&client| dart.flush_inactive(client) as u64).sum()),
            _ => {
                let surface = numbers.first().map(|&n| u32::try_from(n).map_err(|_| Code::BAD_ARGUMENT)).transpose()?;
                number(own.iter().map(|&client| dart.unmap_now(client, surface) as u64).sum())
            }
        }
    }

    fn exclave(&mut self, name: &str, numbers: &[u64]) -> Answered {
        let exclave = &mut self.controls.exclave;
        let first = numbers.first().copied().unwrap_or(0);
        match name {
            "ExclaveLoad" if exclave.loaded.len() >= MAX_KEPT => Err(Code::NO_RESOURCES),
            "ExclaveLoad" => number(u64::from(!exclave.loaded.insert(first))),
            "ExclaveEvaluate" if !exclave.loaded.contains(&first) => Err(Code::NOT_FOUND),
            "ExclaveEvaluate" => {
                exclave.evaluated += 1;
                number(0)
            }
            "ExclaveUnload" if !exclave.loaded.remove(&first) => Err(Code::NOT_FOUND),
            "ExclaveUnload" => number(0),
            "ExclaveCycle" => {
                exclave.loaded.clear();
                exclave.properties.clear();
                exclave.cycles += 1;
                number(0)
            }
            "ExclaveReadPropertyValue" => {
                exclave.properties.get(&first).copied().map(Answer::Number).ok_or(Code::NOT_FOUND)
            }
            _ if exclave.properties.len() >= MAX_KEPT => Err(Code::NO_RESOURCES),
            _ => {
                exclave.properties.insert(first, at(numbers, 1)?);
                number(0)
            }
        }
    }

    /// Value of a register: the stored one; registers of power domains have their state.
    fn register(&self, address: u64) -> u64 {
        let on = !matches!(self.firmware.power.state, power::State::AllOff | power::State::FaultOff);
        let domains = rows::BASE_REGISTER..=rows::BASE_REGISTER + 8 * rows::CLUSTERS;
        if address == rows::TOP_REGISTER || domains.contains(&address) {
            return if on { rows::POLL_READY } else { 0 };
        }
        self.controls.registers.get(&address).copied().unwrap_or(0)
    }

    fn store(&mut self, address: u64, value: u64) -> Answered {
        if self.controls.registers.len() >= MAX_KEPT && !self.controls.registers.contains_key(&address) {
            return Err(Code::NO_RESOURCES);
        }
        self.controls.registers.insert(address, value);
        self.controls.stores += 1;
        number(0)
    }

    /// A raw command: index, then the words of its body. Calls of programs cannot be sent as raw commands.
    fn command(&mut self, numbers: &[u64]) -> Answered {
        if self.queue.len() > 0 {
            return Err(Code::BUSY);
        }
        let word = |n: &u64| u32::try_from(*n).map_err(|_| Code::BAD_ARGUMENT);
        let words = numbers.iter().map(word).collect::<Result<Vec<u32>, Code>>()?;
        let (&id, body) = words.split_first().ok_or(Code::BAD_ARGUMENT)?;
        let (size, priority) = (4 * body.len() as u32, rows::DEFAULT_PRIORITY as u32);
        let header = Header { id, size, priority, program: -1, process: -1, procedure: 0 };
        let mut message = header.encode(Form::Published)?.to_vec();
        body.iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes()));
        self.firmware.post(Channel::Io, &message)?;
        match self.firmware.step(Channel::Io) {
            Some(Outcome::Done(n)) => {
                self.controls.commands += 1;
                number(n)
            }
            Some(Outcome::Rejected(code)) => Err(code),
            Some(Outcome::Faulted(_)) => {
                self.abort_all();
                self.recover();
                Err(Code::ABORTED)
            }
            Some(Outcome::Granted(..)) => {
                self.firmware.drained();
                Err(Code::UNSUPPORTED)
            }
            _ => Err(Code::UNSUPPORTED),
        }
    }

    fn diagnostic(&self, name: &str) -> Answer {
        let word = |text: String| text.to_lowercase();
        let client = |(id, c): (&u64, &ClientEntry)| {
            let (kind, state) = (word(format!("{:?}", c.kind)), word(format!("{:?}", c.state)));
            format!("client {id}: process {}, {kind}, {state}", c.pid)
        };
        let surface = |(id, s): (&u32, &Surface)| format!("surface {id}: {} bytes", s.shared.len());
        let managed = |(iova, (_, bytes)): (&u64, &(u32, u64))| format!("managed buffer at {iova:#x}: {bytes} bytes");
        let procedures = |(key, i): (&u64, &Image)| -> Vec<String> {
            let engine = self.balancer.engine_of(*key).unwrap_or(0);
            let form = word(format!("{:?}", i.form));
            let one = |p: &anemone_program::Program| {
                let (name, kernel, scratch, n) = (&p.name, p.kernel.len(), p.scratch_bytes, i.instances);
                let instances = if n == 1 { "1 instance".into() } else { format!("{n} instances") };
                format!(
                    "{name}: {form} on engine {engine}, {kernel} bytes of kernel data, {scratch} of scratch, {instances}"
                )
            };
            i.procedures.iter().map(|p| one(p.resident.program())).collect()
        };
        Answer::Lines(match name {
            "GetClientsInfo" => self.clients.iter().map(client).collect(),
            "ShowModelMemoryStatus" => self.images.iter().flat_map(procedures).collect(),
            _ => self.surfaces.iter().map(surface).chain(self.controls.managed.iter().map(managed)).collect(),
        })
    }
}
