//! Consecutive transposes with elementwise operations between them.

use super::makers;
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Net, OpKind, ValueId};

/// Merges a transpose with transposes before it, directly or behind elementwise operations; inverse ones cancel
/// (the book, table 22.3: `CollapseTranspose`).
///
/// Regions of operations (`layouts`) move before the transposes first. Barriers for the rest: intermediate values with other readers,
/// operands with another permutation, non-scalar constants.
pub fn collapse_transposes(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    super::layouts::straighten(net, reasons)?;
    // A merge enables no other one at an earlier transpose: no value between transposes loses a reader.
    let (mut uses, makers) = (net.read_counts(), makers(net));
    for at in 0..net.ops.len() {
        while let Some(path) = found(net, &uses, &makers, at) {
            reasons.say(|| format!("{}: one with the transposes before it", net.ops[at].name));
            collapse(net, &mut uses, &makers, at, &path);
        }
    }
    let identity = |perm: &[usize]| perm.iter().enumerate().all(|(i, &p)| i == p);
    for op in &mut net.ops {
        if matches!(&op.kind, OpKind::Transpose { perm } if identity(perm)) {
            op.kind = OpKind::Unary(anemone_net::Unary::Identity);
        }
    }
    super::eliminate_identities(net);
    Ok(())
}

/// Elementwise operations between a transpose and the transposes before it.
struct Path {
    /// Permutation of all transposes before it.
    perm: Vec<usize>,
    /// Operations in between.
    between: Vec<usize>,
}

/// The way to other transposes before this one, if it can be merged with them.
fn found(net: &Net, uses: &[usize], makers: &[Option<usize>], at: usize) -> Option<Path> {
    let OpKind::Transpose { .. } = net.ops[at].kind else { return None };
    let mut path = Path { perm: Vec::new(), between: Vec::new() };
    let turned = behind(net, uses, makers, net.ops[at].inputs[0], &mut path);
    (turned && !path.perm.is_empty()).then_some(path)
}

/// Returns true if a value is computed elementwise from transposed values with one permutation and scalar constants alone, and every
/// intermediate result has one reader. Adds the operations in between to `path`.
fn behind(net: &Net, uses: &[usize], makers: &[Option<usize>], id: ValueId, path: &mut Path) -> bool {
    let single = |id: ValueId| net.value(id).data.is_some() && net.value(id).ty.elements() == 1;
    // A list in place of recursion: chains may be longer than the stack. A value with one reader is met once.
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        let Some(at) = makers[id.0 as usize] else { return false };
        let op = &net.ops[at];
        match &op.kind {
            OpKind::Transpose { perm } if path.perm.is_empty() || path.perm == *perm => path.perm.clone_from(perm),
            OpKind::Unary(_) | OpKind::Binary(_) if uses[id.0 as usize] == 1 && !net.outputs.contains(&id) => {
                let shape = &net.value(id).ty.shape;
                let live = open.len();
                open.extend(op.inputs.iter().copied().filter(|&x| !single(x)));
                if open.len() == live || open[live..].iter().any(|&x| net.value(x).ty.shape != *shape) {
                    return false;
                }
                path.between.push(at);
            }
            _ => return false,
        }
    }
    true
}

/// Moves the operations before the transposes and merges these into one.
fn collapse(net: &mut Net, uses: &mut [usize], makers: &[Option<usize>], at: usize, path: &Path) {
    let shape_before = |shape: &[usize]| {
        let mut before = vec![0; shape.len()];
        path.perm.iter().enumerate().for_each(|(i, &axis)| before[axis] = shape[i]);
        before
    };
    // Replaces a transposed operand by that of the transpose.
    let mut replace = |net: &mut Net, reader: usize, i: usize| {
        let id = net.ops[reader].inputs[i];
        let Some(maker) = makers[id.0 as usize].map(|at| &net.ops[at]) else { return };
        if let (OpKind::Transpose { .. }, x) = (&maker.kind, maker.inputs[0]) {
            net.ops[reader].inputs[i] = x;
            uses[id.0 as usize] -= 1;
            uses[x.0 as usize] += 1;
        }
    };
    for &between in &path.between {
        for i in 0..net.ops[between].inputs.len() {
            replace(net, between, i);
        }
        let out = net.ops[between].outputs[0].0 as usize;
        net.values[out].ty.shape = shape_before(&net.values[out].ty.shape.clone());
    }
    replace(net, at, 0);
    if let OpKind::Transpose { perm } = &mut net.ops[at].kind {
        perm.iter_mut().for_each(|axis| *axis = path.perm[*axis]);
    }
}
