//! Nets as drawings (Graphviz) and as JSON. Constants appear with type and stored size only.

use crate::graph::{Net, ValueId};
use crate::text::attributes_of;
use serde_json::{Value, json};
use std::fmt::Write;

/// The graph as Graphviz text: a box for each operation, with the type on the edge of each value.
pub fn dot(net: &Net) -> String {
    let mut out =
        format!("digraph {} {{\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\"];\n", quoted(&net.name));
    let constant = |id: &ValueId| net.value(*id).data.is_some();
    for &id in &net.inputs {
        let value = net.value(id);
        let label = format!("{}\n{}", value.name, value.ty);
        let _ = writeln!(out, "  v{} [label={}, shape=ellipse];", id.0, quoted(&label));
    }
    let mut producer = std::collections::HashMap::new();
    for (i, op) in net.ops.iter().enumerate() {
        producer.extend(op.outputs.iter().map(|&o| (o, i)));
        let mut label = op.kind.name().to_string();
        for (name, value) in attributes_of(&op.kind) {
            let _ = write!(label, "\n{name}={value}");
        }
        for id in op.inputs.iter().filter(|id| constant(id)) {
            let _ = write!(label, "\n{}: {}", net.value(*id).name, net.value(*id).ty);
        }
        let _ = writeln!(out, "  o{i} [label={}];", quoted(&label));
        for id in op.inputs.iter().filter(|id| !constant(id)) {
            let from = producer.get(id).map_or(format!("v{}", id.0), |p| format!("o{p}"));
            let _ = writeln!(out, "  {from} -> o{i} [label={}];", quoted(&net.value(*id).ty.to_string()));
        }
    }
    for (i, &id) in net.outputs.iter().enumerate() {
        let label = format!("{}\n{}", net.value(id).name, net.value(id).ty);
        let from = producer.get(&id).map_or(format!("v{}", id.0), |p| format!("o{p}"));
        let _ = writeln!(out, "  r{i} [label={}, shape=ellipse];\n  {from} -> r{i};", quoted(&label));
    }
    out + "}\n"
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The graph as a JSON document.
pub fn json(net: &Net) -> Value {
    let name = |id: &ValueId| net.value(*id).name.clone();
    let names = |ids: &[ValueId]| ids.iter().map(name).collect::<Vec<_>>();
    let values: Vec<Value> = (net.values.iter())
        .map(|v| {
            let mut value = json!({ "name": v.name, "type": v.ty.dtype.name(), "shape": v.ty.shape });
            if let Some(tensor) = &v.data {
                value["constant_bytes"] = json!(tensor.data.stored_bytes());
            }
            value
        })
        .collect();
    let ops: Vec<Value> = (net.ops.iter())
        .map(|op| {
            let attributes: serde_json::Map<String, Value> =
                attributes_of(&op.kind).into_iter().map(|(k, v)| (k.to_string(), Value::String(v))).collect();
            json!({ "name": op.name, "kind": op.kind.name(), "inputs": names(&op.inputs), "outputs": names(&op.outputs),
                "attributes": attributes })
        })
        .collect();
    let states: Vec<Value> = (net.states.iter())
        .map(|s| json!({ "name": s.name, "input": name(&s.input), "output": name(&s.output) }))
        .collect();
    json!({ "schema": "anemone.net/1", "name": net.name, "inputs": names(&net.inputs), "outputs": names(&net.outputs),
        "states": states, "values": values, "ops": ops })
}
