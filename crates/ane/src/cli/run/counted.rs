//! Outputs with a number of rows that depends on values: the real rows come first, the others are zero, and an output `NAME_count` has
//! their number.

use anemone::tensor::Array;

/// Returns true for an output that has the number of real rows of another.
pub fn counts(name: &str, names: &[&str]) -> bool {
    name.strip_suffix("_count").is_some_and(|of| names.contains(&of))
}

/// An expectation of the real rows alone, with zeros behind them; `None` if the output has no such rows, or they do not fit.
pub fn whole(name: &str, wanted: &Array, shape: &[usize], names: &[&str]) -> Option<Array> {
    let mut shorter = (0..shape.len()).filter(|&axis| wanted.shape.get(axis) != Some(&shape[axis]));
    let axis = shorter.next().filter(|_| shorter.next().is_none() && wanted.shape.len() == shape.len())?;
    if wanted.shape[axis] > shape[axis] || !names.iter().any(|other| other.strip_suffix("_count") == Some(name)) {
        return None;
    }
    let inner: usize = shape[axis + 1..].iter().product();
    let (own, all) = (wanted.shape[axis] * inner, shape[axis] * inner);
    let outer: usize = shape[..axis].iter().product();
    let mut data = vec![0.0; outer * all];
    for at in 0..outer {
        data[at * all..][..own].copy_from_slice(&wanted.data[at * own..][..own]);
    }
    Some(Array { shape: shape.to_vec(), data })
}
