//! Devices that run programs: this process's own driver, or another behind a socket.

use crate::driver::client::{Client, Create, Submit};
use crate::driver::sign::Signer;
use crate::driver::task::{Identity, Task, lock};
use crate::driver::{Config, Driver, WakePort};
use crate::error::{Code, Error, Result};
use crate::os::shared::Shared;
use anemone_facts::driver::entitlements::{CHAINING, USER_ACCESS};
use anemone_facts::driver::limits as rows;
use anemone_program::Program;
use anemone_program::hwx::Container;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Loads programs.
pub trait Device: Send + Sync {
    /// Loads a program image of a bundle, ready to be submitted, under the function's name.
    fn load(&self, image: &[u8], name: &str) -> Result<Arc<dyn Loaded>>;
    /// Loads an image as a base, and an instance of it with other kernel data: what is not replaced is shared with the base.
    fn adapt(&self, image: &[u8], name: &str, pieces: &[Piece]) -> Result<Arc<dyn Loaded>>;
}

/// Kernel data that an adapter replaces: byte offset, content.
pub type Piece = (u64, Vec<u8>);

/// Pieces as a client hands them to the driver.
pub(crate) fn pieces_bytes(pieces: &[Piece]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, bytes) in pieces {
        out.extend_from_slice(&at.to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out
}

/// A loaded program.
pub trait Loaded: Send + Sync {
    /// Puts memory under a surface identity.
    fn add_surface(&self, shared: Arc<Shared>) -> Result<u32>;
    /// Takes a surface back.
    fn remove_surface(&self, surface: u32);
    /// Runs once, surfaces in the order of ports. With a limit, a request that is not done in time is aborted.
    fn submit(&self, sequence: u64, inputs: &[u32], outputs: &[u32], limit: Option<Duration>) -> Result<()>;
}

/// Reads a program image.
pub fn read_image(image: &[u8]) -> Result<Program> {
    let refused = |what: String| Error::Compile(what);
    let container = Container::read(image).map_err(|e| refused(e.to_string()))?;
    container.program().map_err(|e| refused(e.to_string()))
}

/// A driver in this process.
pub struct InProcess {
    driver: Arc<Driver>,
    signer: Signer,
    task: Arc<Task>,
    secure: bool,
}

impl InProcess {
    /// Starts a driver.
    pub fn start() -> Result<InProcess> {
        InProcess::configured(Config::default())
    }

    /// Starts a driver with these settings.
    pub fn configured(config: Config) -> Result<InProcess> {
        let (driver, signer) = Driver::start(config)?;
        Ok(InProcess::with(driver, signer))
    }

    /// Uses a driver that runs.
    pub fn with(driver: Arc<Driver>, signer: Signer) -> InProcess {
        let task = Arc::new(Task::new(std::process::id(), Identity::default(), [USER_ACCESS, CHAINING]));
        InProcess { driver, signer, task, secure: false }
    }

    /// The same, every program in secure mode: others are excluded while it runs, and the engine is power-cycled around it.
    pub fn secure(self) -> InProcess {
        InProcess { secure: true, ..self }
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }
}

/// A connection of the direct-path kind, and the handler of the program's chained calls.
struct Chained {
    client: Client,
    handler: u64,
    /// Calls so far: each has a later time stamp.
    calls: AtomicU64,
    /// Its own surfaces, by those of the control connection.
    surfaces: Mutex<BTreeMap<u32, u32>>,
}

impl Chained {
    /// This connection's surface of the memory that another's stands for.
    fn surface(&self, of: &OwnProgram, surface: u32) -> Option<u32> {
        let mut own = lock(&self.surfaces);
        if let Some(known) = own.get(&surface) {
            return Some(*known);
        }
        let shared = lock(&of.surfaces).get(&surface).cloned()?;
        let made = self.client.add_surface(shared).ok()?;
        own.insert(surface, made);
        Some(made)
    }
}

struct OwnProgram {
    client: Client,
    token: u64,
    /// Memory by surface of the control connection.
    surfaces: Mutex<BTreeMap<u32, Arc<Shared>>>,
    /// For calls whose output set stays with the device; made for the first.
    chained: OnceLock<Option<Chained>>,
    open_direct: Box<dyn Fn() -> Option<Client> + Send + Sync>,
}

impl OwnProgram {
    /// The chained way: control 9, direct 8 once; then direct 3 and 4 for every call. `None` where it is not open.
    fn chained(&self) -> Option<&Chained> {
        let make = || {
            let client = (self.open_direct)()?;
            let handler = self.client.chain(self.token).ok()?;
            client.activate(self.token, handler).ok()?;
            Some(Chained { client, handler, calls: AtomicU64::new(0), surfaces: Mutex::default() })
        };
        self.chained.get_or_init(make).as_ref()
    }

    /// A call whose output set is the next one's input: `None` where it must go the plain way.
    fn submit_chained(&self, inputs: &[u32], outputs: &[u32]) -> Option<Result<()>> {
        let keeps = inputs.iter().any(|surface| outputs.contains(surface));
        if !keeps || inputs.len() as u64 > rows::TRIGGER_INPUTS {
            return None;
        }
        let chained = self.chained()?;
        let Chained { client, handler, calls, .. } = chained;
        let own = |all: &[u32]| all.iter().map(|&s| chained.surface(self, s)).collect::<Option<Vec<u32>>>();
        let (inputs, outputs) = (own(inputs)?, own(outputs)?);
        let timestamp = calls.fetch_add(1, Relaxed) + 1;
        let done = client
            .enqueue_outputs(self.token, *handler, &outputs)
            .and_then(|()| client.inputs_are_ready(self.token, *handler, timestamp, &inputs));
        match done {
            // The firmware drops a trigger without a word; its set is then not given back.
            Ok(()) => self.client.is_idle(*handler).then_some(Ok(())),
            // Wiped by a fault or a secure phase: the plain way loads the program again.
            Err(Code::NOT_FOUND) => None,
            Err(code) => Some(Err(Error::driver("submit", code))),
        }
    }
}

impl InProcess {
    fn instance(&self, image: &[u8], name: &str, pieces: &[Piece]) -> Result<Arc<dyn Loaded>> {
        let refused = |what| move |code| Error::driver(what, code);
        let client = self.driver.open(&self.task, 0).map_err(refused("open"))?;
        client.open().map_err(refused("handshake"))?;
        let file = self.signer.sign(image);
        let create = Create { image: &file, name, stats_mask: 0 };
        let token = client.create(create).map_err(|code| client.why_not_created(code))?.token;
        let token = match pieces {
            [] => token,
            pieces => client.create_instance(token, &pieces_bytes(pieces)).map_err(refused("adapter"))?.token,
        };
        client.prepare(token).map_err(refused("prepare"))?;
        if self.secure {
            self.driver.set_secure(token).map_err(refused("secure mode"))?;
        }
        let (driver, task) = (Arc::clone(&self.driver), Arc::clone(&self.task));
        let secure = self.secure;
        let open_direct = move || {
            // A handler does not survive the secure boundary.
            let client = driver.open(&task, 1).ok().filter(|_| !secure)?;
            client.open().ok()?;
            Some(client)
        };
        Ok(Arc::new(OwnProgram {
            client,
            token,
            surfaces: Mutex::default(),
            chained: OnceLock::new(),
            open_direct: Box::new(open_direct),
        }))
    }
}

impl Device for InProcess {
    fn load(&self, image: &[u8], name: &str) -> Result<Arc<dyn Loaded>> {
        self.instance(image, name, &[])
    }

    fn adapt(&self, image: &[u8], name: &str, pieces: &[Piece]) -> Result<Arc<dyn Loaded>> {
        self.instance(image, name, pieces)
    }
}

impl Loaded for OwnProgram {
    fn add_surface(&self, shared: Arc<Shared>) -> Result<u32> {
        let surface = self.client.add_surface(Arc::clone(&shared)).map_err(|code| Error::driver("surface", code))?;
        lock(&self.surfaces).insert(surface, shared);
        Ok(surface)
    }

    fn remove_surface(&self, surface: u32) {
        // A surface in use goes with its client.
        let _ = self.client.remove_surface(surface);
        lock(&self.surfaces).remove(&surface);
        if let Some(Some(chained)) = self.chained.get()
            && let Some(own) = lock(&chained.surfaces).remove(&surface)
        {
            let _ = chained.client.remove_surface(own);
        }
    }

    fn submit(&self, sequence: u64, inputs: &[u32], outputs: &[u32], limit: Option<Duration>) -> Result<()> {
        let submit = Submit { sequence, ..Submit::new(self.token, inputs, outputs) };
        let Some(limit) = limit else {
            if let Some(done) = self.submit_chained(inputs, outputs) {
                return done;
            }
            return self.client.submit(&submit).map(drop).map_err(|code| Error::driver("submit", code));
        };
        let (port, messages) = WakePort::new();
        self.client.submit_async(&submit, port).map_err(|code| Error::driver("submit", code))?;
        if let Ok(message) = messages.recv_timeout(limit) {
            return match message.code {
                Code::SUCCESS => Ok(()),
                code => Err(Error::driver("submit", code)),
            };
        }
        self.client.cancel_all();
        // A request that executes is answered when its walk ends; it is over for this caller.
        let code = messages.recv_timeout(Duration::from_millis(100)).map_or(Code::ABORTED, |m| m.code);
        if code == Code::SUCCESS {
            return Ok(());
        }
        Err(Error::Timeout { what: "submit", waited_ms: limit.as_millis() as u64, code })
    }
}
