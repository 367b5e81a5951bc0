//! Chips: the compiler's targets, one row each, with the numbers of the hardware abstraction layer.
//!
//! [`crate::silicon`] maps targets to silicon and products, and has every name that a user types or reads.
//! A value that no source gives is `None`; a decision that depends on it reports it as unknown. Sources: the book's HAL tables
//! (chapters 20, 24, 34, 35 and appendix A); see `docs/evidence.md`, keys `hal` and `m6-study`.

mod subtypes;

pub use crate::hal::{HAL_ROWS, Hal, HalRow};
use crate::layout;
use crate::table::Layout;

pub use subtypes::{SUBTYPES, Subtype, layout_of};

/// One compiler target.
#[derive(Clone, Debug)]
pub struct Chip {
    /// Compiler target, lower case.
    pub target: &'static str,
    /// Capability tier of the book: targets of one tier share every capability. The book names tiers by the compiler's
    /// families, whose number is that of the target: its family A13 is target h13, which is the silicon A14 and M1.
    pub family: &'static str,
    /// Index of the legality family, compared with an operation's floor; `None` where no source maps it.
    pub floor: Option<u8>,
    /// Role of a target without silicon of its own; empty if [`crate::silicon::SILICON`] has rows for it.
    pub role: &'static str,
    /// Mach-O CPU subtype of its containers.
    pub cpu_subtype: Option<u32>,
    /// Version of its task descriptors, where a container shows it.
    pub td_version: Option<u32>,
    /// Disagreements between sources.
    pub note: &'static str,
    /// Register layout, if decoded.
    pub layout: Option<&'static Layout>,
    /// The HAL's numbers.
    pub hal: Hal,
}

impl Chip {
    /// Returns true if the target stands for silicon.
    pub fn is_silicon(&self) -> bool {
        !self.role.starts_with("reference")
    }
}

macro_rules! chips {
    ( $( $target:literal $family:literal $floor:tt $subtype:tt $td:tt $role:literal $note:literal $layout:expr; )* ) => {
        const NAMES: &[&str] = &[ $( $target ),* ];
        const fn position(target: &str) -> usize {
            let mut at = 0;
            while at < NAMES.len() {
                if equal(NAMES[at].as_bytes(), target.as_bytes()) {
                    return at;
                }
                at += 1;
            }
            panic!("no such target")
        }
        const _: () = assert!(NAMES.len() == crate::hal::TARGETS, "a chip without HAL numbers, or the reverse");

        /// All known targets, in the order of the HAL rows; the default target is first.
        pub static CHIPS: &[Chip] = &[ $( Chip {
            target: $target, family: $family, floor: cell!($floor), role: $role,
            cpu_subtype: cell!($subtype), td_version: cell!($td), note: $note, layout: $layout,
            hal: Hal::at(const { position($target) }),
        } ),* ];
    };
}

macro_rules! cell {
    (_) => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

// Target, tier, floor index, CPU subtype, task descriptor version, role, note.
chips! {
    "h13" "A13" 2 4 7 "" "" Some(&layout::H13);
    "h13g" "A13" 2 4 7 "" "" Some(&layout::H13);
    "t1" "A13" 2 4 7 "test part of the H13 generation" "" Some(&layout::H13);
    "h14" "A14" 3 5 11 "" "an M2 in an iPad reports h14g, which the book gives to the M2 Pro; capabilities are the same" None;
    "h14g" "A14" 3 5 11 "" "" None;
    "h14c" "A14" 3 5 11 "H14 generation, 32 cores as the compiler counts them" "" None;
    "h15" "A15" 4 6 8 "" "" None;
    "h15g" "A15" 4 6 8 "" "" None;
    "h15c" "A15" 4 6 8 "H15 generation, 32 cores as the compiler counts them" "" None;
    "h16" "A16" 4 7 17 "" "an M4 (Mac16,12) reports h16g, which the book gives to the M4 Pro; capabilities are the same" None;
    "h16g" "A16" 4 7 17 "" "an M4 (Mac16,12) reports this target too" None;
    "h16s" "A16" 4 7 17 "H16 generation, 16 cores as the compiler counts them" "" None;
    "h16c" "A16" 4 7 17 "H16 generation, 32 cores as the compiler counts them" "" None;
    "h17" "A17" 5 9 19 "" "an A18 Pro and an M5 report h17" None;
    "h17a" "A17" 5 9 19 "H17 generation, variant" "" None;
    "h17g" "A17" 5 9 19 "H17 generation, 8 cores as the compiler counts them" "the book gives the M5 Pro and Max to h17g in one table and to h17s in another" None;
    "h17s" "A17" 6 9 19 "" "the book's other table says h17g" None;
    "h17c" "A17" 5 9 19 "H17 generation, 32 cores as the compiler counts them" "" None;
    "h17d" "A17" 5 9 19 "H17 generation, 64 cores as the compiler counts them" "" None;
    "h18" "A18" 6 10 20 "" "" None;
    "h11" "older" 0 1 5 "" "the book gives the name A11Legacy to its family" None;
    "h12" "older" 1 3 6 "" "" None;
    "m9" "older" _ _ _ "efficiency class, before the H13 generation" "" None;
    "t0" "older" _ _ _ "test part, before the H13 generation" "" None;
    "m11" "small" _ 8 10 "small embedded part" "" None;
    "u1" "reference" _ _ 1 "reference, no silicon" "" None;
    "u2" "reference" _ _ 1 "reference, no silicon" "" None;
    "u3" "reference" _ _ 1 "reference, no silicon" "" None;
    "h18g" "A18" 6 11 24 "" "later than the book's 28; numbers from a study of the M6, capabilities as the M4's, whose placements are identical" None;
    "h19" "A18" 6 11 24 "" "later than the book's 28; as h18g, whose table is the same" None;
}

/// The chip of a compiler target.
pub fn by_target(target: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|c| c.target == target)
}
