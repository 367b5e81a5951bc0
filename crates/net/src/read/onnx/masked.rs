//! `masked_scatter` as exporters write it: the places where a mask is true, cut from the source as many elements as there are, and a
//! scatter. No result has extents that depend on values, as those between do. Models of images and text insert the
//! features of pictures into the embeddings of words in this way.

use super::node::Node;
use super::proto;
use crate::error::Error;
use crate::graph::{DType, elements};
use crate::ops::{Binary, OpKind};
use std::borrow::Cow;

/// Domain of the operator that stands for such nodes. Exporters do not write it, as it is no host name.
pub const DOMAIN: &str = "(masked)";

/// The nodes with one operator for each scatter by a mask: of the tensor, the mask, the source, and constants that must be zero.
pub fn joined(nodes: &[proto::Node]) -> Cow<'_, [proto::Node]> {
    let found: Vec<_> = nodes.iter().filter_map(|node| masked(nodes, node)).collect();
    if found.is_empty() {
        return Cow::Borrowed(nodes);
    }
    let inner = |node: &proto::Node| found.iter().any(|(_, inner)| inner.contains(&node.output[0].as_str()));
    let kept = nodes.iter().filter(|node| node.output.is_empty() || !inner(node));
    let replaced =
        |node: &proto::Node| found.iter().find(|(joined, _)| joined.output == node.output).map(|f| f.0.clone());
    Cow::Owned(kept.map(|node| replaced(node).unwrap_or_else(|| node.clone())).collect())
}

/// The operator for the scatter that follows this search for places, and the results between.
fn masked<'a>(nodes: &'a [proto::Node], search: &'a proto::Node) -> Option<(proto::Node, Vec<&'a str>)> {
    let readers = |name: &'a str| nodes.iter().filter(move |node| node.input.iter().any(|input| input == name));
    let only = |name: &'a str| {
        let mut all = readers(name);
        all.next().filter(|_| all.next().is_none())
    };
    let result = |node: &'a proto::Node| node.output.first().map(String::as_str);
    if search.op_type != "NonZero" {
        return None;
    }
    let rows = only(result(search)?).filter(|node| {
        let perm = node.attribute.iter().find(|a| a.name == "perm");
        node.op_type == "Transpose" && perm.is_none_or(|a| a.ints == [1, 0])
    })?;
    let places = result(rows)?;
    let scatter = readers(places).find(|node| node.op_type == "ScatterND" && node.attribute.iter().all(plain))?;
    let count = readers(places).find(|node| node.op_type == "Shape")?;
    if readers(places).count() != 2 || scatter.input.get(1)? != places || scatter.input.get(2)? == places {
        return None;
    }
    let mut inner = vec![result(search)?, places, result(count)?];
    let first = only(result(count)?).filter(|node| node.op_type == "Gather")?;
    let (mut zeros, mut last) = (vec![first.input.get(1)?.clone()], first);
    let cut = loop {
        inner.push(result(last)?);
        let next = only(result(last)?)?;
        match next.op_type.as_str() {
            "Unsqueeze" | "Cast" | "Reshape" if next.input[0] == *result(last)? => last = next,
            "Slice" if next.input.len() < 5 && next.input.get(2)? == result(last)? => break next,
            _ => return None,
        }
    };
    zeros.extend([1, 3].iter().filter_map(|&at| cut.input.get(at)).cloned());
    if scatter.input[2] != result(cut)? || only(result(cut)?)?.output != scatter.output {
        return None;
    }
    inner.push(result(cut)?);
    let input = [scatter.input[0].clone(), search.input.first()?.clone(), cut.input[0].clone()];
    let input = input.into_iter().chain(zeros).collect();
    let op_type = "MaskedScatter".to_string();
    Some((proto::Node { op_type, domain: DOMAIN.to_string(), input, attribute: Vec::new(), ..scatter.clone() }, inner))
}

fn plain(attribute: &proto::Attribute) -> bool {
    attribute.name != "reduction" || *attribute.s == *b"none"
}

/// Returns true if the elements of the source begin with the first.
pub fn from_first(n: &Node) -> Result<bool, Error> {
    let starts = (3..n.inputs.len()).map(|at| Ok(n.integers(at, "start")?.is_none_or(|list| list == [0])));
    Ok(starts.collect::<Result<Vec<bool>, Error>>()?.into_iter().all(|zero| zero))
}

/// Elements of the source in order, where the mask is true.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    let (x, mask, source) = (n.need(0)?, n.need(1)?, n.need(2)?);
    if !from_first(n)? {
        return Err(n.unsupported("places where a mask is true, but for the first of a source"));
    }
    let (shape, held) = (n.shape(x), n.shape(source));
    if n.shape(mask) != shape || held.len() != 1 {
        return Err(n.unsupported("a mask of other extents, or a source of several axes"));
    }
    // A mask of whole rows counts rows.
    let mut whole = mask;
    let mut row = 1;
    if let Some(OpKind::Broadcast) = n.build().maker(mask).map(|op| op.kind.clone()) {
        let from = n.build().maker(mask).map(|op| op.inputs[0]).unwrap_or(mask);
        let rows = n.shape(from);
        let kept = rows.iter().zip(&shape).rposition(|(a, b)| a == b).map_or(0, |axis| axis + 1);
        let alike = rows.len() == shape.len() && rows[..kept] == shape[..kept];
        if alike && elements(&held).is_multiple_of(elements(&shape[kept..])) {
            (whole, row) = (from, elements(&shape[kept..]));
        }
    }
    let (count, rows) = (elements(&shape) / row, elements(&held) / row);
    let mask = n.build().cast(whole, DType::Bool)?;
    let flat = n.build().reshape(mask, [count])?;
    let ones = n.build().cast(flat, DType::I32)?;
    let place = n.build().cumulative_sum(ones, 0, true, false)?;
    let last = n.build().integers([], vec![rows.saturating_sub(1) as i32]);
    let place = n.build().binary(Binary::Min, place, last)?;
    let table = n.build().reshape(source, [rows, row])?;
    let taken = n.build().gather(table, place, 0)?;
    let taken = n.build().reshape(taken, shape)?;
    let id = n.build().select(mask, taken, x)?;
    n.done(id)
}
