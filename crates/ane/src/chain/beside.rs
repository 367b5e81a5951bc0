//! The chain of a dispatch descriptor with its containers in the same folder.

use super::{Part, ProgramChain};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::{files, host};
use anemone_program::e5::{
    Declared, Descriptor, Dispatch, EngineCall, HostCall, Mark, Repeat, Sequence, container_hash, without_engine_names,
};
use anemone_program::hwx::Container;
use anemone_program::order;
use anemone_program::{Direction, Program};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

impl ProgramChain {
    /// The chain of a dispatch descriptor at `path`: its containers are in the same folder and are identified by their
    /// hash, independent of their names. Processor calls are host segments.
    pub fn beside(path: &Path, descriptor: &Descriptor) -> Result<ProgramChain> {
        let mut containers = Containers::beside(path);
        ProgramChain::described(path, descriptor, &mut |call| containers.called(call, path))
    }

    /// The chain of a descriptor; `called` returns the program of a call.
    pub(crate) fn described(
        path: &Path,
        descriptor: &Descriptor,
        called: &mut dyn FnMut(&EngineCall) -> Result<Program>,
    ) -> Result<ProgramChain> {
        let malformed = |message: String| Diagnostic::new(Code::Malformed, message).at(path.display());
        let Sequence { calls, inputs, outputs, states, counted } = descriptor.sequence().map_err(|e| {
            let code = if e.unsupported { Code::UnsupportedOp } else { Code::Malformed };
            Diagnostic::new(code, e.what).at(path.display())
        })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut chain = ProgramChain { name, ends: [inputs, outputs], states, counted, ..ProgramChain::default() };
        let mut open: Vec<(usize, &HostCall)> = Vec::new();
        for call in &calls {
            let wrong = |e: String, call: &HostCall| malformed(format!("{}: {e}", call.name));
            match call {
                Dispatch::Engine(call) => {
                    chain.order.push(Part::Program(chain.programs.len()));
                    chain.programs.push(called(call)?);
                }
                Dispatch::Host(call) => match Mark::of(call) {
                    None => {
                        chain.order.push(Part::Host(chain.hosts.len()));
                        chain.hosts.push((chain.programs.len(), host::net_of(call).map_err(|e| wrong(e, call))?));
                    }
                    Some(Mark::Begin) => {
                        open.push((chain.loops.len(), call));
                        chain.order.push(Part::Begin(chain.loops.len()));
                        chain.loops.push(Repeat::default());
                    }
                    Some(Mark::End) => {
                        let (at, begin) =
                            open.pop().ok_or_else(|| wrong("a loop ends that has not begun".into(), call))?;
                        chain.loops[at] = Repeat::of(begin, call).map_err(|e| wrong(e, call))?;
                        chain.order.push(Part::End(at));
                    }
                },
            }
        }
        if let Some((_, call)) = open.first() {
            return Err(malformed(format!("{}: a loop begins that does not end", call.name)));
        }
        Ok(chain.bound())
    }
}

/// Containers of a folder, hashed one by one until the wanted one is found.
struct Containers {
    /// Files that are not hashed yet, in reverse order.
    left: Vec<PathBuf>,
    known: HashMap<String, PathBuf>,
}

impl Containers {
    /// The containers beside a descriptor, those with a name like its own first.
    fn beside(path: &Path) -> Containers {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
        let mut left: Vec<PathBuf> =
            entries.filter(|p| p.extension().is_some_and(|e| e == "hwx") && p.is_file()).collect();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let other = |p: &PathBuf| !p.file_name().unwrap_or_default().to_string_lossy().starts_with(&*stem);
        order::by_key(&mut left, |p| std::cmp::Reverse((other(p), p.clone())));
        Containers { left, known: HashMap::new() }
    }

    /// The program for a call of the descriptor at `path`. Its container must have the ports, the windows and the name in
    /// the descriptor.
    fn called(&mut self, call: &EngineCall, path: &Path) -> Result<Program> {
        let EngineCall { name, hash, symbol, .. } = call;
        let malformed = |message: String| Err(Diagnostic::new(Code::Malformed, message).at(path.display()));
        let (program, declared) = self.program(hash)?.ok_or_else(|| {
            let message = format!("{name}: no container (.hwx) beside it has the hash {hash:?}");
            Diagnostic::new(Code::Unreadable, message)
                .at(path.display())
                .help("write descriptor and containers together: ane compile MODEL --emit hwx,e5 -o FOLDER/")
        })?;
        // Tensors may have names of the engine's side in the container.
        let program = match program.ports.iter().all(|port| call.windows.iter().any(|(name, _)| *name == port.name)) {
            true => program,
            false => without_engine_names(program),
        };
        for (direction, tensors) in [(Direction::Input, &call.inputs), (Direction::Output, &call.outputs)] {
            let mut ports: Vec<&str> = program.ports_of(direction).map(|p| p.name.as_str()).collect();
            let mut named: Vec<&str> = tensors.iter().map(String::as_str).collect();
            order::by(&mut ports, Ord::cmp);
            order::by(&mut named, Ord::cmp);
            if ports != named {
                return malformed(format!("{name}: binds {tensors:?}, its container has {ports:?}"));
            }
        }
        if let Some(procedure) = declared.procedure.as_deref().filter(|p| p != symbol) {
            return malformed(format!("{name}: program symbol {symbol:?}, its container has {procedure:?}"));
        }
        for (port, address) in &call.windows {
            if let Some(own) = declared.window(port).filter(|own| own != address) {
                let message = format!("{name}: {port} at {address:#x}, its container has the window at {own:#x}");
                return malformed(message);
            }
        }
        Ok(program)
    }

    /// The program of the container with this hash, and the container's declarations.
    fn program(&mut self, hash: &str) -> Result<Option<(Program, Declared)>> {
        while !self.known.contains_key(hash) {
            let Some(path) = self.left.pop() else { return Ok(None) };
            // Unreadable files are skipped.
            let Ok(bytes) = files::read(&path) else { continue };
            self.known.insert(container_hash(&bytes), path);
        }
        let path = &self.known[hash];
        let malformed = |e: &dyn std::fmt::Display| Diagnostic::new(Code::Malformed, e.to_string()).at(path.display());
        let bytes = files::mapped(path)?;
        let container = Container::read_shared(&bytes).map_err(|e| malformed(&e))?;
        let program = container.program().map_err(|e| malformed(&e))?;
        Ok(Some((program, Declared::of(&bytes))))
    }
}
