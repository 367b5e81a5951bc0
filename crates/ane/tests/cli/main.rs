//! The command line as users meet it: exit codes, codes of diagnostics, no files after a failure, and the good paths.
//!
//! Runs the built binary on files made here, on `examples/digits`, and on golden data and sample models where there are
//! any.

#[path = "../common/mod.rs"]
mod common;

mod adapters;
mod answers;
mod bad_files;
mod bad_usage;
mod book;
mod broker;
mod chapters;
mod check;
#[cfg(unix)]
mod claims;
mod compared;
mod damage;
mod forms;
mod frontends;
mod good;
mod harness;
mod host_segments;
mod loops;
mod lut;
mod native;
mod numerics;
mod page;
mod plan;
mod procedures;
mod readme;
mod reasons;
mod states;
mod systems;
mod training;
mod units {
    //! Tests of single modules; the tree mirrors that of `src/`.

    mod aliases;
    mod brief;
    mod check {
        mod json;
        mod times;
        mod verdict;
    }
    mod cli;
    mod host;
    mod places;
    mod tensor;
    mod warnings;
}
