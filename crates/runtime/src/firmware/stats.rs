//! Statistics: counters by name, the buffer's layout, trace records.

use crate::clock::ticks;
use crate::words::{put32, put64};
use anemone_facts::driver::counters::GROUPS;
use anemone_facts::driver::limits as rows;

/// Names of all counters as `group/name`, in order.
pub fn names() -> Vec<String> {
    GROUPS.iter().flat_map(|g| g.counters.iter().map(move |c| format!("{}/{c}", g.name))).collect()
}

/// Sizes that the firmware reports: header, event, debug event, engine.
pub const SIZES: [u64; 4] =
    [rows::STATS_HEADER_BYTES, rows::STATS_EVENT_BYTES, rows::STATS_DEBUG_EVENT_BYTES, rows::STATS_ENGINE_BYTES];

/// Numbers of commands dropped by the firmware, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Calls to processes that are not running.
    pub process: u64,
    /// Triggers in a wrong cache state.
    pub cache: u64,
    /// Non-secure triggers in a secure phase.
    pub secure: u64,
}

impl Drops {
    /// Total number of drops.
    pub fn total(&self) -> u64 {
        self.process + self.cache + self.secure
    }
}

/// A statistics buffer after `runs` runs: header, then one engine descriptor.
pub fn buffer(total_bytes: usize, now_ns: u64, runs: u64) -> Option<Vec<u8>> {
    let header = rows::STATS_HEADER_BYTES as usize;
    if total_bytes < header + rows::STATS_ENGINE_BYTES as usize || total_bytes > u32::MAX as usize {
        return None;
    }
    let mut out = vec![0; total_bytes];
    out[..2].copy_from_slice(&(rows::STATS_MAGIC as u16).to_le_bytes());
    put64(&mut out, 0x04, ticks(now_ns));
    put64(&mut out, 0x1c, runs);
    put32(&mut out, 0x24, (total_bytes - header) as u32);
    Some(out)
}
