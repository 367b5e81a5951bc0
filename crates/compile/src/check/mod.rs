//! What runs on the engine of which chip, why not, and what to change: a dry run without a compile.
//!
//! [`check`] looks at an outline operation by operation. [`legal::check`] is the verdict on one native layer; it is
//! also what [`validate`] calls by Apple's names. Verdicts come from rows of `facts` alone.

pub mod describe;
pub mod estimate;
pub mod exports;
pub mod fix;
pub mod here;
pub mod layer;
pub mod legal;
pub mod lint;
pub mod load;
pub mod own;
pub mod place;
pub mod segment;
mod types;
pub mod validate;

pub use here::{Here, here};
pub use layer::{Layer, Tensor};
pub use legal::{Refusal, Route};
pub use place::{Place, Verdict};
pub use segment::{Backend, Choice, Segment};

use anemone_facts::chips::Chip;
use anemone_net::outline::Outline;

/// The verdicts on a program for one chip by one route, and what they come to.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The chip.
    pub chip: &'static Chip,
    /// The route.
    pub route: Route,
    /// One verdict an operation.
    pub verdicts: Vec<Verdict>,
    /// What the segmenter would choose; for the framework's route.
    pub choice: Option<Choice>,
    /// Operations that run together.
    pub segments: Vec<Segment>,
    /// Changes between engine and host; each costs a dispatch or a copy.
    pub hand_overs: usize,
    /// Multiply-accumulates of the program.
    pub macs: u64,
    /// Those on the engine.
    pub macs_engine: u64,
}

impl Placement {
    /// Whether an operation ends up on the engine, or is no work.
    pub fn on_engine(&self, at: usize) -> bool {
        let able = self.verdicts[at].place.on_engine();
        match self.choice.as_ref().map(|c| c.backends[at]) {
            Some(Some(backend)) => able && backend == Backend::Ane,
            _ => able,
        }
    }

    /// Operations that the engine could not take.
    pub fn off(&self) -> usize {
        self.verdicts.iter().filter(|v| !v.place.on_engine()).count()
    }

    /// Operations that do not end up on the engine.
    pub fn fallbacks(&self) -> usize {
        (0..self.verdicts.len()).filter(|&at| !self.on_engine(at)).count()
    }

    /// Segments on the engine.
    pub fn engine_segments(&self) -> usize {
        self.segments.iter().filter(|s| s.engine).count()
    }

    /// Operations by place, in the order of [`Place::ALL`].
    pub fn counts(&self) -> [usize; 6] {
        Place::ALL.map(|place| self.verdicts.iter().filter(|v| v.place == place).count())
    }
}

/// Places every operation of a program on a chip.
pub fn check(outline: &Outline, chip: &'static Chip, route: Route) -> Placement {
    let verdicts = place::place(outline, chip, route);
    let choice = (route == Route::Framework).then(|| segment::choose(outline, &verdicts, chip));
    let macs: Vec<u64> = outline.ops.iter().map(describe::macs).collect();
    let mut placement =
        Placement { chip, route, verdicts, choice, segments: Vec::new(), hand_overs: 0, macs: 0, macs_engine: 0 };
    placement.segments = segment::segments(outline, &placement.verdicts, &|at| placement.on_engine(at));
    placement.hand_overs = segment::hand_overs(&placement.segments);
    placement.macs = macs.iter().sum();
    placement.macs_engine = macs.iter().enumerate().filter(|&(at, _)| placement.on_engine(at)).map(|(_, n)| n).sum();
    placement
}
