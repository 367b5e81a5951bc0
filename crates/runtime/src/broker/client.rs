//! Client side of the broker: a compiler and a device behind a socket.

use super::wire::{self, Answer, Ask, kind};
use crate::cache::{Bundle, Image, hex};
use crate::driver::client::Submit;
use crate::driver::methods::{self, Answer as Method};
use crate::driver::priority_of;
use crate::driver::task::lock;
use crate::e5rt::device::{Device, Loaded, Piece, Submission};
use crate::e5rt::{CompileOptions, Compiler};
use crate::error::{Code, Error, Result};
use crate::os::BorrowedDescriptor;
use crate::os::shared::Shared;
use crate::os::socket::{self, MAX_MESSAGE_BYTES, Message, Stream};
use crate::words::u32_at;
use anemone_facts::driver::limits::DEFAULT_QOS;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Route of submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Through the broker's connection.
    Broker,
    /// Through a direct-path connection that the broker passed to the client.
    Direct,
}

/// A broker at a socket.
pub struct Remote {
    socket: PathBuf,
    path: Route,
    qos: u32,
    load: Loading,
    /// True if the last compile was a cache hit.
    kept: AtomicBool,
    control: Mutex<Stream>,
}

/// Options of a client for its loads and compiles.
#[derive(Clone, Copy, Debug)]
pub struct Loading {
    /// Outstanding requests.
    pub depth: u32,
    /// Aggressive power saving.
    pub power_saving: bool,
    /// Weights and scratch stay in memory when the engine goes off.
    pub wired: bool,
    /// True if compiles are declared as long, which needs a key: they go to a separate compile service.
    pub long: bool,
}

impl Default for Loading {
    fn default() -> Self {
        Loading { depth: 8, power_saving: false, wired: false, long: false }
    }
}

fn gone() -> Error {
    let error = std::io::ErrorKind::ConnectionAborted.into();
    Error::System { what: "the connection to the broker is lost", path: String::new(), error }
}

fn exchange(socket: &Stream) -> Result<Message> {
    socket::receive(socket, MAX_MESSAGE_BYTES)?.ok_or_else(gone)
}

impl Remote {
    /// Connects to the broker at a socket.
    pub fn connect(socket: &Path, path: Route) -> Result<Remote> {
        let control = Mutex::new(socket::connect(socket)?);
        let (qos, load) = (DEFAULT_QOS as u32, Loading::default());
        Ok(Remote { socket: socket.to_path_buf(), path, qos, load, kept: AtomicBool::new(false), control })
    }

    /// Sets the class of service of all requests.
    pub fn with_class(self, qos: u32) -> Remote {
        Remote { qos, ..self }
    }

    /// Sets the preferences for loads and compiles.
    pub fn with_loading(self, load: Loading) -> Remote {
        Remote { load, ..self }
    }

    /// Returns true if the last compile was a hit in the broker's cache.
    pub fn was_kept(&self) -> bool {
        self.kept.load(Relaxed)
    }

    /// Removes a cache entry by its key, or all of them. Returns the number removed.
    pub fn purge(&self, key: Option<String>) -> Result<u64> {
        match self.ask(&Ask::Purge { key, qos: self.qos })? {
            Answer::Count(count) => Ok(count),
            _ => Err(gone()),
        }
    }

    /// Sends a request that is answered without attachments.
    pub fn ask(&self, ask: &Ask) -> Result<Answer> {
        let control = lock(&self.control);
        wire::ask(&control, ask)?;
        let message = exchange(&control)?;
        wire::read_answer(&message).map(|(answer, _)| answer)
    }

    /// Calls a method of the direct-path client, or of the hint client, by name.
    pub fn method(&self, hints: bool, name: &str, numbers: &[u64]) -> Result<Method> {
        let (name, numbers) = (name.to_string(), numbers.to_vec());
        match self.ask(&Ask::Method { hints, name, numbers, qos: self.qos })? {
            Answer::Count(n) => Ok(Method::Number(n)),
            Answer::Lines(lines) => Ok(Method::Lines(lines)),
            _ => Err(gone()),
        }
    }

    /// Calls a method by its name alone, with or without `ANE_`.
    pub fn method_named(&self, name: &str, numbers: &[u64]) -> Result<Method> {
        let unknown = || Error::Unknown { what: "method", name: name.into() };
        let (method, hints) = methods::named(name).ok_or_else(unknown)?;
        self.method(hints, method.name, numbers)
    }

    /// Live counters.
    pub fn stat(&self) -> Result<serde_json::Value> {
        match self.ask(&Ask::Stat { qos: self.qos })? {
            Answer::Stat(value) => Ok(value),
            _ => Err(gone()),
        }
    }
}

impl Compiler for Remote {
    fn content(&self, model: &Path) -> std::result::Result<[u8; 32], String> {
        let path = std::path::absolute(model).map_err(|e| e.to_string())?.display().to_string();
        match self.ask(&Ask::Content { path, qos: self.qos }) {
            Ok(Answer::Content(digits)) => super::service::unhex(&digits).ok_or_else(|| gone().to_string()),
            Ok(_) => Err(gone().to_string()),
            Err(e) => Err(e.to_string()),
        }
    }

    fn compile(&self, model: &Path, options: &CompileOptions) -> std::result::Result<Bundle, String> {
        let path = std::path::absolute(model).map_err(|e| e.to_string())?.display().to_string();
        let ask = Ask::Compile { path, options: options.clone(), long: self.load.long, qos: self.qos };
        let control = lock(&self.control);
        let done = wire::ask(&control, &ask).and_then(|()| {
            let message = exchange(&control)?;
            let (answer, tail) = wire::read_answer(&message)?;
            self.kept.store(matches!(answer, Answer::Compiled { kept: true, .. }), Relaxed);
            wire::read_bundle(answer, tail)
        });
        done.map_err(|e| e.to_string())
    }
}

struct RemoteProgram {
    /// Keeps the program loaded as long as this connection.
    _control: Option<Stream>,
    line: Mutex<Stream>,
    token: u64,
    /// Doorbell of the class of service.
    doorbell: u64,
    /// False once a chained call has been refused.
    chains: AtomicBool,
}

impl Remote {
    fn instance(&self, image: &Image, pieces: &[Piece]) -> Result<Arc<dyn Loaded>> {
        let Loading { depth, power_saving, wired, .. } = self.load;
        let image = hex(&image.digest());
        let control = socket::connect(&self.socket)?;
        wire::ask(&control, &Ask::Load { image, stats_mask: 0, depth, power_saving, wired, qos: self.qos })?;
        let message = exchange(&control)?;
        let Answer::Loaded { token: base, .. } = wire::read_answer(&message)?.0 else { return Err(gone()) };
        let mut token = base;
        if !pieces.is_empty() {
            let pieces = pieces.iter().map(|(at, bytes)| (*at, hex(bytes))).collect();
            wire::ask(&control, &Ask::Adapt { base, pieces, qos: self.qos })?;
            let message = exchange(&control)?;
            let Answer::Loaded { token: adapted, .. } = wire::read_answer(&message)?.0 else { return Err(gone()) };
            token = adapted;
        }
        let doorbell = u64::from(priority_of(self.qos));
        let program = |control, line| {
            let chains = AtomicBool::new(true);
            RemoteProgram { _control: control, line: Mutex::new(line), token, doorbell, chains }
        };
        if self.path == Route::Broker {
            return Ok(Arc::new(program(None, control)));
        }
        wire::ask(&control, &Ask::Direct { token, qos: self.qos })?;
        let mut message = exchange(&control)?;
        wire::read_answer(&message)?;
        let line = message.descriptors.pop().map(socket::from_descriptor).ok_or_else(gone)?;
        Ok(Arc::new(program(Some(control), line)))
    }
}

impl Device for Remote {
    fn load(&self, image: &Image, _: &str) -> Result<Arc<dyn Loaded>> {
        self.instance(image, &[])
    }

    fn adapt(&self, image: &Image, _: &str, pieces: &[Piece]) -> Result<Arc<dyn Loaded>> {
        self.instance(image, pieces)
    }
}

impl RemoteProgram {
    fn call(&self, kind: u32, body: &[u8], files: &[BorrowedDescriptor<'_>]) -> Result<(Code, Vec<u8>)> {
        let line = lock(&self.line);
        socket::send(&line, kind, body, files)?;
        let message = exchange(&line)?;
        if message.kind != kind::REPLY || message.body.len() < 4 {
            return Err(gone());
        }
        Ok((Code(u32_at(&message.body, 0)), message.body[4..].to_vec()))
    }
}

impl RemoteProgram {
    /// As a submission, with a time limit: without an answer in time the connection is closed, and the device aborts the request.
    fn submit_within(&self, body: &[u8], limit: Duration) -> Result<()> {
        let line = lock(&self.line);
        socket::send(&line, kind::SUBMIT, body, &[])?;
        if !socket::readable_within(&line, limit) {
            // A late answer is discarded.
            socket::shut(&line);
            let waited_ms = limit.as_millis() as u64;
            return Err(Error::Timeout { what: "submit", waited_ms, code: Code::ABORTED });
        }
        let message = exchange(&line)?;
        match Code(u32_at(&message.body, 0)) {
            Code::SUCCESS if message.kind == kind::REPLY => Ok(()),
            code => Err(Error::submission(code, &message.body[4..])),
        }
    }

    /// A chained call; `None` if it must be a plain submission.
    fn submit_chained(&self, inputs: &[u32], outputs: &[u32]) -> Option<Result<()>> {
        if !self.chains.load(Relaxed) {
            return None;
        }
        let mut body = self.token.to_le_bytes().to_vec();
        [inputs.len(), outputs.len()].iter().for_each(|n| body.extend_from_slice(&(*n as u32).to_le_bytes()));
        inputs.iter().chain(outputs).for_each(|surface| body.extend_from_slice(&surface.to_le_bytes()));
        match self.call(kind::CHAINED, &body, &[]) {
            Ok((Code::SUCCESS, _)) => Some(Ok(())),
            // No key, no handler, or a handler that a fault has invalidated.
            Ok((Code::UNSUPPORTED, _)) => {
                self.chains.store(false, Relaxed);
                None
            }
            Ok((code, _)) => Some(Err(Error::driver("submit", code))),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Loaded for RemoteProgram {
    fn add_surface(&self, shared: Arc<Shared>) -> Result<u32> {
        let bytes = (shared.len() as u64).to_le_bytes();
        match self.call(kind::SURFACE, &bytes, &[shared.descriptor()?])? {
            (Code::SUCCESS, body) => Ok(u32_at(&body, 0)),
            (code, _) => Err(Error::driver("surface", code)),
        }
    }

    fn remove_surface(&self, surface: u32) {
        // Closing the connection releases it anyway.
        let _ = self.call(kind::DROP, &surface.to_le_bytes(), &[]);
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<()> {
        let &Submission { sequence, procedure, inputs, outputs, keeps, limit } = submission;
        if keeps
            && procedure == 0
            && limit.is_none()
            && let Some(done) = self.submit_chained(inputs, outputs)
        {
            return done;
        }
        let submit =
            Submit { sequence, procedure, doorbell: self.doorbell, ..Submit::new(self.token, inputs, outputs) };
        let request = submit.encode().map_err(|code| Error::driver("submit", code))?;
        let mut body = submit.doorbell.to_le_bytes().to_vec();
        body.extend_from_slice(&request);
        if let Some(limit) = limit {
            return self.submit_within(&body, limit);
        }
        match self.call(kind::SUBMIT, &body, &[])? {
            (Code::SUCCESS, _) => Ok(()),
            (code, reply) => Err(Error::submission(code, &reply)),
        }
    }
}
