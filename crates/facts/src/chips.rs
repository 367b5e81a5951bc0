//! Chips: the compiler's targets, one row each, with the numbers of the hardware abstraction layer.
//!
//! A value that no source gives is `None`, and a decision that needs it must say so. Sources: the book's HAL tables
//! (chapters 20, 24, 34, 35 and appendix A); see `docs/evidence.md`, keys `hal` and `m6-study`.

pub use crate::hal::{HAL_ROWS, Hal, HalRow};
use crate::layout;
use crate::table::Layout;

/// One compiler target.
#[derive(Debug)]
pub struct Chip {
    /// Compiler target, lower case.
    pub target: &'static str,
    /// Capability tier of the book: targets of one tier share every capability.
    pub family: &'static str,
    /// Index of the legality family that an operation's floor is compared with; `None` where no source maps it.
    pub floor: Option<u8>,
    /// Marketing names that mean this target.
    pub marketing: &'static [&'static str],
    /// Silicon it stands for.
    pub silicon: &'static str,
    /// Mach-O CPU subtype of its containers.
    pub cpu_subtype: Option<u32>,
    /// Version of its task descriptors, where a container shows it.
    pub td_version: Option<u32>,
    /// What the sources disagree on.
    pub note: &'static str,
    /// Register layout, once decoded.
    pub layout: Option<&'static Layout>,
    /// The HAL's numbers.
    pub hal: Hal,
}

impl Chip {
    /// Whether the target stands for silicon at all.
    pub fn is_silicon(&self) -> bool {
        !self.silicon.starts_with("reference")
    }

    /// The name that users know best.
    pub fn name(&self) -> &'static str {
        self.marketing.first().copied().unwrap_or(self.target)
    }
}

macro_rules! chips {
    ( $( $target:literal $family:literal $floor:tt $subtype:tt $td:tt [ $( $name:literal ),* ] $silicon:literal $note:literal $layout:expr; )* ) => {
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

        /// Every known target. The default target comes first; the order is that of the HAL rows.
        pub static CHIPS: &[Chip] = &[ $( Chip {
            target: $target, family: $family, floor: cell!($floor), marketing: &[ $( $name ),* ],
            silicon: $silicon, cpu_subtype: cell!($subtype), td_version: cell!($td), note: $note, layout: $layout,
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

// Target, tier, floor index, CPU subtype, task descriptor version, marketing names, silicon, note.
chips! {
    "h13" "A13" 2 4 7 ["m1", "a13"] "M1 (T8103), A13" "" Some(&layout::H13);
    "h13g" "A13" 2 _ _ ["m1-pro", "m1-max", "m1-ultra"] "M1 Pro, Max, Ultra (T600x)" "" None;
    "t1" "A13" 2 _ 7 [] "A13 reference part" "" None;
    "h14" "A14" 3 5 11 ["m2", "a14"] "M2 (T8112), A14" "an M2 in an iPad reports h14g" None;
    "h14g" "A14" 3 _ _ ["m2-pro", "m2-max", "m2-ultra"] "M2 Pro, Max, Ultra (T602x)" "" None;
    "h14c" "A14" 3 _ _ [] "A14, Max class" "" None;
    "h15" "A15" 4 6 8 ["m3", "a15"] "M3 (T8122), A15" "" None;
    "h15g" "A15" 4 _ _ ["m3-pro", "m3-max", "m3-ultra"] "M3 Pro, Max, Ultra (T603x)" "" None;
    "h15c" "A15" 4 _ _ [] "A15, Max class" "" None;
    "h16" "A16" 4 7 17 ["m4", "a16"] "M4 (T8132), A16" "a live M4 (Mac16,12) reports h16g; the variants of a generation have equal tables" None;
    "h16g" "A16" 4 _ 17 ["m4-pro", "m4-max"] "M4 Pro, Max (T604x)" "a live M4 (Mac16,12) reports this target too" None;
    "h16s" "A16" 4 _ _ [] "A16, Pro class" "" None;
    "h16c" "A16" 4 _ _ [] "A16, Max class" "" None;
    "h17" "A17" 5 9 19 ["m5", "a17"] "M5 (T8142), A17" "a live M5 reports h17; an A18 Pro reports h17 too" None;
    "h17a" "A17" 5 _ _ [] "A17 variant" "" None;
    "h17g" "A17" 5 _ _ [] "M5 Pro, Max by one of the book's tables" "the other table says h17s" None;
    "h17s" "A17" 6 _ _ ["m5-pro", "m5-max", "a17-pro"] "M5 Pro, Max (T605x), A17 Pro" "the book's other table says h17g" None;
    "h17c" "A17" 5 _ _ [] "A17, Max class" "" None;
    "h17d" "A17" 5 _ _ [] "A17, Ultra class" "" None;
    "h18" "A18" 6 10 20 ["a18"] "A18" "" None;
    "h11" "older" 0 _ 5 ["a11"] "before the A13" "" None;
    "h12" "older" 1 3 6 ["a12"] "before the A13" "CPU subtype and descriptor version are unsure" None;
    "m9" "older" _ _ _ [] "before the A13, efficiency class" "" None;
    "t0" "older" _ _ _ [] "before the A13" "" None;
    "m11" "small" _ 8 10 [] "small embedded part" "" None;
    "u1" "reference" _ _ 1 [] "reference, no silicon" "" None;
    "u2" "reference" _ _ 1 [] "reference, no silicon" "" None;
    "u3" "reference" _ _ 1 [] "reference, no silicon" "" None;
    "h18g" "A18" 6 11 24 ["m6"] "M6 (T8152)" "later than the book's 28; numbers from a study of the M6, capabilities as the M4's, whose placements are identical" None;
    "h19" "A18" 6 _ 24 ["a20"] "A20" "later than the book's 28; as h18g, whose table is the same" None;
}

/// The chip that a user names by compiler target or by marketing name, in any case.
pub fn by_name(name: &str) -> Option<&'static Chip> {
    let name = name.to_ascii_lowercase();
    CHIPS.iter().find(|c| c.target == name || c.marketing.contains(&name.as_str()))
}
