//! Compiler driver: target gate, pass pipeline and emission.

use crate::error::{Error, Result};
use crate::options::Options;
use crate::remarks::Log;
use crate::{emit, ir, pipeline, target};
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;

/// Digest of the sources that decide on the words of a program, in hexadecimal: those of this crate and of the crates below it.
// A function that is never inlined: as a constant, it would change the code of every crate above after each edit.
#[inline(never)]
pub fn sources() -> &'static str {
    env!("ANE_SOURCES")
}

/// Compiles a checked network for a chip.
pub fn compile(net: &Net, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Program> {
    target::gate(net, chip)?;
    // Native layers for a chip with unknown registers are written, and marked, in the form of a chip with known ones.
    let carrier = target::carrier(net, chip);
    let placed = pipeline::run(net, carrier, options, log, None).map_err(|error| error.in_terms_of(net))?;
    let placed = placed.ok_or_else(|| Error::Net("compilation stopped before its end".into()))?;
    // Verifies that every task reads inside its operands.
    ir::reads(&placed.graph)?;
    log.tasks(placed.graph.layers.iter().map(|layer| layer.name.clone()).collect());
    let program = emit::emit(placed, carrier, options, log)?;
    if std::ptr::eq(carrier, chip) { Ok(program) } else { emit::name_family(program, chip) }
}

/// [`compile`] up to a pass of [`pipeline::ALL`], for the sake of the log.
pub fn compile_until(
    net: &Net,
    chip: &'static Chip,
    options: &Options,
    log: &mut dyn Log,
    pass: &'static pipeline::Pass,
) -> Result<()> {
    target::gate(net, chip)?;
    pipeline::run(net, target::carrier(net, chip), options, log, Some(pass)).map(|_| ())
}
