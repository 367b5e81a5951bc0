//! A model ready to run; it can also be listed, and written in compiled forms.

use crate::chain::{Cut, ProgramChain};
use crate::compile::program_of;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::execute::{own_extents, state_at_start};
use crate::files;
use crate::forms::{self, File, Form};
use crate::model::Model;
use crate::tensor::Array;
use anemone_compile::Options;
use anemone_engine as engine;
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::{Direction, Port, text};
use std::path::{Path, PathBuf};

/// Programs of a model in order, with host segments between them for operations without an engine path.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Programs and host segments.
    pub chain: ProgramChain,
    /// The network they were compiled from, if any, with names and extents of inputs and outputs.
    pub net: Option<Box<Net>>,
    /// Reasons for the host segments, one sentence for each refused operation.
    pub reasons: Vec<String>,
}

impl Model {
    /// The model at `path`, ready to run on `chip`; a compiled file is used unchanged. With `engine_only`, a
    /// network that needs host segments is refused with the compiler's error.
    pub fn executable(
        self,
        path: &Path,
        chip: &'static Chip,
        options: &Options,
        engine_only: bool,
    ) -> Result<Executable> {
        if let Model::Net { net, .. } = self {
            let (mut chain, reasons) = match engine_only {
                true => (ProgramChain::of_network(&net, program_of(&net, chip, options, &mut ())?), Vec::new()),
                false => ProgramChain::whole(&net, chip, options)?,
            };
            chain.set_aside();
            return Ok(Executable { chain, net: Some(net), reasons });
        }
        // A container's kernel data is part of its file, which is mapped.
        let mapped = matches!(self, Model::Container(_));
        let (mut chain, net) = self.chain(path, chip, options)?;
        if !mapped {
            chain.set_aside();
        }
        Ok(Executable { chain, net, reasons: Vec::new() })
    }
}

impl Executable {
    /// Inputs or outputs by name with their extents: from the network, or from the ports.
    pub fn ends(&self, direction: Direction) -> Vec<(String, Vec<usize>)> {
        let of_port = |p: &Port| {
            let own = self.net.as_deref().and_then(|net| net.find(&p.name).map(|id| &net.value(id).ty));
            let own = own.or(self.chain.declared(&p.name)).map(|ty| ty.shape.clone());
            (p.name.clone(), own.unwrap_or_else(|| p.dims()))
        };
        self.chain.ports(direction).map(of_port).collect()
    }

    /// Initial value of a state's port: zeros. `None` for other ports.
    fn at_start(&self, port: &Port) -> Option<Array> {
        let of_net = self.net.as_deref().and_then(|net| state_at_start(net, port));
        let held = self.chain.states().iter().any(|state| state.input == port.name);
        let s = port.shape;
        let zeros = || Array { shape: port.dims(), data: vec![0.0; s.elements() as usize] };
        of_net.or_else(|| held.then(zeros))
    }

    /// The states before the first run, by the name of their input: zeros.
    ///
    /// Errors: a program without states.
    pub fn states_at_start(&self) -> Result<Vec<(String, Array)>> {
        if self.chain.states().is_empty() {
            return Err(Diagnostic::new(Code::Usage, "the program has no states"));
        }
        let held = |port: &&Port| self.chain.states().iter().any(|state| state.input == port.name);
        let ports = self.chain.ports(Direction::Input).filter(held);
        Ok(ports.filter_map(|port| Some((port.name.clone(), self.at_start(port)?))).collect())
    }

    /// Names of the inputs that a caller must give, which excludes states.
    pub fn real_inputs(&self) -> Vec<String> {
        let ports = self.chain.ports(Direction::Input);
        ports.filter(|port| self.at_start(port).is_none()).map(|port| port.name.clone()).collect()
    }

    /// Moves the final value of each state from the outputs of a run to the states.
    pub fn keep_states(&self, outputs: &mut Vec<(String, Array)>, states: &mut [(String, Array)]) {
        for state in self.chain.states() {
            let at = outputs.iter().position(|(name, _)| *name == state.output);
            let kept = states.iter_mut().find(|(name, _)| *name == state.input);
            if let (Some(at), Some((_, kept))) = (at, kept) {
                *kept = outputs.remove(at).1;
            }
        }
    }

    /// Runs once on the software engine, host segments on the host. States that are not given are zeros, as before the first
    /// run; outputs have the network's extents.
    pub fn run(&self, inputs: &[(String, Array)], options: engine::Options) -> Result<Vec<(String, Array)>> {
        // Inputs without elements are constants of the network.
        let mut all: Vec<_> = inputs.iter().filter(|(_, array)| !array.data.is_empty()).cloned().collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let states = self.states_beside(&names)?;
        all.extend(states);
        self.chain.programs().iter().try_for_each(crate::execute::check)?;
        let mut outputs = self.chain.execution(options)?.run(&all)?.outputs;
        self.give_own_extents(&mut outputs);
        Ok(outputs)
    }

    /// Zeros for the states that are not among the given names; refuses a name that no input has.
    pub(crate) fn states_beside(&self, given: &[&str]) -> Result<Vec<(String, Array)>> {
        let known: Vec<&str> = self.chain.ports(Direction::Input).map(|p| p.name.as_str()).collect();
        if let Some(name) = given.iter().find(|name| !known.contains(name)) {
            let message = format!("the program has no input {name}");
            return Err(Diagnostic::new(Code::Usage, message).help(format!("it has: {}", known.join(", "))));
        }
        let absent = self.chain.ports(Direction::Input).filter(|port| !given.contains(&port.name.as_str()));
        Ok(absent.filter_map(|port| Some((port.name.clone(), self.at_start(port)?))).collect())
    }

    /// Reshapes outputs to the extents of the network.
    pub(crate) fn give_own_extents(&self, outputs: &mut [(String, Array)]) {
        if let Some(net) = &self.net {
            own_extents(net, outputs);
        }
    }

    /// The listings of all programs, which assemble back.
    pub fn listing(&self) -> String {
        self.chain.programs().iter().map(text::list).collect()
    }

    /// Writes the forms to a folder, which is created if it is missing; returns the paths. Files are named after `stem`, of which only
    /// letters, digits, `-`, `_` and inner dots are kept. A dispatch descriptor among the forms has each segment compiled separately, with
    /// the same `options` for the same chip. A form that has no place for host segments is refused by name.
    pub fn save(
        &self,
        folder: &Path,
        stem: &str,
        forms: &[Form],
        chip: &'static Chip,
        options: &Options,
    ) -> Result<Vec<PathBuf>> {
        let segmented = match &self.net {
            Some(net)
                if forms.contains(&Form::E5) && self.chain.hosts().is_empty() && self.chain.loops().is_empty() =>
            {
                Some(ProgramChain::of_net(net, Cut::Natives, |segment| program_of(segment, chip, options, &mut ()))?)
            }
            _ => None,
        };
        let chain = segmented.as_ref().unwrap_or(&self.chain);
        let kept = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let plain: String = stem.chars().map(kept).collect();
        let plain = Some(plain.trim_start_matches('.')).filter(|s| !s.is_empty()).unwrap_or("model");
        let files: Vec<File> = forms::files(chain, chip, forms, plain, stem)?;
        let cannot = |e| Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(folder.display());
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let paths: Vec<PathBuf> = files.iter().map(|f| folder.join(&f.name)).collect();
        let parts: Vec<Vec<&[u8]>> = files.iter().map(File::parts).collect();
        let all: Vec<(&Path, &[&[u8]])> = paths.iter().zip(&parts).map(|(path, p)| (path.as_path(), &p[..])).collect();
        files::write_pieces(&all)?;
        Ok(paths)
    }
}
