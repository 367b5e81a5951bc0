//! Scaled dot-product attention as a boundary between programs (the book, table 22.3).

use super::segments::extract;
use anemone_net::{Net, Op, OpKind, ValueId};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Largest number of operations between the scores and the softmax: scales, masks, conversions.
const MOST_BETWEEN: usize = 8;

/// The network's segments in dispatch order, each attention and each native layer in a segment of its own. An attention is `softmax(q kᵀ
/// scale + mask) v`, from the product of queries and keys to the product with the values, as one operation or written out.
///
/// Returns one segment for a network with neither, for one with states, whose memory belongs to one program, and for one that
/// returns an input or a constant.
pub fn attention_segments(net: &Net) -> Vec<Net> {
    let made: HashSet<ValueId> = net.ops.iter().flat_map(|op| &op.outputs).copied().collect();
    let passes_through = net.outputs.iter().any(|id| !made.contains(id));
    let regions = regions(net);
    if regions.is_empty() || !net.states.is_empty() || passes_through {
        return vec![net.clone()];
    }
    let Some(runs) = runs(net, &regions) else { return vec![net.clone()] };
    let count = runs.len();
    let segment = |at: usize| {
        let after = runs[at + 1..].iter().flatten().flat_map(|&op| &net.ops[op].inputs);
        let wanted: HashSet<ValueId> = after.chain(&net.outputs).copied().collect();
        let name = if count == 1 { net.name.clone() } else { format!("{}_{at}", net.name) };
        extract(net, name, runs[at].iter().map(|&op| &net.ops[op]), &wanted)
    };
    (0..count).map(segment).collect()
}

/// Positions of the operations of each attention and of each native layer.
fn regions(net: &Net) -> Vec<Vec<usize>> {
    let mut makers: HashMap<ValueId, usize> = HashMap::new();
    let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (at, op) in net.ops.iter().enumerate() {
        makers.extend(op.outputs.iter().map(|&id| (id, at)));
        op.inputs.iter().for_each(|&id| readers.entry(id).or_default().push(at));
    }
    let live = |id: &ValueId| net.value(*id).data.is_none();
    let computed = |op: &Op| matches!(op.kind, OpKind::MatMul { .. }) && op.inputs.iter().all(live);
    let alone = |id: ValueId| match readers.get(&id).map(Vec::as_slice) {
        Some(&[reader]) if !net.outputs.contains(&id) => Some(reader),
        _ => None,
    };
    let mut taken: HashSet<usize> = HashSet::new();
    let mut regions = Vec::new();
    for (at, op) in net.ops.iter().enumerate() {
        if matches!(op.kind, OpKind::Native(_)) {
            regions.push(vec![at]);
            continue;
        }
        if !matches!(op.kind, OpKind::Softmax { .. }) {
            continue;
        }
        // Forward to the product with the values, through conversions.
        let mut region = BTreeSet::from([at]);
        let mut value = op.outputs[0];
        let closed = loop {
            let Some(reader) = alone(value) else { break false };
            let next = &net.ops[reader];
            region.insert(reader);
            if computed(next) {
                break true;
            }
            if !matches!(next.kind, OpKind::Cast | OpKind::Reshape) || region.len() > MOST_BETWEEN {
                break false;
            }
            value = next.outputs[0];
        };
        let opened = closed && back(net, op.inputs[0], &makers, &alone, &computed, &mut region, MOST_BETWEEN);
        if opened && region.iter().all(|op| !taken.contains(op)) {
            taken.extend(&region);
            regions.push(region.into_iter().collect());
        }
    }
    regions
}

/// Follows a value back to the product of queries and keys, and adds the operations on the way to the region. Returns false without such a product.
fn back(
    net: &Net,
    value: ValueId,
    makers: &HashMap<ValueId, usize>,
    alone: &dyn Fn(ValueId) -> Option<usize>,
    computed: &dyn Fn(&Op) -> bool,
    region: &mut BTreeSet<usize>,
    left: usize,
) -> bool {
    let Some(&maker) = makers.get(&value).filter(|_| left > 0 && alone(value).is_some()) else { return false };
    let op = &net.ops[maker];
    let through = matches!(op.kind, OpKind::Binary(_) | OpKind::Select | OpKind::Cast | OpKind::Reshape);
    let found = computed(op)
        || through && op.inputs.iter().any(|&input| back(net, input, makers, alone, computed, region, left - 1));
    if found {
        region.insert(maker);
    }
    found
}

/// Orders operations so that each region is one run and the operations between regions form as few runs as possible. `None` if a region
/// depends on itself.
fn runs(net: &Net, regions: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    // Nodes are regions, then the other operations, by the position of their first operation.
    let mut node_of: HashMap<usize, usize> = HashMap::new();
    let mut nodes: Vec<(bool, Vec<usize>)> = Vec::new();
    for region in regions {
        node_of.extend(region.iter().map(|&op| (op, nodes.len())));
        nodes.push((true, region.clone()));
    }
    for op in 0..net.ops.len() {
        node_of.entry(op).or_insert_with(|| {
            nodes.push((false, vec![op]));
            nodes.len() - 1
        });
    }
    let mut makers: HashMap<ValueId, usize> = HashMap::new();
    net.ops.iter().enumerate().for_each(|(at, op)| makers.extend(op.outputs.iter().map(|&id| (id, node_of[&at]))));
    let (mut before, mut after) = (vec![HashSet::new(); nodes.len()], vec![HashSet::new(); nodes.len()]);
    for (at, op) in net.ops.iter().enumerate() {
        let node = node_of[&at];
        for maker in op.inputs.iter().filter_map(|id| makers.get(id)).copied().filter(|&maker| maker != node) {
            before[node].insert(maker);
            after[maker].insert(node);
        }
    }
    let mut waiting: Vec<usize> = before.iter().map(HashSet::len).collect();
    let key = |node: usize| (nodes[node].0, nodes[node].1[0], node);
    let mut ready: BTreeSet<(bool, usize, usize)> = (0..nodes.len()).filter(|&n| waiting[n] == 0).map(key).collect();
    let (mut runs, mut done): (Vec<(bool, Vec<usize>)>, usize) = (Vec::new(), 0);
    // Operations outside of regions come first: as few runs as the dependencies allow.
    while let Some(next) = ready.pop_first() {
        let (alone, ops) = &nodes[next.2];
        done += 1;
        match runs.last_mut() {
            Some((false, run)) if !alone => run.extend(ops),
            _ => runs.push((*alone, ops.clone())),
        }
        for &other in &after[next.2] {
            waiting[other] -= 1;
            if waiting[other] == 0 {
                ready.insert(key(other));
            }
        }
    }
    (done == nodes.len()).then(|| runs.into_iter().map(|(_, ops)| ops).collect())
}
