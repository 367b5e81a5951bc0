//! Fair scheduling within a priority: a client with many requests does not starve one with few.

use anemone_facts::driver::limits::PRIORITY_WEIGHTS;
use std::collections::BTreeMap;

/// Turn order of clients. In a turn, a client may have as many requests as its priority's weight, its credit.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Turn of the request taken last, by priority.
    now: BTreeMap<u32, u64>,
    /// Turn of a client's last request at a priority, and its requests in that turn.
    last: BTreeMap<(u32, u64), (u64, u32)>,
}

impl Turns {
    /// The turn of a new request.
    pub fn enter(&mut self, priority: u32, client: u64) -> u64 {
        let credit = PRIORITY_WEIGHTS.get(priority as usize).copied().unwrap_or(1);
        let now = self.now.get(&priority).copied().unwrap_or(0);
        let (turn, used) = self.last.entry((priority, client)).or_default();
        if *turn < now {
            (*turn, *used) = (now, 0);
        }
        if *used == credit {
            (*turn, *used) = (*turn + 1, 0);
        }
        *used += 1;
        *turn
    }

    /// Records that a request of that turn was taken.
    pub fn taken(&mut self, priority: u32, turn: u64) {
        let now = self.now.entry(priority).or_default();
        *now = (*now).max(turn);
    }

    /// Resets the history of clients when no request waits.
    pub fn idle(&mut self) {
        self.now.clear();
        self.last.clear();
    }
}
