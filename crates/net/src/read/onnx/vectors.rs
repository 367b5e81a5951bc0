//! Regression and classification by support vectors: products of kernels of the operand and the vectors.

use super::classical::transformed;
use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, ReduceKind, Unary};

/// Translates the operator of `ai.onnx.ml` if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "SVMRegressor" => regressor(n),
        "SVMClassifier" => classifier(n),
        _ => Ok(false),
    }
}

fn list(n: &Node, name: &str) -> Vec<f32> {
    n.attribute(name).map(|a| a.floats.clone()).unwrap_or_default()
}

/// Kernels of the rows of the operand and each of these vectors, `[rows, vectors]`.
fn kernels(n: &mut Node, x: ValueId, vectors: &[f32]) -> Result<ValueId, Error> {
    let &[rows, columns] = n.shape(x).as_slice() else { return Err(n.unsupported("an operand not of rank 2")) };
    let params = list(n, "kernel_params");
    let param = |at: usize| params.get(at).copied().unwrap_or(0.0);
    let vectors = n.build().floats([vectors.len() / columns.max(1), columns], vectors, x);
    let kind = n.text("kernel_type");
    if kind.as_deref() == Some("RBF") {
        let apart = n.build().reshape(x, [rows, 1, columns])?;
        let apart = n.build().binary(Binary::Sub, apart, vectors)?;
        let distance = n.build().reduce(ReduceKind::SumSquare, apart, &[2], false)?;
        let scaled = n.build().with(Binary::Mul, distance, -param(0))?;
        return n.build().unary(Unary::Exp, scaled);
    }
    let products = n.build().matmul(x, vectors, true)?;
    let moved = |n: &mut Node| {
        let scaled = n.build().with(Binary::Mul, products, param(0))?;
        n.build().with(Binary::Add, scaled, param(1))
    };
    match kind.as_deref() {
        None | Some("LINEAR") => Ok(products),
        Some("POLY") => {
            let moved = moved(n)?;
            n.build().with(Binary::Pow, moved, param(2))
        }
        Some("SIGMOID") => {
            let moved = moved(n)?;
            n.build().unary(Unary::Tanh, moved)
        }
        Some(other) => Err(n.unsupported(format!("kernels `{other}`"))),
    }
}

/// A weighted sum of kernels of the operand and support vectors.
fn regressor(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let &[_, columns] = n.shape(x).as_slice() else { return Err(n.unsupported("an operand not of rank 2")) };
    let (weights, vectors) = (list(n, "coefficients"), list(n, "support_vectors"));
    let rho = list(n, "rho").first().copied().unwrap_or(0.0);
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
    let kernels = if count == 0 { x } else { kernels(n, x, &vectors)? };
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

/// Scores of each pair of classes, and the class that most pairs choose. The scores are those of pairs, of both classes if there are two, or
/// the probabilities of two classes.
fn classifier(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let &[_, columns] = n.shape(x).as_slice() else { return Err(n.unsupported("an operand not of rank 2")) };
    let per_class = n.ints("vectors_per_class").unwrap_or_default();
    let per_class = n.sizes("vectors_per_class", &per_class)?;
    let (weights, vectors, rho) = (list(n, "coefficients"), list(n, "support_vectors"), list(n, "rho"));
    let classes = per_class.len();
    let count = per_class.iter().fold(0, |sum: usize, &own| sum.saturating_add(own));
    if classes < 2 || count == 0 {
        return Err(n.unsupported("a classifier without support vectors. Export it as LinearClassifier"));
    }
    let wanted = [count.saturating_mul(classes - 1), count.saturating_mul(columns), classes * (classes - 1) / 2];
    if [weights.len(), vectors.len(), rho.len()] != wanted {
        return Err(n.unsupported(format!(
            "{} coefficients, {} numbers of vectors and {} of `rho` for {count} vectors of {columns} columns and {classes} classes",
            weights.len(),
            vectors.len(),
            rho.len()
        )));
    }
    let pairs: Vec<(usize, usize)> = (0..classes).flat_map(|a| (a + 1..classes).map(move |b| (a, b))).collect();
    let x = n.build().cast(x, DType::F32)?;
    let kernels = kernels(n, x, &vectors)?;
    // The vectors of both classes of a pair have coefficients in the row of the other class, which leaves out their own.
    let class_of: Vec<usize> = per_class.iter().enumerate().flat_map(|(class, &own)| vec![class; own]).collect();
    let mut table = vec![0.0; count * pairs.len()];
    for (vector, &class) in class_of.iter().enumerate() {
        for (at, &(a, b)) in pairs.iter().enumerate() {
            let row = if class == a { b - 1 } else { a };
            if class == a || class == b {
                table[vector * pairs.len() + at] = weights[row * count + vector];
            }
        }
    }
    let table = n.build().floats([count, pairs.len()], &table, x);
    let sums = n.build().matmul(kernels, table, false)?;
    let offsets = n.build().floats([pairs.len()], &rho, x);
    let sums = n.build().binary(Binary::Add, sums, offsets)?;
    let scores = shares(n, sums, classes)?;
    n.output(1, scores);
    if n.node.output.first().is_some_and(|label| !label.is_empty()) {
        let label = chosen(n, sums, &pairs, classes)?;
        n.output(0, label);
    }
    n.finish(2)
}

/// The second output: the sums of pairs, after the function that the node names, or the probabilities of two classes.
fn shares(n: &mut Node, sums: ValueId, classes: usize) -> Result<ValueId, Error> {
    let (scale, offset) = (list(n, "prob_a"), list(n, "prob_b"));
    let both = match (scale.as_slice(), offset.as_slice(), classes) {
        ([], [], 2) => {
            if n.text("post_transform").is_some_and(|name| name != "NONE") {
                return Err(n.unsupported("`post_transform` of the score of a single pair"));
            }
            let other = n.build().unary(Unary::Neg, sums)?;
            [other, sums]
        }
        ([], [], _) => return transformed(n, sums),
        (&[scale], &[offset], 2) => {
            let scaled = n.build().with(Binary::Mul, sums, scale)?;
            let scaled = n.build().with(Binary::Add, scaled, offset)?;
            let second = n.build().unary(Unary::Sigmoid, scaled)?;
            let one = n.build().scalar(1.0, second);
            let first = n.build().binary(Binary::Sub, one, second)?;
            [first, second]
        }
        _ => {
            let reason = format!(
                "{} and {} numbers of `prob_a` and `prob_b` for {classes} classes: probabilities of more than two classes are found by an iteration. Export \
                 the scores of pairs, without `prob_a`",
                scale.len(),
                offset.len()
            );
            return Err(n.unsupported(reason));
        }
    };
    let id = n.build().concat(&both, 1)?;
    if scale.is_empty() { Ok(id) } else { transformed(n, id) }
}

/// The label of the class that most pairs choose: the first of a pair if its sum is above zero.
fn chosen(n: &mut Node, sums: ValueId, pairs: &[(usize, usize)], classes: usize) -> Result<ValueId, Error> {
    let labels = n.ints("classlabels_ints").unwrap_or_default();
    let labels = labels.iter().map(|&label| i32::try_from(label)).collect::<Result<Vec<i32>, _>>();
    let labels = labels.ok().filter(|labels| labels.len() == classes);
    let labels = labels.ok_or_else(|| n.unsupported(format!("labels that are not {classes} integers of 32 bits")))?;
    let (mut votes, mut second) = (vec![0.0; pairs.len() * classes], vec![0.0; classes]);
    for (at, &(a, b)) in pairs.iter().enumerate() {
        votes[at * classes + a] = 1.0;
        votes[at * classes + b] = -1.0;
        second[b] += 1.0;
    }
    let first = n.build().with(Binary::Greater, sums, 0.0)?;
    let first = n.build().cast(first, DType::F32)?;
    let (votes, second) =
        (n.build().floats([pairs.len(), classes], &votes, first), n.build().floats([classes], &second, first));
    let votes = n.build().matmul(first, votes, false)?;
    let votes = n.build().binary(Binary::Add, votes, second)?;
    let (_, best) = n.build().top_k(votes, 1, 1, false)?;
    let rows = n.shape(best)[0];
    let best = n.build().reshape(best, [rows])?;
    let labels = n.build().integers([classes], labels);
    n.build().gather(labels, best, 0)
}
