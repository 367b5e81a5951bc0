//! Models of several procedures: one container with an entry point for each.

use crate::chain::ProgramChain;
use crate::compile::program_of;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use crate::model::{Choices, Model};
use crate::watch::Watched;
use anemone_compile::{Log, Options};
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_net::read::netplist_procedures;
use anemone_program::Program;
use std::path::Path;

/// Names of a netplist's procedures, if it has several and `choices` select none; empty otherwise.
pub fn several(path: &Path, choices: &Choices) -> Result<Vec<String>> {
    if choices.options.function.is_some() || path.is_dir() {
        return Ok(Vec::new());
    }
    // The model's reader refuses a file that cannot be read.
    let names = netplist_procedures(&files::mapped(path)?).unwrap_or_default();
    Ok(if names.len() > 1 { names } else { Vec::new() })
}

/// The networks of procedures, each with its procedure's name, and the notes of the reader.
pub fn networks(path: &Path, choices: &Choices, names: &[String]) -> Result<Vec<(Net, Vec<String>)>> {
    let one = |name: &String| {
        let mut choices = choices.clone();
        choices.options.function = Some(name.clone());
        match Model::load_with(path, &choices)? {
            Model::Net { mut net, notes } => {
                net.name.clone_from(name);
                Ok((*net, notes))
            }
            _ => Err(Diagnostic::new(Code::Usage, "the file is compiled already").at(path.display())),
        }
    };
    names.iter().map(one).collect()
}

/// The programs of procedures, by number.
///
/// Errors: as [`program_of`], with the procedure's name.
pub fn programs(nets: &[Net], chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Vec<Program>> {
    let one = |net: &Net| {
        let named = |d: Diagnostic| Diagnostic { message: format!("procedure {}: {}", net.name, d.message), ..d };
        let mut program = program_of(net, chip, options, log).map_err(named)?;
        program.name.clone_from(&net.name);
        Ok(program)
    };
    nets.iter().map(one).collect()
}

/// A procedure's chain, and its network if it is known.
pub type Procedure = (ProgramChain, Option<Net>);

/// Chains of the procedures of a model with several: compiled from a netplist, or from a container. `None` for other
/// models.
pub fn chains(path: &Path, chip: &'static Chip, options: &Options) -> Result<Option<Vec<Procedure>>> {
    let choices = Choices::default();
    let names = several(path, &choices)?;
    if !names.is_empty() {
        let nets: Vec<Net> = networks(path, &choices, &names)?.into_iter().map(|(net, _)| net).collect();
        let programs = programs(&nets, chip, options, &mut Watched)?;
        let chain = |(net, program)| (ProgramChain::of_network(&net, program), Some(net));
        return Ok(Some(nets.into_iter().zip(programs).map(chain).collect()));
    }
    if path.is_dir() {
        return Ok(None);
    }
    match Model::load(path) {
        Ok(Model::Container(container)) if container.procedures().len() > 1 => {
            let programs = container.programs().map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?;
            Ok(Some(programs.into_iter().map(|program| (ProgramChain::from(program), None)).collect()))
        }
        _ => Ok(None),
    }
}
