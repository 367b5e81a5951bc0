//! The 55 exports by Apple's names, behind one function for all of their argument types.

use super::Route;
use super::layer::Layer;
use super::legal::Refusal;
use super::validate::{self, Network};
use anemone_facts::Basis;
use anemone_facts::chips::Chip;
use anemone_net::outline::Outline;

/// Argument of an export.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// One layer: `_ANECValidate` and the 50 validators of layers.
    Layer(&'a Layer),
    /// A network: `_ANECValidateNetworkCreate`.
    Network(&'a Network),
    /// A module of the intermediate language: `_ANECValidateMPSModule` and `_ANECValidateMPSModuleCreate`.
    Module(&'a Outline),
    /// Weights to be exchanged and those that the program has, with their sizes in bytes:
    /// `_ANECValidateMutableProcedureInfo`.
    Procedure {
        /// Names and bytes of the weights to be exchanged.
        exchanged: &'a [(String, u64)],
        /// Names and bytes of the weights that the program has.
        program: &'a [(String, u64)],
    },
}

/// Calls an export by name. Returns its refusals, each with the position of its layer or operation where it has one;
/// `None` where no export has that name or the export takes another subject.
pub fn call(export: &str, subject: Subject, chip: &Chip) -> Option<Vec<(Option<usize>, Refusal)>> {
    let of_layer = |name: &str, layer: &Layer| {
        let said = validate::by_name(name)?.call(layer, chip);
        Some(said.refusals.into_iter().map(|r| (None, r)).collect())
    };
    match (export, subject) {
        ("_ANECValidate", Subject::Layer(layer)) => of_layer(&layer.kind, layer),
        ("_ANECValidateNetworkCreate", Subject::Network(network)) => Some(validate::network_create(network, chip)),
        ("_ANECValidateMPSModule" | "_ANECValidateMPSModuleCreate", Subject::Module(module)) => Some(
            module
                .ops
                .iter()
                .enumerate()
                .filter_map(|(at, op)| Some((Some(at), super::place::refusal(op, module, chip, Route::Framework)?)))
                .collect(),
        ),
        ("_ANECValidateMutableProcedureInfo", Subject::Procedure { exchanged, program }) => {
            let unfit = validate::mutable_procedure(exchanged, program);
            Some(unfit.into_iter().map(|name| (None, stranger(name))).collect())
        }
        (export, Subject::Layer(layer)) if export.starts_with("_ANECValidate") => of_layer(export, layer),
        _ => None,
    }
}

fn stranger(name: &str) -> Refusal {
    Refusal {
        code: "E33",
        cause: format!("the program has no weight `{name}`"),
        message: format!("the program has no weight `{name}` of that size"),
        quantity: "weight",
        found: name.to_string(),
        limit: "weights of the program, with their sizes".to_string(),
        apple: None,
        stage: "network",
        basis: Basis::Decoded,
        source: "validators",
        fix: "exchange weights that the program has, with as many bytes".to_string(),
    }
}
