//! The per-user sibling of a broker: it has no driver, and speaks for its user's programs at the broker that has one.
//!
//! Every connection is one of its own there, of the per-user tier: the sibling names the program that it stands for, and the
//! broker's policy is that program's. Messages pass both ways as they are, descriptors with them.

use super::session::MAX_BODY_BYTES;
use super::wire::{self, Ask};
use super::{Listening, session};
use crate::error::{Error, Result};
use crate::os::socket::{self, Stream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Most connections of a sibling at once.
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
                    // A refusal is the answer to a request: closed before it, the connection would only break. The peer may be gone.
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

/// Passes the messages of one program on, until either side leaves.
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

/// Passes messages one way until the connection ends.
fn pass(from: &Stream, to: &Stream, limit_bytes: usize) {
    let next = || socket::receive(from, limit_bytes).ok().flatten();
    for message in std::iter::from_fn(next) {
        let files: Vec<_> = message.descriptors.iter().map(socket::borrowed).collect();
        if socket::send(to, message.kind, &message.body, &files).is_err() {
            return;
        }
    }
}
