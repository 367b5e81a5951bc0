//! Arithmetic operators of classical machine learning: thresholds, selected features, n-gram counts; and optional values that are
//! tensors or absent.

use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, Tensor, ValueId};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};

/// Domain of classical models.
pub const DOMAIN: &str = "ai.onnx.ml";

/// Most comparisons of windows of one length with the n-grams of a list.
const COMPARED: usize = 1 << 24;

/// Translates the operator of the standard domain if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "TfIdfVectorizer" if n.attribute("pool_int64s").is_some_and(|a| !a.ints.is_empty()) => counted(n),
        // A tensor or a sequence is its own optional value; an absent one has no binding.
        "Optional" | "OptionalGetElement" => optional(n),
        // A tensor is an element; an omitted operand is not.
        "OptionalHasElement" => {
            let has = n.input(0).is_some() || items(n).is_some();
            let id = n.build().mask(Vec::new(), vec![has]);
            n.done(id)
        }
        _ => Ok(false),
    }
}

/// The sequence that the first operand names.
fn items(n: &Node) -> Option<Vec<ValueId>> {
    n.node.input.first().and_then(|name| n.t.sequences.get(name)).cloned()
}

/// `Optional` of a value and its element: the value itself. Absent ones are of a type alone.
fn optional(n: &mut Node) -> Result<bool, Error> {
    match (n.input(0), items(n)) {
        (Some(x), _) => n.done(x),
        (None, Some(items)) => {
            n.output_sequence(0, items);
            n.finish(1)
        }
        (None, None) if n.op() == "Optional" => {
            n.output_absent(0);
            n.finish(1)
        }
        (None, None) => Err(n.unsupported("an optional value without element")),
    }
}

/// Translates the operator of [`DOMAIN`] if it belongs to this group; returns false otherwise.
pub fn translate_classical(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Binarizer" => {
            let x = n.need(0)?;
            let (threshold, dtype) = (n.float("threshold", 0.0), n.dtype(x));
            let above = n.build().with(Binary::Greater, x, threshold)?;
            let id = n.build().cast(above, dtype)?;
            n.done(id)
        }
        "ArrayFeatureExtractor" => {
            let (x, places) = (n.need(0)?, n.need(1)?);
            let count = n.shape(places).iter().product::<usize>();
            let places = n.build().reshape(places, [count])?;
            let (rank, axis) = (n.shape(x).len(), n.shape(x).len().saturating_sub(1));
            let mut id = n.build().gather(x, places, axis)?;
            if rank == 1 {
                id = n.build().reshape(id, [1, count])?;
            }
            n.done(id)
        }
        "Scaler" => {
            let x = n.need(0)?;
            let (offset, scale) = (listed(n, "offset", x)?, listed(n, "scale", x)?);
            let moved = n.build().binary(Binary::Sub, x, offset)?;
            let id = n.build().binary(Binary::Mul, moved, scale)?;
            n.done(id)
        }
        "Imputer" => imputed(n),
        "LabelEncoder" => encoded(n),
        "Normalizer" => normalized(n),
        "LinearRegressor" | "LinearClassifier" => linear(n),
        "TreeEnsembleRegressor" | "TreeEnsembleClassifier" | "TreeEnsemble" => super::ensembles::translate(n),
        "SVMRegressor" | "SVMClassifier" => super::vectors::translate(n),
        "FeatureVectorizer" => {
            let parts = n.inputs.iter().map(|x| x.ok_or_else(|| n.missing("input"))).collect::<Result<Vec<_>, _>>()?;
            let widths = n.ints("inputdimensions").unwrap_or_default();
            let found: Vec<i64> = parts.iter().map(|&x| n.shape(x).last().map_or(0, |&w| w as i64)).collect();
            if found != widths || parts.iter().any(|&x| n.shape(x).len() != 2) {
                return Err(n.unsupported(format!("{found:?} columns, {widths:?} declared, or operands not of rank 2")));
            }
            let single = |x: &ValueId| n.build().cast(*x, DType::F32);
            let parts = parts.iter().map(single).collect::<Result<Vec<_>, _>>()?;
            let id = n.build().concat(&parts, 1)?;
            n.done(id)
        }
        "OneHotEncoder" => {
            let x = n.need(0)?;
            let Some(kinds) = n.ints("cats_int64s").filter(|kinds| !kinds.is_empty() && n.flag("zeros", true)) else {
                return Err(n.unsupported("texts, or an error for an unknown category"));
            };
            let mut wide = n.shape(x);
            wide.push(1);
            let x = n.build().cast(x, DType::I32)?;
            let x = n.build().reshape(x, wide)?;
            let kinds = kinds.iter().map(|&k| i32::try_from(k)).collect::<Result<Vec<i32>, _>>();
            let kinds = kinds.map_err(|_| n.unsupported("a category beyond 32 bits"))?;
            let kinds = n.build().integers([kinds.len()], kinds);
            let same = n.build().binary(Binary::Equal, x, kinds)?;
            let id = n.build().cast(same, DType::F32)?;
            n.done(id)
        }
        _ => Ok(false),
    }
}

/// Numbers of an attribute as a constant beside an operand: one for all columns, or one for each.
fn listed(n: &mut Node, name: &str, like: ValueId) -> Result<ValueId, Error> {
    let list = n.attribute(name).map(|a| a.floats.clone()).unwrap_or_default();
    let columns = n.shape(like).last().copied().unwrap_or(1);
    if list.len() != 1 && list.len() != columns {
        return Err(n.unsupported(format!("{} numbers of `{name}` for {columns} columns", list.len())));
    }
    Ok(n.build().floats([list.len()], &list, like))
}

/// Numbers that a node lists under one of its names, as integers or floats.
fn numbers(n: &mut Node, stem: &str) -> Option<Tensor> {
    if let Some(whole) = n.ints(&format!("{stem}_int64s")).filter(|list| !list.is_empty()) {
        let whole = whole.iter().map(|&v| i32::try_from(v)).collect::<Result<Vec<i32>, _>>().ok()?;
        return Some(Tensor::i32([whole.len()], whole));
    }
    let list = n.attribute(&format!("{stem}_floats"))?.floats.clone();
    (!list.is_empty()).then(|| Tensor::f32([list.len()], list))
}

/// `LabelEncoder` of numbers: the value of the first equal key, or a default. Texts are refused with the other operators of texts.
fn encoded(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let (Some(keys), Some(values)) = (numbers(n, "keys"), numbers(n, "values")) else { return Ok(false) };
    if keys.shape != values.shape || keys.data.dtype().is_float() != n.dtype(x).is_float() {
        return Err(n.unsupported(format!(
            "keys {:?} and values {:?} of an operand {}",
            keys.shape,
            values.shape,
            n.t.build.ty(x)
        )));
    }
    let float = values.data.dtype().is_float();
    let (x, keys, values) =
        (n.build().cast(x, keys.data.dtype())?, n.build().constant("keys", keys), n.build().constant("values", values));
    let wide = [n.shape(x), vec![1]].concat();
    let (last, x) = (wide.len() - 1, n.build().reshape(x, wide)?);
    let same = n.build().binary(Binary::Equal, x, keys)?;
    let same = n.build().cast(same, DType::F32)?;
    let first = OpKind::ArgReduce { greatest: true, last: false, axis: last, keep_dims: false };
    let first = n.build().op("first", first, &[same])?;
    let known = n.build().reduce(ReduceKind::Max, same, &[last], false)?;
    let known = n.build().cast(known, DType::Bool)?;
    let found = n.build().gather(values, first, 0)?;
    let other = match float {
        true => {
            let other = n.float("default_float", -0.0);
            n.build().scalar(other, found)
        }
        false => {
            let other = i32::try_from(n.int("default_int64", -1)).unwrap_or(-1);
            n.build().integers([], vec![other])
        }
    };
    let id = n.build().select(known, found, other)?;
    n.done(id)
}

/// The operand with one number replaced.
fn imputed(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    if n.attribute("imputed_value_floats").is_none_or(|a| a.floats.is_empty()) {
        return Err(n.unsupported("values of other types than floats"));
    }
    let (value, replaced) = (listed(n, "imputed_value_floats", x)?, n.float("replaced_value_float", 0.0));
    // NaN, a missing value, differs from itself.
    let missing = match replaced.is_nan() {
        true => n.build().binary(Binary::NotEqual, x, x)?,
        false => n.build().with(Binary::Equal, x, replaced)?,
    };
    let id = n.build().select(missing, value, x)?;
    n.done(id)
}

/// Rows divided by their norm; a row of zeros stays.
fn normalized(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let last = n.axis(-1, n.shape(x).len())?;
    let norm = match n.text("norm").as_deref() {
        None | Some("MAX") => n.build().reduce(ReduceKind::Max, x, &[last], true)?,
        Some("L1") => n.build().reduce(ReduceKind::L1, x, &[last], true)?,
        Some("L2") => n.build().reduce(ReduceKind::L2, x, &[last], true)?,
        Some(other) => return Err(n.unsupported(format!("norm `{other}`"))),
    };
    let (one, none) = (n.build().scalar(1.0, norm), n.build().with(Binary::Equal, norm, 0.0)?);
    let norm = n.build().select(none, one, norm)?;
    let id = n.build().binary(Binary::Div, x, norm)?;
    n.done(id)
}

/// Sums of weighted columns, and their class.
fn linear(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let classes = n.ints("classlabels_ints").unwrap_or_default();
    let list = |name: &str| n.attribute(name).map(|a| a.floats.clone()).unwrap_or_default();
    let (weights, offsets) = (list("coefficients"), list("intercepts"));
    let is_class = n.op() == "LinearClassifier";
    let columns = n.shape(x).last().copied().unwrap_or(0);
    let rows = weights.len() / columns.max(1);
    let stated = if is_class { classes.len() } else { n.size("targets", n.int("targets", 1))? };
    if rows == 0 || rows != stated || weights.len() != rows * columns || ![0, rows].contains(&offsets.len()) {
        return Err(n.unsupported(format!(
            "{} coefficients and {} intercepts for {columns} columns and {stated} results",
            weights.len(),
            offsets.len()
        )));
    }
    let x = n.build().cast(x, DType::F32)?;
    let matrix = n.build().floats([rows, columns], &weights, x);
    let mut scores = n.build().matmul(x, matrix, true)?;
    if !offsets.is_empty() {
        let offsets = n.build().floats([rows], &offsets, scores);
        scores = n.build().binary(Binary::Add, scores, offsets)?;
    }
    if is_class {
        return labelled(n, &classes, scores);
    }
    let id = transformed(n, scores)?;
    n.done(id)
}

/// Scores after the function that the node names.
pub fn transformed(n: &mut Node, scores: ValueId) -> Result<ValueId, Error> {
    let name = n.text("post_transform");
    transformed_by(n, scores, name.as_deref().unwrap_or("NONE"))
}

/// Scores after the function of this name.
pub fn transformed_by(n: &mut Node, scores: ValueId, name: &str) -> Result<ValueId, Error> {
    let last = n.axis(-1, n.shape(scores).len())?;
    match name {
        "NONE" => Ok(scores),
        "SOFTMAX" => n.build().softmax(scores, last),
        "LOGISTIC" => n.build().unary(Unary::Sigmoid, scores),
        other => Err(n.unsupported(format!("`post_transform` is {other}"))),
    }
}

/// Binds the outputs of a classifier: the class of the greatest score, and the scores after the function that the node names.
pub fn labelled(n: &mut Node, classes: &[i64], scores: ValueId) -> Result<bool, Error> {
    let id = transformed(n, scores)?;
    let last = n.axis(-1, n.shape(scores).len())?;
    if n.node.output.first().is_some_and(|label| !label.is_empty()) {
        let labels = classes.iter().map(|&label| i32::try_from(label)).collect::<Result<Vec<i32>, _>>();
        let labels = labels.map_err(|_| n.unsupported("a label beyond 32 bits"))?;
        if labels.len() != n.shape(scores)[last] {
            return Err(n.unsupported(format!("{} integer labels of {} classes", labels.len(), n.shape(scores)[last])));
        }
        let (_, first) = n.build().top_k(scores, last, 1, false)?;
        let mut shape = n.shape(first);
        shape.pop();
        let first = n.build().reshape(first, shape)?;
        let labels = n.build().integers([labels.len()], labels);
        let label = n.build().gather(labels, first, 0)?;
        n.output(0, label);
    }
    n.output(1, id);
    n.finish(2)
}

/// Counts of the n-grams of a list of integers in each row, with elements up to `max_skip_count` apart; clamped to 1
/// (`IDF`) and weighted if the node requests it.
fn counted(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let (rows, width) = match shape[..] {
        [width] => (1, width),
        [rows, width] => (rows, width),
        _ => return Err(n.unsupported("an operand not of rank 1 or 2")),
    };
    let (pool, starts) = (n.ints("pool_int64s").unwrap_or_default(), n.ints("ngram_counts").unwrap_or_default());
    let starts = n.sizes("ngram_counts", &starts)?;
    let places = n.ints("ngram_indexes").unwrap_or_default();
    let places = n.sizes("ngram_indexes", &places)?;
    let number = |n: &Node, key: &str| n.size(key, n.int(key, 0));
    let (least, most) = (number(n, "min_gram_length")?.max(1), number(n, "max_gram_length")?);
    let skips = number(n, "max_skip_count")?;
    let columns = places.iter().max().map_or(0, |&last| last + 1);
    let tokens = n.build().cast(x, DType::I32)?;
    let tokens = n.build().reshape(tokens, [rows, 1, width])?;
    // Counts for each length, with the columns that they belong to.
    let (mut counts, mut belong, mut first): (Vec<ValueId>, Vec<usize>, usize) = (Vec::new(), Vec::new(), 0);
    for (at, &start) in starts.iter().enumerate() {
        let (length, end) = (at + 1, starts.get(at + 1).copied().unwrap_or(pool.len()));
        let Some(grams) = pool.get(start..end).filter(|g| g.len().is_multiple_of(length)) else {
            return Err(n.unsupported(format!("`ngram_counts` {starts:?} for {} numbers", pool.len())));
        };
        let many = grams.len() / length;
        let own = places.get(first..first + many).ok_or_else(|| n.missing("an index of each n-gram"))?.to_vec();
        first += many;
        if many == 0 || !(least..=most).contains(&length) || many.saturating_mul(width) > COMPARED {
            continue;
        }
        let apart = if length == 1 { 0 } else { skips };
        for skip in 0..=apart {
            if let Some(found) = windows(n, tokens, grams, length, skip + 1)? {
                counts.push(found);
                belong.extend(&own);
            }
        }
    }
    let zeros = vec![0.0; rows * columns];
    let like = n.build().constant("like", Tensor::f32([1], vec![0.0]));
    let mut id = if counts.is_empty() {
        n.build().floats([rows, columns], &zeros, like)
    } else {
        let all = n.build().concat(&counts, 1)?;
        let ones: Vec<f32> =
            (0..columns).flat_map(|c| belong.iter().map(move |&b| f32::from(u8::from(b == c)))).collect();
        let ones = n.build().floats([columns, belong.len()], &ones, all);
        n.build().op("counts", OpKind::Combine, &[all, ones])?
    };
    let mode = n.text("mode").unwrap_or_default();
    if mode == "IDF" {
        id = n.build().with(Binary::Min, id, 1.0)?;
    }
    if let Some(weights) = n.attribute("weights").map(|a| a.floats.clone()).filter(|w| mode != "TF" && !w.is_empty()) {
        if weights.len() != columns {
            return Err(n.unsupported(format!("{} weights for {columns} columns", weights.len())));
        }
        let weights = n.build().floats([columns], &weights, id);
        id = n.build().binary(Binary::Mul, id, weights)?;
    }
    if shape.len() == 1 {
        id = n.build().reshape(id, [columns])?;
    }
    n.done(id)
}

/// Number of occurrences of each n-gram of `length` in the rows of `tokens` `[rows, 1, width]`, with elements `step` apart:
/// `[rows, n-grams]`; `None` if rows are too short.
fn windows(n: &mut Node, tokens: ValueId, grams: &[i64], length: usize, step: usize) -> Result<Option<ValueId>, Error> {
    let (width, many) = (n.shape(tokens)[2], grams.len() / length);
    let Some(positions) = width.checked_sub((length - 1) * step).filter(|&p| p > 0) else { return Ok(None) };
    let mut whole = None;
    for at in 0..length {
        let part = n.build().slice(tokens, 2, at * step, at * step + positions)?;
        let clamp = |v: i64| v.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let wanted = grams.iter().skip(at).step_by(length).map(|&g| clamp(g)).collect();
        let wanted = n.build().integers([1, many, 1], wanted);
        let same = n.build().binary(Binary::Equal, part, wanted)?;
        whole = Some(match whole {
            Some(before) => n.build().binary(Binary::Min, before, same)?,
            None => same,
        });
    }
    let Some(whole) = whole else { return Ok(None) };
    let ones = n.build().cast(whole, DType::F32)?;
    n.build().reduce(ReduceKind::Sum, ones, &[2], false).map(Some)
}
