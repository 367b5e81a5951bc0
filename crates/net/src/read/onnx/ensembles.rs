//! Ensembles of decision trees and regression by support vectors, as products: a leaf is reached if the number of branches that lead to it
//! is that of its path.

use super::classical::{labelled, transformed};
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
        "SVMRegressor" => support_vectors(n),
        _ => Ok(false),
    }
}

/// Positions of nodes by tree and number.
type Places = HashMap<(i64, i64), usize>;

/// A comparison of a feature with a number. The opposite comparisons exchange its branches.
#[derive(Clone, Copy)]
struct Branch {
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

/// The trees of a node, and the comparison that all their branches are.
fn trees(n: &Node) -> Result<(Vec<Tree>, Places, Binary), Error> {
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
    let mut comparison = None;
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
            let (kind, opposite) = match &modes[at][..] {
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
            if *comparison.get_or_insert(kind) != kind {
                return Err(n.unsupported("branches of several comparisons"));
            }
            let feature = i32::try_from(features[at]).map_err(|_| n.unsupported("a feature beyond 32 bits"))?;
            let missing = (missing.get(at).copied().unwrap_or(0) != 0) != opposite;
            let branch = tree.branches.len();
            tree.branches.push(Branch { feature, value: values[at], missing });
            for (next, outcome) in [(yes[at], !opposite), (no[at], opposite)] {
                let next = places.get(&(ids[at], next)).copied();
                let next = next.ok_or_else(|| n.unsupported(format!("a branch of node {} to no node", nodes[at])))?;
                open.push((next, [path.as_slice(), &[(branch, outcome)]].concat()));
            }
        }
        trees.push(tree);
    }
    Ok((trees, places, comparison.unwrap_or(Binary::LessEqual)))
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
    let mut weights = vec![0.0; trees.len() * most * targets];
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

/// The leaves that rows reach, `[trees, rows, leaves]`.
fn reached(n: &mut Node, trees: &[Tree], comparison: Binary) -> Result<ValueId, Error> {
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
    let none = Branch { feature: 0, value: 0.0, missing: false };
    let padded: Vec<Branch> =
        trees.iter().flat_map(|tree| (0..most).map(|at| tree.branches.get(at).copied().unwrap_or(none))).collect();
    let (count, total) = (trees.len(), padded.len());
    let x = n.build().cast(x, DType::F32)?;
    let features = n.build().integers([total], padded.iter().map(|b| b.feature).collect());
    let features = n.build().gather(x, features, 1)?;
    let values = n.build().floats([total], &padded.iter().map(|b| b.value).collect::<Vec<_>>(), x);
    let mut holds = n.build().binary(comparison, features, values)?;
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
    let (trees, places, comparison) = trees(n)?;
    let mut weights = weights(n, &trees, &places, of, targets)?;
    let reached = reached(n, &trees, comparison)?;
    let &[count, rows, leaves] = n.shape(reached).as_slice() else { return Err(n.missing("trees")) };
    let own = weights.clone();
    let combine = match n.text("aggregate_function").as_deref() {
        None | Some("SUM") => None,
        Some("AVERAGE") => {
            weights.iter_mut().for_each(|weight| *weight /= count as f32);
            None
        }
        Some("MIN") => Some(ReduceKind::Min),
        Some("MAX") => Some(ReduceKind::Max),
        Some(other) => return Err(n.unsupported(format!("`aggregate_function` is {other}"))),
    };
    let mut id = match combine {
        None => {
            let table = n.build().floats([count * leaves, targets], &weights, reached);
            let by_row = n.build().transpose(reached, &[1, 0, 2])?;
            let by_row = n.build().reshape(by_row, [rows, count * leaves])?;
            n.build().matmul(by_row, table, false)?
        }
        Some(kind) => {
            let table = n.build().floats([count, leaves, targets], &weights, reached);
            let each = n.build().matmul(reached, table, false)?;
            n.build().reduce(kind, each, &[0], false)?
        }
    };
    let base = n.attribute("base_values").map(|a| a.floats.clone()).unwrap_or_default();
    if ![0, 1, targets].contains(&base.len()) {
        return Err(n.unsupported(format!("{} base values of {targets} targets", base.len())));
    }
    if !base.is_empty() {
        let base = n.build().floats([base.len()], &base, id);
        id = n.build().binary(Binary::Add, id, base)?;
    }
    Ok((id, own))
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

/// A weighted sum of kernels of the operand and support vectors.
fn support_vectors(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let &[_, columns] = n.shape(x).as_slice() else { return Err(n.unsupported("an operand not of rank 2")) };
    let list = |name: &str| n.attribute(name).map(|a| a.floats.clone()).unwrap_or_default();
    let (weights, vectors, params) = (list("coefficients"), list("support_vectors"), list("kernel_params"));
    let rho = list("rho").first().copied().unwrap_or(0.0);
    let count = n.size("n_supports", n.int("n_supports", 0))?;
    let x = n.build().cast(x, DType::F32)?;
    let (wanted, stored) = if count == 0 { (columns, 0) } else { (count, count.saturating_mul(columns)) };
    if weights.len() != wanted || vectors.len() != stored {
        return Err(n.unsupported(format!(
            "{} coefficients and {} numbers of vectors for {count} vectors of {columns} columns",
            weights.len(),
            vectors.len()
        )));
    }
    let param = |at: usize| params.get(at).copied().unwrap_or(0.0);
    let kernels = if count == 0 {
        x
    } else {
        let vectors = n.build().floats([count, columns], &vectors, x);
        match n.text("kernel_type").as_deref() {
            Some("RBF") => {
                let wide = n.shape(x)[0];
                let apart = n.build().reshape(x, [wide, 1, columns])?;
                let apart = n.build().binary(Binary::Sub, apart, vectors)?;
                let distance = n.build().reduce(ReduceKind::SumSquare, apart, &[2], false)?;
                let scaled = n.build().with(Binary::Mul, distance, -param(0))?;
                n.build().unary(Unary::Exp, scaled)?
            }
            other => {
                let products = n.build().matmul(x, vectors, true)?;
                let moved = |n: &mut Node| {
                    let scaled = n.build().with(Binary::Mul, products, param(0))?;
                    n.build().with(Binary::Add, scaled, param(1))
                };
                match other {
                    None | Some("LINEAR") => products,
                    Some("POLY") => {
                        let moved = moved(n)?;
                        n.build().with(Binary::Pow, moved, param(2))?
                    }
                    Some("SIGMOID") => {
                        let moved = moved(n)?;
                        n.build().unary(Unary::Tanh, moved)?
                    }
                    Some(other) => return Err(n.unsupported(format!("kernels `{other}`"))),
                }
            }
        }
    };
    let weights = n.build().floats([1, weights.len()], &weights, x);
    let sum = n.build().matmul(kernels, weights, true)?;
    let mut id = n.build().with(Binary::Add, sum, rho)?;
    if n.flag("one_class", false) {
        let (one, other) = (n.build().scalar(1.0, id), n.build().scalar(-1.0, id));
        let inside = n.build().with(Binary::Greater, id, 0.0)?;
        id = n.build().select(inside, one, other)?;
    }
    let id = transformed(n, id)?;
    n.done(id)
}
