//! Explanations of compiled files, field by field.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::model::Model;
use anemone_program::text::{Dump, Selection};
use std::path::Path;

/// The explanation of a compiled file.
pub fn explain(model: &Model, file: &Path, selection: &Selection) -> Result<Dump> {
    Ok(match model {
        Model::Container(container) => Dump::of_container(container, selection),
        Model::Program(program) => Dump::of_program(program, selection),
        Model::Descriptor(descriptor) => Dump::of_descriptor(descriptor, selection),
        Model::Package(package) => Dump::of_package(package, selection),
        Model::Net { .. } => return Err(not_compiled(file)),
    })
}

/// Error for a network in place of a compiled file.
pub fn not_compiled(file: &Path) -> Diagnostic {
    Diagnostic::new(Code::Usage, "the file is a model, not a compiled program")
        .at(file.display())
        .help("compile it first: ane compile MODEL -o out/")
}
