//! Threads and the buffers they keep between tasks.

use crate::blocked::Buffers;
use crate::lines::PlaneBuffers;
use crate::memory::Aside;
use crate::number::packed::Columns;
use crate::number::vectors;
use crate::number::wide::Exact;
use crate::rows::Squares;
use half::f16;
use pulp::{Arch, Simd, WithSimd};
use rayon::Yield;
use rayon::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The vector instructions of this machine, and scratch memory for each thread.
pub(crate) struct Workers {
    pub(crate) arch: Arch,
    scratch: Vec<Mutex<Scratch>>,
    aside: Mutex<Aside>,
    blocks: Mutex<Vec<f16>>,
    /// Whether threads look for work throughout a run, see [`on_all_threads`].
    pub(crate) awake: bool,
}

/// Buffers of one thread. They grow to what the largest task needs and stay.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) staged: Vec<f32>,
    pub(crate) packed: Vec<f32>,
    pub(crate) wide: Vec<f32>,
    pub(crate) panel: Vec<f32>,
    pub(crate) sums: Vec<f32>,
    pub(crate) halves: Vec<f16>,
    pub(crate) gathered: Vec<f16>,
    pub(crate) squares: Squares,
    /// Of channels side by side.
    pub(crate) blocked: Buffers,
    /// Of planar tasks, in the numbers of either model.
    pub(crate) planes: PlaneBuffers<f32>,
    pub(crate) exact_planes: PlaneBuffers<Exact>,
    /// Of the exact array.
    pub(crate) row: Vec<(f32, f32)>,
    pub(crate) columns: Option<Columns>,
}

/// A thread that was handed no work for so long sleeps until somebody wakes it.
const IDLE: Duration = Duration::from_micros(500);

/// Works that [`on_all_threads`] does now.
static WORKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread looks for work already, or does what others look for parts of.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Does work from which one part after another is handed to all threads. They look for it without rest meanwhile, and for a moment
/// afterwards, when the next work may come: to wake one takes as long as many a task.
pub(crate) fn on_all_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if !are_several() {
        return work();
    }
    rayon::scope(|_| {
        rayon::spawn_broadcast(|_| look());
        let result = Working::while_others_look(work);
        rayon::spawn_broadcast(|_| look());
        result
    })
}

/// Looks for work until there was none for a while.
fn look() {
    if LOOKS.replace(true) {
        return;
    }
    let mut last = Instant::now();
    while last.elapsed() < IDLE {
        if rayon::yield_now() == Some(Yield::Executed) {
            last = Instant::now();
        } else if WORKS.load(Relaxed) == 0 {
            // Whoever waited for the result may need this core.
            std::thread::yield_now();
        }
    }
    LOOKS.set(false);
}

/// Undone also where work ends in a panic.
struct Working {
    looked: bool,
}

impl Working {
    /// The thread at work looks for parts of it by itself, and must not look for anything else.
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

/// Whether there is more than one thread. To wake a single one, and to be woken by it, helps nobody.
fn are_several() -> bool {
    rayon::current_num_threads() > 1
}

/// Counts what is left to be done, also where it ends in a panic.
struct Left<'a>(&'a AtomicUsize);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Release);
    }
}

/// Does the work of every item on all threads, and looks for work itself until all is done: a thread that waits for others' parts
/// goes to sleep after a moment, and is woken when the next task could have begun.
fn awake<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let left = AtomicUsize::new(items.len());
    let one = |item: &mut T| {
        let _left = Left(&left);
        work(item);
    };
    rayon::scope(|scope| {
        let Some((first, rest)) = items.split_first_mut() else { return };
        // This thread takes the last one that was handed out, others the first one.
        rest.iter_mut().rev().for_each(|item| scope.spawn(|_| one(item)));
        one(first);
        while left.load(Acquire) > 0 {
            rayon::yield_now();
        }
    });
}

/// Fewer elements are not worth waking another thread.
pub(crate) const PER_THREAD: usize = 1 << 14;

/// Calls `work` with every `size` elements and their number, on all threads where all that is read, `cost` elements, makes
/// it worth it: handing work to another thread takes longer than small tasks do.
pub(crate) fn chunks<T: Send>(data: &mut [T], size: usize, cost: usize, work: impl Fn(usize, &mut [T]) + Send + Sync) {
    let size = size.max(1);
    if cost < PER_THREAD || data.len() <= size || !are_several() {
        data.chunks_mut(size).enumerate().for_each(|(i, chunk)| work(i, chunk));
    } else {
        data.par_chunks_mut(size).enumerate().for_each(|(i, chunk)| work(i, chunk));
    }
}

/// Does work in a function of its own. The compiler inlines what has the same instructions, and where many registers are in use
/// already, the innermost loops of a product would keep their sums on the stack.
#[inline(never)]
pub(crate) fn apart<S: Simd, W: WithSimd<Output = ()>>(simd: S, work: W) {
    simd.vectorize(work);
}

/// A loop of 14 rounds at most, which the compiler would leave one: each has code of its own, where its number is known.
macro_rules! written_out {
    (for $i: ident in 0..$count: expr => $work: block) => {
        $crate::work::written_out!($i $count; $work; 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    ($i: ident $count: expr; $work: block; $($n: literal)*) => {{
        const { assert!($count <= 14) };
        $({
            const $i: usize = $n;
            // Constant conditions: code of rounds beyond the count is never generated.
            if const { $i < $count } $work
        })*
    }};
}
pub(crate) use written_out;

/// Bytes of a line of cache, and of the longest vectors.
pub(crate) const LINE_BYTES: usize = 64;

/// `elements` of a buffer, with whatever they held before. They begin where a line of cache does.
pub(crate) fn room<T: Copy + Default>(buffer: &mut Vec<T>, elements: usize) -> &mut [T] {
    let line = LINE_BYTES / size_of::<T>();
    if buffer.len() < elements + line {
        buffer.resize(elements + line, T::default());
    }
    let first = buffer.as_ptr().align_offset(LINE_BYTES).min(line);
    &mut buffer[first..][..elements]
}

/// Every instruction set that this host has.
#[cfg(test)]
pub(crate) fn arches() -> Vec<Arch> {
    let mut all = vec![Arch::Scalar, Arch::new()];
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    all.extend(pulp::x86::V3::try_new().map(Arch::V3));
    all
}

impl Workers {
    pub(crate) fn new() -> Workers {
        let scratch = (0..rayon::current_num_threads()).map(|_| Mutex::default()).collect();
        Workers { arch: Arch::new(), scratch, aside: Mutex::default(), blocks: Mutex::default(), awake: false }
    }

    /// For these instructions, with buffers that held what no task may depend on.
    #[cfg(test)]
    pub(crate) fn used(arch: Arch) -> Workers {
        let mut workers = Workers { arch, ..Workers::new() };
        for scratch in workers.scratch.iter_mut().filter_map(|scratch| scratch.get_mut().ok()) {
            let Scratch { staged, packed, wide, panel, sums, .. } = scratch;
            [staged, packed, wide, panel, sums].into_iter().for_each(|buffer| buffer.resize(1 << 16, f32::NAN));
        }
        workers
    }

    /// Whether [`vectors::converts`] in code for this host.
    pub(crate) fn converts(&self) -> bool {
        struct Converts;
        impl WithSimd for Converts {
            type Output = bool;

            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) -> bool {
                vectors::converts::<S>()
            }
        }
        self.arch.dispatch(Converts)
    }

    /// For one task at a time.
    pub(crate) fn aside(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one task leaves for the next in blocks of channels.
    pub(crate) fn blocks(&self) -> MutexGuard<'_, Vec<f16>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work of every item, on all threads where it is worth it.
    pub(crate) fn each<T: Send>(&self, mut items: Vec<T>, shared: bool, work: impl Fn(&mut T, &mut Scratch) + Sync) {
        // Code of its own, once: what the work is compiled to is large.
        let work: &(dyn Fn(&mut T, &mut Scratch) + Sync) = &work;
        let one = |item: &mut T| {
            let i = rayon::current_thread_index().unwrap_or(0) % self.scratch.len().max(1);
            match self.scratch.get(i).and_then(|s| s.lock().ok()) {
                Some(mut scratch) => work(item, &mut scratch),
                None => work(item, &mut Scratch::default()),
            }
        };
        if shared && items.len() > 1 && are_several() {
            match self.awake {
                true => awake(&mut items, one),
                false => items.par_iter_mut().with_max_len(1).for_each(one),
            }
        } else {
            items.iter_mut().for_each(one);
        }
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
                awake(&mut items, |item| *item += 1);
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
                pool.install(|| awake(&mut items, |item| *item += 1));
                assert_eq!(items, vec![1; count]);
            }
            // Of the item that this thread takes, and of one that was handed out.
            for bad in [0, 7] {
                let mut items: Vec<usize> = (0..20).collect();
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    pool.install(|| awake(&mut items, |item| assert!(std::mem::replace(item, 99) != bad)));
                }));
                assert!(ended.is_err());
                assert!(items.iter().skip(1).all(|item| *item == 99));
            }
        }
    }
}
