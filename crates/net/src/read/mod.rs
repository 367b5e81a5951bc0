//! Readers of model files. They get bytes and ask [`Files`] for what those bytes refer to.

mod blob;
mod mil;
pub mod mlpackage;
pub mod netplist;
mod property;
mod proto;

pub use mlpackage::{read_mlmodel, read_package};
pub use netplist::read_netplist;

use crate::error::Error;
use crate::graph::Net;
use std::collections::HashMap;

/// Gives the bytes of the files that a model refers to.
///
/// Paths are as the model writes them, relative to where the model (for a package: the package) lies, with `/` between
/// names. Whoever implements it decides what a path may reach.
pub trait Files {
    /// All bytes of a file, or why there are none, worded for the reader of a diagnostic.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;
}

/// Files held in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(pub HashMap<String, Vec<u8>>);

impl Files for MemoryFiles {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.get(path).cloned().ok_or_else(|| "no such file".to_string())
    }
}

/// What a reader makes of a model: the network, not yet checked, and notes, one sentence each, on decisions that the model
/// left open and on meanings that the graph does not carry.
pub type Reading = (Net, Vec<String>);

/// A model format, as told from a file's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Protobuf of a Core ML model (`model.mlmodel`).
    MlModel,
    /// XML or binary property list of a netplist.
    Netplist,
}

/// Tells the format of a model file by its content; `None` if it is neither.
pub fn sniff(bytes: &[u8]) -> Option<Format> {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace())?;
    let text = bytes[start..].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes[start..]);
    if bytes.starts_with(b"bplist") || [&b"<?xml"[..], b"<!DOCTYPE", b"<plist"].iter().any(|m| text.starts_with(m)) {
        return Some(Format::Netplist);
    }
    // A Core ML model begins with its specification version: field 1, a varint.
    (bytes[0] == 0x08).then_some(Format::MlModel)
}

/// Reads a model file of either format; see [`read_mlmodel`] and [`read_netplist`].
pub fn read(bytes: &[u8], files: &dyn Files) -> Result<Reading, Error> {
    match sniff(bytes) {
        Some(Format::MlModel) => read_mlmodel(bytes, files),
        Some(Format::Netplist) => read_netplist(bytes, files),
        None => Err(Error::Syntax {
            place: "model".to_string(),
            reason: "neither a Core ML model nor a property list".to_string(),
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests;
