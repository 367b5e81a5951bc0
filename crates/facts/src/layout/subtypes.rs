//! Which task descriptor version a container's CPU subtype means: the compiler's own table, as two studies read it.

use crate::table::Evidence;

/// One CPU subtype.
#[derive(Clone, Copy, Debug)]
pub struct Subtype {
    /// CPU subtype in the container's header.
    pub subtype: u32,
    /// Task descriptor version.
    pub td_version: u32,
    /// Compiler targets.
    pub targets: &'static [&'static str],
    /// Silicon.
    pub silicon: &'static str,
    /// Evidence for the version.
    pub evidence: Evidence,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

macro_rules! subtypes {
    ( $( $subtype:literal v $version:literal [ $( $target:literal ),* ] $silicon:literal $ev:ident $source:literal ; )* ) => {
        /// Every CPU subtype known.
        pub static SUBTYPES: &[Subtype] = &[ $( Subtype {
            subtype: $subtype, td_version: $version, targets: &[ $( $target ),* ], silicon: $silicon,
            evidence: Evidence::$ev, source: $source,
        } ),* ];
    };
}

subtypes! {
    0 v 5 [] "" Claimed "m6-study";
    1 v 5 ["h11"] "A12" Claimed "m6-study";
    2 v 4 [] "" Claimed "m6-study";
    3 v 6 ["h12"] "A13" Claimed "m6-study";
    4 v 7 ["h13", "h13g", "t1"] "A14, M1" Executed "h13-samples";
    5 v 11 ["h14", "h14g"] "A15, M2" Claimed "m6-study";
    6 v 8 ["h15", "h15g"] "A16, M3" Claimed "m6-study";
    7 v 17 ["h16", "h16g", "h16s", "h16c"] "A17 Pro, M4" Bytes "h16-containers";
    8 v 10 ["m11"] "M11" Claimed "m6-study";
    9 v 19 ["h17", "h17g", "h17s", "h17c", "h17d", "h17a"] "A18, M5" Claimed "m6-study";
    10 v 20 ["h18"] "A19" Claimed "m6-study";
    11 v 24 ["h18g", "h19"] "M6, A20" Claimed "m6-study";
    12 v 31 [] "" Claimed "m6-study";
    13 v 1 [] "" Claimed "m6-study";
    14 v 36 [] "" Claimed "m6-study";
    15 v 1 [] "" Claimed "m6-study";
    16 v 28 [] "" Claimed "m6-study";
    17 v 26 ["m12"] "M12" Claimed "m6-study";
    18 v 1 [] "" Claimed "m6-study";
    19 v 1 [] "" Claimed "m6-study";
    20 v 1 [] "" Claimed "m6-study";
}
