//! A compiled model: run, listed, and written in compiled forms.

use crate::chain::Chain;
use crate::compile::program_of;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::execute::{execute, own_extents, state_at_start};
use crate::files;
use crate::forms::{self, File, Form};
use crate::model::Model;
use crate::tensor::Array;
use anemone_compile::{Log, Options};
use anemone_engine as engine;
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::{Direction, Program, text};
use std::path::{Path, PathBuf};

/// A program and where it comes from.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// The network it was compiled from, if any: names and extents of inputs and outputs.
    pub net: Option<Box<Net>>,
}

impl Model {
    /// The programs to run in their order: compiled, as the file has them, or as the descriptor at `path` names them; and
    /// the network where there is one.
    pub fn chain(self, path: &Path, chip: &'static Chip, options: &Options) -> Result<(Chain, Option<Box<Net>>)> {
        if let Model::Descriptor(descriptor) = &self {
            return Chain::beside(path, descriptor).map(|chain| (chain, None));
        }
        let Compiled { program, net } = self.compile(chip, options, &mut ())?;
        let chain = match &net {
            Some(net) => Chain::of_network(net, program),
            None => Chain::from(program),
        };
        Ok((chain, net))
    }

    /// The program: compiled for `chip` from a network, or as the file has it.
    pub fn compile(self, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Compiled> {
        match self {
            Model::Net { net, .. } => {
                let program = program_of(&net, chip, options, log)?;
                Ok(Compiled { program, net: Some(net) })
            }
            Model::Container(container) => {
                let program = container.program().map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?;
                Ok(Compiled { program, net: None })
            }
            Model::Program(program) => Ok(Compiled { program: *program, net: None }),
            Model::Descriptor(_) => {
                Err(Diagnostic::new(Code::Usage, "a dispatch descriptor names programs and holds none")
                    .help("give the container (.hwx) that it was written with"))
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

impl Compiled {
    /// Inputs or outputs by name with their extents: the network's own, or the ports'.
    pub fn ends(&self, direction: Direction) -> Vec<(String, Vec<usize>)> {
        let of_port = |p: &anemone_program::Port| {
            let own = self.net.as_deref().and_then(|net| Some(net.value(net.find(&p.name)?).ty.shape.clone()));
            let s = p.shape;
            (p.name.clone(), own.unwrap_or_else(|| [s.n, s.c, s.h, s.w].map(|n| n as usize).to_vec()))
        };
        self.program.ports_of(direction).map(of_port).collect()
    }

    /// Names of the inputs that a caller has to give: states are none.
    pub fn real_inputs(&self) -> Vec<String> {
        let state =
            |port: &anemone_program::Port| self.net.as_deref().is_some_and(|net| state_at_start(net, port).is_some());
        self.program.ports_of(Direction::Input).filter(|port| !state(port)).map(|port| port.name.clone()).collect()
    }

    /// Runs once on the software engine. States that are not given are zeros, as before the first run; outputs have the
    /// network's own extents.
    pub fn run(&self, inputs: &[(String, Array)], options: engine::Options) -> Result<Vec<(String, Array)>> {
        let known: Vec<&str> = self.program.ports_of(Direction::Input).map(|p| p.name.as_str()).collect();
        if let Some((name, _)) = inputs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            let message = format!("the program has no input {name}");
            return Err(Diagnostic::new(Code::Usage, message).help(format!("it has: {}", known.join(", "))));
        }
        let mut all = inputs.to_vec();
        for port in self.program.ports_of(Direction::Input) {
            let zeros = self.net.as_deref().and_then(|net| state_at_start(net, port));
            if let Some(zeros) = zeros.filter(|_| inputs.iter().all(|(name, _)| *name != port.name)) {
                all.push((port.name.clone(), zeros));
            }
        }
        let mut outputs = execute(&self.program, &all, options)?.outputs;
        if let Some(net) = &self.net {
            own_extents(net, &mut outputs);
        }
        Ok(outputs)
    }

    /// The listing that assembles back.
    pub fn listing(&self) -> String {
        text::list(&self.program)
    }

    /// Writes the forms into a folder, which is made where it is missing; the paths. Files are named after `stem`, in which only
    /// letters, digits, `-`, `_` and dots within stay. A dispatch descriptor among the forms has each segment compiled alone, by
    /// the same `options` for the same chip.
    pub fn save(
        &self,
        folder: &Path,
        stem: &str,
        forms: &[Form],
        chip: &'static Chip,
        options: &Options,
    ) -> Result<Vec<PathBuf>> {
        let chain = match &self.net {
            Some(net) if forms.contains(&Form::E5) => {
                Chain::of_net(net, true, |segment| program_of(segment, chip, options, &mut ()))?
            }
            _ => Chain::from(self.program.clone()),
        };
        let kept = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let plain: String = stem.chars().map(kept).collect();
        let plain = Some(plain.trim_start_matches('.')).filter(|s| !s.is_empty()).unwrap_or("model");
        let files: Vec<File> = forms::files(&chain, chip, forms, plain, stem)?;
        let cannot = |e| Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(folder.display());
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let paths: Vec<PathBuf> = files.iter().map(|f| folder.join(&f.name)).collect();
        let all: Vec<(&Path, &[u8])> =
            paths.iter().zip(&files).map(|(path, f)| (path.as_path(), f.bytes.as_slice())).collect();
        files::write_all(&all)?;
        Ok(paths)
    }
}
