//! The compile service: a process of its own that reads models and makes bundles. If it dies, another one is started
//! for the pending request; if that one dies too, the request fails.

use super::wire::{self, Answer, Ask};
use crate::cache::Bundle;
use crate::driver::task::lock;
use crate::e5rt::{CompileOptions, Compiler};
use crate::error::{Error, Result};
use crate::os::socket::{self, MAX_MESSAGE_BYTES, Stream};
use anemone_facts::driver::limits::DEFAULT_QOS;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time limit of a compile.
const COMPILE_TIME: Duration = Duration::from_secs(600);

struct Running {
    child: Child,
    socket: Stream,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The service, seen from the broker.
pub struct Service {
    program: PathBuf,
    arguments: Vec<OsString>,
    running: Mutex<Option<Running>>,
    /// Time limit for an answer.
    patience: Duration,
    /// Number of starts so far.
    pub starts: AtomicU64,
}

impl Service {
    /// A service that runs this program with these arguments and a socket as standard input.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Service {
        Service { program, arguments, running: Mutex::new(None), patience: COMPILE_TIME, starts: AtomicU64::new(0) }
    }

    /// Sets the time limit for an answer, after which the service is ended.
    pub fn within(self, patience: Duration) -> Service {
        Service { patience, ..self }
    }

    fn start(&self) -> Result<Running> {
        let fail = |e| Error::system("start", self.program.display(), e);
        let (socket, theirs) = socket::pair()?;
        socket::set_tick(&socket)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(socket::into_input(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(fail)?;
        self.starts.fetch_add(1, Relaxed);
        Ok(Running { child, socket })
    }

    /// Process number of the service, if it runs.
    pub fn pid(&self) -> Option<u32> {
        lock(&self.running).as_ref().map(|r| r.child.id())
    }

    fn ask<T>(&self, ask: &Ask, read: impl FnOnce(Answer, &[u8]) -> Result<T>) -> Result<T> {
        let mut slot = lock(&self.running);
        loop {
            let exited = slot.as_mut().is_some_and(|r| !matches!(r.child.try_wait(), Ok(None)));
            let fresh = slot.is_none() || exited;
            if fresh {
                *slot = Some(self.start()?);
            }
            let Some(running) = slot.as_ref() else { return Err(gone()) };
            let began = Instant::now();
            let message = wire::ask(&running.socket, ask)
                .and_then(|()| socket::receive_within(&running.socket, MAX_MESSAGE_BYTES, self.patience));
            match message {
                Ok(Some(message)) => {
                    let (answer, tail) = wire::read_answer(&message)?;
                    return read(answer, tail);
                }
                Ok(None) | Err(_) => *slot = None,
            }
            if began.elapsed() >= self.patience {
                let seconds = self.patience.as_secs();
                return Err(Error::Compile(format!(
                    "the compile service gave no answer within {seconds} s and was ended"
                )));
            }
            // A service from an earlier request may have been ending already; retry once with a new one.
            if fresh {
                return Err(gone());
            }
        }
    }
}

fn gone() -> Error {
    Error::Compile("the compile service ended before it answered".into())
}

impl Compiler for Service {
    fn content(&self, model: &Path) -> std::result::Result<[u8; 32], String> {
        let ask = Ask::Content { path: model.display().to_string(), qos: DEFAULT_QOS as u32 };
        let digits = self.ask(&ask, |answer, _| match answer {
            Answer::Content(digits) => Ok(digits),
            _ => Err(gone()),
        });
        unhex(&digits.map_err(|e| e.to_string())?).ok_or_else(|| gone().to_string())
    }

    fn compile(&self, model: &Path, options: &CompileOptions) -> std::result::Result<Bundle, String> {
        let path = model.display().to_string();
        let ask = Ask::Compile { path, options: options.clone(), long: false, qos: DEFAULT_QOS as u32 };
        self.ask(&ask, wire::read_bundle).map_err(|e| e.to_string())
    }
}

pub(crate) fn unhex(digits: &str) -> Option<[u8; 32]> {
    let bytes = unhex_all(digits)?;
    bytes.try_into().ok()
}

pub(crate) fn unhex_all(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok()).collect()
}

/// Main loop of the service: answers requests until the broker disconnects.
pub fn serve(socket: &Stream, compiler: &dyn Compiler) -> Result<()> {
    while let Some(message) = socket::receive(socket, MAX_MESSAGE_BYTES)? {
        let answered = match wire::read_ask(&message)? {
            Ask::Content { path, .. } => match compiler.content(Path::new(&path)) {
                Ok(content) => wire::answer(socket, &Answer::Content(crate::cache::hex(&content)), &[], &[]),
                Err(text) => wire::refuse(socket, &Error::Compile(text)),
            },
            Ask::Compile { path, options, .. } => match compiler.compile(Path::new(&path), &options) {
                Ok(b) => wire::answer(socket, &wire::compiled(&b, false), &wire::tail(&b), &[]),
                Err(text) => wire::refuse(socket, &Error::Compile(text)),
            },
            other => wire::refuse(socket, &Error::Unknown { what: "method", name: other.method().into() }),
        };
        answered?;
    }
    Ok(())
}
