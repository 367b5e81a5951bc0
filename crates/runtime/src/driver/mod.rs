//! The driver model: clients, programs, requests, one command gate.
//!
//! A thread that waits for a request also runs the engine: the thread that finds it free takes the most urgent request, executes
//! it outside the gate, and publishes the results. So a dispatch needs no thread switch, and at most one command is in flight,
//! besides a more urgent one that preempts it.

pub mod balancer;
mod calls;
pub mod chaining;
pub mod client;
pub mod controls;
mod entries;
mod images;
mod lifecycle;
pub mod methods;
mod request;
pub mod resident;
mod settings;
pub mod sign;
pub mod task;
mod turns;

use crate::clock::Timeline;
use crate::dart::Dart;
use crate::error::{Code, Error, Result};
use crate::firmware::boot::{Behaviour, Boot};
use crate::firmware::{Fault, Firmware};
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::properties;
use anemone_facts::driver::selectors::{CLIENTS, Client as Kind};
use anemone_facts::numerics;
use anemone_program::Program;
use balancer::Balancer;
use client::Client;
use controls::{Controls, Holder};
pub(crate) use entries::{ANYONE, ClientEntry, ClientState, Image, Instance, Prepared, Procedure, Section, Surface};
pub use request::{Event, Message, Reply, Stray, WakePort, priority_of};
use sign::{Signer, Trust};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use task::{Task, lock};

/// Configuration of the driver, fixed at the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Versions of the three components; they must agree.
    pub component_versions: [String; 3],
    /// Size of a client's device address space in bytes.
    pub aperture_bytes: u64,
    /// Boot behaviour of the firmware.
    pub boot: Behaviour,
    /// True if debug selectors are available.
    pub internal: bool,
    /// Arithmetic of every program.
    pub arithmetic: Arithmetic,
    /// Engines that the load balancer places programs on, 1 to 4.
    pub engines: u64,
}

/// Arithmetic in which the software engine executes loaded programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// fp16 operands, fp32 sums, one rounding.
    #[default]
    Fast,
    /// The model of the program's generation.
    Exact,
}

impl Arithmetic {
    /// The engine's options for a program; unsupported if the arithmetic of its generation is unknown.
    pub(crate) fn options(self, program: &Program) -> std::result::Result<anemone_engine::Options, Code> {
        let model = match self {
            Arithmetic::Fast => numerics::Model::Fast,
            Arithmetic::Exact => numerics::generation(program.layout.generation).ok_or(Code::UNSUPPORTED)?.mac,
        };
        Ok(anemone_engine::Options { model, ..anemone_engine::Options::default() })
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            component_versions: std::array::from_fn(|_| properties::COMPONENT_VERSION.to_string()),
            aperture_bytes: rows::APERTURE_BYTES,
            boot: Behaviour::default(),
            internal: false,
            arithmetic: Arithmetic::default(),
            engines: properties::ENGINES,
        }
    }
}

/// Fault injected into one execution, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The queue does not become idle; its abort succeeds.
    QueueStuck,
    /// The queue does not become idle, and its abort fails.
    AbortStuck,
    /// The completion never arrives.
    Withheld,
    /// The engine accesses an unmapped address; its status word.
    StrayAddress(u32),
}

/// Representation of a program passed by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Program image: `ANEProgramLegacyResource`.
    Image,
    /// Operations and procedures in a package: in place of `ANEProgramRTResource`, whose layout is in no source.
    Operations,
}

/// Counters for `ane stat` and tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Selector calls that reached a handler, by client kind and selector.
    pub calls: BTreeMap<(bool, u32), u64>,
    /// Doorbell stores.
    pub doorbells: u64,
    /// Value of the last store.
    pub last_store: u32,
    /// Requests completed.
    pub completed: u64,
    /// Requests aborted.
    pub aborted: u64,
    /// Preempted commands.
    pub preempted: u64,
    /// Completion interrupts.
    pub interrupts: u64,
    /// Largest number of commands posted at once, without and with a preempting one.
    pub most_posted: u32,
    /// Engine requests submitted by the firmware, by task queue: one for each partition of a program's tasks.
    pub engine_requests: [u64; rows::QUEUES as usize],
    /// Calls whose output set stayed on the device as the input of the next one.
    pub chained: u64,
    /// Secure phases entered.
    pub secure_phases: u64,
    /// Doorbell stores by index.
    pub doorbells_by_index: BTreeMap<u32, u64>,
    /// Shared events raised.
    pub signalled: u64,
    /// Translation faults.
    pub faults: u64,
    /// The most recent one.
    pub last_fault: Option<Stray>,
    /// Programs whose memory was released when the engine powered off.
    pub unwired: u64,
}

/// State behind the command gate.
pub(crate) struct Gate {
    pub firmware: Firmware,
    pub dart: Dart,
    pub clients: BTreeMap<u64, ClientEntry>,
    pub images: BTreeMap<u64, Image>,
    pub balancer: Balancer,
    pub instances: BTreeMap<u64, Instance>,
    pub surfaces: BTreeMap<u32, Surface>,
    pub queue: request::Queue,
    /// Limit of simultaneous requests of a program, given the number of clients.
    pub share: u32,
    pub counters: Counters,
    pub timeline: Timeline,
    pub lanes: BTreeMap<u64, crate::clock::Lane>,
    pub trouble: Option<InjectedFault>,
    /// Shared events of a process, by number.
    pub events: BTreeMap<(u32, u32), u64>,
    /// Hints of processes and teams.
    pub hints: BTreeMap<Holder, (u32, u32)>,
    pub controls: Controls,
    pub next: u64,
    pub next_surface: u32,
    pub now_ns: u64,
    pub boot_failures: u32,
}

/// The device.
pub struct Driver {
    pub(crate) gate: Mutex<Gate>,
    pub(crate) idle: Condvar,
    pub(crate) trust: Trust,
    pub(crate) config: Config,
    secret: [u8; 32],
    hook: Mutex<Option<Hook>>,
}

/// Callback with an instance's token before each execution of its program, outside the gate.
pub type Hook = Arc<dyn Fn(u64) + Send + Sync>;

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

/// A registry property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'static str),
}

/// Registry entries: permanent objects, and the current number of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registry {
    /// The device.
    pub device: bool,
    /// The load balancer.
    pub load_balancer: bool,
    /// The permanent hint client.
    pub hint_client: bool,
    /// Control clients.
    pub control: usize,
    /// Direct-path clients.
    pub direct: usize,
}

impl Driver {
    /// Starts the driver: checks components, boots the firmware. The signer is for the broker only.
    pub fn start(config: Config) -> Result<(Arc<Driver>, Signer)> {
        let [first, others @ ..] = &config.component_versions;
        for (found, (component, _, _)) in others.iter().zip(&properties::COMPONENTS[1..]) {
            if found != first {
                return Err(Error::ComponentVersion { component, found: found.clone(), expected: first.clone() });
            }
        }
        let (trust, signer) = Trust::new()?;
        let mut firmware = Firmware::default();
        let boot = firmware.start(config.boot);
        let gate = Gate {
            firmware,
            dart: Dart::new(config.aperture_bytes),
            clients: BTreeMap::new(),
            images: BTreeMap::new(),
            balancer: Balancer::new(config.engines).map_err(|code| Error::driver("load balancer", code))?,
            instances: BTreeMap::new(),
            surfaces: BTreeMap::new(),
            queue: request::Queue::default(),
            share: rows::PROGRAM_OUTSTANDING as u32,
            counters: Counters::default(),
            timeline: Timeline::default(),
            lanes: BTreeMap::new(),
            trouble: None,
            events: BTreeMap::new(),
            hints: BTreeMap::new(),
            controls: Controls::default(),
            next: 0,
            next_surface: 1,
            now_ns: boot.waited_ns,
            boot_failures: boot.failures,
        };
        let driver = Driver {
            gate: Mutex::new(gate),
            idle: Condvar::new(),
            trust,
            config,
            secret: crate::os::random()?,
            hook: Mutex::default(),
        };
        Ok((Arc::new(driver), signer))
    }

    /// Boot steps of this configuration, in order.
    pub fn trace_boot(config: &Config) -> Boot {
        Firmware::default().start(config.boot)
    }

    /// A random, unguessable number other than 0.
    pub(crate) fn mint(&self, gate: &mut Gate) -> u64 {
        gate.next += 1;
        let mut bytes = self.secret.to_vec();
        bytes.extend_from_slice(&gate.next.to_le_bytes());
        crate::words::u64_at(&sign::sha256(&bytes), 0).max(1)
    }

    /// Opens a user client by type number. Entitlements are read once, at this time.
    pub fn open(self: &Arc<Self>, task: &Arc<Task>, kind: u32) -> std::result::Result<Client, Code> {
        let row = CLIENTS.iter().find(|c| c.kind == kind).ok_or(Code::UNSUPPORTED)?;
        let stamp = task.stamp();
        let granted = row.client == Kind::Direct && stamp.exception && stamp.grant.is_some();
        let may = match row.client {
            Kind::Hints => stamp.hints || stamp.user_access,
            _ => stamp.user_access || granted,
        };
        if !may {
            return Err(Code::NOT_PRIVILEGED);
        }
        let mut gate = lock(&self.gate);
        if !gate.firmware.is_ready() {
            return Err(Code::NOT_READY);
        }
        gate.next += 1;
        let id = gate.next;
        let entry = ClientEntry {
            kind: row.client,
            state: ClientState::Created,
            session: 0,
            pid: task.pid,
            timeout_ms: rows::HANDSHAKE_TIMEOUT_MS,
            hint: (0, 0),
            priority: None,
        };
        gate.clients.insert(id, entry);
        drop(gate);
        let scope = if stamp.user_access { None } else { stamp.grant };
        Ok(Client { driver: Arc::clone(self), task: Arc::clone(task), id, kind: row.client, stamp, scope })
    }

    /// The live properties in the registry.
    pub fn properties() -> Vec<(&'static str, Property)> {
        let mut out = vec![("ARCHITECTURE", Property::Text(properties::ARCHITECTURE))];
        out.extend(properties::PROPERTIES.iter().map(|p| (p.name, Property::Number(p.value))));
        out.push(("INTERNAL_BUILD", Property::Text(properties::INTERNAL_BUILD)));
        out
    }

    /// Current registry entries.
    pub fn registry(&self) -> Registry {
        let gate = lock(&self.gate);
        let count = |kind| gate.clients.values().filter(|c| c.kind == kind && c.state != ClientState::Closed).count();
        let (control, direct) = (count(Kind::Control), count(Kind::Direct));
        Registry { device: true, load_balancer: true, hint_client: true, control, direct }
    }

    /// Counters of each task of an instance's program, summed over its runs, in the order of
    /// [`names`](crate::firmware::stats::names). The model counts independently of the mask.
    pub fn task_counters(&self, token: u64) -> std::result::Result<Vec<crate::firmware::counters::Counts>, Code> {
        let resident = lock(&self.gate).instances.get(&token).map(|i| Arc::clone(i.resident()));
        Ok(resident.ok_or(Code::NOT_FOUND)?.counters())
    }

    /// A copy of the counters.
    pub fn counters(&self) -> Counters {
        lock(&self.gate).counters.clone()
    }

    /// Number of programs in the firmware, and of instances.
    pub fn loaded(&self) -> (usize, usize) {
        let gate = lock(&self.gate);
        (gate.firmware.loaded(), gate.instances.len())
    }

    /// Number of programs on each engine.
    pub fn resident(&self) -> Vec<usize> {
        lock(&self.gate).balancer.resident()
    }

    /// Number of waiting and running requests.
    pub fn pending(&self) -> usize {
        lock(&self.gate).queue.len()
    }

    /// Accesses the firmware model.
    pub fn with_firmware<T>(&self, look: impl FnOnce(&mut Firmware) -> T) -> T {
        look(&mut lock(&self.gate).firmware)
    }

    /// Accesses the translation unit.
    pub fn with_dart<T>(&self, look: impl FnOnce(&mut Dart) -> T) -> T {
        look(&mut lock(&self.gate).dart)
    }

    /// Injects a fault into the next execution.
    pub fn trouble(&self, trouble: InjectedFault) {
        lock(&self.gate).trouble = Some(trouble);
    }

    /// Calls `hook` before every execution.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *lock(&self.hook) = hook;
    }

    pub(crate) fn hook(&self) -> Option<Hook> {
        lock(&self.hook).clone()
    }

    /// Modelled time since the start, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        lock(&self.gate).now_ns
    }

    /// Advances modelled time without work.
    pub fn advance(&self, ns: u64) {
        let mut gate = lock(&self.gate);
        gate.now_ns += ns;
        gate.firmware.power.idle(ns);
        gate.lanes.values_mut().for_each(|lane| lane.now_ns += ns);
    }

    /// Number of failed boot attempts.
    pub fn boot_failures(&self) -> u32 {
        lock(&self.gate).boot_failures
    }

    /// Stops the firmware as by a fault; requests end with `ABORTED`, and the device is not ready until
    /// [`Driver::recover`].
    pub fn fault(&self, fault: Fault) {
        let mut gate = lock(&self.gate);
        gate.stop(fault);
        drop(gate);
        self.idle.notify_all();
    }

    /// Resets after a fault. Returns `false` if there was none.
    pub fn recover(&self) -> bool {
        lock(&self.gate).recover()
    }

    /// Number of times a program was expanded for execution, by instance token.
    pub fn expansions(&self, token: u64) -> Option<u64> {
        lock(&self.gate).instances.get(&token).map(|i| i.resident().expansions())
    }
}

impl Gate {
    pub(crate) fn stop(&mut self, fault: Fault) {
        self.firmware.fault(fault);
        self.abort_all();
    }

    pub(crate) fn recover(&mut self) -> bool {
        if self.dart.recover().is_some() {
            self.now_ns += rows::FAULT_PARK_NS;
        }
        self.firmware.reset()
    }
}
