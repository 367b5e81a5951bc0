//! Readers of model files. They receive bytes, and request further files from [`Files`].

pub(crate) mod blob;
mod mil;
pub mod mlpackage;
pub mod netplist;
pub mod npy;
pub(crate) mod onnx;
mod outline;
pub(crate) mod packed;
mod property;

pub use mlpackage::{
    outline, outline_mil, outline_mlmodel, outline_package, package_file, package_program, read_mil, read_mlmodel,
    read_package, read_program,
};
pub use netplist::{NetplistOutline, UnitOutline, netplist_procedures, outline_netplist, read_netplist};
pub use onnx::{outline_onnx, read_onnx};

use crate::error::Error;
use crate::graph::Net;
pub use bytes::Bytes;
use std::collections::HashMap;

/// Provides the files that a model refers to.
///
/// Paths are as written in the model, relative to the model (or to the package), with `/` between
/// names. The implementation decides which paths are accessible.
pub trait Files {
    /// All bytes of a file. Errors: the reason, worded for a diagnostic. Weights are views of these bytes, so
    /// they live as long as the network does.
    fn read(&self, path: &str) -> Result<Bytes, String>;
}

/// Files held in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(pub HashMap<String, Bytes>);

impl Files for MemoryFiles {
    fn read(&self, path: &str) -> Result<Bytes, String> {
        self.0.get(path).cloned().ok_or_else(|| "no such file".to_string())
    }
}

/// Elements of a tensor as integers.
fn values_of(tensor: &crate::graph::Tensor) -> impl Iterator<Item = i32> {
    tensor.data.to_i32().into_iter()
}

/// Options for choices that a model leaves open.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the function, procedure or network to read, if the model has several.
    pub function: Option<String>,
    /// Extents by name: of a symbolic dimension, or of `input.axis` for an unnamed one.
    pub extents: HashMap<String, usize>,
    /// Shapes of arrays by input, which give the extents that model and `extents` leave open. An empty name stands for the only input.
    pub shapes: HashMap<String, Vec<usize>>,
    /// Values of integer inputs of an ONNX model, which become constants.
    pub values: HashMap<String, Vec<i64>>,
}

impl Options {
    /// Shape of the array for an input; `only` is true if the model has no other.
    fn shape_of(&self, input: &str, only: bool) -> Option<&[usize]> {
        let shape = self.shapes.get(input).or_else(|| self.shapes.get("").filter(|_| only));
        shape.map(Vec::as_slice).filter(|shape| !shape.contains(&0))
    }
}

/// Result of a reader: the network, not yet checked, and notes, one sentence each, on decisions that the model
/// leaves open and on properties that the graph does not represent.
pub type Reading = (Net, Vec<String>);

/// A model format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Protobuf of a Core ML model (`model.mlmodel`).
    MlModel,
    /// XML or binary property list of a netplist.
    Netplist,
    /// MIL text.
    Mil,
    /// Protobuf of an ONNX model.
    Onnx,
}

/// Detects the format of a model file from its content; `None` if it is unknown. Compressed netplists are netplists.
pub fn sniff(bytes: &[u8]) -> Option<Format> {
    if packed::is_packed(bytes) {
        return Some(Format::Netplist);
    }
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace())?;
    let text = bytes[start..].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes[start..]);
    if bytes.starts_with(b"bplist") || [&b"<?xml"[..], b"<!DOCTYPE", b"<plist"].iter().any(|m| text.starts_with(m)) {
        return Some(Format::Netplist);
    }
    if text.starts_with(b"program") && text[7..].trim_ascii_start().starts_with(b"(") {
        return Some(Format::Mil);
    }
    // Both begin with a version: field 1, a varint. One continues with a description (field 2), the other with any of
    // fields 2 to 8, where 2 is the producer's name and a graph (field 7) is required.
    if bytes[0] != 0x08 {
        return None;
    }
    Some(if onnx::looks_like(bytes) { Format::Onnx } else { Format::MlModel })
}

impl Options {
    /// Refuses values of inputs, for formats that take none.
    fn without_values(&self) -> Result<(), Error> {
        let Some(name) = self.values.keys().next() else { return Ok(()) };
        let reason = "only inputs of ONNX models are given values before the model runs".to_string();
        Err(Error::Unsupported { op: "a value for an input".to_string(), output: name.clone(), reason })
    }

    /// Refuses extents that the network does not have: the model fixes them, or has no such input. Names of symbolic dimensions are not looked
    /// at, which only ONNX models have.
    fn taken_by(&self, read: Reading) -> Result<Reading, Error> {
        let net = &read.0;
        let inputs = || net.inputs.iter().map(|&id| net.value(id));
        let mut names: Vec<&String> = self.extents.keys().collect();
        names.sort_unstable();
        for name in names {
            let Some((input, axis)) = name.rsplit_once('.') else { continue };
            let Ok(axis) = axis.parse::<usize>() else { continue };
            let reason = match inputs().find(|value| value.name == input) {
                Some(value) if value.ty.shape.get(axis) == self.extents.get(name) => continue,
                Some(value) => format!("the model gives `{input}` the shape {:?}", value.ty.shape),
                // Computed lengths have names of values, which may end in a number too.
                None if self.values.contains_key(input) || net.values.iter().any(|value| value.name == *name) => {
                    continue;
                }
                None => {
                    let names: Vec<&str> = inputs().map(|value| value.name.as_str()).collect();
                    format!("the inputs are `{}`", names.join("`, `"))
                }
            };
            return Err(Error::OtherExtent { name: name.clone(), reason });
        }
        Ok(read)
    }
}

/// Reads a model file of any format; see [`read_mlmodel`], [`read_mil`], [`read_onnx`] and [`read_netplist`].
pub fn read(bytes: &[u8], files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    read_shared(&Bytes::copy_from_slice(bytes), files, options)
}

/// As [`read`]; constants of the file are views of its bytes where its format allows.
pub fn read_shared(bytes: &Bytes, files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    let format = sniff(bytes);
    if format != Some(Format::Onnx) {
        options.without_values()?;
    }
    let read = match format {
        Some(Format::MlModel) => read_mlmodel(bytes, files, options),
        Some(Format::Netplist) => read_netplist(bytes, files, options),
        Some(Format::Mil) => read_mil(bytes, files, options),
        Some(Format::Onnx) => {
            // A graph is a single function without a name.
            match &options.function {
                Some(name) if name != "main" => {
                    Err(Error::NoFunction { name: name.clone(), known: "main alone".into() })
                }
                _ => onnx::read_shared(bytes, files, options),
            }
        }
        None => Err(Error::Syntax {
            place: "model".to_string(),
            reason: "neither a Core ML or ONNX model, nor MIL text, nor a property list".to_string(),
        }),
    }?;
    options.taken_by(read)
}
