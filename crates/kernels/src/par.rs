//! Work on several threads: partitioning by cost, and worker threads that spin between parallel regions before they sleep.

use crate::cost;
use rayon::Yield;
use rayon::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time without work after which a spinning thread goes to sleep: between calls of [`on_all_threads`], and while one is in progress, because a
/// sleeping thread wakes too late for the next parallel region.
const IDLE: Duration = Duration::from_micros(500);
const IDLE_IN_WORK: Duration = Duration::from_millis(5);

/// Spins between two offers of the core to other threads.
const SPINS: usize = 1 << 10;

/// Number of calls of [`on_all_threads`] in progress.
static WORKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// True if this thread spins already, or runs the work whose parts other threads spin for.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Runs work that hands one parallel region after another to all threads. If `awake`, they spin for parts meanwhile, and for half a millisecond
/// afterwards, when the next call may come: waking a sleeping thread takes as long as many a task.
pub fn on_all_threads(awake: bool, work: &mut (dyn FnMut() + Send)) {
    if !awake || !are_several() {
        return work();
    }
    rayon::scope(|_| {
        rayon::spawn_broadcast(|_| spin_for_work());
        Working::while_others_look(work);
        rayon::spawn_broadcast(|_| spin_for_work());
    });
}

/// Spins for work until there has been none for [`IDLE`], or [`IDLE_IN_WORK`].
fn spin_for_work() {
    if LOOKS.replace(true) {
        return;
    }
    let mut last = Instant::now();
    loop {
        let works = WORKS.load(Relaxed) > 0;
        if rayon::yield_now() == Some(Yield::Executed) {
            last = Instant::now();
        } else if last.elapsed() >= if works { IDLE_IN_WORK } else { IDLE } {
            break;
        } else if !works {
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
    fn while_others_look(work: &mut dyn FnMut()) {
        WORKS.fetch_add(1, Relaxed);
        let _working = Working { looked: LOOKS.replace(true) };
        work();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        LOOKS.set(self.looked);
        WORKS.fetch_sub(1, Relaxed);
    }
}

/// Number of threads of the pool.
pub fn threads() -> usize {
    rayon::current_num_threads()
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

/// Indices below a count, divided between threads in order. Every thread takes its own, which makes it read what it wrote in the region before,
/// and then those of other threads.
struct Claims {
    parts: Vec<Claim>,
}

/// Next index of a thread and the end of its indices. Aligned to a cache line, because each thread writes to its own.
#[repr(align(64))]
struct Claim {
    next: AtomicUsize,
    end: usize,
}

impl Claims {
    fn new(count: usize, threads: usize) -> Claims {
        let first = |thread: usize| thread * count / threads;
        let part = |thread: usize| Claim { next: AtomicUsize::new(first(thread)), end: first(thread + 1) };
        Claims { parts: (0..threads).map(part).collect() }
    }

    /// Calls `work` with indices until all are taken; `own` is the thread whose indices come first.
    fn take(&self, own: usize, work: impl Fn(usize)) {
        let (before, from) = self.parts.split_at(own % self.parts.len());
        for part in from.iter().chain(before) {
            while part.next.load(Relaxed) < part.end {
                let i = part.next.fetch_add(1, Relaxed);
                if i < part.end {
                    work(i);
                }
            }
        }
    }
}

/// Calls `work` with every index below `count` on all threads, and spins until all is done: a thread that waits in the scheduler goes to
/// sleep after a moment, and would have to be woken for the next task. After a panic some indices may be left out.
pub fn busy_join(count: usize, work: &(dyn Fn(usize) + Sync)) {
    let left = AtomicUsize::new(count);
    let threads = rayon::current_num_threads().clamp(1, count.max(1));
    let claims = Claims::new(count, threads);
    let all = || {
        claims.take(rayon::current_thread_index().unwrap_or(0), |i| {
            let _left = Remaining(&left);
            work(i);
        });
    };
    rayon::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| all());
        }
        all();
        let mut spins = 0;
        while left.load(Acquire) > 0 {
            spins += 1;
            match spins % SPINS {
                // The thread that works may wait for this core.
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    });
}

/// Calls `work` with every index below `count` on all threads, which spin if `awake`. Not generic over the work, so that the scheduler's
/// code is compiled once.
fn on_threads(count: usize, awake: bool, work: &(dyn Fn(usize) + Sync)) {
    match awake {
        true => busy_join(count, work),
        false => (0..count).into_par_iter().with_max_len(1).for_each(work),
    }
}

/// Calls `work` with the index and the value of every item, on all threads if `shared`; they spin if `awake`.
#[allow(clippy::explicit_counter_loop, reason = "`enumerate` is compiled once more for each item type")]
pub fn share<T: Send>(items: Vec<T>, shared: bool, awake: bool, work: &(dyn Fn(usize, T) + Sync)) {
    if !shared || items.len() < 2 || !are_several() {
        let mut i = 0;
        for item in items {
            work(i, item);
            i += 1;
        }
        return;
    }
    // A lock for each item, taken once, moves it to the thread that processes it.
    let mut cells = Vec::with_capacity(items.len());
    for item in items {
        cells.push(Mutex::new(Some(item)));
    }
    on_threads(cells.len(), awake, &|i| {
        let item = cells[i].lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(item) = item {
            work(i, item);
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
        for (i, chunk) in data.chunks_mut(size).enumerate() {
            work(i, chunk);
        }
    } else {
        halves(data, size, 0, work);
    }
}

/// Calls `work` with chunks, the first of which has index `first`, on all threads: one half here, the other on a thread without work.
fn halves<T: Send>(data: &mut [T], size: usize, first: usize, work: &(dyn Fn(usize, &mut [T]) + Send + Sync)) {
    if data.len() <= size {
        return work(first, data);
    }
    let half = data.len().div_ceil(size) / 2;
    let (left, right) = data.split_at_mut(half * size);
    join(&mut || halves(left, size, first, work), &mut || halves(right, size, first + half, work));
}

/// Not generic over the work, so that the scheduler's code is compiled once.
fn join(left: &mut (dyn FnMut() + Send), right: &mut (dyn FnMut() + Send)) {
    rayon::join(left, right);
}
