//! Tables behind the gate: images, instances, surfaces, clients.

use super::Form;
use super::client::Client;
use super::resident::Resident;
use super::task::Identity;
use crate::os::shared::Shared;
use anemone_facts::driver::selectors::Client as Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A loaded program image, shared by instances.
#[derive(Debug)]
pub(crate) struct Image {
    pub form: Form,
    /// Procedures by number.
    pub procedures: Vec<Procedure>,
    pub owner: Identity,
    pub intermediate: u64,
    /// Identity in the firmware, and the restart count for which it is valid.
    pub program: u32,
    pub epoch: u64,
    pub instances: u32,
}

/// An entry point of an image.
#[derive(Clone, Debug)]
pub(crate) struct Procedure {
    pub resident: Arc<Resident>,
    pub sections: Vec<Section>,
}

/// A mapped section of a program that the engine reads, or scratch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub usage: u32,
    pub surface: u32,
    pub bytes: u64,
    /// Base register with its address.
    pub bar: u8,
}

/// States of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    No,
    Yes,
}

#[derive(Debug)]
pub(crate) struct Instance {
    pub image: u64,
    /// Residents by procedure number, at least one.
    pub residents: Vec<Arc<Resident>>,
    pub client: u64,
    pub process: u32,
    pub epoch: u64,
    pub state: Prepared,
    pub outstanding: u32,
    /// Limit of simultaneous requests, requested by the owner or granted.
    pub depth: u32,
    /// Priority of requests with the default priority, from the class of service of the load.
    pub priority: u32,
    pub stats_mask: u32,
    pub handlers: Vec<u64>,
    pub outputs: BTreeMap<u64, Vec<u32>>,
    pub pid: u32,
    /// True if it runs in secure mode only.
    pub secure: bool,
    /// True if the engine powers off after its requests.
    pub saving: bool,
    /// True if its memory stays allocated when the engine powers off.
    pub wired: bool,
}

impl Instance {
    /// The first procedure.
    pub fn resident(&self) -> &Arc<Resident> {
        &self.residents[0]
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Surface {
    pub shared: Arc<Shared>,
    /// The client that registered it, or [`ANYONE`].
    pub client: u64,
    /// Process of that client, whose other clients may use the surface too.
    pub pid: u32,
}

/// Owner of surfaces that every client may use, such as a process's own surfaces.
pub(crate) const ANYONE: u64 = u64::MAX;

impl Surface {
    /// Returns true if a client may use it.
    pub fn is_for(&self, client: &Client) -> bool {
        self.client == client.id || self.pid == client.task.pid || self.client == ANYONE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientState {
    Created,
    Open,
    Closed,
}

#[derive(Debug)]
pub(crate) struct ClientEntry {
    pub kind: Kind,
    pub state: ClientState,
    pub session: u64,
    pub pid: u32,
    pub timeout_ms: u64,
    pub hint: (u32, u32),
    /// Priority of requests with the default priority, if the connection has a class of its own.
    pub priority: Option<u32>,
}
