//! Devices that run programs: the driver of this process, or another behind a socket.

use crate::cache::Image;
use crate::driver::chaining::ChainHandler;
use crate::driver::client::{Client, Create, Submit};
use crate::driver::methods::{self, Answer};
use crate::driver::sign::Signer;
use crate::driver::task::{Identity, Task};
use crate::driver::{Config, Driver, WakePort};
use crate::error::{Code, Error, Result};
use crate::os::shared::Shared;
use anemone_facts::driver::entitlements::{CHAINING, ENTITLEMENTS, USER_ACCESS};
use anemone_program::Program;
use anemone_program::hwx::Container;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Loads programs.
pub trait Device: Send + Sync {
    /// Loads a program image of a bundle under the function's name, ready for submissions.
    fn load(&self, image: &Image, name: &str) -> Result<Arc<dyn Loaded>>;
    /// Loads an image as a base, and an instance of it with replaced kernel data; all other data are shared with the base.
    fn adapt(&self, image: &Image, name: &str, pieces: &[Piece]) -> Result<Arc<dyn Loaded>>;
}

/// Kernel data that an adapter replaces: byte offset, content.
pub type Piece = (u64, Vec<u8>);

/// Pieces in the form that the driver accepts.
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
    /// Registers memory under a surface identity.
    fn add_surface(&self, shared: Arc<Shared>) -> Result<u32>;
    /// Releases a surface.
    fn remove_surface(&self, surface: u32);
    /// Runs once.
    fn submit(&self, submission: &Submission<'_>) -> Result<()>;
}

/// One run of a loaded program, with surfaces in the order of ports.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Sequence number.
    pub sequence: u64,
    /// Number of the procedure.
    pub procedure: u8,
    /// Input surfaces.
    pub inputs: &'a [u32],
    /// Output surfaces.
    pub outputs: &'a [u32],
    /// True if outputs stay on the device, for its next call or another program's; the call is then chained if possible.
    pub keeps: bool,
    /// Time limit, after which the request is aborted.
    pub limit: Option<Duration>,
}

/// Reads a program image: its procedures, by number.
pub fn read_image(image: &Bytes) -> Result<Vec<Program>> {
    let refused = |what: String| Error::Compile(what);
    let container = Container::read_shared(image).map_err(|e| refused(e.to_string()))?;
    container.programs().map_err(|e| refused(e.to_string()))
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

    /// Uses a running driver.
    pub fn with(driver: Arc<Driver>, signer: Signer) -> InProcess {
        let task = Arc::new(Task::new(std::process::id(), Identity::default(), [USER_ACCESS, CHAINING]));
        InProcess { driver, signer, task, secure: false }
    }

    /// Runs every program in secure mode: others are excluded meanwhile, and the engine is power-cycled before and after.
    pub fn secure(self) -> InProcess {
        InProcess { secure: true, ..self }
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Calls a method of the direct-path client or of the hint client by name, with or without `ANE_`. The driver belongs to this
    /// process, so the caller has every right.
    pub fn method(&self, name: &str, numbers: &[u64]) -> Result<Answer> {
        let unknown = || Error::Unknown { what: "method", name: name.into() };
        let (method, hints) = methods::named(name).ok_or_else(unknown)?;
        let task = Task::new(std::process::id(), Identity::default(), ENTITLEMENTS.iter().map(|row| row.key));
        task.set_privileged(true);
        let client = self.driver.open(&Arc::new(task), if hints { 2 } else { 1 });
        let called = client.and_then(|client| client.method(method.name, numbers));
        called.map_err(|code| Error::driver(method.name, code))
    }
}

struct OwnProgram {
    client: Client,
    token: u64,
    /// Surface of the intermediate region, if the program has one; created at the first request that is not chained.
    intermediate: OnceLock<Option<u32>>,
    /// Handler for calls whose output set stays on the device; created at the first.
    chain: OnceLock<Option<ChainHandler>>,
    open_direct: Box<dyn Fn() -> Option<Client> + Send + Sync>,
}

impl OwnProgram {
    /// A surface for the intermediate region; without one the driver uses the program's own.
    fn make_intermediate(&self) -> Option<u32> {
        let bytes = self.client.intermediate_bytes(self.token).filter(|&bytes| bytes > 0)?;
        self.client.add_surface(Arc::new(Shared::new(bytes).ok()?)).ok()
    }

    /// A call whose output set stays on the device; `None` if it must be a plain submission.
    fn submit_chained(&self, inputs: &[u32], outputs: &[u32]) -> Option<Result<()>> {
        let make = || ChainHandler::new(&self.client, Arc::new((self.open_direct)()?), self.token);
        let chain = self.chain.get_or_init(make).as_ref()?;
        chain.submit(inputs, outputs).map(|done| done.map_err(|code| Error::driver("submit", code)))
    }
}

impl InProcess {
    fn instance(&self, image: &Image, name: &str, pieces: &[Piece]) -> Result<Arc<dyn Loaded>> {
        let refused = |what| move |code| Error::driver(what, code);
        let client = self.driver.open(&self.task, 0).map_err(refused("open"))?;
        client.open().map_err(refused("handshake"))?;
        let create = Create { name, ..self.signer.signed(image) };
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
        let (intermediate, chain) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(OwnProgram { client, token, intermediate, chain, open_direct: Box::new(open_direct) }))
    }
}

impl Device for InProcess {
    fn load(&self, image: &Image, name: &str) -> Result<Arc<dyn Loaded>> {
        self.instance(image, name, &[])
    }

    fn adapt(&self, image: &Image, name: &str, pieces: &[Piece]) -> Result<Arc<dyn Loaded>> {
        self.instance(image, name, pieces)
    }
}

impl Loaded for OwnProgram {
    fn add_surface(&self, shared: Arc<Shared>) -> Result<u32> {
        self.client.add_surface(shared).map_err(|code| Error::driver("surface", code))
    }

    fn remove_surface(&self, surface: u32) {
        // A surface in use is released with its client.
        let _ = self.client.remove_surface(surface);
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<()> {
        let &Submission { sequence, procedure, inputs, outputs, keeps, limit } = submission;
        let intermediates = self.intermediate.get_or_init(|| self.make_intermediate()).as_slice();
        // The surface is for the first procedure's region.
        let intermediates = if procedure == 0 { intermediates } else { &[] };
        let submit = Submit { sequence, procedure, intermediates, ..Submit::new(self.token, inputs, outputs) };
        let Some(limit) = limit else {
            if keeps
                && procedure == 0
                && let Some(done) = self.submit_chained(inputs, outputs)
            {
                return done;
            }
            return self.client.run(&submit);
        };
        let (port, messages) = WakePort::new();
        self.client.submit_async(&submit, port).map_err(|code| Error::driver("submit", code))?;
        if let Ok(message) = messages.recv_timeout(limit) {
            return match message.code {
                Code::SUCCESS => Ok(()),
                code => Err(Error::submission(code, &message.reply)),
            };
        }
        self.client.cancel_all();
        // An executing request is answered at its next task; for this caller it is over.
        let code = messages.recv_timeout(Duration::from_millis(100)).map_or(Code::ABORTED, |m| m.code);
        if code == Code::SUCCESS {
            return Ok(());
        }
        Err(Error::Timeout { what: "submit", waited_ms: limit.as_millis() as u64, code })
    }
}
