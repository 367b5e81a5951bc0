//! Drawing of the layer graph in Graphviz's DOT language.

use super::{Graph, Layer, Role};
use std::collections::HashMap;
use std::fmt::Write;

/// A label in Graphviz's language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

impl Graph {
    /// The graph in Graphviz's language: a box for a layer, coloured by its engine, an ellipse for a port, the buffer on
    /// each edge. An edge comes from every layer that has written the buffer before.
    pub fn dot(&self) -> String {
        let mut out =
            format!("digraph {} {{\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\"];\n", quoted(&self.name));
        for &id in &self.inputs {
            let _ = writeln!(out, "  b{} [label={}, shape=ellipse];", id.0, quoted(&self.buffer(id).name));
        }
        let mut writers: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, layer) in self.layers.iter().enumerate() {
            let colour = if layer.is_neural() { "lightblue" } else { "wheat" };
            let label = quoted(&format!("{i} {}\n{} {}", layer.name, layer.dialect(), layer.kind));
            let _ = writeln!(out, "  l{i} [label={label}, style=filled, fillcolor={colour}];");
            for (from, label) in self.edges(layer, &writers) {
                let _ = writeln!(out, "  {from} -> l{i} [label={}];", quoted(&label));
            }
            writers.entry(layer.result.buffer.0).or_default().push(i);
        }
        for &id in &self.outputs {
            let _ = writeln!(out, "  b{} [label={}, shape=ellipse];", id.0, quoted(&self.buffer(id).name));
            for from in writers.get(&id.0).into_iter().flatten() {
                let _ = writeln!(out, "  l{from} -> b{};", id.0);
            }
        }
        out + "}\n"
    }

    /// Edges into a layer: the writer's node, and a label with the source's extents. Constants have no edge.
    fn edges(&self, layer: &Layer, writers: &HashMap<u32, Vec<usize>>) -> Vec<(String, String)> {
        let mut edges = Vec::new();
        for source in &layer.sources {
            let (id, [g, c, h]) = (source.buffer.0, source.axes.map(|a| a.extent));
            let label = format!("%{id} {g}x{c}x{h}x{}", source.width);
            match writers.get(&id) {
                Some(writers) => edges.extend(writers.iter().map(|w| (format!("l{w}"), label.clone()))),
                None if self.buffer(source.buffer).role == Role::Input => edges.push((format!("b{id}"), label)),
                None => {}
            }
        }
        edges
    }
}
