//! `ane run --by-layer`: every value of a network compared with fp32 evaluation.

use super::super::{Verbosity, print};
use super::tables;
use anemone::layers::{Layer, compare_layers};
use anemone::overview::counted;
use anemone::tensor::{self, Array};
use anemone::{ProgramChain, Result, compile::program_of};
use anemone_compile::Options;
use anemone_facts::chips::Chip;
use anemone_facts::tolerance::NETWORK_FACTOR;
use anemone_net::Net;
use serde_json::json;
use std::path::Path;

/// Least cosine of a value without a mark.
const COSINE: f64 = 0.999;

/// Number of layers in a line.
const NAMED: usize = 4;

/// A comparison with the options of `ane run`.
pub struct Question<'a> {
    /// The network.
    pub net: &'a Net,
    /// The chip to compile for.
    pub chip: &'static Chip,
    /// The compiler's options.
    pub options: &'a Options,
    /// Options of the software engine.
    pub execution: anemone_engine::Options,
    /// Data of the inputs by name.
    pub inputs: &'a [(String, Array)],
    /// File with reference values by name.
    pub given: Option<&'a Path>,
    /// True if host segments are refused.
    pub engine_only: bool,
}

impl Question<'_> {
    /// Compiles and runs a part of the network.
    fn run(&self, part: &Net, inputs: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
        let chain = match self.engine_only {
            true => ProgramChain::of_network(part, program_of(part, self.chip, self.options, &mut ())?),
            false => ProgramChain::whole(part, self.chip, self.options)?.0,
        };
        Ok(chain.execution(self.execution)?.run(inputs)?.outputs)
    }

    /// Text for a layer whose error exceeds the cost of rounding although its result is similar, with the cause if it is a table.
    fn above(&self, layer: &Layer) -> String {
        let function = tables::of(self.net, self.chip, self.options).contains(&layer.name);
        let table = if function { "; the function is one table, which `--activations accurate` avoids" } else { "" };
        format!(
            "first above {NETWORK_FACTOR} times what fp16 rounding costs: {} `{}`, {:.1} times, cosine {:.6}{table}",
            layer.op,
            layer.name,
            layer.ratio(),
            layer.cosine
        )
    }

    /// Compares and prints; exit code 1 if a value differs by more than the tolerance of whole networks, or none could be compared.
    pub fn answer(&self, verbosity: Verbosity) -> Result<u8> {
        let given = self.given.map_or(Ok(Vec::new()), tensor::read_npz)?;
        let bar = verbosity.progress("comparing layers".into());
        let layers = compare_layers(self.net, self.inputs, &given, &|part, inputs| self.run(part, inputs));
        bar.finish_and_clear();
        let layers = layers?;
        for (name, _) in given.iter().filter(|(name, _)| layers.iter().all(|layer| layer.name != *name)) {
            verbosity.note(format!("{name} in the file is not a value of the network and is not compared"));
        }
        let first = layers.iter().find(|l| l.refused.is_none() && l.ratio() > NETWORK_FACTOR && l.cosine < COSINE);
        let missed: Vec<&Layer> = layers.iter().filter(|l| l.refused.is_some()).collect();
        let nothing = missed.len() == layers.len() && !layers.is_empty();
        if verbosity.json {
            let document = json!({
                "schema": "anemone.layers/1", "first": first.map(|l| &l.name), "not_compared": missed.len(),
                "layers": layers.iter().map(row).collect::<Vec<_>>(),
            });
            print(&format!("{document}\n"))?;
        } else {
            if !verbosity.quiet {
                print(&table(&layers))?;
            }
            let above = layers.iter().find(|l| l.refused.is_none() && l.ratio() > NETWORK_FACTOR);
            let above = above.filter(|_| first.is_none()).map(|layer| self.above(layer)).unwrap_or_default();
            print(&verdict(first, &above, &missed, layers.len()))?;
        }
        Ok(u8::from(first.is_some() || nothing))
    }
}

fn row(layer: &Layer) -> serde_json::Value {
    json!({
        "name": layer.name, "op": layer.op, "max_abs_error": layer.max, "rms_error": layer.rms,
        "rounding_rms": layer.rounding_rms, "cosine": layer.cosine, "refused": layer.refused,
    })
}

/// The layers in lines, with a mark at the first whose error grows.
pub fn table(layers: &[Layer]) -> String {
    let width = layers.iter().map(|l| l.name.len()).max().unwrap_or(0).clamp(5, 48);
    let mut text = format!(
        "{:width$}  {:20} {:>10} {:>10} {:>9} {:>10}\n",
        "value", "operation", "max error", "rms error", "x fp16", "cosine"
    );
    let mut before = 0.0;
    for layer in layers {
        if let Some(refused) = &layer.refused {
            text += &format!("{:width$}  {:20} not compared: {refused}\n", layer.name, layer.op);
            continue;
        }
        let ratio = layer.ratio();
        let mark = if ratio > NETWORK_FACTOR && ratio > 2.0 * before { "  <- grows here" } else { "" };
        before = ratio;
        text += &format!(
            "{:width$}  {:20} {:>10.3e} {:>10.3e} {:>9.1} {:>10.6}{mark}\n",
            layer.name, layer.op, layer.max, layer.rms, ratio, layer.cosine
        );
    }
    text
}

/// The first layer that differs, and the layers that could not be compared.
pub fn verdict(first: Option<&Layer>, above: &str, missed: &[&Layer], all: usize) -> String {
    let mut text = match first {
        Some(layer) => format!(
            "first that differs: {} `{}`, {:.1} times what fp16 rounding costs",
            layer.op,
            layer.name,
            layer.ratio()
        ),
        None if !above.is_empty() => above.to_string(),
        None if missed.len() == all && all > 0 => "no value could be compared".to_string(),
        None if missed.is_empty() => "no value differs by more than fp16 rounding explains".to_string(),
        None => "no value of those compared differs by more than fp16 rounding explains".to_string(),
    };
    if !missed.is_empty() {
        let names: Vec<String> = missed.iter().take(NAMED).map(|l| format!("{} `{}`", l.op, l.name)).collect();
        let more = if missed.len() > NAMED { ", ..." } else { "" };
        text += &format!(
            "; {} of {all} not compared, because the network up to there does not compile: {}{more}",
            counted(missed.len(), "layer"),
            names.join(", ")
        );
    }
    text + "\n"
}
