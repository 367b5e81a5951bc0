//! Progress of a compile, passed to the watcher of its thread: the log of compiles whose caller gives none.

use anemone_compile::{Log, Progress, Stage};
use std::cell::RefCell;
use std::sync::Arc;

/// Follows a compile, on the thread that compiles.
#[derive(Clone)]
pub struct Watcher {
    /// Receives each step.
    pub tell: Arc<dyn Fn(Progress) + Send + Sync>,
    /// Returns true if the result is no longer needed: the compile then ends.
    pub stopped: Arc<dyn Fn() -> bool + Send + Sync>,
}

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Passes the progress of compiles to this thread's watcher; without one it is ignored.
pub struct Watched;

/// The watcher of this thread. It may compile too, so it is not called while the place is borrowed.
fn watcher() -> Option<Watcher> {
    WATCHER.with_borrow(Clone::clone)
}

impl Log for Watched {
    fn wants(&self) -> bool {
        false
    }

    fn stage(&mut self, _: Stage) {}

    fn progress(&mut self, progress: Progress) {
        if let Some(watcher) = watcher() {
            (watcher.tell)(progress);
        }
    }

    fn stopped(&self) -> bool {
        stopped()
    }
}

/// Returns true if this thread's watcher wants the compile to end.
pub fn stopped() -> bool {
    watcher().is_some_and(|watcher| (watcher.stopped)())
}

/// Restores the former watcher when the work ends, also by a panic.
struct Restore(Option<Watcher>);

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.0.take();
        WATCHER.with_borrow_mut(|place| *place = before);
    }
}

/// Runs `work`; compiles in it report their progress to `watcher`, and end where it says so.
pub fn watched<T>(watcher: Watcher, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(WATCHER.with_borrow_mut(|place| place.replace(watcher)));
    work()
}
