//! The driver model: clients, programs, requests, one command gate.
//!
//! Whoever waits for a request also runs the engine: the thread that finds it free takes the most urgent request, executes
//! it outside the gate, and publishes. So a dispatch needs no switch of threads, and one command is in flight at most,
//! beside one more urgent that goes before it.

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
    /// Bytes of device addresses of a client.
    pub aperture_bytes: u64,
    /// Boot behaviour of the firmware.
    pub boot: Behaviour,
    /// True if the debug selectors exist.
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
    /// The engine's options for a program; unsupported where no arithmetic is known for its generation.
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
pub enum Trouble {
    /// The queue does not go idle; its abort clears.
    QueueStuck,
    /// The queue does not go idle, and neither does its abort.
    AbortStuck,
    /// No completion ever comes.
    Withheld,
    /// The engine uses an address that nothing is mapped at; its status word.
    StrayAddress(u32),
}

/// Representation of a program that a client hands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Program image: `ANEProgramLegacyResource`.
    Image,
    /// Operations and procedures in a package: stands for `ANEProgramRTResource`, whose layout no source has.
    Operations,
}

/// Counts that `ane stat` and tests read.
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
    /// Commands that were taken back for more urgent ones.
    pub preempted: u64,
    /// Completion interrupts.
    pub interrupts: u64,
    /// Most commands that were ever posted at once, without and with a preemptor.
    pub most_posted: u32,
    /// Engine requests that the firmware pushed, by task queue: one for each partition of a program's tasks.
    pub engine_requests: [u64; rows::QUEUES as usize],
    /// Calls whose output set stayed with the device as the next one's input.
    pub chained: u64,
    /// Secure phases entered.
    pub secure_phases: u64,
    /// Doorbell stores by index.
    pub doorbells_by_index: BTreeMap<u32, u64>,
    /// Shared events raised.
    pub signalled: u64,
    /// Translation faults.
    pub faults: u64,
    /// The last of them.
    pub last_fault: Option<Stray>,
    /// Programs whose memory was given back when the engine went off.
    pub unwired: u64,
}

/// Everything behind the command gate.
pub(crate) struct Gate {
    pub firmware: Firmware,
    pub dart: Dart,
    pub clients: BTreeMap<u64, ClientEntry>,
    pub images: BTreeMap<u64, Image>,
    pub balancer: Balancer,
    pub instances: BTreeMap<u64, Instance>,
    pub surfaces: BTreeMap<u32, Surface>,
    pub queue: request::Queue,
    /// Most requests at once of any program, as the number of clients allows.
    pub share: u32,
    pub counters: Counters,
    pub timeline: Timeline,
    pub lanes: BTreeMap<u64, crate::clock::Lane>,
    pub trouble: Option<Trouble>,
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

/// Called with an instance's token whenever its program is about to execute, outside the gate.
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

/// Registry entries: the standing objects, and the number of clients now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registry {
    /// The device.
    pub device: bool,
    /// The load balancer.
    pub load_balancer: bool,
    /// The standing hint client.
    pub hint_client: bool,
    /// Control clients.
    pub control: usize,
    /// Direct-path clients.
    pub direct: usize,
}

impl Driver {
    /// Starts: components checked, firmware booted. The signer is for the broker alone.
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

    /// A number that cannot be guessed and is not 0.
    pub(crate) fn mint(&self, gate: &mut Gate) -> u64 {
        gate.next += 1;
        let mut bytes = self.secret.to_vec();
        bytes.extend_from_slice(&gate.next.to_le_bytes());
        crate::words::u64_at(&sign::sha256(&bytes), 0).max(1)
    }

    /// Opens a user client by type number. Entitlements are read now, and never again for this client.
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

    /// The live properties, as the registry shows them.
    pub fn properties() -> Vec<(&'static str, Property)> {
        let mut out = vec![("ARCHITECTURE", Property::Text(properties::ARCHITECTURE))];
        out.extend(properties::PROPERTIES.iter().map(|p| (p.name, Property::Number(p.value))));
        out.push(("INTERNAL_BUILD", Property::Text(properties::INTERNAL_BUILD)));
        out
    }

    /// Registry entries now.
    pub fn registry(&self) -> Registry {
        let gate = lock(&self.gate);
        let count = |kind| gate.clients.values().filter(|c| c.kind == kind && c.state != ClientState::Closed).count();
        let (control, direct) = (count(Kind::Control), count(Kind::Direct));
        Registry { device: true, load_balancer: true, hint_client: true, control, direct }
    }

    /// Counters of each task of an instance's program, over its runs, in the order of
    /// [`names`](crate::firmware::stats::names). The model counts whether or not a mask asks for it.
    pub fn task_counters(&self, token: u64) -> std::result::Result<Vec<crate::firmware::counters::Counts>, Code> {
        let resident = lock(&self.gate).instances.get(&token).map(|i| Arc::clone(i.resident()));
        Ok(resident.ok_or(Code::NOT_FOUND)?.counters())
    }

    /// Counters, copied.
    pub fn counters(&self) -> Counters {
        lock(&self.gate).counters.clone()
    }

    /// Programs in the firmware, and instances.
    pub fn loaded(&self) -> (usize, usize) {
        let gate = lock(&self.gate);
        (gate.firmware.loaded(), gate.instances.len())
    }

    /// Programs that each engine has.
    pub fn resident(&self) -> Vec<usize> {
        lock(&self.gate).balancer.resident()
    }

    /// Requests that wait or run.
    pub fn pending(&self) -> usize {
        lock(&self.gate).queue.len()
    }

    /// Looks at the firmware model.
    pub fn with_firmware<T>(&self, look: impl FnOnce(&mut Firmware) -> T) -> T {
        look(&mut lock(&self.gate).firmware)
    }

    /// Looks at the translation unit.
    pub fn with_dart<T>(&self, look: impl FnOnce(&mut Dart) -> T) -> T {
        look(&mut lock(&self.gate).dart)
    }

    /// The next execution misbehaves.
    pub fn trouble(&self, trouble: Trouble) {
        lock(&self.gate).trouble = Some(trouble);
    }

    /// Calls `hook` before every execution.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *lock(&self.hook) = hook;
    }

    pub(crate) fn hook(&self) -> Option<Hook> {
        lock(&self.hook).clone()
    }

    /// Modelled time since the start.
    pub fn now_ns(&self) -> u64 {
        lock(&self.gate).now_ns
    }

    /// Lets modelled time pass without work.
    pub fn advance(&self, ns: u64) {
        let mut gate = lock(&self.gate);
        gate.now_ns += ns;
        gate.firmware.power.idle(ns);
        gate.lanes.values_mut().for_each(|lane| lane.now_ns += ns);
    }

    /// Failed tries of the boot.
    pub fn boot_failures(&self) -> u32 {
        lock(&self.gate).boot_failures
    }

    /// Stops the firmware as a fault does; requests end with `ABORTED`, and the device is not ready until
    /// [`Driver::recover`].
    pub fn fault(&self, fault: Fault) {
        let mut gate = lock(&self.gate);
        gate.stop(fault);
        drop(gate);
        self.idle.notify_all();
    }

    /// Resets after a fault. `false` when there was none.
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
