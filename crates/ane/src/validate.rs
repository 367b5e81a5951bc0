//! Apple's exported validators applied to files: a netplist and its units, a module of MIL or a package, weights to be exchanged.
//!
//! Each calls [`anemone_check::exports::call`], the function behind the verdicts of the dry run and the compiler.

mod reader;

use crate::check::{Subject as Loaded, load};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use crate::model::{Choices, Model};
use anemone_check::describe;
use anemone_check::exports::{Subject, call};
use anemone_check::validate::{Network, exports};
use anemone_check::{Layer, Refusal};
use anemone_facts::chips::Chip;
use anemone_facts::legal::Quantity;
use anemone_facts::native;
use anemone_net::opset;
use anemone_net::outline::Outline;
use anemone_net::read::{self, UnitOutline};
use std::path::Path;

/// Verdict of an export on a subject.
#[derive(Clone, Debug)]
pub struct Said {
    /// The export.
    pub export: String,
    /// Subject of the call: a unit, an operation, a network.
    pub subject: String,
    /// Refusals; empty if it accepts the subject.
    pub refusals: Vec<Refusal>,
}

/// Every export by name.
pub fn all_exports() -> impl Iterator<Item = String> {
    exports()
}

/// Weights, each with its size in bytes.
pub type Sizes = [(String, u64)];

/// Verdicts of every export that applies to the file. For a netplist, each unit and the whole are validated; others as a module.
///
/// `only` is the name of an export or of a unit; `exchanged` are weights to be exchanged, compared with those of the network.
///
/// Errors: files that cannot be read, unknown names.
pub fn validate(
    path: &Path,
    choices: &Choices,
    chip: &'static Chip,
    only: Option<&str>,
    exchanged: &Sizes,
) -> Result<Vec<Said>> {
    let mut all = match path.is_file().then(|| files::read(path)).transpose()? {
        Some(bytes) if read::sniff(&bytes) == Some(read::Format::Netplist) => netplist(path, &bytes, choices, chip)?,
        _ => module(path, choices, chip)?,
    };
    if !exchanged.is_empty() {
        let export = "_ANECValidateMutableProcedureInfo";
        let program = weights(&Model::load_with(path, choices)?);
        let said = call(export, Subject::Procedure { exchanged, program: &program }, chip).unwrap_or_default();
        let subject = "procedure".to_string();
        all.push(Said { export: export.into(), subject, refusals: said.into_iter().map(|(_, r)| r).collect() });
    }
    let Some(only) = only else { return Ok(all) };
    all.retain(|said| said.export == only || said.subject == only);
    if all.is_empty() {
        let message = match exports().any(|e| e == only) {
            true => format!("{only} applies to nothing in this file"),
            false => format!("no export, unit or operation is called {only}"),
        };
        return Err(Diagnostic::new(Code::Usage, message)
            .at(path.display())
            .help("`ane ops --layers` lists the exports"));
    }
    Ok(all)
}

/// Named constants with their sizes in bytes.
fn weights(model: &Model) -> Vec<(String, u64)> {
    let Model::Net { net, .. } = model else { return Vec::new() };
    let constants = net.values.iter().filter_map(|v| Some((v.name.clone(), v.data.as_ref()?)));
    constants.map(|(name, tensor)| (name, (tensor.data.len() * tensor.data.dtype().bytes()) as u64)).collect()
}

/// A module of the intermediate language, by the verdict of each operation. What the reader refuses is refused for the reader's reason.
fn module(path: &Path, choices: &Choices, chip: &'static Chip) -> Result<Vec<Said>> {
    let read = reader::error(path, choices);
    let stopped = read.as_ref().and_then(reader::refused);
    let outline = match load(path, choices) {
        Ok(Loaded::Program(outline, _)) => Some(outline),
        Ok(_) => return Err(Diagnostic::new(Code::Usage, "a compiled file has no module").at(path.display())),
        Err(refused) if stopped.is_none() => return Err(refused),
        Err(_) => None,
    };
    let strange = outline.as_deref().and_then(strange_argument);
    // Other formats have other names of arguments: only what the reader refuses counts.
    let strange = strange.filter(|(_, reason)| read.as_ref().is_some_and(|e| e.to_string().contains(reason)));
    let malformed =
        || Model::load_with(path, choices).err().filter(|e| e.code == Code::Malformed && e.details.is_none());
    let whole = stopped.is_none().then(malformed).flatten();
    let mut all = Vec::new();
    for export in ["_ANECValidateMPSModule", "_ANECValidateMPSModuleCreate"] {
        let mut refusals = outline.as_deref().map_or_else(Vec::new, |outline| of_module(export, outline, chip));
        if let Some((name, refusal)) = &stopped {
            reader::merge(&mut refusals, name, refusal);
        }
        let mut refusals: Vec<Refusal> = refusals.into_iter().map(named).collect();
        // A file that is not a network is not a module either.
        refusals.extend(whole.iter().map(|refused| reader::no_network(refused.message.clone(), "none".into())));
        refusals.extend(strange.iter().map(|(refusal, _)| refusal.clone()));
        all.push(Said { export: export.into(), subject: "module".into(), refusals });
    }
    Ok(all)
}

/// Refusals of an export for modules, each with the name of its operation.
fn of_module(export: &str, outline: &Outline, chip: &'static Chip) -> Vec<(String, Refusal)> {
    let found = call(export, Subject::Module(outline), chip).unwrap_or_default();
    let name = |at: Option<usize>| at.and_then(|at| outline.ops.get(at)).map_or("module", |op| op.name.as_str());
    found.into_iter().map(|(at, refusal)| (name(at).to_string(), refusal)).collect()
}

/// A refusal whose text begins with the name of what it concerns.
fn named((name, refusal): (String, Refusal)) -> Refusal {
    match name.is_empty() {
        true => refusal,
        false => Refusal { cause: format!("{name}: {}", refusal.cause), ..refusal },
    }
}

/// The refusal of the first operation with an argument that it does not have, and the reader's reason.
fn strange_argument(module: &Outline) -> Option<(Refusal, String)> {
    module.ops.iter().find_map(|op| {
        let reason = opset::row(&op.op)?.lacks(op.arguments.iter().map(|(name, _)| name.as_str()))?;
        let message = format!("`{}`: {} is not supported: {reason}", op.name, op.op);
        let limit = "the arguments of the operation".to_string();
        let fix = "leave the argument out".to_string();
        Some((
            Refusal { code: "ANE1001", limit, fix, ..reader::no_network(message, op.arguments.len().to_string()) },
            reason,
        ))
    })
}

/// Verdict of an export on a text: a netplist for layers and networks, MIL text for modules, and for a procedure lines of
/// `exchange NAME=BYTES` and `weight NAME=BYTES`.
///
/// Errors: texts that cannot be read, unknown exports; a netplist without a unit of the layer's kind.
pub fn validate_text(export: &str, text: &str, chip: &'static Chip) -> Result<Vec<Refusal>> {
    let malformed = |e: anemone_net::Error| Diagnostic::new(Code::Malformed, e.to_string());
    let of = |subject: Subject| call(export, subject, chip).map(|said| said.into_iter().map(|(_, r)| r).collect());
    let found: Option<Vec<Refusal>> = match export {
        "_ANECValidateMPSModule" | "_ANECValidateMPSModuleCreate" => {
            let outline = read::outline_mil(text.as_bytes(), &read::Options::default()).map_err(malformed)?;
            let strange = strange_argument(&outline).map(|(refusal, _)| refusal);
            let mut refusals = of_module(export, &outline, chip);
            if let Some((name, refusal)) = reader::text_error(text).as_ref().and_then(reader::refused) {
                reader::merge(&mut refusals, &name, &refusal);
            }
            Some(refusals.into_iter().map(|(_, refusal)| refusal).chain(strange).collect())
        }
        "_ANECValidateMutableProcedureInfo" => {
            let list = |word: &str| -> Vec<(String, u64)> {
                let rest = text.lines().filter_map(|line| line.trim().strip_prefix(word)?.trim().split_once('='));
                rest.filter_map(|(name, bytes)| Some((name.to_string(), bytes.parse().ok()?))).collect()
            };
            of(Subject::Procedure { exchanged: &list("exchange "), program: &list("weight ") })
        }
        _ => {
            let (files, options) = (read::MemoryFiles::default(), read::Options::default());
            let (network, unreadable) = network(text.as_bytes(), &files, &options).map_err(malformed)?;
            if export == "_ANECValidateNetworkCreate" {
                Some(of_network(&network, &unreadable, chip).into_iter().map(|(_, refusal)| refusal).collect())
            } else {
                let kind =
                    |layer: &&Layer| export == "_ANECValidate" || export == format!("_ANECValidate{}Layer", layer.kind);
                let layers: Vec<&Layer> = network.layers.iter().filter(kind).collect();
                let all = layers.iter().flat_map(|layer| of_layer(export, layer, &unreadable, chip));
                (!layers.is_empty()).then(|| all.collect())
            }
        }
    };
    let unknown = || match exports().any(|e| e == export) {
        true => format!("{export} applies to nothing in the text"),
        false => format!("no export is called {export}"),
    };
    found.ok_or_else(|| Diagnostic::new(Code::Usage, unknown()))
}

/// A unit by name, with its refusal by the reader.
type Unreadable = Option<(String, Refusal)>;

/// Layers of a netplist, with the extents of every operand if the reader accepts them, else with those stated in the file; and the
/// unit with a parameter out of range, at which the reader stops.
fn network(
    bytes: &[u8],
    files: &dyn read::Files,
    options: &read::Options,
) -> std::result::Result<(Network, Unreadable), anemone_net::Error> {
    let stated = read::outline_netplist(bytes)?;
    let (read, unreadable) = match read::read_netplist(bytes, files, options) {
        Ok((net, _)) => (Some(Outline::of(&net)), None),
        Err(error) => (None, reader::refused(&error)),
    };
    let mut network = Network { schema: stated.schema, bonded: stated.bonded, ..Network::default() };
    for unit in &stated.units {
        let known = read.iter().flat_map(|outline| &outline.ops).find(|op| op.name == unit.name);
        let layer = known.and_then(|op| describe::layers(op).into_iter().next());
        network.layers.push(Layer { name: unit.name.clone(), ..layer.unwrap_or_else(|| as_stated(unit)) });
    }
    Ok((network, unreadable))
}

/// A netplist: each unit by its own validator, then all by the umbrella.
fn netplist(path: &Path, bytes: &[u8], choices: &Choices, chip: &'static Chip) -> Result<Vec<Said>> {
    let malformed = |e: anemone_net::Error| Diagnostic::new(Code::Malformed, e.to_string()).at(path.display());
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = files::Folder::new(choices.model_root.as_deref().unwrap_or(beside));
    let (network, unreadable) = network(bytes, &folder, &choices.options).map_err(malformed)?;
    let mut all = Vec::new();
    for layer in &network.layers {
        let export = format!("_ANECValidate{}Layer", layer.kind);
        let refusals = of_layer("_ANECValidate", layer, &unreadable, chip);
        all.push(Said { export, subject: layer.name.clone(), refusals });
    }
    let refusals = of_network(&network, &unreadable, chip).into_iter().map(named).collect();
    all.push(Said { export: "_ANECValidateNetworkCreate".into(), subject: "network".into(), refusals });
    Ok(all)
}

/// Refusals of a layer by an export, with those of the reader.
fn of_layer(export: &str, layer: &Layer, unreadable: &Unreadable, chip: &'static Chip) -> Vec<Refusal> {
    let said = call(export, Subject::Layer(layer), chip).unwrap_or_default();
    let mut refusals = said.into_iter().map(|(_, refusal)| (layer.name.clone(), refusal)).collect();
    if let Some((_, refusal)) = unreadable.as_ref().filter(|(unit, _)| *unit == layer.name) {
        reader::merge(&mut refusals, &layer.name, refusal);
    }
    refusals.into_iter().map(|(_, refusal)| refusal).collect()
}

/// Refusals of a network by the umbrella, each with the name of its unit, with those of the reader.
fn of_network(network: &Network, unreadable: &Unreadable, chip: &'static Chip) -> Vec<(String, Refusal)> {
    let found = call("_ANECValidateNetworkCreate", Subject::Network(network), chip).unwrap_or_default();
    let name = |at: Option<usize>| at.and_then(|at| network.layers.get(at)).map_or("", |layer| layer.name.as_str());
    let mut refusals = found.into_iter().map(|(at, refusal)| (name(at).to_string(), refusal)).collect();
    if let Some((unit, refusal)) = unreadable {
        reader::merge(&mut refusals, unit, refusal);
    }
    refusals
}

/// A unit in the form of a validator, from the file's statements alone.
fn as_stated(unit: &UnitOutline) -> Layer {
    let kind = native::by_tag(&unit.kind).map_or(unit.kind.as_str(), |row| row.stem);
    let mut layer = Layer::new(kind, &unit.name);
    for bottom in &unit.bottoms {
        layer = layer.bottom(bottom.as_deref().unwrap_or(&[1, 1, 1, 1]), "fp16");
    }
    if let (Some(channels), Some(first)) = (unit.output_channels, unit.bottoms.first().cloned().flatten()) {
        let mut extents = first;
        extents[1] = channels;
        layer = layer.top(&extents, "fp16");
    }
    let keys = [
        ("KernelWidth", Quantity::KernelWidth),
        ("KernelHeight", Quantity::KernelHeight),
        ("KernelDepth", Quantity::KernelDepth),
        ("Groups", Quantity::Groups),
        ("NumGroups", Quantity::Groups),
        ("PadLeft", Quantity::PadLeft),
        ("K", Quantity::K),
    ];
    for (key, quantity) in keys {
        if let Some(&value) = unit.numbers.get(key) {
            layer = layer.with(quantity, value);
        }
    }
    layer
}
