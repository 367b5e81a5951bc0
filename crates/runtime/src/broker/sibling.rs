//! The per-user sibling of a broker: it has no driver, and forwards its user's programs to the broker that has one.
//!
//! Each client has its own connection to the broker, in the per-user tier: the sibling names the program, and the
//! broker applies that program's policy. Messages and their descriptors are forwarded unchanged in both directions.

use super::session::MAX_BODY_BYTES;
use super::wire::{self, Ask};
use super::{Listening, session};
use crate::error::{Error, Result};
use crate::os::socket::{self, Stream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Largest number of simultaneous connections of a sibling.
const MAX_CLIENTS: usize = 256;

impl Listening {
    /// Serves this user's programs through the broker at another socket, until `stop`.
    pub fn serve_through(self, broker: &Path, stop: &AtomicBool) -> Result<()> {
        let (clients, broker): (Arc<AtomicUsize>, Arc<PathBuf>) = (Arc::default(), Arc::new(broker.to_path_buf()));
        self.accept(stop, |socket| {
            if clients.fetch_add(1, Relaxed) >= MAX_CLIENTS {
                clients.fetch_sub(1, Relaxed);
                let found = MAX_CLIENTS as u64 + 1;
                let error = Error::Protocol { what: "connections", found, limit: MAX_CLIENTS as u64 };
                return drop(wire::refuse(&socket, &error));
            }
            let (own, broker) = (Arc::clone(&clients), Arc::clone(&broker));
            let spawned = std::thread::Builder::new().name("ane-sibling".into()).spawn(move || {
                if let Err(error) = relay(&broker, &socket) {
                    tracing::debug!(%error, "a connection ended");
                    // The refusal is sent as the answer to a request: closing earlier would only break the connection. The peer may be gone.
                    let _ = socket::receive_within(&socket, MAX_BODY_BYTES, socket::TICK);
                    let _ = wire::refuse(&socket, &error);
                }
                own.fetch_sub(1, Relaxed);
            });
            if spawned.is_err() {
                clients.fetch_sub(1, Relaxed);
            }
        })
    }
}

/// Forwards the messages of one program until either side disconnects.
fn relay(broker: &Path, client: &Stream) -> Result<()> {
    socket::set_tick(client)?;
    let peer = socket::peer(client)?;
    if peer.uid != socket::own_user() {
        return Err(session::foreign());
    }
    let line = socket::connect(broker)?;
    socket::set_tick(&line)?;
    wire::ask(&line, &Ask::Behalf { digest: peer.digest, pid: peer.pid })?;
    let answered = socket::receive(&line, MAX_BODY_BYTES)?;
    let answered = answered.ok_or(Error::Protocol { what: "no answer of the broker", found: 0, limit: 1 })?;
    wire::read_answer(&answered)?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pass(client, &line, MAX_BODY_BYTES);
            socket::shut(&line);
        });
        pass(&line, client, socket::MAX_MESSAGE_BYTES);
        socket::shut(client);
    });
    Ok(())
}

/// Forwards messages in one direction until the connection ends.
fn pass(from: &Stream, to: &Stream, limit_bytes: usize) {
    let next = || socket::receive(from, limit_bytes).ok().flatten();
    for message in std::iter::from_fn(next) {
        let files: Vec<_> = message.descriptors.iter().map(socket::borrowed).collect();
        if socket::send(to, message.kind, &message.body, &files).is_err() {
            return;
        }
    }
}
