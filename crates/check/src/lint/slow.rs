//! Rules for slow operations. Times are modelled.

use super::Finding;
use crate::legal;
use crate::placement::Placement;
use anemone_facts::weights::WeightForm;
use anemone_net::outline::{Argument, Outline, OutlineOp};

/// Peak multiply-accumulates per cycle of every measured chip.
const MACS_PER_CYCLE: f64 = 4096.0;
/// Shortest call of any measured chip, in seconds.
const CALL_SECONDS: f64 = 60e-6;

pub fn check(outline: &Outline, placement: &Placement, findings: &mut Vec<Finding>) {
    let consumers = outline.consumers();
    for (at, op) in outline.ops.iter().enumerate() {
        if op.op.starts_with("constexpr_") {
            findings.extend(format(op, placement).map(|(code, message)| Finding::new(code, Some(at), message)));
        }
        if op.constant || !placement.verdicts[at].place.on_engine() {
            continue;
        }
        for (code, message) in operation(op, placement) {
            findings.push(Finding::new(code, Some(at), message));
        }
        let both = matches!(op.op.as_str(), "add" | "mul" | "sub") && op.live().count() == 2;
        let products = outline.ops[..at].iter().enumerate().filter(|(before, o)| {
            consumers[*before].contains(&at) && matches!(o.op.as_str(), "conv" | "matmul" | "linear")
        });
        if both && products.count() == 2 {
            let message = "a residual addition of two products is a layer of its own";
            let fix = "none is needed: it costs one pass over the tensor".to_string();
            findings.push(Finding { fix, ..Finding::new("P18", Some(at), message) });
        }
    }
    program(outline, placement, findings);
}

/// Rules on the program as a whole.
fn program(outline: &Outline, placement: &Placement, findings: &mut Vec<Finding>) {
    let Some(clock) = placement.chip.hal.f_max_hz else { return };
    let seconds = placement.macs_engine as f64 / (MACS_PER_CYCLE * clock as f64);
    if placement.macs_engine > 0 && seconds < CALL_SECONDS {
        let macs = placement.macs_engine;
        let message = format!("{macs} multiply-accumulates are little work for one call: its fixed cost dominates");
        findings.push(Finding::new("P01", None, message));
    }
    let operand_limit = placement.chip.hal.max_operand_bytes.unwrap_or(u64::MAX) as usize;
    for input in &outline.inputs {
        let width = input.ty.extents().last().copied().unwrap_or(1);
        if width == 1 || width * input.ty.element_bytes() % 16 != 0 {
            let message = format!(
                "input `{}` has rows of {} bytes: DMA moves 16 at a time",
                input.name,
                width * input.ty.element_bytes()
            );
            findings.push(Finding::new("P07", None, message));
        }
        if input.ty.bytes() >= operand_limit {
            let message =
                format!("input `{}` has {} bytes: copying it on the host is slow", input.name, input.ty.bytes());
            findings.push(Finding::new("P02", None, message));
        }
    }
}

fn operation(op: &OutlineOp, placement: &Placement) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut say = |code, message| found.push((code, message));
    let limit = placement.chip.hal.max_operand_bytes.unwrap_or(u64::MAX) as usize;
    let weight = ["weight", "y"].iter().find_map(|name| op.argument(name));
    let weight_bytes = match weight {
        Some(Argument::Constant(constant)) => constant.ty.bytes(),
        _ => 0,
    };
    let largest = op.live().map(|v| v.ty.bytes()).max().unwrap_or(0);
    let product = matches!(op.op.as_str(), "conv" | "matmul" | "linear" | "conv_transpose");
    if product && largest >= limit {
        say("P03", format!("an operand of {largest} bytes, {limit} stay on chip"));
        if weight_bytes > limit {
            say("P04", format!("{weight_bytes} bytes of weights are read again for every tile of the operand"));
        }
    }
    if placement.chip.hal.kmem_cap_streamed.is_some_and(|cap| weight_bytes as u64 > cap) {
        say("P13", format!("{weight_bytes} bytes of weights in one layer are split"));
    }
    if matches!(op.op.as_str(), "conv" | "linear") && matches!(op.argument("weight"), Some(Argument::Value(_))) {
        say("P23", "weights given at run time".to_string());
    }
    match op.op.as_str() {
        "conv" => {
            let groups = op.number("groups").unwrap_or(1.0) as usize;
            let channels = op.argument("x").map_or(0, |x| x.ty().extents().get(1).copied().unwrap_or(0));
            if !matches!(groups, 0 | 1 | 2 | 4) && groups != channels {
                say("P09", format!("{groups} groups: lanes lose their one-to-one order"));
            }
            let kernel: Vec<usize> =
                op.argument("weight").map_or(vec![], |w| w.ty().extents().split_off(2.min(w.ty().shape.len())));
            let off_one = |name: &str| op.numbers(name).is_some_and(|v| v.iter().any(|&s| s != 1.0));
            if kernel == [3, 3] && (off_one("strides") || off_one("dilations") || groups > 1) && groups != channels {
                say("P11", "a 3 x 3 kernel that is strided, dilated or grouped takes the slow form".to_string());
            }
            let strides = op.numbers("strides").unwrap_or_default();
            if strides.iter().any(|&s| !legal::stride_factors(s as i64)) {
                say("P28", format!("strides {strides:?} are taken apart"));
            }
        }
        "matmul" | "linear" => {
            let extents = op.argument("x").map(|x| x.ty().extents()).unwrap_or_default();
            let inner = extents.last().copied().unwrap_or(0);
            let rows: usize = extents.iter().rev().skip(1).product();
            if rows <= 8 && matches!(inner, 4096 | 8192) {
                say("P05", format!("{rows} rows by {inner}: powers of two stream slowly on some chips"));
            }
            if op.op == "linear" && rows == 1 {
                say("P10", "one row: a 1x1 convolution does the same".to_string());
            }
        }
        "scaled_dot_product_attention" => {
            let keys = op.argument("key").and_then(|k| k.ty().extents().iter().rev().nth(1).copied()).unwrap_or(0);
            say("P18", "native attention cuts the program into segments".to_string());
            if keys >= 1024 {
                say("P19", format!("scores over {keys} positions in one piece"));
            }
        }
        "transpose" => {
            let longest = op.argument("x").and_then(|x| x.ty().extents().iter().max().copied()).unwrap_or(0);
            if placement.chip.hal.max_transpose_width.is_some_and(|most| longest as u64 > most) {
                say("P27", format!("an extent of {longest} takes several passes"));
            }
        }
        _ => {}
    }
    found
}

/// Compressed weights that a chip decompresses in advance, so that they save no bandwidth.
fn format(op: &OutlineOp, placement: &Placement) -> Option<(&'static str, String)> {
    let form = match op.op.as_str() {
        "constexpr_affine_dequantize" => WeightForm::Int8,
        "constexpr_blockwise_shift_scale" | "constexpr_sparse_blockwise_shift_scale" => WeightForm::Block,
        "constexpr_sparse_to_dense" | "constexpr_lut_to_sparse" => WeightForm::Sparse,
        "constexpr_lut_to_dense" => {
            let entries = op.argument("lut").map_or(0, |l| l.ty().elements());
            if entries > 0 && entries <= 4 {
                return Some(("P17", format!("a palette of {entries} entries is not streamed")));
            }
            WeightForm::Palette
        }
        _ => return None,
    };
    let gate = form.gate();
    (gate.open(&placement.chip.hal) == Some(false))
        .then(|| ("P14", format!("{} become fp16 before they are streamed", gate.name)))
}
