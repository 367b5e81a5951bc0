//! The command line as users meet it: exit codes, codes of diagnostics, no files after a failure, and the good paths.
//!
//! Runs the built binary on files made here, on `examples/digits`, and on golden data and sample models where there are
//! any.

mod common;

#[path = "cli/bad_files.rs"]
mod bad_files;
#[path = "cli/bad_usage.rs"]
mod bad_usage;
#[path = "cli/chapters.rs"]
mod chapters;
#[path = "cli/check.rs"]
mod check;
#[path = "cli/damage.rs"]
mod damage;
#[path = "cli/forms.rs"]
mod forms;
#[path = "cli/frontends.rs"]
mod frontends;
#[path = "cli/good.rs"]
mod good;
#[path = "cli/harness.rs"]
mod harness;
#[path = "cli/lut.rs"]
mod lut;
#[path = "cli/native.rs"]
mod native;
#[path = "cli/plan.rs"]
mod plan;
#[path = "cli/systems.rs"]
mod systems;
