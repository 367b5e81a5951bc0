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
    while let Some((at, path)) = found(net) {
        reasons.say(|| format!("{}: one with the transposes before it", net.ops[at].name));
        collapse(net, at, &path);
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

/// The first transpose that can be merged with others before it.
fn found(net: &Net) -> Option<(usize, Path)> {
    let (uses, makers) = (net.read_counts(), makers(net));
    net.ops.iter().enumerate().find_map(|(at, op)| {
        let OpKind::Transpose { .. } = op.kind else { return None };
        let mut path = Path { perm: Vec::new(), between: Vec::new() };
        let turned = behind(net, &uses, &makers, op.inputs[0], &mut path);
        (turned && !path.perm.is_empty()).then_some((at, path))
    })
}

/// Returns true if a value is computed elementwise from transposed values with one permutation and scalar constants alone, and every
/// intermediate result has one reader. Adds the operations in between to `path`.
fn behind(net: &Net, uses: &[usize], makers: &[Option<usize>], id: ValueId, path: &mut Path) -> bool {
    let Some(at) = makers[id.0 as usize] else { return false };
    let op = &net.ops[at];
    match &op.kind {
        OpKind::Transpose { perm } if path.perm.is_empty() || path.perm == *perm => {
            path.perm.clone_from(perm);
            true
        }
        OpKind::Unary(_) | OpKind::Binary(_) if uses[id.0 as usize] == 1 && !net.outputs.contains(&id) => {
            let shape = &net.value(id).ty.shape;
            if path.between.contains(&at) {
                return false;
            }
            path.between.push(at);
            let single = |id: ValueId| net.value(id).data.is_some() && net.value(id).ty.elements() == 1;
            let mut live = op.inputs.iter().filter(|&&x| !single(x)).peekable();
            live.peek().is_some()
                && live.all(|&x| net.value(x).ty.shape == *shape && behind(net, uses, makers, x, path))
        }
        _ => false,
    }
}

/// Moves the operations before the transposes and merges these into one.
fn collapse(net: &mut Net, at: usize, path: &Path) {
    let makers = makers(net);
    let shape_before = |shape: &[usize]| {
        let mut before = vec![0; shape.len()];
        path.perm.iter().enumerate().for_each(|(i, &axis)| before[axis] = shape[i]);
        before
    };
    // The operand before its transposition.
    let straight = |net: &Net, id: ValueId| {
        let maker = makers[id.0 as usize].map(|at| &net.ops[at])?;
        matches!(maker.kind, OpKind::Transpose { .. }).then(|| maker.inputs[0])
    };
    for &between in &path.between {
        for i in 0..net.ops[between].inputs.len() {
            if let Some(x) = straight(net, net.ops[between].inputs[i]) {
                net.ops[between].inputs[i] = x;
            }
        }
        let out = net.ops[between].outputs[0].0 as usize;
        net.values[out].ty.shape = shape_before(&net.values[out].ty.shape.clone());
    }
    if let Some(x) = straight(net, net.ops[at].inputs[0]) {
        net.ops[at].inputs[0] = x;
    }
    if let OpKind::Transpose { perm } = &mut net.ops[at].kind {
        perm.iter_mut().for_each(|axis| *axis = path.perm[*axis]);
    }
}
