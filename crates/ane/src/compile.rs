//! Compilation of networks: refusals become diagnostics that name operation and chip.

use crate::diagnostic::{Diagnostic, Result};
use crate::model::Model;
use anemone_compile::{Log, Options};
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;

/// Compiles a network; a refusal names the operation and its kind.
pub fn program_of(net: &Net, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Program> {
    crate::native::exact_indices(net)?;
    anemone_compile::compile(net, chip, options, log).map_err(|error| {
        let mut diagnostic = Diagnostic::from(error);
        if let Some(details) = &mut diagnostic.details {
            details.chip.get_or_insert_with(|| chip.target.to_string());
            if let Some(op) = net.ops.iter().find(|op| details.output.as_ref() == Some(&op.name)) {
                details.op.get_or_insert_with(|| op.kind.name().to_string());
                details.output = op.outputs.first().map(|&id| net.value(id).name.clone());
            }
        }
        diagnostic
    })
}

/// As [`Model::compile`], up to a pass, for the log only; files that are compiled already have no passes.
pub fn compile_until(
    model: &Model,
    chip: &'static Chip,
    options: &Options,
    log: &mut dyn Log,
    pass: &'static anemone_compile::pipeline::Pass,
) -> Result<()> {
    match model {
        Model::Net { net, .. } => Ok(anemone_compile::compile_until(net, chip, options, log, pass)?),
        _ => Ok(()),
    }
}
