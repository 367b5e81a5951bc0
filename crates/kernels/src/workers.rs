//! The thread pool, with scratch buffers that each thread keeps between kernels.

use crate::cost;
use crate::isa;
use crate::isa::Isa;
use crate::simd;
use half::f16;
use pulp::{Simd, WithSimd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arena::Arena;
pub use crate::arena::{LINE_BYTES, scratch_slice};
pub(crate) use crate::par::share;
pub use crate::par::{PER_THREAD, are_several, chunks, on_all_threads};
pub use crate::simd::{arches, outline};

/// Copies of operands that overlap the result of the task.
pub type BounceBuffers = [Vec<f16>; 8];

/// Instruction set of the host, and scratch memory for each thread.
pub struct Workers {
    pub arch: Isa,
    scratch: Vec<Mutex<Scratch>>,
    aside: Mutex<BounceBuffers>,
    blocks: Mutex<Vec<f16>>,
    /// True if threads spin throughout a run, see [`on_all_threads`].
    pub awake: bool,
}

/// Scratch buffers of one thread. They grow to the size of the largest task and stay allocated.
#[derive(Default)]
pub struct Scratch {
    pub staged: Vec<f32>,
    pub packed: Vec<f32>,
    pub wide: Vec<f32>,
    pub panel: Vec<f32>,
    pub sums: Vec<f32>,
    pub halves: Vec<f16>,
    pub gathered: Vec<f16>,
    pub row: Vec<(f32, f32)>,
    pub places: Vec<u32>,
    /// Buffers whose types are private to a kernel.
    pub arena: Arena,
}

impl Default for Workers {
    fn default() -> Self {
        Workers::new()
    }
}

impl Workers {
    pub fn new() -> Workers {
        let scratch = (0..rayon::current_num_threads()).map(|_| Mutex::default()).collect();
        Workers { arch: isa::arch(), scratch, aside: Mutex::default(), blocks: Mutex::default(), awake: false }
    }

    /// Returns true if [`simd::converts`] holds for the instruction set in use.
    pub fn converts(&self) -> bool {
        struct Converts;
        impl WithSimd for Converts {
            type Output = bool;

            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) -> bool {
                simd::converts::<S>()
            }
        }
        self.arch.dispatch(Converts)
    }

    /// Returns true if work with a predicted single-thread time of `nanos` ([`cost`]) is worth splitting between threads.
    pub fn shares(&self, nanos: usize) -> bool {
        let least = if self.awake { cost::SHARED_NANOS } else { cost::SHARED_ASLEEP_NANOS };
        nanos >= least && are_several()
    }

    /// Number of threads for work of `nanos`, see [`Workers::shares`].
    pub fn threads_for(&self, nanos: usize) -> usize {
        if self.shares(nanos) { rayon::current_num_threads() } else { 1 }
    }

    /// Locks the copies of overlapping operands, for one task at a time.
    pub fn aside(&self) -> MutexGuard<'_, BounceBuffers> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the NCHWc results that one task leaves for the next.
    pub fn blocks(&self) -> MutexGuard<'_, Vec<f16>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes every item, on all threads if `shared`.
    pub fn each<T: Send>(&self, items: Vec<T>, shared: bool, work: impl Fn(&mut T, &mut Scratch) + Sync) {
        self.each_by(items, shared, &work);
    }

    /// Not generic over the work, so that it is compiled once for each item type.
    fn each_by<T: Send>(&self, items: Vec<T>, shared: bool, work: &(dyn Fn(&mut T, &mut Scratch) + Sync)) {
        share(items, shared, self.awake, &|_, mut item| {
            let i = rayon::current_thread_index().unwrap_or(0) % self.scratch.len().max(1);
            match self.scratch.get(i).and_then(|s| s.lock().ok()) {
                Some(mut scratch) => work(&mut item, &mut scratch),
                None => work(&mut item, &mut Scratch::default()),
            }
        });
    }
}
