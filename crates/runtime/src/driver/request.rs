//! Requests: admitted (`admit`), queued by urgency, posted one at a time (`post`), executed (`run`), answered.

pub(super) mod admit;
mod path;
mod post;
mod run;

use super::resident::Resident;
use super::turns::Turns;
use crate::error::Code;
use crate::firmware::call::Call;
use crate::os::shared::Shared;
use crate::words::{put32, put64};
use anemone_facts::driver::limits as rows;
use anemone_facts::driver::structures::reply;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Thread;

/// The 40 bytes of a reply.
pub type Reply = [u8; reply::BYTES];

/// Completion message on a wake port: one per request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Result.
    pub code: Code,
    /// Reply.
    pub reply: Reply,
}

/// Port for completion messages.
#[derive(Clone, Debug)]
pub struct WakePort(Sender<Message>);

impl WakePort {
    /// A port, and its receiving end.
    pub fn new() -> (WakePort, Receiver<Message>) {
        let (sender, receiver) = channel();
        (WakePort(sender), receiver)
    }
}

/// A surface in use.
#[derive(Clone, Debug)]
struct Bound {
    /// Memory; `None` for a section of the program.
    memory: Option<Arc<Shared>>,
    surface: u32,
    /// Device address.
    iova: u64,
    /// Bytes that the program accesses.
    bytes: u64,
    /// Base register with the address.
    bar: u8,
}

/// Shared event, and the value to wait for or to signal.
pub type Event = (u32, u64);

/// Access of the engine to an unmapped device address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Device address.
    pub address: u64,
    /// True for a write access.
    pub write: bool,
    /// First task of the program that accesses it, if it is known.
    pub task: Option<usize>,
    /// Name of the program.
    pub program: String,
    /// Process.
    pub pid: u32,
}

#[derive(Debug)]
pub(crate) struct Request {
    id: u64,
    client: u64,
    token: u64,
    sequence: u32,
    priority: u32,
    doorbell: u32,
    call: Call,
    command: u32,
    /// Number of its procedure.
    procedure: u32,
    inputs: Vec<Bound>,
    outputs: Vec<Bound>,
    /// Kernel, text and scratch of the program.
    sections: Vec<Bound>,
    waits: Vec<Event>,
    signals: Vec<Event>,
    pid: u32,
    /// Access that ended it.
    stray: Option<Stray>,
    wake: Option<WakePort>,
    resident: Arc<Resident>,
}

#[derive(Debug)]
struct Posted {
    id: u64,
    client: u64,
    priority: u32,
    /// True if it was preempted; it restarts afterwards.
    aborted: bool,
    /// Flag that stops the execution before its next task.
    stop: Arc<AtomicBool>,
    /// Code of a cancellation; the results are discarded.
    cancelled: Option<Code>,
    /// True if no thread waits for its answer any more.
    abandoned: bool,
    /// A request that never completes by itself.
    withheld: Option<Request>,
}

/// Waiting, posted, and answered requests.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Waiting requests by priority, turn within it, and order of arrival.
    waiting: BTreeMap<(u32, u64, u64), Request>,
    turns: Turns,
    posted: Option<Posted>,
    preemptor: Option<Posted>,
    results: BTreeMap<u64, (Code, Reply)>,
    order: u64,
    worker: bool,
    /// Threads waiting for an answer.
    waiters: BTreeMap<u64, Thread>,
    /// Threads in [`Driver::sleep`].
    pub(crate) sleepers: u32,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.posted.is_some() as usize + self.preemptor.is_some() as usize
    }

    fn slot(&mut self, id: u64) -> Option<&mut Posted> {
        [&mut self.posted, &mut self.preemptor].into_iter().flatten().find(|p| p.id == id)
    }
}

fn answer(request: &Request, code: Code) -> Reply {
    let mut out = [0; reply::BYTES];
    put32(&mut out, reply::SEQUENCE, request.sequence);
    put32(&mut out, reply::RESULT, code.0);
    put64(&mut out, reply::TOKEN, request.token);
    if let Some(stray) = &request.stray {
        put64(&mut out, reply::FAULT_ADDRESS, stray.address);
        put32(&mut out, reply::FAULT_TASK, stray.task.map_or(u32::MAX, |task| task as u32));
        put32(&mut out, reply::FAULT_KIND, 1 + u32::from(stray.write));
    }
    put32(&mut out, reply::STATUS, (code == Code::SUCCESS) as u32);
    out
}

/// Priority of a class of service.
pub fn priority_of(qos: u32) -> u32 {
    let row = rows::QOS_PRIORITIES.iter().find(|(class, _)| *class == qos);
    row.map_or(rows::DEFAULT_PRIORITY as u32, |&(_, priority)| priority)
}

/// A checked request without its surfaces.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub token: u64,
    pub sequence: u32,
    pub priority: u32,
    pub doorbell: u32,
    pub call: Call,
    pub command: u32,
    pub procedure: u32,
    pub waits: Vec<Event>,
    pub signals: Vec<Event>,
    /// Surface of the intermediate region.
    pub intermediate: Option<u32>,
}
