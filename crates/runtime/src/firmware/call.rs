//! The body of a call, and its limits in the execution loop. The layout is ours: 16 words.

use crate::error::Code;
use crate::words::{put32, put64, u32_at, u64_at};
use anemone_facts::driver::commands::wire;
use anemone_facts::driver::limits as rows;

/// Body of a call, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Content type.
    pub content: u32,
    /// Output buffer sets.
    pub output_sets: u32,
    /// Event masks.
    pub event_masks: u32,
    /// Wait events.
    pub waits: u32,
    /// Signal events.
    pub signals: u32,
    /// Buffer-access registers.
    pub bars: u32,
    /// Number of entries of a custom execution order; 0 without one.
    pub order: u32,
    /// Input buffers of a trigger.
    pub inputs: u32,
    /// Partitions of descriptors.
    pub partitions: u32,
    /// Active shared events.
    pub shared_events: u32,
    /// Hardware queue.
    pub queue: u32,
    /// Network identity.
    pub nid: u32,
    /// Handler of a cache request.
    pub handler: u64,
    /// Time stamp of a trigger.
    pub timestamp: u64,
    /// True for a secure client.
    pub secure: bool,
}

impl Default for Call {
    fn default() -> Self {
        Call {
            content: 0,
            output_sets: 1,
            event_masks: 1,
            waits: 0,
            signals: 0,
            bars: 0,
            order: 0,
            inputs: 0,
            partitions: 1,
            shared_events: 0,
            queue: 0,
            nid: 1,
            handler: 0,
            timestamp: 0,
            secure: false,
        }
    }
}

impl Call {
    /// Size of the body in bytes.
    pub const BYTES: usize = 72;

    /// The body's bytes.
    pub fn encode(&self) -> [u8; Call::BYTES] {
        let mut out = [0; Call::BYTES];
        let words = [
            self.content,
            self.output_sets,
            self.event_masks,
            self.waits,
            self.signals,
            self.bars,
            self.order,
            self.inputs,
            self.partitions,
            self.shared_events,
            self.queue,
            self.nid,
        ];
        words.iter().enumerate().for_each(|(i, &w)| put32(&mut out, 4 * i, w));
        put64(&mut out, 48, self.handler);
        put64(&mut out, 56, self.timestamp);
        put32(&mut out, 64, self.secure as u32);
        out
    }

    /// Reads a body of exactly the right size.
    pub fn decode(body: &[u8]) -> Result<Call, Code> {
        if body.len() != Call::BYTES {
            return Err(Code::BAD_ARGUMENT);
        }
        let w = |i: usize| u32_at(body, 4 * i);
        Ok(Call {
            content: w(0),
            output_sets: w(1),
            event_masks: w(2),
            waits: w(3),
            signals: w(4),
            bars: w(5),
            order: w(6),
            inputs: w(7),
            partitions: w(8),
            shared_events: w(9),
            queue: w(10),
            nid: w(11),
            handler: u64_at(body, 48),
            timestamp: u64_at(body, 56),
            secure: w(16) != 0,
        })
    }

    /// Checks all numbers against the limits of a command.
    pub fn check(&self, command: u32) -> Result<(), Code> {
        let cached = matches!(
            command,
            wire::PROCEDURE_CALL_CACHE_REQUEST
                | wire::PROCEDURE_CALL_CACHE_REQUEST_WITH_CUSTOM_BARS
                | wire::PROCEDURE_CALL_CACHE_REQUEST_WITH_SHARED_EVENTS
        );
        let content = matches!(self.content, 0 | 3) || self.content == 4 && !cached;
        let events = command != wire::PROCEDURE_CALL_WITH_SIGNAL_EVENTS || self.signals >= 1;
        let holds = content
            && u64::from(self.output_sets) == rows::OUTPUT_SETS
            && self.event_masks == 1
            && u64::from(self.signals) <= rows::SIGNAL_EVENTS
            && u64::from(self.waits) <= rows::SIGNAL_EVENTS
            && u64::from(self.bars) <= rows::WIRE_BARS
            && u64::from(self.order) <= rows::EXECUTE_ORDER
            && u64::from(self.inputs) <= rows::TRIGGER_INPUTS
            && u64::from(self.partitions) == rows::PARTITIONS
            && u64::from(self.shared_events) < rows::SHARED_EVENTS
            && u64::from(self.queue) < rows::QUEUES
            && (1..=rows::MAX_NID).contains(&u64::from(self.nid))
            && events;
        if holds { Ok(()) } else { Err(Code::BAD_ARGUMENT) }
    }
}

/// Register base of a queue in bytes. Refused unless queue and network identity exist.
pub fn queue_base(queue: u32, nid: u32) -> Result<u64, Code> {
    let known = u64::from(queue) < rows::QUEUES && (1..=rows::MAX_NID).contains(&u64::from(nid));
    if known { Ok(u64::from(queue) * rows::QUEUE_STRIDE_BYTES) } else { Err(Code::BAD_ARGUMENT) }
}
