//! Weights that are no numbers.

use super::{Warning, warning};
use anemone_net::{Binary, Data, Net, OpKind, ValueId};

/// Returns true for an operation that tells NaN from numbers: a constant NaN may be meant there.
fn tells(kind: &OpKind) -> bool {
    match kind {
        OpKind::Select | OpKind::Binary(Binary::Pow) => true,
        OpKind::Binary(f) => f.is_comparison(),
        _ => false,
    }
}

/// Position of the first NaN.
fn first_nan(data: &Data) -> Option<usize> {
    match data.as_f16() {
        Some(values) => values.iter().position(|x| x.is_nan()),
        None if data.dtype().is_float() => data.to_f32().iter().position(|x| x.is_nan()),
        None => None,
    }
}

/// The first constant with NaN that an operation computes with.
pub(super) fn nan_weights(net: &Net) -> Option<Warning> {
    let computed = net.ops.iter().filter(|op| !tells(&op.kind)).flat_map(|op| &op.inputs);
    let found = |&id: &ValueId| {
        let value = net.value(id);
        let at = first_nan(&value.data.as_deref()?.data)?;
        Some(warning(
            "nan-weights",
            &value.name,
            format!("holds NaN, first at element {at}: repair the model's weights"),
        ))
    };
    computed.into_iter().find_map(found)
}
