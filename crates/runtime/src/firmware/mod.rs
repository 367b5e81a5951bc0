//! The firmware model: rings, commands, identities, queues, the execution loop, secure mode, faults.
//!
//! It moves no tensor data: the device executes the calls that it grants. A refusal is a rejection with a
//! code, a counted drop, or a fault that ends in a reset.

pub mod boot;
pub mod call;
pub mod chain;
pub mod counters;
pub mod header;
pub mod notify;
pub mod power;
pub mod stats;

use crate::error::Code;
use anemone_facts::driver::commands::{self, wire};
use anemone_facts::driver::limits as rows;
use anemone_program::firmware::Package;
use call::Call;
use header::{Form, Header};
use std::collections::{BTreeMap, VecDeque};

/// A channel between host and firmware, by its position in the table of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Commands of every subsystem.
    Io,
    /// Commands of the execution loop.
    Chain,
}

/// States of the execution loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Before the boot is complete.
    Init,
    /// Nothing executes.
    Run,
    /// A command executes.
    Exec,
    /// A secure tenant's command executes.
    ExecSecure,
    /// At the secure boundary.
    Pause,
}

/// Reason why the firmware stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The loop received an unknown command number.
    UnknownCommand(u32),
    /// An event at the secure boundary.
    Invariant,
    /// An uncorrectable bus error.
    Uncorrectable,
    /// A queue's abort did not clear.
    AbortStuck,
    /// The translation unit latched a fault.
    Translation,
}

/// Outcome of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To be executed; the loop is in `Exec` until [`Firmware::drained`].
    Granted(Header, Call),
    /// Served; returns a number for commands that have one.
    Done(u64),
    /// Dropped and counted.
    Dropped,
    /// Refused; nothing ran.
    Rejected(Code),
    /// The device is down until [`Firmware::reset`].
    Faulted(Fault),
}

/// Dump of a fault, in its fixed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// Class of the fault.
    pub fault: Fault,
    /// Restarts before it.
    pub restarts: u64,
    /// Wire numbers of recent commands, newest first.
    pub recent: Vec<u32>,
}

#[derive(Debug)]
struct Process {
    program: u32,
    running: bool,
}

/// A ring in one direction: shared header words and slots.
#[derive(Debug)]
pub struct Ring {
    version: u32,
    endpoint: Option<u32>,
    slots: VecDeque<Vec<u8>>,
    /// Messages written so far.
    pub written: u64,
    /// Messages read so far.
    pub read: u64,
}

impl Default for Ring {
    fn default() -> Self {
        Ring { version: rows::RING_VERSION as u32, endpoint: None, slots: VecDeque::new(), written: 0, read: 0 }
    }
}

/// A loaded package.
#[derive(Debug)]
struct Held {
    bytes: u64,
    /// By procedure: number of partitions that the package states; 1 if it states none.
    partitions: Vec<u64>,
}

/// The firmware.
#[derive(Debug)]
pub struct Firmware {
    state: Loop,
    ready: bool,
    secure: bool,
    entering: bool,
    rings: BTreeMap<Channel, Ring>,
    programs: BTreeMap<u32, Held>,
    processes: BTreeMap<u32, Process>,
    recent: VecDeque<u32>,
    /// Chaining handles.
    pub chain: chain::ChainHandlers,
    /// Power.
    pub power: power::Power,
    /// Host notification.
    pub fabric: notify::Fabric,
    /// Dropped commands, by reason.
    pub drops: stats::Drops,
    /// Restarts since the start.
    pub restarts: u64,
    /// Dumps, oldest first; the last few.
    pub dumps: VecDeque<Dump>,
    /// Procedures run.
    pub runs: u64,
    /// Counters of all tasks of all runs that completed.
    pub counters: counters::Counts,
    /// Number of times that loaded state was lost, by resets and secure boundaries.
    pub epoch: u64,
    /// Residency wiped at secure boundaries, in bytes of loaded packages.
    pub wiped: u64,
}

const MAX_RECENT: usize = 32;
const MAX_DUMPS: usize = 16;

impl Default for Firmware {
    fn default() -> Self {
        Firmware {
            state: Loop::Init,
            ready: false,
            secure: false,
            entering: false,
            rings: BTreeMap::new(),
            programs: BTreeMap::new(),
            processes: BTreeMap::new(),
            recent: VecDeque::new(),
            chain: chain::ChainHandlers::default(),
            power: power::Power::default(),
            fabric: notify::Fabric::default(),
            drops: stats::Drops::default(),
            restarts: 0,
            dumps: VecDeque::new(),
            runs: 0,
            counters: counters::Counts::default(),
            epoch: 0,
            wiped: 0,
        }
    }
}

impl Firmware {
    /// Boots: creates rings, binds endpoints; afterwards commands are accepted.
    pub fn start(&mut self, behaviour: boot::Behaviour) -> boot::Boot {
        let boot = boot::boot(behaviour);
        if boot.ready {
            self.ready = true;
            self.state = Loop::Run;
            self.bind(Channel::Io, 0);
            self.bind(Channel::Chain, rows::DATA_CHAINING_ENDPOINT as u32);
            boot.steps.iter().for_each(|s| {
                if let boot::Step::Command(_, wire) = s {
                    self.note(*wire);
                }
            });
        }
        boot
    }

    /// Binds a ring to an endpoint type.
    pub fn bind(&mut self, channel: Channel, endpoint: u32) {
        self.rings.entry(channel).or_default().endpoint = Some(endpoint);
    }

    /// Unbinds a ring's endpoint.
    pub fn unbind(&mut self, channel: Channel) {
        self.rings.entry(channel).or_default().endpoint = None;
    }

    /// State of the execution loop.
    pub fn state(&self) -> Loop {
        self.state
    }

    /// Returns true if commands are accepted.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Returns true in the secure phase.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    fn note(&mut self, wire: u32) {
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(wire);
    }

    /// Writes a message into a ring's next slot.
    pub fn post(&mut self, channel: Channel, message: &[u8]) -> Result<(), Code> {
        let ring = self.rings.entry(channel).or_default();
        if !self.ready || ring.endpoint.is_none() || u64::from(ring.version) != rows::RING_VERSION {
            return Err(Code::NOT_READY);
        }
        if channel == Channel::Chain && ring.endpoint != Some(rows::DATA_CHAINING_ENDPOINT as u32) {
            return Err(Code::NOT_READY);
        }
        if message.len() > rows::RING_SLOT_BYTES as usize {
            return Err(Code::BAD_ARGUMENT);
        }
        if ring.slots.len() >= rows::RING_SLOTS as usize {
            return Err(Code::NO_RESOURCES);
        }
        ring.slots.push_back(message.to_vec());
        ring.written += 1;
        Ok(())
    }

    /// Takes the next message of a ring and serves it.
    pub fn step(&mut self, channel: Channel) -> Option<Outcome> {
        let ring = self.rings.get_mut(&channel)?;
        let message = ring.slots.pop_front()?;
        ring.read += 1;
        Some(self.serve(channel, &message))
    }

    fn serve(&mut self, channel: Channel, message: &[u8]) -> Outcome {
        let form = if channel == Channel::Chain { Form::Loop } else { Form::Published };
        let (header, body) = match Header::decode(message, form, rows::RING_SLOT_BYTES as usize) {
            Ok(decoded) => decoded,
            Err(code) => return Outcome::Rejected(code),
        };
        let row = match channel {
            Channel::Chain => commands::by_wire(header.id).filter(|c| c.exe_loop),
            Channel::Io => commands::by_index(header.id),
        };
        let Some(row) = row else {
            return match channel {
                Channel::Chain => Outcome::Faulted(self.fault(Fault::UnknownCommand(header.id))),
                Channel::Io => Outcome::Rejected(Code::UNSUPPORTED),
            };
        };
        self.note(row.wire);
        if self.state == Loop::Pause && row.wire != wire::SECURE_MODE_RESUME_TRANSITION {
            return Outcome::Faulted(self.fault(Fault::Invariant));
        }
        self.command(row.wire, header, body)
    }

    fn command(&mut self, command: u32, header: Header, body: &[u8]) -> Outcome {
        let done = |r: Result<(), Code>| match r {
            Ok(()) => Outcome::Done(0),
            Err(code) => Outcome::Rejected(code),
        };
        match command {
            wire::PROCEDURE_CALL
            | wire::PROCEDURE_CALL_WITH_CUSTOM_BARS
            | wire::PROCEDURE_CALL_WITH_SIGNAL_EVENTS
            | wire::INFERENCE_CALL
            | wire::PROCEDURE_CALL_TRIGGER_CACHE_REQUEST => match Call::decode(body) {
                Ok(call) => self.grant(command, header, call),
                Err(code) => Outcome::Rejected(code),
            },
            wire::PROCEDURE_CALL_RECYCLE_OUTPUT_BUFFER => match Call::decode(body) {
                Ok(call) => done(self.chain.enqueue(call.handler)),
                Err(code) => Outcome::Rejected(code),
            },
            wire::SET_ACTIVE_CACHE_REQUEST_IN_GROUP => match Call::decode(body) {
                Ok(call) => done(self.chain.activate(call.handler)),
                Err(code) => Outcome::Rejected(code),
            },
            wire::SECURE_MODE_START => done(self.secure_boundary(true)),
            wire::SECURE_MODE_STOP => done(self.secure_boundary(false)),
            wire::SECURE_MODE_RESUME_TRANSITION => done(self.resume()),
            wire::EXCLAVE_MODE_START | wire::EXCLAVE_MODE_STOP => Outcome::Rejected(Code::UNSUPPORTED),
            wire::RESOURCE_INFO_GET => Outcome::Done(rows::CACHE_REQUESTS),
            wire::FORCE_DISABLE_CACHE_REQUESTS => {
                if body.first() != Some(&1) {
                    return Outcome::Rejected(Code::BAD_ARGUMENT);
                }
                self.chain.disable_all();
                Outcome::Done(0)
            }
            wire::CH_PROPERTY_WRITE => {
                let value = crate::words::u32_at(body, 4);
                if body.len() == 8 && value != 0 { Outcome::Done(0) } else { Outcome::Rejected(Code::BAD_ARGUMENT) }
            }
            wire::DEBUG_COMMAND_DATA_CHECK => {
                let magic = u64::from(crate::words::u32_at(body, 0)) == rows::DEBUG_MAGIC;
                let fits = (body.len() as u64) <= rows::DEBUG_PAYLOAD_BYTES;
                if magic && fits { Outcome::Done(0) } else { Outcome::Rejected(Code::BAD_ARGUMENT) }
            }
            wire::SET_DYNAMIC_POWERGATE => {
                self.power.set_gating(body.first() != Some(&0));
                Outcome::Done(0)
            }
            _ => Outcome::Done(0),
        }
    }

    fn grant(&mut self, command: u32, header: Header, call: Call) -> Outcome {
        let known = header.program >= 0
            && (header.program as u64) < rows::PROGRAM_SLOTS
            && header.process >= 0
            && (header.process as u64) < rows::PROCESS_SLOTS
            && u64::from(header.priority) < rows::PRIORITIES;
        if !known {
            return Outcome::Rejected(Code::BAD_ARGUMENT);
        }
        if let Err(code) = call.check(command) {
            return Outcome::Rejected(code);
        }
        if command == wire::PROCEDURE_CALL_TRIGGER_CACHE_REQUEST {
            if self.secure && !call.secure {
                self.drops.secure += 1;
                return Outcome::Dropped;
            }
            if !self.chain.trigger(call.handler, call.timestamp) {
                self.drops.cache += 1;
                return Outcome::Dropped;
            }
        }
        let running = self
            .processes
            .get(&(header.process as u32))
            .is_some_and(|p| p.running && p.program == header.program as u32);
        if !running {
            self.drops.process += 1;
            return Outcome::Dropped;
        }
        self.runs += 1;
        self.state = if self.secure { Loop::ExecSecure } else { Loop::Exec };
        Outcome::Granted(header, call)
    }

    /// Records that the granted call is done or preempted.
    pub fn drained(&mut self) {
        if matches!(self.state, Loop::Exec | Loop::ExecSecure) {
            self.state = Loop::Run;
        }
    }

    /// Loads a package: checks bounds, overlaps and kinds, then assigns an identity.
    pub fn load(&mut self, package: &Package) -> Result<u32, Code> {
        if !self.ready {
            return Err(Code::NOT_READY);
        }
        self.note(wire::PROGRAM_INTERFACE_VERSION_CHECK);
        if !package.check().is_empty() {
            return Err(Code::BAD_ARGUMENT);
        }
        let id =
            (0..rows::PROGRAM_SLOTS as u32).find(|id| !self.programs.contains_key(id)).ok_or(Code::NO_RESOURCES)?;
        self.note(wire::REQUEST_PROGRAM_ID);
        self.note(wire::LOAD_PROGRAM);
        let stated = package.programs.iter().map(|entry| entry.partitions().map(|all| all.len().max(1) as u64));
        let partitions = stated.collect::<Result<_, _>>().map_err(|_| Code::BAD_ARGUMENT)?;
        self.programs.insert(id, Held { bytes: package.file_bytes, partitions });
        Ok(id)
    }

    /// Number of requests to the engine that a call of a procedure takes: one for each partition.
    pub fn partitions(&self, program: u32, procedure: u32) -> u64 {
        let all = self.programs.get(&program).map(|held| held.partitions.as_slice()).unwrap_or_default();
        all.get(procedure as usize).copied().unwrap_or(1)
    }

    /// Unloads a program whose processes are gone.
    pub fn unload(&mut self, program: u32) {
        self.note(wire::UNLOAD_PROGRAM);
        self.programs.remove(&program);
        self.note(wire::RETURN_PROGRAM_ID);
    }

    /// Creates a running process of a loaded program.
    pub fn create_process(&mut self, program: u32) -> Result<u32, Code> {
        if !self.programs.contains_key(&program) {
            return Err(Code::NOT_FOUND);
        }
        let free = (0..rows::PROCESS_SLOTS as u32).find(|id| self.processes.get(id).is_none_or(|p| !p.running));
        let id = free.ok_or(Code::NO_RESOURCES)?;
        self.note(wire::REQUEST_PROCESS_ID);
        self.note(wire::CREATE_PROCESS);
        self.processes.insert(id, Process { program, running: true });
        Ok(id)
    }

    /// Terminates a process; its slot stays, idle.
    pub fn terminate_process(&mut self, process: u32) {
        self.note(wire::TERMINATE_PROCESS);
        if let Some(p) = self.processes.get_mut(&process) {
            p.running = false;
        }
        self.note(wire::RETURN_PROCESS_ID);
    }

    /// Number of loaded programs.
    pub fn loaded(&self) -> usize {
        self.programs.len()
    }

    /// Prepares for the secure boundary, after draining: queues off, power off and on, all residency wiped, then `Pause`.
    fn secure_boundary(&mut self, enter: bool) -> Result<(), Code> {
        if self.secure == enter || self.state != Loop::Run {
            return Err(Code::NOT_READY);
        }
        self.power.off();
        self.wiped += self.programs.values().map(|held| held.bytes).sum::<u64>();
        self.programs.clear();
        self.processes.clear();
        self.chain.disable_all();
        self.entering = enter;
        self.epoch += 1;
        self.state = Loop::Pause;
        self.power.base_on();
        Ok(())
    }

    /// Crosses the secure boundary: start or stop, then the resume transition.
    pub fn cross(&mut self, enter: bool) -> Result<(), Code> {
        self.note(if enter { wire::SECURE_MODE_START } else { wire::SECURE_MODE_STOP });
        self.secure_boundary(enter)?;
        self.note(wire::SECURE_MODE_RESUME_TRANSITION);
        self.resume()
    }

    fn resume(&mut self) -> Result<(), Code> {
        if self.state != Loop::Pause {
            return Err(Code::NOT_READY);
        }
        self.secure = self.entering;
        self.state = Loop::Run;
        self.note(wire::SECURE_MODE_EVENT);
        Ok(())
    }

    /// Enters a fault: a dump is kept, and commands are refused until [`Firmware::reset`].
    pub fn fault(&mut self, fault: Fault) -> Fault {
        if self.dumps.len() == MAX_DUMPS {
            self.dumps.pop_front();
        }
        let recent = self.recent.iter().rev().copied().collect();
        self.dumps.push_back(Dump { fault, restarts: self.restarts, recent });
        self.ready = false;
        fault
    }

    /// Restarts after a fault: everything loaded is lost. Returns `false` without a fault.
    pub fn reset(&mut self) -> bool {
        if self.ready {
            return false;
        }
        self.power.off();
        self.rings.clear();
        self.programs.clear();
        self.processes.clear();
        self.chain.disable_all();
        self.secure = false;
        self.restarts += 1;
        self.epoch += 1;
        self.start(boot::Behaviour::default()).ready
    }
}
