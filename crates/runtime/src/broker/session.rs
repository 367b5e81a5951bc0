//! A connection: identity, requests and permissions of the peer.

use super::Broker;
use super::policy::{self, Admitted, Tier};
use super::service::unhex_all;
use super::wire::{self, Answer, Ask, kind};
use crate::driver::chaining::ChainHandler;
use crate::driver::client::{Arguments, Client, Create, Created};
use crate::driver::methods;
use crate::driver::priority_of;
use crate::driver::task::{Grant, Identity, Task, lock};
use crate::error::{Code, Error, Result};
use crate::os::shared::Shared;
use crate::os::socket::{self, Message, Peer, Stream};
use crate::words::{u32_at, u64_at};
use anemone_facts::driver::entitlements as keys;
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::structures::{reply, request};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Largest message of a client in bytes.
pub(super) const MAX_BODY_BYTES: usize = 1 << 22;
/// Most surfaces of one connection.
const MAX_SURFACES: usize = 4096;
/// Largest number of simultaneous direct-path connections of one session.
const MAX_LINES: usize = 64;

struct Session<'a> {
    broker: &'a Arc<Broker>,
    peer: Peer,
    tier: Admitted,
    task: Arc<Task>,
    client: Client,
    loaded: BTreeMap<u64, Grant>,
    surfaces: usize,
    /// Number of live direct-path connections.
    lines: Arc<AtomicUsize>,
    /// Chained calls, by token, and the client that submits them.
    chains: BTreeMap<u64, Option<ChainHandler>>,
    direct: Option<Arc<Client>>,
}

/// Error for a program of another user, or one that the policy does not admit.
pub(super) fn foreign() -> Error {
    Error::Denied { method: "connect", key: keys::ALLOW }
}

/// Serves a connection until the peer disconnects or violates the protocol.
pub(super) fn serve(broker: &Arc<Broker>, socket: Stream) -> Result<()> {
    socket::set_tick(&socket)?;
    let peer = socket::peer(&socket)?;
    if peer.uid != socket::own_user() {
        broker.refused.fetch_add(1, Relaxed);
        return wire::refuse(&socket, &foreign());
    }
    // A peer with the broker's own executable may be a sibling, which declares itself first.
    let sibling = broker.siblings.load(Relaxed) && socket::own_digest().is_ok_and(|own| own == peer.digest);
    let tier = broker.policy().tier(&peer.digest);
    let mut session = match Session::admit(broker, peer.clone(), tier) {
        Err(error) if !sibling => return wire::refuse(&socket, &error),
        admitted => admitted,
    };
    let mut first = true;
    while let Some(message) = socket::receive(&socket, MAX_BODY_BYTES)? {
        let begins = std::mem::take(&mut first);
        if begins
            && sibling
            && message.kind == kind::ASK
            && let Ok(Ask::Behalf { digest, pid }) = wire::read_ask(&message)
        {
            drop(session);
            session = Session::admit(broker, Peer { digest, pid, ..peer.clone() }, Admitted::PerUser);
            if session.is_ok() {
                wire::answer(&socket, &Answer::Done, &[], &[])?;
                continue;
            }
        }
        let session = match &mut session {
            Ok(session) => session,
            Err(error) => return wire::refuse(&socket, error),
        };
        let answered = match message.kind {
            kind::ASK => session.answer(&socket, &message),
            kind::CHAINED => {
                session.prepare_chain(&message);
                chained(&session.chains, &socket, &message)
            }
            _ => submission(&session.client, &mut session.surfaces, &socket, message),
        };
        answered?;
    }
    Ok(())
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.broker.tiers[self.tier as usize].fetch_sub(1, Relaxed);
        let gone: Vec<u64> = self.loaded.keys().copied().collect();
        self.broker.withdraw(&gone);
    }
}

fn kernel_key(key: &str) -> Option<&'static str> {
    keys::ENTITLEMENTS.iter().find(|e| e.key == key && e.kernel).map(|e| e.key)
}

impl<'a> Session<'a> {
    /// A session of a program with its keys in the policy.
    fn admit(broker: &'a Arc<Broker>, peer: Peer, tier: Admitted) -> Result<Session<'a>> {
        let rules = broker.policy();
        let known = rules.known(&peer.digest);
        if known.is_none() && rules.default_tier == Tier::None {
            broker.refused.fetch_add(1, Relaxed);
            return Err(foreign());
        }
        let team = known.map_or(String::new(), |k| k.team.clone());
        let identity = Identity { team, digest: peer.digest.clone() };
        // The broker opens the driver: the gate key is its own, the identity is the peer's.
        let mut own = vec![keys::USER_ACCESS];
        own.extend(known.iter().flat_map(|k| &k.entitlements).filter_map(|k| kernel_key(k)));
        if !rules.book {
            own.push(keys::CHAINING);
        }
        let task = Task::new(peer.pid, identity, own);
        task.set_privileged(known.is_some_and(|k| k.privileged));
        let task = Arc::new(task);
        let refused = |what| move |code| Error::driver(what, code);
        let client = broker.driver.open(&task, 0).map_err(refused("open"))?;
        client.open().map_err(refused("handshake"))?;
        broker.tiers[tier as usize].fetch_add(1, Relaxed);
        let (loaded, lines) = (BTreeMap::new(), Arc::default());
        Ok(Session {
            broker,
            peer,
            tier,
            task,
            client,
            loaded,
            surfaces: 0,
            lines,
            chains: BTreeMap::new(),
            direct: None,
        })
    }
}

impl Session<'_> {
    fn answer(&mut self, socket: &Stream, message: &Message) -> Result<()> {
        self.broker.served.fetch_add(1, Relaxed);
        let done = wire::read_ask(message).and_then(|ask| self.ask(socket, &ask));
        match done {
            Ok(()) => Ok(()),
            Err(error) => {
                self.broker.refused.fetch_add(1, Relaxed);
                wire::refuse(socket, &error)
            }
        }
    }

    /// Refuses a method if the peer currently lacks its key.
    fn need(&self, method: &'static str, key: &'static str) -> Result<()> {
        let policy = self.broker.policy();
        let holds = policy.known(&self.peer.digest).is_some_and(|k| k.entitlements.iter().any(|k| k == key));
        if holds { Ok(()) } else { Err(Error::Denied { method, key }) }
    }

    fn ask(&mut self, socket: &Stream, ask: &Ask) -> Result<()> {
        let send = |answer: &Answer| wire::answer(socket, answer, &[], &[]);
        let refused = |what| move |code| Error::driver(what, code);
        if ask.class() == rows::REALTIME_QOS as u32 {
            self.need(ask.method(), keys::REALTIME)?;
        }
        if self.broker.policy().book {
            for (method, key) in policy::BOOK.iter().filter(|(method, _)| *method == ask.method()) {
                self.need(method, key)?;
            }
            if ask.class() == policy::LATENCY_CRITICAL {
                self.need(ask.method(), keys::TRUST_SLOT)?;
            }
        }
        match ask {
            Ask::Behalf { .. } => Err(foreign()),
            Ask::Content { path, qos } => {
                let _turn = self.broker.door.enter(priority_of(*qos));
                let key = self.broker.runtime.key(Path::new(path), &Default::default())?;
                send(&Answer::Content(key.text().into()))
            }
            Ask::Compile { path, options, long, qos } => {
                if *long {
                    self.need("long compile", keys::LONG_COMPILE)?;
                    self.broker.long.fetch_add(1, Relaxed);
                }
                let (runtime, door) = match &self.broker.patient {
                    Some(patient) if *long => (patient, &self.broker.patient_door),
                    _ => (&self.broker.runtime, &self.broker.door),
                };
                let turn = door.enter(priority_of(*qos));
                let (bundle, kept) = runtime.bundle(Path::new(path), options)?;
                drop(turn);
                self.broker.remember(&bundle);
                wire::answer(socket, &wire::compiled(&bundle, kept), &wire::tail(&bundle), &[])
            }
            Ask::Load { image, stats_mask, depth, power_saving, wired, qos } => {
                let loaded = self.load(image, *stats_mask, *depth, *power_saving, *qos)?;
                if let Answer::Loaded { token, .. } = &loaded
                    && *wired
                {
                    self.broker.driver.set_wired(*token).map_err(refused("wiring"))?;
                }
                send(&loaded)
            }
            Ask::Share { token, qos } => {
                self.need("share", keys::MODEL_SHARE)?;
                let created = self.client.create_instance(*token, &[]).map_err(refused("instance"))?;
                send(&self.configure(created, 1, 0, *qos)?)
            }
            Ask::Adapt { base, pieces, qos } => {
                self.need("adapter weights", keys::ADAPTER_WEIGHT)?;
                let mut adapter = Vec::new();
                for (at, digits) in pieces {
                    let bytes = unhex_all(digits).ok_or(Error::Driver { what: "adapter", code: Code::BAD_ARGUMENT })?;
                    adapter.extend_from_slice(&at.to_le_bytes());
                    adapter.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                    adapter.extend_from_slice(&bytes);
                }
                let created = self.client.create_instance(*base, &adapter).map_err(refused("instance"))?;
                send(&self.configure(created, 1, 0, *qos)?)
            }
            Ask::Direct { token, qos } => {
                let grant = *self.loaded.get(token).ok_or(Error::Driver { what: "direct", code: Code::NOT_FOUND })?;
                let theirs = self.hand_over(grant, *qos)?;
                wire::answer(socket, &Answer::Done, &[], &[socket::descriptor(&theirs)])
            }
            Ask::Unload { token, .. } => {
                if !self.loaded.contains_key(token) {
                    return Err(Error::Driver { what: "unload", code: Code::NOT_FOUND });
                }
                // No further client may attach; the instance stays the client's until the driver releases it.
                self.broker.withdraw(&[*token]);
                self.client.destroy(*token).map_err(refused("destroy"))?;
                self.loaded.remove(token);
                send(&Answer::Done)
            }
            Ask::Purge { key, .. } => {
                let Some(cache) = self.broker.runtime.cache() else { return send(&Answer::Count(0)) };
                let count = match key {
                    Some(key) => cache.remove(&crate::cache::Key::parse(key)?) as u64,
                    None => {
                        self.need("purge all", keys::PURGE_ALL)?;
                        cache.list().iter().filter(|e| cache.remove(&e.key)).count() as u64
                    }
                };
                self.broker.purged.fetch_add(count, Relaxed);
                send(&Answer::Count(count))
            }
            Ask::Method { hints, name, numbers, .. } => send(&self.method(*hints, name, numbers)?),
            Ask::Stat { .. } => send(&Answer::Stat(self.broker.stat())),
        }
    }

    /// Calls a method on a client opened for this call.
    fn method(&self, hints: bool, name: &str, numbers: &[u64]) -> Result<Answer> {
        let refused = |what| move |code| Error::driver(what, code);
        let kind = if hints { 2 } else { 1 };
        let client = self.broker.driver.open(&self.task, kind).map_err(refused("open"))?;
        Ok(match client.method(name, numbers).map_err(refused("method"))? {
            methods::Answer::Number(n) => Answer::Count(n),
            methods::Answer::Lines(lines) => Answer::Lines(lines),
        })
    }

    /// Creates the handler of a program's chained calls, at the first of them.
    fn prepare_chain(&mut self, message: &Message) {
        let token = u64_at(&message.body, 0);
        if self.chains.contains_key(&token) || !self.loaded.contains_key(&token) {
            return;
        }
        if self.direct.is_none() {
            let client = self.broker.driver.open(&self.task, 1).ok();
            self.direct = client.filter(|client| client.open().is_ok()).map(Arc::new);
        }
        let chain = self.direct.clone().and_then(|direct| ChainHandler::new(&self.client, direct, token));
        self.chains.insert(token, chain);
    }

    /// Loads a compiled program, or attaches to another client's copy.
    fn load(&mut self, image: &str, stats_mask: u32, depth: u32, power_saving: bool, qos: u32) -> Result<Answer> {
        if power_saving {
            self.need("aggressive power saving", keys::POWER_SAVING)?;
        }
        let known = self.broker.recall(image);
        let known = known.ok_or_else(|| Error::Unknown { what: "compiled program", name: image.into() })?;
        // Counters are only for programs in the policy.
        let trusted = self.need("counters", keys::ALLOW).is_ok();
        let stats_mask = if trusted { stats_mask } else { 0 };
        let turn = self.broker.turn(image);
        let _turn = lock(&turn);
        let resident = if stats_mask == 0 { self.broker.attach(&self.client, image) } else { None };
        let created = match resident {
            Some(created) => created,
            None => {
                let signed = self.broker.signer.signed(&known.image);
                let create = Create { name: &known.name, stats_mask, ..signed };
                self.client.create(create).map_err(|code| self.client.why_not_created(code))?
            }
        };
        let (answer, token) = (self.configure(created, depth, stats_mask, qos)?, created.token);
        if stats_mask == 0 {
            self.broker.offer(image, token);
        }
        if power_saving {
            self.broker.driver.set_saving(token).map_err(|code| Error::driver("power saving", code))?;
            self.broker.saving.fetch_add(1, Relaxed);
        }
        Ok(answer)
    }

    /// Prepares an instance, and sets its limit of simultaneous requests and its class. Destroys the instance if that fails.
    fn configure(&mut self, created: Created, depth: u32, stats_mask: u32, qos: u32) -> Result<Answer> {
        let Created { token, intermediate, program, .. } = created;
        let share = rows::PROGRAM_OUTSTANDING as usize / self.broker.clients().max(1);
        let depth = depth.min(share as u32).max(1);
        let driver = &self.broker.driver;
        let ready = self.client.prepare(token);
        let ready = ready.and_then(|_| driver.limit_depth(token, depth)).and_then(|()| driver.set_class(token, qos));
        if let Err(code) = ready {
            let _ = self.client.destroy(token);
            return Err(Error::driver("prepare", code));
        }
        self.loaded.insert(token, Grant { token, intermediate });
        Ok(Answer::Loaded { token, intermediate, program, depth, stats_mask })
    }

    /// A direct-path connection for one program: opened here with the grant, served by a thread, passed to the client as a descriptor.
    fn hand_over(&self, grant: Grant, qos: u32) -> Result<Stream> {
        if self.lines.load(Relaxed) >= MAX_LINES {
            return Err(Error::driver("direct", Code::NO_RESOURCES));
        }
        let chaining = Some(keys::CHAINING).filter(|key| self.task.holds(key));
        let own = [keys::DIRECT_EXCEPTION].into_iter().chain(chaining);
        let task = Task::new(self.task.pid, self.task.identity.clone(), own);
        task.set_grant(Some(grant));
        let refused = |what| move |code| Error::driver(what, code);
        let client = self.broker.driver.open(&Arc::new(task), 1).map_err(refused("open direct"))?;
        client.open().map_err(refused("handshake"))?;
        client.set_class(qos).map_err(refused("class of service"))?;
        let client = Arc::new(client);
        let chain = ChainHandler::new(&self.client, Arc::clone(&client), grant.token);
        let chains = BTreeMap::from([(grant.token, chain)]);
        let (ours, theirs) = socket::pair()?;
        socket::set_tick(&ours)?;
        let lines = Arc::clone(&self.lines);
        lines.fetch_add(1, Relaxed);
        let serve = move || {
            let mut surfaces = 0;
            while let Ok(Some(message)) = socket::receive(&ours, MAX_BODY_BYTES) {
                let answered = match message.kind {
                    kind::CHAINED => chained(&chains, &ours, &message),
                    _ => submission(&client, &mut surfaces, &ours, message),
                };
                if answered.is_err() {
                    break;
                }
            }
            lines.fetch_sub(1, Relaxed);
        };
        std::thread::Builder::new()
            .name("ane-direct".into())
            .spawn(serve)
            .map_err(|e| Error::system("spawn", "", e))?;
        Ok(theirs)
    }
}

/// A chained call; unsupported without a handler.
fn chained(chains: &BTreeMap<u64, Option<ChainHandler>>, socket: &Stream, message: &Message) -> Result<()> {
    let body = &message.body;
    let count = |at: usize| if body.len() >= 16 { u32_at(body, at) as usize } else { 0 };
    let (n_in, n_out) = (count(8).min(256), count(12).min(256));
    let fits = body.len() == 16 + 4 * (n_in + n_out);
    let surface = |i: usize| u32_at(body, 16 + 4 * i);
    let all: Vec<u32> = if fits { (0..n_in + n_out).map(surface).collect() } else { Vec::new() };
    let chain = chains.get(&u64_at(body, 0)).and_then(Option::as_ref).filter(|_| fits);
    let done = chain.and_then(|chain| chain.submit(&all[..n_in], &all[n_in..]));
    let code = done.map_or(Code::UNSUPPORTED, |done| done.err().unwrap_or(Code::SUCCESS));
    socket::send(socket, kind::REPLY, &code.0.to_le_bytes(), &[])
}

/// Surfaces and submissions, which are the same on both connections. An error ends the connection; a refusal is a code.
fn submission(client: &Client, surfaces: &mut usize, socket: &Stream, message: Message) -> Result<()> {
    let code_first = |code: Code, rest: &[u8]| {
        let mut body = [0; 4 + reply::BYTES];
        body[..4].copy_from_slice(&code.0.to_le_bytes());
        body[4..4 + rest.len()].copy_from_slice(rest);
        socket::send(socket, kind::REPLY, &body[..4 + rest.len()], &[])
    };
    match message.kind {
        kind::SURFACE => {
            let bytes = u64_at(&message.body, 0);
            let mut files = message.descriptors.into_iter();
            let (Some(file), None, true) = (files.next(), files.next(), *surfaces < MAX_SURFACES) else {
                return code_first(Code::NO_RESOURCES, &[0; 4]);
            };
            let added = match Shared::adopt(file, bytes) {
                Ok(shared) => client.add_surface(Arc::new(shared)),
                Err(error) => Err(error.code()),
            };
            match added {
                Ok(id) => {
                    *surfaces += 1;
                    code_first(Code::SUCCESS, &id.to_le_bytes())
                }
                Err(code) => code_first(code, &[0; 4]),
            }
        }
        kind::DROP => match client.remove_surface(u32_at(&message.body, 0)) {
            Ok(()) => {
                *surfaces = surfaces.saturating_sub(1);
                code_first(Code::SUCCESS, &[0; 4])
            }
            Err(code) => code_first(code, &[0; 4]),
        },
        kind::SUBMIT => {
            if message.body.len() != 8 + request::BYTES {
                return code_first(Code::BAD_ARGUMENT, &[0; reply::BYTES]);
            }
            let mut output = [0; reply::BYTES];
            let scalars = [u64_at(&message.body, 0)];
            let a = Arguments {
                scalars_in: &scalars,
                struct_in: Some(&message.body[8..]),
                struct_out: Some(&mut output),
                ..Arguments::default()
            };
            let code = client.call(2, a);
            code_first(code, &output)
        }
        other => Err(Error::Protocol { what: "message kind", found: u64::from(other), limit: u64::from(kind::REPLY) }),
    }
}
