//! Where programs run: this process's own driver, or another behind a socket.

use crate::driver::client::{Client, Create, Submit};
use crate::driver::sign::Signer;
use crate::driver::task::{Identity, Task};
use crate::driver::{Config, Driver, WakePort};
use crate::error::{Code, Error, Result};
use crate::os::shared::Shared;
use anemone_facts::driver::entitlements::{CHAINING, USER_ACCESS};
use anemone_program::Program;
use anemone_program::hwx::Container;
use std::sync::Arc;
use std::time::Duration;

/// Loads programs.
pub trait Device: Send + Sync {
    /// Loads a program image of a bundle, ready to be submitted, under the function's name.
    fn load(&self, image: &[u8], name: &str) -> Result<Arc<dyn Loaded>>;
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
        InProcess { driver, signer, task }
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }
}

struct OwnProgram {
    client: Client,
    token: u64,
}

impl Device for InProcess {
    fn load(&self, image: &[u8], name: &str) -> Result<Arc<dyn Loaded>> {
        let refused = |what| move |code| Error::driver(what, code);
        let client = self.driver.open(&self.task, 0).map_err(refused("open"))?;
        client.open().map_err(refused("handshake"))?;
        let file = self.signer.sign(image);
        let create = Create { image: &file, name, stats_mask: 0 };
        let token = client.create(create).map_err(|code| client.why_not_created(code))?.token;
        client.prepare(token).map_err(refused("prepare"))?;
        Ok(Arc::new(OwnProgram { client, token }))
    }
}

impl Loaded for OwnProgram {
    fn add_surface(&self, shared: Arc<Shared>) -> Result<u32> {
        self.client.add_surface(shared).map_err(|code| Error::driver("surface", code))
    }

    fn remove_surface(&self, surface: u32) {
        // A surface in use goes with its client.
        let _ = self.client.remove_surface(surface);
    }

    fn submit(&self, sequence: u64, inputs: &[u32], outputs: &[u32], limit: Option<Duration>) -> Result<()> {
        let submit = Submit { sequence, ..Submit::new(self.token, inputs, outputs) };
        let Some(limit) = limit else {
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
