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
pub mod functions;
pub mod fuse;
pub mod legalize;
pub mod lower;
pub mod lut;
pub mod pack;
pub mod passes;
pub mod place;
pub mod prepare;
mod residency;
pub mod schedule;

use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;

pub use error::{Error, Result};
use passes::Progress;

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
    /// How many of the optional passes are run, in order; all where it is `None`. For finding the pass that is at fault.
    pub pass_limit: Option<usize>,
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
    let program = flow(net, chip, &mut Progress::new(options, log, None))?;
    program.ok_or_else(|| Error::Net("compilation stopped before its end".into()))
}

/// As [`compile`], only so far as to the pass of that name in [`passes::ALL`], for the log's sake.
pub fn compile_until(
    net: &Net,
    chip: &'static Chip,
    options: &Options,
    log: &mut dyn Log,
    pass: &'static passes::Pass,
) -> Result<()> {
    flow(net, chip, &mut Progress::new(options, log, Some(pass.name))).map(|_| ())
}

/// The flow; `None` where it was to stop.
fn flow(net: &Net, chip: &'static Chip, run: &mut Progress) -> Result<Option<Program>> {
    // Constants folded, norms and affines put where they cost nothing.
    let mut net = net.clone();
    if !run.rewrite(&mut net)? {
        return Ok(None);
    }
    // Network operations become layers, one per task; 1  neighbours become one layer.
    let mut graph = lower::lower(&net, chip, run.options)?;
    if !run.after(&passes::LOWER, &|| graph.to_string()) || !run.fuse(&mut graph) {
        return Ok(None);
    }
    // 2  Every layer fits the chip.
    let legal = legalize::legalize(graph, chip)?;
    if !run.after(&passes::LEGALIZE, &|| legal.to_string()) {
        return Ok(None);
    }
    // 3  One order.
    let order = schedule::schedule(legal);
    if !run.after(&passes::SCHEDULE, &|| order.to_string()) {
        return Ok(None);
    }
    // 4  Every buffer has its address.
    let placed = place::place(order, chip, run.options);
    if !run.after(&passes::PLACE, &|| placed.to_string()) {
        return Ok(None);
    }
    emit::emit(placed, chip, run.options).map(Some)
}
