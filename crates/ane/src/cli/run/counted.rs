//! Outputs with a number of rows that depends on values: the real rows come first, the others are zero, and another output has their number.

use anemone::tensor::Array;
use anemone_program::e5::Counted;

/// Returns true for an output that has the number of real rows of another.
pub fn counts(name: &str, all: &[Counted]) -> bool {
    all.iter().any(|counted| counted.count == name)
}

/// An expectation of the real rows alone, with zeros behind them; `None` if the output has no such rows, or they do not fit. Ports of
/// programs have leading extents of 1 that the model does not have.
pub fn whole(name: &str, wanted: &Array, shape: &[usize], all: &[Counted]) -> Option<Array> {
    let ahead = shape.len().checked_sub(wanted.shape.len())?;
    let axis = all.iter().find(|counted| counted.rows == name)?.axis.checked_add(ahead)?;
    let mut padded = [vec![1; ahead], wanted.shape.clone()].concat();
    let real = std::mem::replace(padded.get_mut(axis)?, *shape.get(axis)?);
    if padded != shape || real > shape[axis] {
        return None;
    }
    let inner: usize = shape[axis + 1..].iter().product();
    let (own, all) = (real * inner, shape[axis] * inner);
    let outer: usize = shape[..axis].iter().product();
    let mut data = vec![0.0; outer * all];
    for at in 0..outer {
        data[at * all..][..own].copy_from_slice(&wanted.data[at * own..][..own]);
    }
    Some(Array { shape: shape.to_vec(), data })
}
