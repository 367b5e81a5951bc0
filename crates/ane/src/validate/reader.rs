//! Errors of a reader as refusals of an export, so that `validate` gives the reasons of `check` and `compile`.

use crate::files::{self, Folder};
use crate::model::Choices;
use anemone_check::Refusal;
use anemone_net::{Error, mil, operands, read};
use std::path::Path;

/// The reader's error on a file of any form; `None` if it reads the file, or if the file cannot be opened.
pub fn error(path: &Path, choices: &Choices) -> Option<Error> {
    if path.is_dir() {
        let text = path.join("model.mil");
        return match text.exists() {
            true => error(&text, choices),
            false => read::read_package(&Folder::new(path), &choices.options).err(),
        };
    }
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = Folder::new(choices.model_root.as_deref().unwrap_or(beside));
    let bytes = files::read(path).ok()?;
    match read::sniff(&bytes) {
        Some(read::Format::Mil) => {
            let program = mil::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
            read::read_program(&program, &folder, &choices.options).err()
        }
        _ => read::read(&bytes, &folder, &choices.options).err(),
    }
}

/// The reader's error on MIL text without weight files.
pub fn text_error(text: &str) -> Option<Error> {
    let program = mil::parse(text).ok()?;
    let refused = read::read_program(&program, &read::MemoryFiles::default(), &read::Options::default()).err()?;
    Some(refused).filter(|e| !matches!(e, Error::File { .. }))
}

/// The operation or unit at which the reader stops, by name, with its reason. `None` for errors about other things.
pub fn refused(error: &Error) -> Option<(String, Refusal)> {
    use Error::{Arity, InOp, Missing, NotDefined, OutOfRange, UnknownName};
    let (place, refusal) = match error {
        OutOfRange { place, key, found, least, most } => {
            let limit = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let message = format!("`{key}` is {found}, allowed is {limit}");
            let fix = format!("set {key} to {least}");
            (place, Refusal { quantity: "parameter", limit, fix, ..no_network(message, found.to_string()) })
        }
        NotDefined { op: place, value: name } | UnknownName { place, name } => {
            let message = error.to_string();
            let cause =
                message.strip_prefix(place.as_str()).map_or(message.as_str(), |rest| rest.trim_start_matches(": "));
            (place, no_network(cause.to_string(), name.clone()))
        }
        Missing { place, key } => {
            let message = format!("`{key}` is missing");
            let (limit, fix) = ("every operand that is not optional".to_string(), format!("give {key}"));
            (place, Refusal { quantity: "operation", limit, fix, ..no_network(message, "none".into()) })
        }
        InOp { op: place, source } => {
            let cause = source.to_string();
            let refusal = match source.as_ref() {
                Arity { found, least, most, .. } => {
                    let text = operands(*found, *least, *most);
                    let limit = text.split("takes ").last().unwrap_or_default().to_string();
                    let fix = "give the operands that the layer takes".to_string();
                    Refusal { quantity: "operands", limit, fix, ..no_network(cause, found.to_string()) }
                }
                _ => {
                    let (limit, fix) =
                        ("operands that fit".to_string(), "change the operands or the attributes".to_string());
                    Refusal { quantity: "operation", limit, fix, ..no_network(cause, "others".into()) }
                }
            };
            (place, refusal)
        }
        _ => return None,
    };
    // "unit `y`", "Relu `y`", "concat `y`, operand `values`".
    let name = place.split('`').nth(1)?;
    Some((name.to_string(), refusal))
}

/// Adds the reader's refusal of an operation to those of its validator. An operand that is not defined is not counted by a validator,
/// and a wrong number of operands is one refusal with the reader's words and Apple's text.
pub fn merge(refusals: &mut Vec<(String, Refusal)>, name: &str, read: &Refusal) {
    let counted = |(of, refusal): &(String, Refusal)| of == name && refusal.quantity == "operands";
    match read.quantity {
        "operands" => {
            if let Some((_, said)) = refusals.iter_mut().find(|said| counted(said)) {
                (said.cause, said.message) = (read.cause.clone(), read.message.clone());
                return;
            }
        }
        "operand" => refusals.retain(|said| !counted(said)),
        "operation" if refusals.iter().any(|(of, _)| of == name) => return,
        _ => {}
    }
    refusals.push((name.to_string(), read.clone()));
}

/// The refusal of a file that is not a network.
pub fn no_network(message: String, found: String) -> Refusal {
    Refusal {
        code: "ANE2002",
        cause: message.clone(),
        message,
        quantity: "operand",
        found,
        limit: "a value that is defined earlier".into(),
        apple: None,
        stage: "parser",
        basis: anemone_facts::Basis::Inferred,
        source: "book-legality",
        fix: "define each operand before its use".into(),
    }
}
