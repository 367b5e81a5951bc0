//! The engine on programs made word by word, and its arithmetic against the evidence.

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod lines;
mod numerics_fingerprint;
mod numerics_mac;
mod operands;
mod pairs;
mod streams;
mod units {
    //! Tests of single modules; the tree mirrors that of `src/`.

    mod field_support;
    mod ne {
        mod flat;
    }
    mod numerics;
    mod operand;
    mod plan {
        mod commute;
        mod dense;
        mod lift;
        mod live;
        mod moves;
        mod product;
        mod slices;
    }
}
mod written;
