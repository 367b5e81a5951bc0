//! From meant to told: a network becomes a program for one chip.
//!
//! This room may touch `facts`, `net` and `program`. It calls neither engine nor runtime, prints nothing and reads no
//! file. [`compile`] is the contents page; each stage is a type with a text form and a check.
//!
//! Dependencies: `half` rounds constants to fp16, `libm` gives the error function behind two activation tables,
//! `thiserror` words the refusals.

pub mod anec;
pub mod check;
pub mod emit;
pub mod error;
pub mod fuse;
pub mod legalize;
pub mod lower;
pub mod lut;
pub mod pack;
pub mod place;
pub mod prepare;
mod residency;
pub mod schedule;

use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;

pub use error::{Error, Result};

/// Which compiler's conventions the program follows, where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// Apple's compiler of 2026, zin 9.509: its words where they are known, and tables of two steps for precision.
    #[default]
    Zin9509,
    /// `zin_ane_compiler v4.2.1`: the same task stream and constants for the same netplist.
    Zin421,
}

/// What the caller may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Conventions.
    pub compat: Compat,
}

impl Options {
    /// Whether zin 9.509 is followed.
    fn modern(&self) -> bool {
        self.compat == Compat::Zin9509
    }
}

/// Sees each stage's text as it is made.
pub trait Log {
    /// `stage` is a file-name-safe word, `text` the stage's text form, made only when wanted.
    fn stage(&mut self, stage: &'static str, text: &dyn Fn() -> String);
}

/// Ignores every stage.
impl Log for () {
    fn stage(&mut self, _: &'static str, _: &dyn Fn() -> String) {}
}

/// Compiles a checked network for a chip.
pub fn compile(net: &Net, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Program> {
    let net = prepare::prepare(net, options)?; // constants folded, norms and affines put where they cost nothing
    log.stage("0-net", &|| anemone_net::text::print(&net).0);
    let graph = lower::lower(&net, chip, options)?; // network operations become layers, one per task
    log.stage("1-lowered", &|| graph.to_string());
    let graph = fuse::fuse(graph); // 1  neighbours become one layer
    log.stage("2-fused", &|| graph.to_string());
    let legal = legalize::legalize(graph, chip)?; // 2  every layer fits the chip
    let order = schedule::schedule(legal); // 3  one order
    log.stage("3-scheduled", &|| order.to_string());
    let placed = place::place(order, chip, options); // 4  every buffer has its address
    log.stage("4-placed", &|| placed.to_string());
    emit::emit(placed, chip, options)
}
