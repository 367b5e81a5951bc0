//! A compiled model, or a program read from a file.

use crate::chain::ProgramChain;
use crate::compile::program_of;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::model::{Model, refuse_unloadable};
use crate::watch::Watched;
use anemone_compile::{Log, Options};
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;
use std::path::Path;

/// A program and its origin.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// The network it was compiled from, if any, with names and extents of inputs and outputs.
    pub net: Option<Box<Net>>,
}

impl Model {
    /// The programs to run in order: compiled, from the file, or from the descriptor at `path`; and
    /// the network, if there is one.
    pub fn chain(
        self,
        path: &Path,
        chip: &'static Chip,
        options: &Options,
    ) -> Result<(ProgramChain, Option<Box<Net>>)> {
        if let Model::Descriptor(descriptor) = &self {
            return ProgramChain::beside(path, descriptor).map(|chain| (chain, None));
        }
        let Compiled { program, net } = self.compile(chip, options, &mut Watched)?;
        let chain = match &net {
            Some(net) => ProgramChain::of_network(net, program),
            None => ProgramChain::from(program),
        };
        Ok((chain, net))
    }

    /// The program: compiled for `chip` from a network, or from the file.
    pub fn compile(self, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Compiled> {
        match self {
            Model::Net { net, .. } => {
                let program = program_of(&net, chip, options, log)?;
                Ok(Compiled { program, net: Some(net) })
            }
            Model::Container(container) => {
                refuse_unloadable(&container)?;
                let program = container.program().map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?;
                Ok(Compiled { program, net: None })
            }
            Model::Program(program) => Ok(Compiled { program: *program, net: None }),
            Model::Descriptor(_) => {
                Err(Diagnostic::new(Code::Usage, "a dispatch descriptor refers to programs and contains none")
                    .help("use the container (.hwx) that it was written with"))
            }
            Model::Package(package) => {
                let [entry] = package.programs.as_slice() else {
                    let n = package.programs.len();
                    let message = format!("the firmware container holds {n} programs, one is expected");
                    return Err(Diagnostic::new(Code::Usage, message));
                };
                let program = entry.program().map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?;
                Ok(Compiled { program, net: None })
            }
        }
    }
}
