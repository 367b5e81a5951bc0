//! The driver of the process, and the objects behind handles.

use crate::os::Own;
use anemone_facts::driver::entitlements::ENTITLEMENTS;
use anemone_runtime::Code;
use anemone_runtime::broker::policy::Policy;
use anemone_runtime::driver::client::Client;
use anemone_runtime::driver::sign::{Signer, sha256};
use anemone_runtime::driver::task::{Identity, Task};
use anemone_runtime::driver::{Config, Driver, Message};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Environment variable with a broker's policy: the entitlements are then those of the executable's digest.
pub const POLICY: &str = "ANEMONE_POLICY";

/// An asynchronous call whose message is not delivered yet.
pub struct Pending {
    /// Channel of its message.
    pub message: Receiver<Message>,
    /// Address of the function to call, and its argument.
    pub callback: (u64, u64),
    /// Destination address of the reply.
    pub output: u64,
}

/// Object behind a handle.
pub enum Object {
    /// A service, by its index in the driver.
    Service(usize),
    /// Remaining services.
    Iterator(VecDeque<usize>),
    /// An open client.
    Connection(Arc<Client>),
    /// A notification port with its calls.
    Port(Vec<Pending>),
}

/// The driver and all handles.
pub struct World {
    /// The driver.
    pub driver: Arc<Driver>,
    /// Signs programs, in place of the system's trust.
    pub signer: Signer,
    /// The calling process.
    pub task: Arc<Task>,
    objects: BTreeMap<u32, (u32, Object)>,
    next: u32,
}

impl World {
    fn new() -> Option<World> {
        let (driver, signer) = Driver::start(Config::default()).ok()?;
        let held = entitlements();
        let task = Task::new(std::process::id(), Identity::default(), held.iter().map(String::as_str));
        let task = match Own::open() {
            Ok(own) => task.with_memory(Box::new(own)),
            Err(_) => task,
        };
        Some(World { driver, signer, task: Arc::new(task), objects: BTreeMap::new(), next: 0x103 })
    }

    /// A new handle with one reference.
    pub fn add(&mut self, object: Object) -> u32 {
        let handle = self.next;
        self.next += 4;
        self.objects.insert(handle, (1, object));
        handle
    }

    /// Object behind a handle.
    pub fn object(&mut self, handle: u32) -> Option<&mut Object> {
        self.objects.get_mut(&handle).map(|(_, object)| object)
    }

    /// The client of a connection.
    pub fn client(&mut self, handle: u32) -> Option<Arc<Client>> {
        match self.object(handle)? {
            Object::Connection(client) => Some(Arc::clone(client)),
            _ => None,
        }
    }

    /// Adds or removes a reference; the object is dropped with its last one.
    pub fn count(&mut self, handle: u32, more: bool) -> Code {
        let Some((references, _)) = self.objects.get_mut(&handle) else { return Code::BAD_ARGUMENT };
        *references = if more { references.saturating_add(1) } else { *references - 1 };
        if *references == 0 {
            self.objects.remove(&handle);
        }
        Code::SUCCESS
    }

    /// Drops an object, whatever its reference count.
    pub fn remove(&mut self, handle: u32) -> Option<Object> {
        self.objects.remove(&handle).map(|(_, object)| object)
    }
}

/// Entitlements of the process: all, or those of its executable in a policy.
fn entitlements() -> Vec<String> {
    let Some(path) = std::env::var_os(POLICY) else {
        return ENTITLEMENTS.iter().map(|e| e.key.to_string()).collect();
    };
    // A policy that cannot be read grants nothing.
    let policy = std::fs::read_to_string(path).ok().and_then(|text| Policy::parse(&text).ok());
    let own = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
    let digest: String = sha256(&own).iter().map(|b| format!("{b:02x}")).collect();
    let known = policy.as_ref().and_then(|p| p.known(&digest));
    known.map_or_else(Vec::new, |known| known.entitlements.clone())
}

/// The driver and handles; `None` if the driver does not start.
pub fn world() -> Option<MutexGuard<'static, World>> {
    static WORLD: OnceLock<Option<Mutex<World>>> = OnceLock::new();
    let world = WORLD.get_or_init(|| World::new().map(Mutex::new)).as_ref()?;
    Some(world.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a call; a panic in it becomes a code and does not reach C.
pub fn guarded<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(otherwise)
}
