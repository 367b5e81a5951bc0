//! `ane run --by-layer`: every value of a network against plain evaluation.

use super::{Voice, print};
use anemone::compile::program_of;
use anemone::layers::{Layer, compare_layers};
use anemone::tensor::{self, Array};
use anemone::{Diagnostic, Result};
use anemone_compile::Options;
use anemone_facts::chips::Chip;
use anemone_facts::tolerance::NETWORK_FACTOR;
use anemone_net::Net;
use serde_json::json;
use std::path::Path;

/// Least cosine of a value that is not marked.
const COSINE: f64 = 0.999;

/// Compares and prints; exit code 1 where a value differs by more than the tolerance of whole networks.
pub fn run(
    net: &Net,
    chip: &'static Chip,
    options: &Options,
    inputs: &[(String, Array)],
    given: Option<&Path>,
    execution: anemone_engine::Options,
    voice: Voice,
) -> Result<u8> {
    let given = given.map_or(Ok(Vec::new()), tensor::read_npz)?;
    let compile = |part: &Net| program_of(part, chip, options, &mut ());
    let bar = voice.progress("comparing layers".into());
    let layers = compare_layers(net, inputs, &given, execution, &compile);
    bar.finish_and_clear();
    let layers = layers.map_err(|d: Diagnostic| d)?;
    let differs = |l: &Layer| l.refused.is_none() && l.ratio() > NETWORK_FACTOR && l.cosine < COSINE;
    let first = layers.iter().find(|l| differs(l));
    if voice.json {
        let rows: Vec<_> = layers
            .iter()
            .map(|l| {
                json!({ "name": l.name, "op": l.op, "max_abs_error": l.max, "rms_error": l.rms, "rounding_rms": l.rounding_rms,
                        "cosine": l.cosine, "refused": l.refused })
            })
            .collect();
        print(&format!(
            "{}\n",
            json!({ "schema": "anemone.layers/1", "first": first.map(|l| &l.name), "layers": rows })
        ))?;
        return Ok(u8::from(first.is_some()));
    }
    let width = layers.iter().map(|l| l.name.len()).max().unwrap_or(0).clamp(5, 48);
    let mut text = format!(
        "{:width$}  {:20} {:>10} {:>10} {:>9} {:>10}\n",
        "value", "operation", "max error", "rms error", "x fp16", "cosine"
    );
    let mut before = 0.0;
    for layer in &layers {
        if let Some(refused) = &layer.refused {
            text += &format!("{:width$}  {:20} does not compile: {refused}\n", layer.name, layer.op);
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
    text += &match first {
        Some(layer) => format!(
            "first that differs: {} `{}`, {:.1} times what fp16 rounding costs\n",
            layer.op,
            layer.name,
            layer.ratio()
        ),
        None => "no value differs by more than fp16 rounding explains\n".to_string(),
    };
    print(&text)?;
    Ok(u8::from(first.is_some()))
}
