//! Map from a container's CPU subtype to the task descriptor version: the compiler's own table, as two studies read it.

use super::{CHIPS, Chip};
use crate::layout::of_version;
use crate::table::{Evidence, Layout};

/// One CPU subtype.
#[derive(Clone, Copy, Debug)]
pub struct Subtype {
    /// CPU subtype in the container's header.
    pub subtype: u32,
    /// Task descriptor version.
    pub td_version: u32,
    /// A target of the subtype without a row among the chips.
    pub other: &'static str,
    /// Evidence for the version.
    pub evidence: Evidence,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

impl Subtype {
    /// Chips whose containers have the subtype.
    pub fn targets(&self) -> impl Iterator<Item = &'static Chip> + use<> {
        let subtype = self.subtype;
        CHIPS.iter().filter(move |c| c.cpu_subtype == Some(subtype))
    }
}

macro_rules! subtypes {
    ( $( $subtype:literal v $version:literal $other:literal $ev:ident $source:literal ; )* ) => {
        /// All known CPU subtypes.
        pub static SUBTYPES: &[Subtype] = &[ $( Subtype {
            subtype: $subtype, td_version: $version, other: $other,
            evidence: Evidence::$ev, source: $source,
        } ),* ];
    };
}

subtypes! {
    0 v 5 "" Claimed "m6-study";
    1 v 5 "" Claimed "m6-study";
    2 v 4 "" Claimed "m6-study";
    3 v 6 "" Claimed "m6-study";
    4 v 7 "" Executed "h13-samples";
    5 v 11 "" Claimed "m6-study";
    6 v 8 "" Claimed "m6-study";
    7 v 17 "" Bytes "h16-containers";
    8 v 10 "" Claimed "m6-study";
    9 v 19 "" Claimed "m6-study";
    10 v 20 "" Claimed "m6-study";
    11 v 24 "" Claimed "m6-study";
    12 v 31 "" Claimed "m6-study";
    13 v 1 "" Claimed "m6-study";
    14 v 36 "" Claimed "m6-study";
    15 v 1 "" Claimed "m6-study";
    16 v 28 "" Claimed "m6-study";
    17 v 26 "m12" Claimed "m6-study";
    18 v 1 "" Claimed "m6-study";
    19 v 1 "" Claimed "m6-study";
    20 v 1 "" Claimed "m6-study";
}

/// The register layout of a container's CPU subtype, by its descriptor version.
pub fn layout_of(subtype: u32) -> Option<&'static Layout> {
    SUBTYPES.iter().find(|s| s.subtype == subtype).and_then(|s| of_version(s.td_version))
}
