//! From meant to told: a network becomes a program for one chip.
//!
//! This crate may use `facts`, `net` and `program`. It calls neither engine nor runtime, prints nothing and reads no
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
pub mod native;
pub mod pack;
pub mod passes;
pub mod place;
pub mod prepare;
mod residency;
pub mod schedule;
pub mod verify;
mod weights;

use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;

pub use error::{Error, Refused, Result};
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
    /// Weights that the model has compressed become fp16 also where the chip streams their form: no sample of Apple's
    /// shows a palette on the M1, so how it stands in the streams is a reading (`docs/evidence.md`, key `book-streams`).
    pub expand_weights: bool,
}

impl Options {
    /// Whether zin 9.509 is followed.
    fn modern(&self) -> bool {
        self.compat == Compat::Zin9509
    }
}

/// What a pass leaves, for people.
#[derive(Clone, Debug)]
pub struct Stage {
    /// A file-name-safe word.
    pub name: &'static str,
    /// Operations of the network, or layers: one task each.
    pub count: usize,
    /// The stage's text form.
    pub text: String,
    /// The same as a drawing, in Graphviz's language.
    pub dot: String,
    /// Why the pass decided as it did: a line each.
    pub reasons: Vec<String>,
}

/// Sees each stage as it is made.
pub trait Log {
    /// Whether anybody looks: texts are made only then.
    fn wants(&self) -> bool;
    /// Called after every pass, where wanted.
    fn stage(&mut self, stage: Stage);
}

/// Ignores every stage.
impl Log for () {
    fn wants(&self) -> bool {
        false
    }

    fn stage(&mut self, _: Stage) {}
}

/// Compiles a checked network for a chip.
pub fn compile(net: &Net, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Program> {
    native::gate(net, chip)?;
    // Native layers for a chip whose registers are not known are written in the form of one whose are, and say so.
    let carrier = native::carrier(net, chip);
    let program = flow(net, carrier, &mut Progress::new(options, log, None))?;
    let program = program.ok_or_else(|| Error::Net("compilation stopped before its end".into()))?;
    if std::ptr::eq(carrier, chip) { Ok(program) } else { native::name_family(program, chip) }
}

/// As [`compile`], only so far as to the pass of that name in [`passes::ALL`], for the log's sake.
pub fn compile_until(
    net: &Net,
    chip: &'static Chip,
    options: &Options,
    log: &mut dyn Log,
    pass: &'static passes::Pass,
) -> Result<()> {
    native::gate(net, chip)?;
    flow(net, native::carrier(net, chip), &mut Progress::new(options, log, Some(pass.name))).map(|_| ())
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
    if !run.after(&passes::LOWER, graph.layers.len(), &|| graph.to_string(), &|| graph.dot()) || !run.fuse(&mut graph) {
        return Ok(None);
    }
    // 2  Every layer fits the chip.
    let legal = legalize::legalize(graph, chip, run.options, &mut run.reasons)?;
    if !run.after(&passes::LEGALIZE, legal.graph().layers.len(), &|| legal.to_string(), &|| legal.graph().dot()) {
        return Ok(None);
    }
    // 3  One order.
    let mut order = schedule::schedule(legal, chip, &mut run.reasons);
    if !run.after(&passes::SCHEDULE, order.graph.layers.len(), &|| order.to_string(), &|| order.graph.dot()) {
        return Ok(None);
    }
    // 4  Compressed weights stay so where the chip streams them; every buffer has its address.
    if run.takes(&passes::WEIGHTS) && !run.options.expand_weights {
        weights::choose(&mut order.graph, chip, &mut run.reasons);
    }
    if !run.after(&passes::WEIGHTS, order.graph.layers.len(), &|| order.graph.to_string(), &|| order.graph.dot()) {
        return Ok(None);
    }
    let stay = run.takes(&passes::RESIDE);
    let residency = place::reside(&order, chip, run.options, stay);
    if !run.after(&passes::RESIDE, order.graph.layers.len(), &|| residency.to_string(), &|| order.graph.dot()) {
        return Ok(None);
    }
    let placed = place::place(order, residency, chip, run.options);
    if !run.after(&passes::PLACE, placed.graph.layers.len(), &|| placed.to_string(), &|| placed.graph.dot()) {
        return Ok(None);
    }
    // Every task reads inside its operands.
    verify::reads(&placed.graph)?;
    emit::emit(placed, chip, run.options).map(Some)
}
