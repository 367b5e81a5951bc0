//! Priority lock for compiles: the most urgent waiter is next; equal ones in order of arrival.

use crate::driver::task::lock;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Default)]
struct Inside {
    /// Priority and order of arrival of each waiting thread.
    queue: BTreeSet<(u32, u64)>,
    arrivals: u64,
    taken: bool,
}

/// Priority lock with one holder at a time.
#[derive(Default)]
pub(super) struct Door {
    inside: Mutex<Inside>,
    opened: Condvar,
}

/// Guard of the lock; dropping it admits the next waiter.
pub(super) struct Turn<'a>(&'a Door);

impl Door {
    /// Waits for the lock.
    pub(super) fn enter(&self, priority: u32) -> Turn<'_> {
        let mut inside = lock(&self.inside);
        inside.arrivals += 1;
        let own = (priority, inside.arrivals);
        inside.queue.insert(own);
        while inside.taken || inside.queue.first() != Some(&own) {
            inside = self.opened.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        inside.queue.remove(&own);
        inside.taken = true;
        Turn(self)
    }

    /// Number of waiting threads.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.inside).queue.len()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.inside).taken = false;
        self.0.opened.notify_all();
    }
}
