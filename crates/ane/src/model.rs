//! Any supported file: a network to compile, or a program already compiled. Kind is decided by content first.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files::{self, Folder};
use anemone_compile::{Log, Options};
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_net::read;
use anemone_program::hwx::Container;
use anemone_program::{Program, raw};
use std::path::Path;

/// What a file holds.
#[derive(Debug)]
pub enum Model {
    /// A network, and what its reader wants said.
    Net {
        /// The network, checked.
        net: Box<Net>,
        /// Choices the reader made, for example a default among flexible shapes.
        notes: Vec<String>,
    },
    /// A compiled container.
    Container(Box<Container>),
    /// A raw task stream with kernel data.
    Program(Box<Program>),
}

/// A program and where it comes from.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// The network it was compiled from, if any: names and extents of inputs and outputs.
    pub net: Option<Box<Net>>,
}

/// First bytes of a compiled container, little-endian `0xbeefface`.
const HWX_MAGIC: [u8; 4] = anemone_facts::formats::hwx::MAGIC.to_le_bytes();

impl Model {
    /// Reads a file or package.
    pub fn load(path: &Path) -> Result<Model> {
        if path.is_dir() {
            return checked(path, read::read_package(&Folder::new(path)));
        }
        let bytes = files::read(path)?;
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let folder = Folder::new(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")));
        if bytes.starts_with(&HWX_MAGIC) {
            let container = Container::read(&bytes).map_err(|e| malformed(path, e))?;
            return Ok(Model::Container(Box::new(container)));
        }
        match extension {
            "bin" => Ok(Model::Program(Box::new(raw::read_bin(&bytes).map_err(|e| malformed(path, e))?))),
            "anec" | "ane" => Ok(Model::Program(Box::new(raw::read_anec(&bytes).map_err(|e| malformed(path, e))?))),
            _ if read::sniff(&bytes).is_some() => checked(path, read::read(&bytes, &folder)),
            _ => Err(Diagnostic::new(Code::Malformed, "not a file this program reads")
                .at(path.display())
                .help("known: .mlpackage, .mlmodel, netplists (.plist), compiled .hwx, .anec and .bin")),
        }
    }

    /// The program: compiled for `chip` from a network, or as the file has it.
    pub fn compile(self, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Compiled> {
        match self {
            Model::Net { net, .. } => {
                let program = anemone_compile::compile(&net, chip, options, log)?;
                Ok(Compiled { program, net: Some(net) })
            }
            Model::Container(container) => {
                let program = container.program().map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?;
                Ok(Compiled { program, net: None })
            }
            Model::Program(program) => Ok(Compiled { program: *program, net: None }),
        }
    }
}

fn malformed(path: &Path, error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::Malformed, error.to_string()).at(path.display())
}

fn checked(path: &Path, reading: std::result::Result<(Net, Vec<String>), anemone_net::Error>) -> Result<Model> {
    let (net, notes) = reading.map_err(|e| match e {
        anemone_net::Error::Unsupported { .. } => Diagnostic::new(Code::UnsupportedOp, e.to_string())
            .at(path.display())
            .help("keep this operation on the host, or rewrite it with operations that are read"),
        e => malformed(path, e),
    })?;
    match anemone_net::check::check(&net) {
        Ok(()) => Ok(Model::Net { net: Box::new(net), notes }),
        Err(errors) => {
            let text: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            Err(malformed(path, text.join("; ")))
        }
    }
}
