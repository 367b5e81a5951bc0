//! The broker: access control for the driver. A daemon on a Unix socket, with one thread per connection.
//!
//! Only the broker opens the driver. A peer is identified by the kernel (process, user) and the digest of its executable;
//! the policy determines the rights of that digest. The broker loads programs; submissions go through its connection or
//! through a direct-path connection that it passes to the client once and that is limited to one program. Tensors are memory that the
//! client passes by descriptor. A sibling of the broker may act for the programs of its user.

pub mod client;
mod listener;
pub mod policy;
pub mod service;
mod session;
mod sibling;
pub mod wire;

use crate::cache::{Image, hex};
use crate::driver::client::{Client, Created};
use crate::driver::sign::Signer;
use crate::driver::task::lock;
use crate::driver::{Config, Driver};
use crate::e5rt::device::InProcess;
use crate::e5rt::{Compiler, Runtime};
use crate::error::{Error, Result};
use crate::os::socket::{Listener, Stream};
use policy::Policy;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// Largest number of images that the broker keeps by digest.
const MAX_KNOWN: usize = 1024;
const MAX_KNOWN_BYTES: usize = 1 << 31;

/// An image and the name of its function.
struct KnownImage {
    image: Image,
    name: String,
}

/// Images by digest, and their order of arrival.
#[derive(Default)]
struct Known {
    images: BTreeMap<String, Arc<KnownImage>>,
    order: VecDeque<String>,
    bytes: usize,
}

/// The broker.
pub struct Broker {
    driver: Arc<Driver>,
    signer: Signer,
    runtime: Arc<Runtime>,
    /// Compile service for compiles declared as long, with a queue of its own and the same cache.
    patient: Option<Arc<Runtime>>,
    patient_door: listener::Door,
    policy: RwLock<Policy>,
    known: Mutex<Known>,
    /// Tokens of instances by the digest of their image; a client of the same identity attaches to a resident one.
    attachable: Mutex<BTreeMap<String, Vec<u64>>>,
    /// Images being loaded: a second client of the same image waits and attaches.
    loading: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    attached: AtomicU64,
    /// Queue of compiles: the compile service does one at a time.
    door: listener::Door,
    clients: AtomicUsize,
    served: AtomicU64,
    refused: AtomicU64,
    purged: AtomicU64,
    /// Number of instances loaded with aggressive power saving.
    saving: AtomicU64,
    /// Number of compiles declared as long.
    long: AtomicU64,
    /// Current connections, by [`policy::Admitted`].
    tiers: [AtomicUsize; 3],
    /// True if a peer with the broker's executable may be a sibling.
    siblings: AtomicBool,
}

impl Broker {
    /// A broker with a driver of its own.
    pub fn new(policy: Policy, compiler: Arc<dyn Compiler>, cache: Option<crate::cache::Cache>) -> Result<Arc<Broker>> {
        Broker::configured(policy, compiler, cache, Config::default())
    }

    /// As [`Broker::new`], with these settings of the driver.
    pub fn configured(
        policy: Policy,
        compiler: Arc<dyn Compiler>,
        cache: Option<crate::cache::Cache>,
        config: Config,
    ) -> Result<Arc<Broker>> {
        Broker::with_services(policy, (compiler, None), cache, config)
    }

    /// As [`Broker::configured`], with a second compiler for compiles declared as long.
    pub fn with_services(
        policy: Policy,
        (compiler, long): (Arc<dyn Compiler>, Option<Arc<dyn Compiler>>),
        cache: Option<crate::cache::Cache>,
        config: Config,
    ) -> Result<Arc<Broker>> {
        let (driver, signer) = Driver::start(config)?;
        let device = Arc::new(InProcess::with(Arc::clone(&driver), signer.clone()));
        let patient = long.map(|long| {
            Arc::new(Runtime::new(device.clone(), long, cache.as_ref().map(crate::cache::Cache::reopened)))
        });
        let runtime = Arc::new(Runtime::new(device, compiler, cache));
        Ok(Arc::new(Broker {
            driver,
            signer,
            runtime,
            patient,
            patient_door: listener::Door::default(),
            policy: RwLock::new(policy),
            known: Mutex::default(),
            attachable: Mutex::default(),
            loading: Mutex::default(),
            attached: AtomicU64::new(0),
            door: listener::Door::default(),
            clients: AtomicUsize::new(0),
            served: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            saving: AtomicU64::new(0),
            long: AtomicU64::new(0),
            tiers: Default::default(),
            siblings: AtomicBool::new(true),
        }))
    }

    /// Refuses siblings from now on: for a broker whose executable also runs other programs, such as an interpreter.
    pub fn refuse_siblings(&self) {
        self.siblings.store(false, Relaxed);
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Number of current connections.
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Replaces the policy; existing connections keep their tier, but methods are checked against the new policy.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(std::sync::PoisonError::into_inner) = policy;
    }

    fn policy(&self) -> Policy {
        self.policy.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Keeps the images of a bundle, so that clients can load them by digest.
    fn remember(&self, bundle: &crate::cache::Bundle) {
        for image in &bundle.images {
            let digest = hex(&image.digest());
            let mut known = lock(&self.known);
            if known.images.contains_key(&digest) {
                continue;
            }
            while known.order.len() >= MAX_KNOWN || known.bytes + image.len() > MAX_KNOWN_BYTES {
                let Some(old) = known.order.pop_front() else { break };
                let gone = known.images.remove(&old).map_or(0, |k| k.image.len());
                known.bytes -= gone;
            }
            known.bytes += image.len();
            known.order.push_back(digest.clone());
            let name = bundle.function.name.clone();
            known.images.insert(digest, Arc::new(KnownImage { image: image.clone(), name }));
        }
    }

    /// Attaches to a resident image of the same identity, so that there is one copy in memory. `None` if there is none; the
    /// driver compares identities.
    fn attach(&self, client: &Client, digest: &str) -> Option<Created> {
        let tokens = lock(&self.attachable).get(digest).cloned().unwrap_or_default();
        let created = tokens.into_iter().find_map(|token| client.create_instance(token, &[]).ok())?;
        self.attached.fetch_add(1, Relaxed);
        Some(created)
    }

    /// Lock for loading an image, by digest.
    fn turn(&self, digest: &str) -> Arc<Mutex<()>> {
        let mut loading = lock(&self.loading);
        // Locks without holders and waiters are no longer needed.
        loading.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(loading.entry(digest.to_string()).or_default())
    }

    /// Lets clients of the same identity attach to an instance.
    fn offer(&self, digest: &str, token: u64) {
        lock(&self.attachable).entry(digest.to_string()).or_default().push(token);
    }

    /// Removes instances that no longer exist.
    fn withdraw(&self, gone: &[u64]) {
        let mut attachable = lock(&self.attachable);
        attachable.retain(|_, tokens| {
            tokens.retain(|token| !gone.contains(token));
            !tokens.is_empty()
        });
    }

    fn recall(&self, digest: &str) -> Option<Arc<KnownImage>> {
        lock(&self.known).images.get(digest).cloned()
    }

    /// Live counters: those of the broker, and those of its driver.
    pub fn stat(&self) -> serde_json::Value {
        let counts = self.runtime.counts();
        let mut stat = serde_json::json!({
            "schema": "anemone.stat/1",
            "connections": self.clients(),
            "connections_by_tier": policy::Admitted::ALL
                .iter()
                .map(|tier| (tier.name(), self.tiers[*tier as usize].load(Relaxed)))
                .collect::<BTreeMap<_, _>>(),
            "methods": self.served.load(Relaxed),
            "refused": self.refused.load(Relaxed),
            "attached": self.attached.load(Relaxed),
            "compiles_waiting": self.door.waiting(),
            "compiles": counts.compiles.load(Relaxed)
                + self.patient.as_ref().map_or(0, |long| long.counts().compiles.load(Relaxed)),
            "purged": self.purged.load(Relaxed),
            "power_saving": self.saving.load(Relaxed),
            "long_compiles": self.long.load(Relaxed),
        });
        if let (Some(all), serde_json::Value::Object(driver)) = (stat.as_object_mut(), self.driver.stat()) {
            all.extend(driver);
        }
        stat
    }
}

/// A listening socket of one broker, and its lock.
#[derive(Debug)]
pub struct Listening {
    listener: Listener,
    path: PathBuf,
    _lock: File,
}

impl Listening {
    /// Listens. The socket of a dead broker is taken over; that of a live one is refused.
    pub fn bind(path: &Path) -> Result<Listening> {
        let fail = |what| move |e| Error::system(what, path.display(), e);
        let lock_path = path.with_extension("lock");
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(fail("create the folder of"))?;
        }
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(|e| Error::system("open", lock_path.display(), e))?;
        if lock.try_lock().is_err() {
            return Err(Error::Taken { socket: path.display().to_string() });
        }
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fail("remove")(e)),
            _ => {}
        }
        let listener = Listener::bind(path)?;
        Ok(Listening { listener, path: path.to_path_buf(), _lock: lock })
    }

    /// Serves until `stop`.
    pub fn serve(self, broker: &Arc<Broker>, stop: &AtomicBool) -> Result<()> {
        self.accept(stop, |socket| {
            let limit = broker.policy().max_clients;
            if broker.clients.fetch_add(1, Relaxed) >= limit {
                broker.clients.fetch_sub(1, Relaxed);
                let found = limit as u64 + 1;
                let error = Error::Protocol { what: "connections", found, limit: limit as u64 };
                return drop(wire::refuse(&socket, &error));
            }
            let own = Arc::clone(broker);
            let spawned = std::thread::Builder::new().name("ane-client".into()).spawn(move || {
                if let Err(error) = session::serve(&own, socket) {
                    tracing::debug!(%error, "a connection ended");
                }
                own.driver.share_among(own.clients.fetch_sub(1, Relaxed) - 1);
            });
            match spawned {
                Ok(_) => broker.driver.share_among(broker.clients()),
                Err(_) => drop(broker.clients.fetch_sub(1, Relaxed)),
            }
        })
    }

    /// Accepts connections until `stop`.
    fn accept(self, stop: &AtomicBool, mut each: impl FnMut(Stream)) -> Result<()> {
        while !stop.load(Relaxed) {
            match self.listener.accept_within(Duration::from_millis(200)) {
                Ok(Some(socket)) => each(socket),
                Ok(None) => {}
                Err(error) => {
                    // Out of descriptors, or the peer has disconnected already: continue with others.
                    tracing::warn!(%error, "a connection is not accepted");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}
