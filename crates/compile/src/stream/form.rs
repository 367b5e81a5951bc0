//! Phase 4, weight packing: chooses the stream format of each layer's coefficients.
//!
//! A constant that the model has compressed stays compressed if the chip's streaming gate admits its form
//! ([`anemone_facts::weights`]) and its streams become smaller; otherwise it is expanded to fp16. The numbers are the same
//! either way. The gate also requires unit strides; the book's conditions on dilations and tiles do not occur, because kernels are
//! dilated before lowering and no tile has weights of its own.

use crate::ir::{Graph, Kind, Layer, StreamForm, Weights};
use crate::remarks::Remarks;
use crate::stream::pack::Packing;
use anemone_facts::chips::Chip;
use anemone_facts::weights::{WeightForm, given_palette_bits};
use anemone_net::compress::{Compression, Scales};
use anemone_program::order;
use half::f16;
use std::sync::Arc;

/// Chooses the stream format of every layer's coefficients.
pub(crate) fn choose(graph: &mut Graph, chip: &Chip, reasons: &mut Remarks) {
    for layer in &mut graph.layers {
        if let Some(form) = best(layer, chip, reasons)
            && let Kind::Conv { weights, .. } = &mut layer.kind
        {
            Arc::make_mut(weights).form = form;
        }
    }
}

/// The format with the smallest streams; `None` for fp16.
fn best(layer: &Layer, chip: &Chip, reasons: &mut Remarks) -> Option<StreamForm> {
    let Kind::Conv { weights, window, .. } = &layer.kind else { return None };
    let mut best = None;
    let mut least = Packing::of(layer).total_bytes();
    for form in forms(weights.compression) {
        let gate = form.gate();
        let mut say = |what: String| reasons.say(|| format!("{}: {}: {what}", layer.name, gate.name));
        if gate.open(&chip.hal) != Some(true) {
            say(format!("expanded to fp16, for {} is off in {}", gate.row, chip.target));
            continue;
        }
        if window.stride != [1, 1] {
            say("expanded to fp16, for the gate wants unit strides".into());
            continue;
        }
        let stream = match stream_form(form, weights) {
            Ok(stream) => stream,
            Err(why) => {
                say(format!("expanded to fp16, for {why}"));
                continue;
            }
        };
        let bytes = stream_bytes(layer, &stream);
        if bytes >= least {
            say(format!("not taken, {bytes} bytes of streams are no fewer than {least}"));
            continue;
        }
        say(format!("streams, {bytes} bytes in place of {least}"));
        (least, best) = (bytes, Some(stream));
    }
    best
}

/// Stream formats that keep a constant's compression.
fn forms(compression: Compression) -> impl Iterator<Item = WeightForm> {
    let scaled = compression.scaled.map(|scales| match scales {
        Scales::Channel => WeightForm::Int8,
        Scales::Block => WeightForm::Block,
    });
    // Scales per channel or block change the values of the palette.
    let palette = (compression.palette && scaled.is_none()).then_some(WeightForm::Palette);
    let sparse = compression.sparse.then_some(WeightForm::Sparse);
    palette.into_iter().chain(sparse).chain(scaled)
}

/// The coefficients in a format that the engines read; the error is the reason why there is none.
fn stream_form(form: WeightForm, weights: &Weights) -> Result<StreamForm, &'static str> {
    match form {
        WeightForm::Palette => palette(&weights.values).ok_or("there are more values than an index tells apart"),
        WeightForm::Sparse => Ok(StreamForm::ZeroSkipping),
        WeightForm::Int8 | WeightForm::Block => Err("no source shows how scales reach the engines"),
    }
}

/// The distinct values, and the narrowest index width for them.
fn palette(values: &[f16]) -> Option<StreamForm> {
    let mut seen = vec![false; 1 << 16];
    let mut entries = Vec::new();
    let most = 1 << given_palette_bits().max()?;
    for chunk in values.chunks(4096) {
        // Most values are known already: testing them together avoids writes.
        if chunk.iter().fold(true, |all, value| all & seen[usize::from(value.to_bits())]) {
            continue;
        }
        for &value in chunk {
            let known = &mut seen[usize::from(value.to_bits())];
            if !std::mem::replace(known, true) {
                entries.push(value);
            }
        }
        if entries.len() > most {
            return None;
        }
    }
    let bits = given_palette_bits().find(|bits| entries.len() <= 1 << bits)?;
    order::by(&mut entries, f16::total_cmp);
    Some(StreamForm::Palette { bits, entries: entries.into() })
}

/// Bytes of all streams of a layer with its coefficients in that format.
fn stream_bytes(layer: &Layer, form: &StreamForm) -> u64 {
    let packing = Packing::in_form(layer, form);
    match (&layer.kind, form) {
        // The number of zeros is known only after packing.
        (Kind::Conv { weights, bias, nonlinear, .. }, StreamForm::ZeroSkipping) => {
            packing.streams(weights, bias.as_ref().map(|b| b.as_slice()), nonlinear.table()).0.len() as u64
        }
        _ => packing.total_bytes(),
    }
}
