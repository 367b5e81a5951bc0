//! Ensembles of decision trees as products: a leaf is reached if the number of branches that lead to it is that of its path.

use super::classical::{labelled, transformed, transformed_by};
use super::made::MADE_ELEMENTS;
use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, ReduceKind, Unary};
use std::collections::HashMap;

/// Translates the operator of `ai.onnx.ml` if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "TreeEnsembleRegressor" => regressor(n),
        "TreeEnsembleClassifier" => classifier(n),
        "TreeEnsemble" => ensemble(n),
        _ => Ok(false),
    }
}

/// Positions of nodes by tree and number.
type Places = HashMap<(i64, i64), usize>;

/// Comparisons of branches. The opposite ones exchange the branches.
const COMPARISONS: [Binary; 3] = [Binary::LessEqual, Binary::Less, Binary::Equal];

/// A comparison of a feature with a number.
#[derive(Clone, Copy)]
struct Branch {
    comparison: Binary,
    feature: i32,
    value: f32,
    missing: bool,
}

/// The branches of a tree, and its leaves with the branches on their paths, each with its outcome.
#[derive(Default)]
struct Tree {
    branches: Vec<Branch>,
    leaves: Vec<(usize, Vec<(usize, bool)>)>,
}

/// The trees of a node.
fn trees(n: &Node) -> Result<(Vec<Tree>, Places), Error> {
    let list = |name: &str| n.ints(name).unwrap_or_default();
    let (ids, nodes) = (list("nodes_treeids"), list("nodes_nodeids"));
    let (yes, no, features) = (list("nodes_truenodeids"), list("nodes_falsenodeids"), list("nodes_featureids"));
    let missing = list("nodes_missing_value_tracks_true");
    let values = n.attribute("nodes_values").map(|a| a.floats.clone()).unwrap_or_default();
    let modes = n.attribute("nodes_modes").map(|a| a.strings.clone()).unwrap_or_default();
    let count = ids.len();
    if [nodes.len(), yes.len(), no.len(), features.len(), values.len(), modes.len()].iter().any(|&len| len != count) {
        return Err(n.unsupported(format!("lists of {count} nodes and of other lengths")));
    }
    let places: Places = (0..count).map(|at| ((ids[at], nodes[at]), at)).collect();
    let mut trees = Vec::new();
    for root in (0..count).filter(|&at| at == 0 || ids[at] != ids[at - 1]) {
        let mut tree = Tree::default();
        let mut open = vec![(root, Vec::new())];
        let mut visited = 0;
        while let Some((at, path)) = open.pop() {
            visited += 1;
            if visited > count {
                return Err(n.unsupported(format!("a tree whose node {} is reached twice", nodes[at])));
            }
            let (comparison, opposite) = match &modes[at][..] {
                b"LEAF" => {
                    tree.leaves.push((at, path));
                    continue;
                }
                b"BRANCH_LEQ" => (Binary::LessEqual, false),
                b"BRANCH_GT" => (Binary::LessEqual, true),
                b"BRANCH_LT" => (Binary::Less, false),
                b"BRANCH_GTE" => (Binary::Less, true),
                b"BRANCH_EQ" => (Binary::Equal, false),
                b"BRANCH_NEQ" => (Binary::Equal, true),
                other => return Err(n.unsupported(format!("branches `{}`", String::from_utf8_lossy(other)))),
            };
            let feature = i32::try_from(features[at]).map_err(|_| n.unsupported("a feature beyond 32 bits"))?;
            let missing = (missing.get(at).copied().unwrap_or(0) != 0) != opposite;
            let branch = tree.branches.len();
            tree.branches.push(Branch { comparison, feature, value: values[at], missing });
            for (next, outcome) in [(yes[at], !opposite), (no[at], opposite)] {
                let next = places.get(&(ids[at], next)).copied();
                let next = next.ok_or_else(|| n.unsupported(format!("a branch of node {} to no node", nodes[at])))?;
                open.push((next, [path.as_slice(), &[(branch, outcome)]].concat()));
            }
        }
        trees.push(tree);
    }
    Ok((trees, places))
}

/// Weights of leaves from the lists of a node, `[tree][leaf][target]`.
fn weights(n: &Node, trees: &[Tree], places: &Places, of: &str, targets: usize) -> Result<Vec<f32>, Error> {
    let list = |name: &str| n.ints(&format!("{of}_{name}")).unwrap_or_default();
    let (ids, nodes, to) = (list("treeids"), list("nodeids"), list("ids"));
    let given = n.attribute(&format!("{of}_weights")).map(|a| a.floats.clone()).unwrap_or_default();
    if [nodes.len(), to.len(), given.len()].iter().any(|&len| len != ids.len()) {
        return Err(n.unsupported(format!("lists of {} weights and of other lengths", ids.len())));
    }
    let most = trees.iter().map(|tree| tree.leaves.len()).max().unwrap_or(0);
    let own = trees
        .iter()
        .enumerate()
        .flat_map(|(t, tree)| tree.leaves.iter().enumerate().map(move |(leaf, (at, _))| (*at, t * most + leaf)));
    let rows: HashMap<usize, usize> = own.collect();
    let mut weights = table(n, [trees.len(), most, targets])?;
    for (at, &weight) in given.iter().enumerate() {
        let row = places.get(&(ids[at], nodes[at])).and_then(|place| rows.get(place));
        let target = usize::try_from(to[at]).ok().filter(|&target| target < targets);
        let (Some(row), Some(target)) = (row, target) else {
            return Err(n.unsupported(format!("a weight of node {} and target {}", nodes[at], to[at])));
        };
        weights[row * targets + target] += weight;
    }
    Ok(weights)
}

/// Zeros for the weights `[tree][leaf][target]`.
fn table(n: &Node, extents: [usize; 3]) -> Result<Vec<f32>, Error> {
    let count = extents.into_iter().fold(1, usize::saturating_mul);
    match count <= MADE_ELEMENTS {
        true => Ok(vec![0.0; count]),
        false => Err(n.unsupported(format!(
            "{extents:?} trees, leaves and targets, at most {MADE_ELEMENTS} weights are supported"
        ))),
    }
}

/// The leaves that rows reach, `[trees, rows, leaves]`.
fn reached(n: &mut Node, trees: &[Tree]) -> Result<ValueId, Error> {
    let x = n.need(0)?;
    let &[rows, columns] = n.shape(x).as_slice() else { return Err(n.unsupported("an operand not of rank 2")) };
    let all = || trees.iter().flat_map(|tree| &tree.branches);
    let most = trees.iter().map(|tree| tree.branches.len()).max().unwrap_or(0).max(1);
    let leaves = trees.iter().map(|tree| tree.leaves.len()).max().unwrap_or(0);
    let sizes = [rows.saturating_mul(leaves), rows.saturating_mul(most), most.saturating_mul(leaves)];
    let found = trees.len().saturating_mul(sizes.into_iter().max().unwrap_or(0));
    if found == 0 || found > MADE_ELEMENTS {
        return Err(n.unsupported(format!(
            "{} trees of up to {most} branches and {leaves} leaves for {rows} rows: {found} numbers, at most {MADE_ELEMENTS} are supported",
            trees.len()
        )));
    }
    if let Some(branch) = all().find(|b| usize::try_from(b.feature).map_or(true, |f| f >= columns)) {
        return Err(n.unsupported(format!("feature {} of {columns}", branch.feature)));
    }
    let first = all().next().map_or(Binary::LessEqual, |branch| branch.comparison);
    let none = Branch { comparison: first, feature: 0, value: 0.0, missing: false };
    let padded: Vec<Branch> =
        trees.iter().flat_map(|tree| (0..most).map(|at| tree.branches.get(at).copied().unwrap_or(none))).collect();
    let (count, total) = (trees.len(), padded.len());
    let x = n.build().cast(x, DType::F32)?;
    let features = n.build().integers([total], padded.iter().map(|b| b.feature).collect());
    let features = n.build().gather(x, features, 1)?;
    let values = n.build().floats([total], &padded.iter().map(|b| b.value).collect::<Vec<_>>(), x);
    let mut holds = n.build().binary(first, features, values)?;
    for other in COMPARISONS {
        let own: Vec<bool> = padded.iter().map(|b| b.comparison == other).collect();
        if other != first && own.contains(&true) {
            let compared = n.build().binary(other, features, values)?;
            let own = n.build().mask([total], own);
            holds = n.build().select(own, compared, holds)?;
        }
    }
    if padded.iter().any(|b| b.missing) {
        // NaN, a missing value, differs from itself.
        let absent = n.build().binary(Binary::NotEqual, features, features)?;
        let follows = n.build().mask([total], padded.iter().map(|b| b.missing).collect());
        let absent = n.build().binary(Binary::Min, absent, follows)?;
        holds = n.build().binary(Binary::Max, holds, absent)?;
    }
    let holds = n.build().cast(holds, DType::F32)?;
    let holds = n.build().reshape(holds, [rows, count, most])?;
    let holds = n.build().transpose(holds, &[1, 0, 2])?;
    let (mut paths, mut needed) = (vec![0.0; count * most * leaves], vec![-1.0 - most as f32; count * leaves]);
    for (t, tree) in trees.iter().enumerate() {
        for (leaf, (_, path)) in tree.leaves.iter().enumerate() {
            for &(branch, outcome) in path {
                paths[(t * most + branch) * leaves + leaf] = if outcome { 1.0 } else { -1.0 };
            }
            needed[t * leaves + leaf] = path.iter().filter(|(_, outcome)| *outcome).count() as f32;
        }
    }
    let paths = n.build().floats([count, most, leaves], &paths, x);
    let needed = n.build().floats([count, 1, leaves], &needed, x);
    let found = n.build().matmul(holds, paths, false)?;
    let reached = n.build().binary(Binary::Equal, found, needed)?;
    n.build().cast(reached, DType::F32)
}

/// Sums of the weights of reached leaves, `[rows, targets]`, with the base values.
fn scores(n: &mut Node, of: &str, targets: usize) -> Result<(ValueId, Vec<f32>), Error> {
    let (trees, places) = trees(n)?;
    let weights = weights(n, &trees, &places, of, targets)?;
    let aggregate = n.text("aggregate_function");
    let mut id = combined(n, &trees, weights.clone(), targets, aggregate.as_deref().unwrap_or("SUM"))?;
    let base = n.attribute("base_values").map(|a| a.floats.clone()).unwrap_or_default();
    if ![0, 1, targets].contains(&base.len()) {
        return Err(n.unsupported(format!("{} base values of {targets} targets", base.len())));
    }
    if !base.is_empty() {
        let base = n.build().floats([base.len()], &base, id);
        id = n.build().binary(Binary::Add, id, base)?;
    }
    Ok((id, weights))
}

/// The weights `[tree][leaf][target]` of reached leaves, combined over the trees: `[rows, targets]`.
fn combined(
    n: &mut Node,
    trees: &[Tree],
    mut weights: Vec<f32>,
    targets: usize,
    aggregate: &str,
) -> Result<ValueId, Error> {
    let reached = reached(n, trees)?;
    let &[count, rows, leaves] = n.shape(reached).as_slice() else { return Err(n.missing("trees")) };
    let combine = match aggregate {
        "SUM" => None,
        "AVERAGE" => {
            weights.iter_mut().for_each(|weight| *weight /= count as f32);
            None
        }
        "MIN" => Some(ReduceKind::Min),
        "MAX" => Some(ReduceKind::Max),
        other => return Err(n.unsupported(format!("`aggregate_function` is {other}"))),
    };
    match combine {
        None => {
            let table = n.build().floats([count * leaves, targets], &weights, reached);
            let by_row = n.build().transpose(reached, &[1, 0, 2])?;
            let by_row = n.build().reshape(by_row, [rows, count * leaves])?;
            n.build().matmul(by_row, table, false)
        }
        Some(kind) => {
            let table = n.build().floats([count, leaves, targets], &weights, reached);
            let each = n.build().matmul(reached, table, false)?;
            n.build().reduce(kind, each, &[0], false)
        }
    }
}

fn regressor(n: &mut Node) -> Result<bool, Error> {
    let targets = n.size("n_targets", n.int("n_targets", 1))?;
    let (scores, _) = scores(n, "target", targets)?;
    let id = transformed(n, scores)?;
    n.done(id)
}

/// Scores of classes, and the class of the greatest. Weights of one of two classes give the score of the second; the first has what is left of
/// one, or its negative where weights have both signs.
fn classifier(n: &mut Node) -> Result<bool, Error> {
    let classes = n.ints("classlabels_int64s").unwrap_or_default();
    let mut ids = n.ints("class_ids").unwrap_or_default();
    ids.sort_unstable();
    ids.dedup();
    if !(classes.len() == 2 && ids.len() == 1) {
        let (scores, _) = scores(n, "class", classes.len())?;
        return labelled(n, &classes, scores);
    }
    let (all, weights) = scores(n, "class", 2)?;
    let at = usize::try_from(ids[0]).unwrap_or(0).min(1);
    let score = n.build().slice(all, 1, at, at + 1)?;
    let share = weights.iter().all(|&weight| weight >= 0.0);
    let one = n.build().scalar(1.0, score);
    let other = match share {
        true => n.build().binary(Binary::Sub, one, score)?,
        false => n.build().unary(Unary::Neg, score)?,
    };
    let both = n.build().concat(&[other, score], 1)?;
    match n.text("post_transform").as_deref() {
        Some("LOGISTIC") if share => Err(n.unsupported("`post_transform` LOGISTIC of shares of one")),
        _ => labelled(n, &classes, both),
    }
}

/// Names of the comparisons of `TreeEnsemble`, which are numbered, and the comparison that each is or is the opposite of. Membership in a set is
/// a chain of comparisons.
const NUMBERED: [(Binary, bool); 7] = [
    (Binary::LessEqual, false),
    (Binary::Less, false),
    (Binary::Less, true),
    (Binary::LessEqual, true),
    (Binary::Equal, false),
    (Binary::Equal, true),
    (Binary::Equal, false),
];

/// Number of the comparison with a set.
const MEMBER: i32 = 6;

/// `TreeEnsemble`: nodes and leaves in lists of their own.
fn ensemble(n: &mut Node) -> Result<bool, Error> {
    let (trees, weights, targets) = listed(n)?;
    let named = |n: &Node, key: &str, default: i64, names: &[&'static str]| {
        let at = n.int(key, default);
        let name = usize::try_from(at).ok().and_then(|at| names.get(at).copied());
        name.ok_or_else(|| n.unsupported(format!("`{key}` is {at}")))
    };
    let aggregate = named(n, "aggregate_function", 1, &["AVERAGE", "SUM", "MIN", "MAX"])?;
    let after = named(n, "post_transform", 0, &["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])?;
    let scores = combined(n, &trees, weights, targets, aggregate)?;
    let id = transformed_by(n, scores, after)?;
    n.done(id)
}

/// The trees of a `TreeEnsemble`, the weights of their leaves `[tree][leaf][target]`, and the number of targets.
fn listed(n: &mut Node) -> Result<(Vec<Tree>, Vec<f32>, usize), Error> {
    let list = |name: &str| n.ints(name).unwrap_or_default();
    let (roots, features) = (list("tree_roots"), list("nodes_featureids"));
    let next = [list("nodes_truenodeids"), list("nodes_falsenodeids")];
    let ends = [list("nodes_trueleafs"), list("nodes_falseleafs")];
    let (missing, to) = (list("nodes_missing_value_tracks_true"), list("leaf_targetids"));
    let targets = n.size("n_targets", n.int("n_targets", 1))?;
    let mut tensor = |name: &str| -> Result<Vec<f32>, Error> {
        let message = n.attribute(name).and_then(|a| a.t.as_ref());
        message.map_or(Ok(Vec::new()), |message| Ok(n.t.tensor(message)?.0.data.to_f32()))
    };
    let (values, modes, given) = (tensor("nodes_splits")?, tensor("nodes_modes")?, tensor("leaf_weights")?);
    let members = tensor("membership_values")?;
    let count = features.len();
    let lists = [next[0].len(), next[1].len(), ends[0].len(), ends[1].len(), values.len(), modes.len()];
    if lists.iter().any(|&len| len != count) || to.len() != given.len() {
        return Err(n.unsupported(format!("lists of {count} nodes, of {} leaves, and of other lengths", to.len())));
    }
    // Sets follow each other, with NaN behind each.
    let mut sets = members.split(|value| value.is_nan());
    let sets: Vec<&[f32]> =
        modes.iter().map(|&mode| if mode as i32 == MEMBER { sets.next().unwrap_or_default() } else { &[] }).collect();
    let number = |at: i64| usize::try_from(at).unwrap_or(usize::MAX);
    // Nodes, each with at most two leaves; a set repeats what its true branch leads to.
    let most_visited = (3 * count + 1).saturating_mul(1 + members.len());
    let mut trees = Vec::new();
    for &root in &roots {
        let mut tree = Tree::default();
        // Nodes, and leaves with the outcomes before them.
        let mut open = vec![(number(root), false, Vec::new())];
        let mut visited = 0;
        while let Some((at, leaf, mut path)) = open.pop() {
            visited += 1;
            if visited > most_visited || path.len() > count + members.len() {
                return Err(n.unsupported(format!("a tree from node {root} that has no end")));
            }
            if leaf {
                if at >= to.len() {
                    return Err(n.unsupported(format!("leaf {at} of {}", to.len())));
                }
                tree.leaves.push((at, path));
                continue;
            }
            let Some(&(comparison, opposite)) = modes.get(at).and_then(|&mode| NUMBERED.get(mode as usize)) else {
                return Err(n.unsupported(format!("node {at} of {count}, or a comparison that is not known")));
            };
            let feature = i32::try_from(features[at]).map_err(|_| n.unsupported("a feature beyond 32 bits"))?;
            let tracks = missing.get(at).copied().unwrap_or(0) != 0;
            let compared = if modes[at] as i32 == MEMBER { sets[at] } else { &values[at..=at] };
            let [held, other] = [0, 1].map(|outcome: usize| (number(next[outcome][at]), ends[outcome][at] != 0));
            for &value in compared {
                let branch = tree.branches.len();
                tree.branches.push(Branch { comparison, feature, value, missing: tracks != opposite });
                open.push((held.0, held.1, [path.as_slice(), &[(branch, !opposite)]].concat()));
                path.push((branch, opposite));
            }
            open.push((other.0, other.1, path));
        }
        trees.push(tree);
    }
    let most = trees.iter().map(|tree| tree.leaves.len()).max().unwrap_or(0);
    let mut weights = table(n, [trees.len(), most, targets])?;
    for (t, tree) in trees.iter().enumerate() {
        for (row, (leaf, _)) in tree.leaves.iter().enumerate() {
            let target = usize::try_from(to[*leaf]).ok().filter(|&target| target < targets);
            let target = target.ok_or_else(|| n.unsupported(format!("target {} of {targets}", to[*leaf])))?;
            weights[(t * most + row) * targets + target] += given[*leaf];
        }
    }
    Ok((trees, weights, targets))
}
