//! Chained calls of one instance: an output set that stays on the device, posted and triggered by the direct path.

use super::client::Client;
use crate::error::Code;
use anemone_facts::driver::limits as rows;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A handler, and the connection that triggers it.
#[derive(Debug)]
pub struct ChainHandler {
    direct: Arc<Client>,
    token: u64,
    handler: u64,
    /// Number of calls so far, used as time stamps.
    calls: AtomicU64,
}

impl ChainHandler {
    /// Control 9 and direct 8; `None` if the connections may not chain, or no handler is free.
    pub fn new(control: &Client, direct: Arc<Client>, token: u64) -> Option<ChainHandler> {
        let handler = control.chain(token).ok()?;
        direct.activate(token, handler).ok()?;
        Some(ChainHandler { direct, token, handler, calls: AtomicU64::new(0) })
    }

    /// Direct 3 and 4: one call, until done. `None` if it must be a plain submission: too many inputs, or a handler invalidated
    /// by a fault or a secure phase.
    pub fn submit(&self, inputs: &[u32], outputs: &[u32]) -> Option<Result<(), Code>> {
        if inputs.len() as u64 > rows::TRIGGER_INPUTS {
            return None;
        }
        let timestamp = self.calls.fetch_add(1, Relaxed) + 1;
        let (direct, token, handler) = (&self.direct, self.token, self.handler);
        let done = direct
            .enqueue_outputs(token, handler, outputs)
            .and_then(|()| direct.inputs_are_ready(token, handler, timestamp, inputs));
        match done {
            // The firmware drops a trigger silently; its set is then not returned.
            Ok(()) => direct.is_idle(handler).then_some(Ok(())),
            Err(Code::NOT_FOUND) => None,
            Err(code) => Some(Err(code)),
        }
    }
}
