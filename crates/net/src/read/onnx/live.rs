//! Nodes whose results are read: others have no effect, and are not translated.

use super::proto::{Graph, Node};
use std::borrow::Cow;
use std::collections::HashSet;

/// The nodes of a graph that its outputs depend on.
pub fn nodes(graph: &Graph) -> Cow<'_, [Node]> {
    let mut read: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let mut live = vec![false; graph.node.len()];
    for (node, live) in graph.node.iter().zip(&mut live).rev() {
        *live = node.output.iter().any(|name| read.contains(name.as_str()));
        if *live {
            read_by(node, &mut read);
        }
    }
    if live.iter().all(|&live| live) {
        return Cow::Borrowed(&graph.node);
    }
    let kept = graph.node.iter().zip(live).filter(|(_, live)| *live);
    Cow::Owned(kept.map(|(node, _)| node.clone()).collect())
}

/// Adds the names that a node and its subgraphs read.
fn read_by<'a>(node: &'a Node, read: &mut HashSet<&'a str>) {
    read.extend(node.input.iter().map(String::as_str));
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
        graph.node.iter().for_each(|node| read_by(node, read));
        read.extend(graph.output.iter().map(|output| output.name.as_str()));
    }
}
