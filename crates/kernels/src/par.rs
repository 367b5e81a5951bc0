//! Work on several threads: partitioning by cost, and worker threads that spin between parallel regions before they sleep.

use crate::cost;
use rayon::Yield;
use rayon::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

/// Time without work after which a spinning thread goes to sleep.
const IDLE: Duration = Duration::from_micros(500);

/// Number of calls of [`on_all_threads`] in progress.
static WORKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// True if this thread spins already, or runs the work whose parts other threads spin for.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Runs work that hands one parallel region after another to all threads. They spin for parts meanwhile, and for half a millisecond afterwards,
/// when the next call may come: waking a sleeping thread takes as long as many a task.
pub fn on_all_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if !are_several() {
        return work();
    }
    rayon::scope(|_| {
        rayon::spawn_broadcast(|_| spin_for_work());
        let result = Working::while_others_look(work);
        rayon::spawn_broadcast(|_| spin_for_work());
        result
    })
}

/// Spins for work until there has been none for [`IDLE`].
fn spin_for_work() {
    if LOOKS.replace(true) {
        return;
    }
    let mut last = Instant::now();
    while last.elapsed() < IDLE {
        if rayon::yield_now() == Some(Yield::Executed) {
            last = Instant::now();
        } else if WORKS.load(Relaxed) == 0 {
            // The thread that waits for the result may need this core.
            std::thread::yield_now();
        }
    }
    LOOKS.set(false);
}

/// Guard that restores the state also when the work panics.
struct Working {
    looked: bool,
}

impl Working {
    /// Runs work on this thread, which joins the parts of its own parallel regions and must not spin for others.
    fn while_others_look<R>(work: impl FnOnce() -> R) -> R {
        WORKS.fetch_add(1, Relaxed);
        let _working = Working { looked: LOOKS.replace(true) };
        work()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        LOOKS.set(self.looked);
        WORKS.fetch_sub(1, Relaxed);
    }
}

/// Returns true if the pool has more than one thread. Waking a single one and being woken by it would gain nothing.
pub fn are_several() -> bool {
    rayon::current_num_threads() > 1
}

/// Guard that decrements the number of unfinished items, also when the work panics.
struct Remaining<'a>(&'a AtomicUsize);

impl Drop for Remaining<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Release);
    }
}

/// Does the work of every item on all threads, and spins until all is done: a thread that waits in the scheduler goes to sleep after a
/// moment, and would have to be woken for the next task.
pub fn busy_join<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let left = AtomicUsize::new(items.len());
    let one = |item: &mut T| {
        let _left = Remaining(&left);
        work(item);
    };
    rayon::scope(|scope| {
        let Some((first, rest)) = items.split_first_mut() else { return };
        // This thread pops the last spawned item, other threads steal the first one.
        rest.iter_mut().rev().for_each(|item| scope.spawn(|_| one(item)));
        one(first);
        while left.load(Acquire) > 0 {
            rayon::yield_now();
        }
    });
}

/// Elements of a chunk that a thread takes at a time.
pub const PER_THREAD: usize = 1 << 14;

/// Calls `work` with the index and the elements of every chunk of `size` elements, on all threads if `nanos`, the predicted time of all
/// chunks on one thread, is worth sharing. Threads spin if this runs inside [`on_all_threads`].
pub fn chunks<T: Send>(data: &mut [T], size: usize, nanos: usize, work: impl Fn(usize, &mut [T]) + Send + Sync) {
    chunks_by(data, size, nanos, &work);
}

/// Not generic over the work, so that it is compiled once for each element type.
fn chunks_by<T: Send>(data: &mut [T], size: usize, nanos: usize, work: &(dyn Fn(usize, &mut [T]) + Send + Sync)) {
    let size = size.max(1);
    let least = if rayon::current_thread_index().is_some() { cost::SHARED_NANOS } else { cost::SHARED_ASLEEP_NANOS };
    if nanos < least || data.len() <= size || !are_several() {
        data.chunks_mut(size).enumerate().for_each(|(i, chunk)| work(i, chunk));
    } else {
        data.par_chunks_mut(size).enumerate().for_each(|(i, chunk)| work(i, chunk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn works_come_from_several_threads_and_a_panic_ends_one() {
        let sum = |n: usize| {
            on_all_threads(|| {
                let mut items: Vec<usize> = (0..n).collect();
                busy_join(&mut items, |item| *item += 1);
                items.iter().sum::<usize>()
            })
        };
        std::thread::scope(|scope| {
            for n in 1..5 {
                scope.spawn(move || {
                    (0..50).for_each(|i| assert_eq!(sum(10 * n + i), (10 * n + i) * (10 * n + i + 1) / 2))
                });
            }
        });
        assert!(catch_unwind(|| on_all_threads(|| panic!("of the test"))).is_err());
        assert_eq!(sum(100), 5050);
    }

    #[test]
    fn every_item_is_done_once_and_a_panic_is_passed_on() {
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            for count in [0, 1, 2, 50] {
                let mut items = vec![0; count];
                pool.install(|| busy_join(&mut items, |item| *item += 1));
                assert_eq!(items, vec![1; count]);
            }
            // A panic in the item that this thread takes, and in one that another thread takes.
            for bad in [0, 7] {
                let mut items: Vec<usize> = (0..20).collect();
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    pool.install(|| busy_join(&mut items, |item| assert!(std::mem::replace(item, 99) != bad)));
                }));
                assert!(ended.is_err());
                assert!(items.iter().skip(1).all(|item| *item == 99));
            }
        }
    }
}
