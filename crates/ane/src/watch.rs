//! Progress of a compile, passed to the watcher of its thread: the log of compiles whose caller gives none.

use anemone_compile::{Log, Progress, Stage};
use std::cell::RefCell;
use std::sync::Arc;

/// Receives each step of a compile.
pub type Watcher = Arc<dyn Fn(Progress) + Send + Sync>;

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Passes the progress of compiles to this thread's watcher; without one it is ignored.
pub struct Watched;

impl Log for Watched {
    fn wants(&self) -> bool {
        false
    }

    fn stage(&mut self, _: Stage) {}

    fn progress(&mut self, progress: Progress) {
        // The watcher may compile too, so the cell must not be borrowed while it is called.
        let watcher = WATCHER.with_borrow(Clone::clone);
        if let Some(watcher) = watcher {
            watcher(progress);
        }
    }
}

/// Restores the former watcher when the work ends, also by a panic.
struct Restore(Option<Watcher>);

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.0.take();
        WATCHER.with_borrow_mut(|place| *place = before);
    }
}

/// Runs `work`; compiles in it report their progress to `watcher`.
pub fn watched<T>(watcher: Watcher, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(WATCHER.with_borrow_mut(|place| place.replace(watcher)));
    work()
}
