//! Regions of operations between transposes, such as those of a network whose channels are last.

use crate::error::{Error, Result};
use crate::remarks::Remarks;
use anemone_net::{Net, Op, OpKind, Tensor, TensorType, Value, ValueId, eval};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Cost of a transpose that only moves axes of one element: at most a copy, and often none.
const OF_UNITS: i32 = 1;

/// Cost of any other transpose.
const OF_ELEMENTS: i32 = 2;

/// Computes regions of operations that work in any order of axes before the transposes that lead to them, where fewer transposes
/// remain. Shared values, constants of any extents and reductions are no barriers.
pub(super) fn straighten(net: &mut Net, reasons: &mut Remarks) -> Result<()> {
    let mut perms: Vec<Vec<usize>> = Vec::new();
    for op in &net.ops {
        if let OpKind::Transpose { perm } = &op.kind
            && !perms.contains(perm)
        {
            perms.push(perm.clone());
        }
    }
    for perm in perms {
        let regions = Layout::of(net, &perm).regions();
        for region in regions.iter().filter(|region| region.gain > 0) {
            let name = &net.ops[region.ops[0]].name;
            reasons.say(|| format!("{name}: {} operations are computed before a transpose", region.ops.len()));
        }
        let all: Vec<usize> =
            regions.into_iter().filter(|region| region.gain > 0).flat_map(|region| region.ops).collect();
        if !all.is_empty() {
            reorder(net, &perm, &all.into_iter().collect())?;
        }
    }
    Ok(())
}

/// The transposes of one permutation, and what can be computed before them.
struct Layout<'a> {
    net: &'a Net,
    perm: &'a [usize],
    makers: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    /// Values that are read outside of the network's operations.
    kept: HashSet<ValueId>,
}

struct Region {
    ops: Vec<usize>,
    /// Cost of the transposes that it saves, less that of those it needs.
    gain: i32,
}

impl<'a> Layout<'a> {
    fn of(net: &'a Net, perm: &'a [usize]) -> Layout<'a> {
        let mut readers = vec![Vec::new(); net.values.len()];
        for (at, op) in net.ops.iter().enumerate() {
            op.inputs.iter().for_each(|id| readers[id.0 as usize].push(at));
        }
        let kept = net.outputs.iter().copied().chain(net.states.iter().map(|state| state.output)).collect();
        Layout { net, perm, makers: super::makers(net), readers, kept }
    }

    fn shape(&self, id: ValueId) -> &[usize] {
        &self.net.value(id).ty.shape
    }

    /// The operand of a transpose with the permutation.
    fn straight(&self, id: ValueId) -> Option<ValueId> {
        let op = &self.net.ops[self.makers[id.0 as usize]?];
        matches!(&op.kind, OpKind::Transpose { perm } if perm == self.perm).then(|| op.inputs[0])
    }

    fn cost(&self, id: ValueId) -> i32 {
        if moves_units(self.perm, self.shape(id)) { OF_UNITS } else { OF_ELEMENTS }
    }

    /// Returns true for operations that can be computed in any order of axes. Their result is in that order too, unless they
    /// [drop](Layout::ends) the axes.
    fn any_order(&self, op: &Op) -> bool {
        let rank = self.perm.len();
        let known = |id: ValueId| self.net.value(id).data.is_some();
        let fits = |&id: &ValueId| self.shape(id).len() == rank || known(id) && self.shape(id).len() < rank;
        let kind = match &op.kind {
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Select => true,
            OpKind::Pad { .. } => self.shape(op.inputs[0]).len() == rank,
            OpKind::Slice { .. } | OpKind::Concat { .. } => {
                op.inputs.iter().all(|&id| self.shape(id).len() == rank) && !self.parts_columns(op)
            }
            OpKind::Reduce { keep_dims, .. } => *keep_dims || self.ends(op),
            _ => false,
        };
        let live = op.inputs.iter().any(|&id| !known(id));
        kind && live && op.inputs.iter().all(fits) && (self.ends(op) || self.shape(op.outputs[0]).len() == rank)
    }

    /// Returns true if parts along another axis than the last become columns, which are copied.
    fn parts_columns(&self, op: &Op) -> bool {
        let last = self.perm.len() - 1;
        let (from, to) = (self.shape(op.inputs[0]), self.shape(op.outputs[0]));
        let parted = (0..=last).filter(|&axis| axis != last && from.get(axis) != to.get(axis));
        parted.map(|axis| self.perm[axis]).any(|axis| axis == last)
    }

    /// Returns true for a reduction that leaves axes whose order is the same before the transpose.
    fn ends(&self, op: &Op) -> bool {
        let OpKind::Reduce { axes, keep_dims: false, .. } = &op.kind else { return false };
        let left: Vec<usize> = (0..self.perm.len()).filter(|axis| !axes.contains(axis)).map(|a| self.perm[a]).collect();
        self.shape(op.inputs[0]).len() == self.perm.len() && left.is_sorted()
    }

    /// Connected operations that can be computed in any order of axes, and the operands that they share.
    fn regions(&self) -> Vec<Region> {
        let ops = &self.net.ops;
        let mut parents: Vec<usize> = (0..ops.len()).collect();
        let any: Vec<bool> = ops.iter().map(|op| self.any_order(op)).collect();
        let join = |parents: &mut Vec<usize>, a: usize, b: usize| {
            let (a, b) = (root(parents, a), root(parents, b));
            parents[a] = b;
        };
        for (index, value) in self.net.values.iter().enumerate() {
            let id = ValueId(index as u32);
            let inside = self.makers[index].filter(|&at| any[at] && !self.ends(&ops[at]));
            if value.data.is_none() && (inside.is_some() || self.straight(id).is_some()) {
                let all: Vec<usize> = self.readers[index].iter().copied().filter(|&at| any[at]).chain(inside).collect();
                all.windows(2).for_each(|pair| join(&mut parents, pair[0], pair[1]));
            }
        }
        let mut regions: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in (0..ops.len()).filter(|&at| any[at]) {
            regions.entry(root(&mut parents, at)).or_default().push(at);
        }
        regions.into_values().map(|ops| Region { gain: self.gain(&ops), ops }).collect()
    }

    fn gain(&self, region: &[usize]) -> i32 {
        let inside: HashSet<usize> = region.iter().copied().collect();
        let each = |&at: &usize| matches!(self.net.ops[at].kind, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Select);
        let moves_only = !region.iter().any(each);
        let mut gain = 0;
        let mut seen = HashSet::new();
        for &at in region {
            let op = &self.net.ops[at];
            if let OpKind::Reduce { axes, .. } = &op.kind {
                // Reductions of trailing axes are single tasks.
                let first = self.perm.len() - axes.len();
                let trailing = |all: &[usize]| all.iter().all(|&axis| axis >= first);
                let permuted: Vec<usize> = axes.iter().map(|&axis| self.perm[axis]).collect();
                gain -= i32::from(trailing(axes) && !trailing(&permuted)) * OF_ELEMENTS;
            }
            for &id in op.inputs.iter().filter(|&&id| self.net.value(id).data.is_none()) {
                if self.makers[id.0 as usize].is_some_and(|at| inside.contains(&at)) || !seen.insert(id) {
                    continue;
                }
                let alone =
                    !self.kept.contains(&id) && self.readers[id.0 as usize].iter().all(|at| inside.contains(at));
                gain += match self.straight(id) {
                    Some(_) if alone => self.cost(id),
                    Some(_) => 0,
                    None => -self.cost(id),
                };
            }
            let out = op.outputs[0];
            if self.ends(op) {
                continue;
            }
            let outside = self.readers[out.0 as usize].iter().filter(|at| !inside.contains(at));
            let (permuted, plain): (Vec<usize>, Vec<usize>) =
                outside.partition(|&&at| matches!(self.net.ops[at].kind, OpKind::Transpose { .. }));
            let undone = |&&at: &&usize| {
                let OpKind::Transpose { perm } = &self.net.ops[at].kind else { return false };
                is_identity(&after(self.perm, perm))
            };
            gain += self.cost(out) * permuted.iter().filter(undone).count() as i32;
            if !plain.is_empty() || self.kept.contains(&out) {
                gain -= self.cost(out);
            }
        }
        // Moves and reductions alone are often as many tasks in any order, or more.
        if moves_only { gain - OF_ELEMENTS - OF_UNITS } else { gain }
    }
}

/// The operation that stands for all that are joined with this one.
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}

fn is_identity(perm: &[usize]) -> bool {
    perm.iter().enumerate().all(|(i, &p)| i == p)
}

/// One transpose for a first and a second.
fn after(first: &[usize], second: &[usize]) -> Vec<usize> {
    second.iter().map(|&axis| first.get(axis).copied().unwrap_or(axis)).collect()
}

/// Returns true if only axes of one element move, so that the elements keep their order.
fn moves_units(perm: &[usize], shape: &[usize]) -> bool {
    let moved: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] != 1).map(|axis| perm[axis]).collect();
    moved.is_sorted()
}

/// List by axis before the transpose.
fn before<T: Copy>(perm: &[usize], list: &[T]) -> Vec<T> {
    let mut all = list.to_vec();
    perm.iter().zip(list).for_each(|(&axis, &of)| all[axis] = of);
    all
}

/// Computes these operations in the order of axes before the transposes.
fn reorder(net: &mut Net, perm: &[usize], region: &HashSet<usize>) -> Result<()> {
    let rank = perm.len();
    let inverse = before(perm, &(0..rank).collect::<Vec<_>>());
    let layout = Layout::of(net, perm);
    let ends: HashSet<usize> = region.iter().copied().filter(|&at| layout.ends(&net.ops[at])).collect();
    let straight: HashMap<ValueId, ValueId> =
        (0..net.values.len() as u32).filter_map(|i| Some((ValueId(i), layout.straight(ValueId(i))?))).collect();
    let mut names: HashSet<String> = net.values.iter().map(|value| value.name.clone()).collect();
    // Values in the order before the transposes: results of the region, and other operands.
    let (mut results, mut entering) = (HashMap::new(), HashMap::new());
    let mut made = Vec::new();
    for (at, mut op) in std::mem::take(&mut net.ops).into_iter().enumerate() {
        if !region.contains(&at) {
            // A transpose of a result of the region begins from its other order.
            if let OpKind::Transpose { perm: own } = &op.kind
                && let Some(&from) = results.get(&op.inputs[0])
            {
                op.kind = OpKind::Transpose { perm: after(perm, own) };
                op.inputs[0] = from;
            }
            made.push(op);
            continue;
        }
        for i in 0..op.inputs.len() {
            let id = op.inputs[i];
            let known = results.get(&id).or_else(|| straight.get(&id)).or_else(|| entering.get(&id)).copied();
            op.inputs[i] = match (known, net.value(id).data.clone()) {
                (Some(known), _) => known,
                (None, Some(data)) if data.data.len() == 1 => id,
                (None, Some(data)) => stored(net, &mut names, id, &data, &inverse)?,
                (None, None) => {
                    let new = another(net, &mut names, id, perm);
                    let kind = OpKind::Transpose { perm: inverse.clone() };
                    let name = net.value(new).name.clone();
                    made.push(Op { name, kind, inputs: vec![id], outputs: vec![new] });
                    entering.insert(id, new);
                    new
                }
            };
        }
        match &mut op.kind {
            OpKind::Concat { axis } => *axis = perm[*axis],
            OpKind::Pad { pads, .. } => *pads = before(perm, pads),
            OpKind::Slice { begin, end, stride } => {
                [begin, end, stride].into_iter().for_each(|list| *list = before(perm, list));
            }
            OpKind::Reduce { axes, .. } => {
                axes.iter_mut().for_each(|axis| *axis = perm[*axis]);
                axes.sort_unstable();
            }
            _ => {}
        }
        if ends.contains(&at) {
            made.push(op);
            continue;
        }
        let out = op.outputs[0];
        let new = another(net, &mut names, out, perm);
        results.insert(out, new);
        op.outputs[0] = new;
        let name = op.name.clone();
        made.push(op);
        // For readers outside, if there are any.
        made.push(Op { name, kind: OpKind::Transpose { perm: perm.to_vec() }, inputs: vec![new], outputs: vec![out] });
    }
    net.ops = made;
    super::remove_unread(net);
    Ok(())
}

/// A value like this one in the order of axes before the transpose.
fn another(net: &mut Net, names: &mut HashSet<String>, id: ValueId, perm: &[usize]) -> ValueId {
    let TensorType { dtype, shape } = &net.value(id).ty;
    let ty = TensorType { dtype: *dtype, shape: before(perm, shape) };
    add(net, names, id, ty, None)
}

/// A constant in the order of axes before the transpose, with all axes.
fn stored(
    net: &mut Net,
    names: &mut HashSet<String>,
    id: ValueId,
    data: &Tensor,
    inverse: &[usize],
) -> Result<ValueId> {
    let missing = inverse.len() - data.shape.len();
    let shape: Vec<usize> = std::iter::repeat_n(1, missing).chain(data.shape.iter().copied()).collect();
    let kind = OpKind::Transpose { perm: inverse.to_vec() };
    let whole = Tensor { shape, data: data.data.clone() };
    let tensor = eval::fold(&kind, &[&whole], None).map_err(|e| Error::Net(e.to_string()))?;
    Ok(add(net, names, id, tensor.ty(), Some(tensor)))
}

fn add(net: &mut Net, names: &mut HashSet<String>, like: ValueId, ty: TensorType, data: Option<Tensor>) -> ValueId {
    let stem = format!("{}.straight", net.value(like).name);
    let name = (0..).map(|i| if i == 0 { stem.clone() } else { format!("{stem}{i}") }).find(|n| !names.contains(n));
    let name = name.unwrap_or(stem);
    names.insert(name.clone());
    let id = ValueId(net.values.len() as u32);
    net.values.push(Value { name, ty, data: data.map(Arc::new), surface: None });
    id
}
