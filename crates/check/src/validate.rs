//! Apple's exported validators by name, over the rules of [`super::legal`].

use super::layer::Layer;
use super::legal::{self, Legality, Refusal, Route};
use anemone_facts::Basis;
use anemone_facts::chips::Chip;
use anemone_facts::legal::{NETPLIST_SCHEMA, NETWORK_RULES, NetworkCheck};
use anemone_facts::ops;
use anemone_facts::validators::{self, OTHERS, VALIDATORS, Validator};

/// Every export by name: 50 of layers, then the five others.
pub fn exports() -> impl Iterator<Item = String> {
    VALIDATORS.iter().map(Validator::export).chain(OTHERS.iter().map(|o| o.export.to_string()))
}

/// An exported validator of one layer, to be called by Apple's name.
#[derive(Clone, Copy, Debug)]
pub struct Validate {
    row: &'static Validator,
}

/// The validator of that export name, such as `_ANECValidateConvLayer`, or of that stem.
pub fn by_name(name: &str) -> Option<Validate> {
    validators::by_name(name).map(|row| Validate { row })
}

impl Validate {
    /// Its row.
    pub fn row(self) -> &'static Validator {
        self.row
    }

    /// Runs the validator on a layer. Refusals of later stages, such as code generation, are left out.
    pub fn call(self, layer: &Layer, chip: &Chip) -> Legality {
        let layer = Layer { kind: self.row.stem.to_string(), ..layer.clone() };
        let mut legality = legal::check(&layer, chip, Route::Direct);
        legality.refusals.retain(|r| legal::seen_by_dry_run(r.stage));
        let operands = layer.bottoms.len();
        let counted = legality.refusals.iter().any(|r| r.quantity == "operands");
        if !counted && !(self.row.least as usize..=self.row.most as usize).contains(&operands) {
            legality.refusals.insert(0, arity(self.row, operands));
        }
        legality
    }
}

fn arity(row: &Validator, operands: usize) -> Refusal {
    let limit = if row.least == row.most { row.least.to_string() } else { format!("{} to {}", row.least, row.most) };
    Refusal {
        code: "E17",
        message: format!("{} has {operands} operands, supported: {limit}", row.stem),
        cause: format!("{} has {operands} operands", row.stem),
        quantity: "operands",
        found: operands.to_string(),
        limit,
        apple: None,
        stage: "validator",
        basis: Basis::Decoded,
        source: "validators",
        fix: "give the operands that the layer takes".to_string(),
    }
}

/// A network as the umbrella validator sees it.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Version of its schema.
    pub schema: [u32; 3],
    /// True for two bonded engines.
    pub bonded: bool,
    /// Its layers; the name of each is that of its unit.
    pub layers: Vec<Layer>,
    /// Operations of the module that the layers were made of.
    pub operations: Vec<String>,
}

/// `_ANECValidateNetworkCreate`: runs every layer's own validator, then the network's own checks. Returns each refusal with the position
/// of its layer, `None` for those of the network.
pub fn network_create(network: &Network, chip: &Chip) -> Vec<(Option<usize>, Refusal)> {
    let mut refusals = Vec::new();
    for (at, layer) in network.layers.iter().enumerate() {
        if let Some(validator) = by_name(&layer.kind) {
            refusals.extend(validator.call(layer, chip).refusals.into_iter().map(|r| (Some(at), r)));
        }
    }
    for rule in NETWORK_RULES {
        let found = match rule.check {
            NetworkCheck::Schema => (network.schema > NETPLIST_SCHEMA).then(|| {
                let [a, b, c] = network.schema;
                (format!("{a}.{b}.{c}"), format!("{:?}", NETPLIST_SCHEMA))
            }),
            NetworkCheck::Bonded => (network.bonded && chip.hal.bonded_engines.is_some_and(|n| n < 2))
                .then(|| ("bonded".to_string(), "one engine".to_string())),
            NetworkCheck::UnitNames => {
                let mut names: Vec<&str> = network.layers.iter().map(|l| l.name.as_str()).collect();
                names.sort_unstable();
                names.windows(2).find(|w| w[0] == w[1]).map(|w| (w[0].to_string(), "one unit of that name".to_string()))
            }
            NetworkCheck::Conversion => network
                .operations
                .iter()
                .find(|op| ops::by_name(op).is_none())
                .map(|op| (op.clone(), "an operation with a conversion record".to_string())),
        };
        if let Some((found, limit)) = found {
            let apple = (!rule.apple.is_empty()).then(|| rule.apple.replace("%s", &found));
            refusals.push((
                None,
                Refusal {
                    code: "E33",
                    message: format!("{}: found {found}", rule.meaning),
                    cause: format!("{}: found {found}", rule.meaning),
                    quantity: "network",
                    found,
                    limit,
                    apple,
                    stage: "network",
                    basis: Basis::Decoded,
                    source: "validators",
                    fix: "change the network's description".to_string(),
                },
            ));
        }
    }
    refusals
}

/// `_ANECValidateMutableProcedureInfo`: checks that the exchanged weights of a procedure exist in the program with the same sizes in
/// bytes. Returns the names of those that do not.
pub fn mutable_procedure<'a>(exchanged: &'a [(String, u64)], program: &[(String, u64)]) -> Vec<&'a str> {
    let fits = |weight: &&(String, u64)| !program.contains(weight);
    exchanged.iter().filter(fits).map(|(name, _)| name.as_str()).collect()
}
