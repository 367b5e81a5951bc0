//! Nodes whose results are read, each behind those that it reads: others have no effect, and are not translated.

use super::proto::{Graph, Node};
use crate::error::Error;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Refuses a graph without outputs, and names that several nodes define: a reader of one would not know which.
pub fn once(graph: &Graph) -> Result<(), Error> {
    if graph.output.is_empty() {
        return Err(Error::Missing { place: "the graph".to_string(), key: "outputs".to_string() });
    }
    let mut defined = HashSet::new();
    for node in &graph.node {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if !defined.insert(name.as_str()) {
                return Err(Error::DefinedTwice { op: node.op_type.clone(), value: name.clone() });
            }
        }
    }
    Ok(())
}

/// The nodes of a graph that its outputs depend on, in an order in which they can be computed.
pub fn nodes(graph: &Graph) -> Cow<'_, [Node]> {
    match ordered(&graph.node) {
        Cow::Borrowed(nodes) => live(nodes, graph),
        Cow::Owned(nodes) => Cow::Owned(live(&nodes, graph).into_owned()),
    }
}

/// The nodes with every maker before its readers, else in the order of the file. The standard asks files for such an order, but some
/// tools append nodes, and ONNX Runtime orders them by itself. Nodes that read each other stay as they are.
fn ordered(nodes: &[Node]) -> Cow<'_, [Node]> {
    let mut makers = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if makers.insert(name.as_str(), at).is_some() {
                return Cow::Borrowed(nodes);
            }
        }
    }
    let needs = |node| {
        let mut read = HashSet::new();
        read_by(node, &mut read);
        read.iter().filter_map(|name| makers.get(name).copied()).collect::<HashSet<usize>>()
    };
    let needs: Vec<HashSet<usize>> = nodes.iter().map(needs).collect();
    if needs.iter().enumerate().all(|(at, needs)| needs.iter().all(|&from| from < at)) {
        return Cow::Borrowed(nodes);
    }
    let mut readers = vec![Vec::new(); nodes.len()];
    let mut open: Vec<usize> = needs.iter().map(HashSet::len).collect();
    for (at, needs) in needs.iter().enumerate() {
        needs.iter().for_each(|&from| readers[from].push(at));
    }
    let mut ready: BinaryHeap<_> = (0..nodes.len()).filter(|&at| open[at] == 0).map(Reverse).collect();
    let mut order = Vec::new();
    while let Some(Reverse(at)) = ready.pop() {
        order.push(nodes[at].clone());
        for &reader in &readers[at] {
            open[reader] -= 1;
            if open[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    if order.len() == nodes.len() { Cow::Owned(order) } else { Cow::Borrowed(nodes) }
}

fn live<'n>(nodes: &'n [Node], graph: &Graph) -> Cow<'n, [Node]> {
    let mut read: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let mut live = vec![false; nodes.len()];
    for (node, live) in nodes.iter().zip(&mut live).rev() {
        *live = node.output.iter().any(|name| read.contains(name.as_str()));
        if *live {
            read_by(node, &mut read);
        }
    }
    if live.iter().all(|&live| live) {
        return Cow::Borrowed(nodes);
    }
    let kept = nodes.iter().zip(live).filter(|(_, live)| *live);
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
