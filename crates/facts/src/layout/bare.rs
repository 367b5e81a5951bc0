//! Descriptor versions of which only the form of the stream is assumed: registers have addresses instead of names.

use super::shared::TASK_SIZE;
use crate::table::Evidence::Claimed;
use crate::table::{Layout, Row, at, compose, rows};

/// Header's chain of versions up to 7.
const CHAIN: &[Row] = rows! {
    Header {
        0x00000 [1] { 0..=15 Tid Claimed "by-analogy" }
        0x00004 [1] { 16..=24 NextSize Claimed "by-analogy" }
        0x0001c [1] { 0..=31 NextPointer Claimed "by-analogy" }
    }
};

macro_rules! bare {
    ( $( $name:ident $generation:literal $version:literal $codec:ident $header:literal $align:literal $part:ident ; )* ) => {
        $( compose! {
            /// A version without known registers.
            $name {
                generation: $generation, td_version: $version, codec: $codec, header_words: $header, align_bytes: $align,
                blocks: [],
                parts: &[at(0, $part).by(Claimed, "by-analogy")],
            }
        } )*
        /// Versions without rows.
        pub static BARE: &[&Layout] = &[ $( &$name ),* ];
    };
}

bare! {
    V4 "v4" 4 Runs 10 0x100 CHAIN;
    V5 "v5" 5 Runs 10 0x100 CHAIN;
    V6 "v6" 6 Runs 10 0x100 CHAIN;
    V26 "v26" 26 Packets 9 16 TASK_SIZE;
    V28 "v28" 28 Packets 9 16 TASK_SIZE;
    V31 "v31" 31 Packets 9 16 TASK_SIZE;
    V36 "v36" 36 Packets 9 16 TASK_SIZE;
}
