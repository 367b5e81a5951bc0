//! Outlines of models with nodes that a static graph cannot represent.

use super::node::Node;
use super::{Translator, masked, proto, translate};
use crate::error::Error;
use crate::graph::ValueId;
use crate::outline::{Argument, Named, Outline, OutlineOp, OutlineType};
use crate::read::{Files, Options};
use bytes::Bytes;
use std::collections::HashMap;

/// Outline of an ONNX model, including models with nodes that a static graph cannot represent: those, and all readers of their results,
/// come last with unknown extents, for the host.
///
/// Errors: those of [`read_onnx`](super::read_onnx), except operators that the graph cannot express.
pub fn outline_onnx(bytes: &[u8], files: &dyn Files, options: &Options) -> Result<(Outline, Vec<String>), Error> {
    let (mut build, mut notes, left) = translate(&Bytes::copy_from_slice(bytes), files, options, true)?;
    // Values that the host reads become outputs of the graph.
    for (name, id) in left.iter().flat_map(|node| &node.operands) {
        if build.data(*id).is_none() && !build.net.inputs.contains(id) && !build.net.outputs.contains(id) {
            build.output(*id, name)?;
        }
    }
    let element = |id: ValueId| crate::outline::typed(build.ty(id));
    let host: Vec<OutlineOp> = left.iter().map(|node| node.outlined(&element)).collect();
    notes.extend(left.iter().filter(|node| !node.follows).map(|node| node.reason.clone()));
    let mut outline = Outline::of(&build.finish());
    outline.outputs.extend(host.iter().flat_map(|op| op.outputs.iter().map(|o| o.name.clone())));
    outline.ops.extend(host);
    Ok((outline, notes))
}

/// A node that a static graph cannot represent.
pub(super) struct Left {
    kind: String,
    /// Operands that are values of the graph.
    operands: Vec<(String, ValueId)>,
    pub(super) outputs: Vec<String>,
    /// Reason of the first such node that this one needs, or of this one, which then begins with its name.
    reason: String,
    /// True if the node only needs results of such nodes.
    follows: bool,
}

impl Left {
    fn name(&self) -> &str {
        self.outputs.first().map_or("", String::as_str)
    }

    fn outlined(&self, ty: &dyn Fn(ValueId) -> OutlineType) -> OutlineOp {
        // The MIL name, if both formats have the operation.
        let op = match self.kind.as_str() {
            "NonMaxSuppression" => "non_maximum_suppression".to_string(),
            "NonZero" => "non_zero".to_string(),
            other => other.to_string(),
        };
        let open = OutlineType { element: "fp32", shape: vec![None], state: false };
        let argument = |(name, id): &(String, ValueId)| {
            ("x".to_string(), Argument::Value(Named { name: name.clone(), ty: ty(*id) }))
        };
        OutlineOp {
            op,
            name: self.name().to_string(),
            arguments: self.operands.iter().map(argument).collect(),
            outputs: self.outputs.iter().map(|name| Named { name: name.clone(), ty: open.clone() }).collect(),
            blocks: 0,
            constant: false,
            unread: Some(self.reason.clone()),
        }
    }
}

impl Translator<'_> {
    /// As [`Translator::nodes`], collecting nodes that the graph cannot express.
    pub(super) fn nodes_for_host(&mut self, nodes: &[proto::Node], mut left: Vec<Left>) -> Result<Vec<Left>, Error> {
        let mut open: HashMap<String, usize> = HashMap::new();
        for node in masked::joined(nodes).iter() {
            let first = node.input.iter().find_map(|name| open.get(name));
            let follows = first.is_some();
            let reason = match first {
                Some(&at) => left[at].reason.clone(),
                None => match Node::new(self, node).and_then(Node::translate) {
                    Ok(()) => continue,
                    Err(Error::Unsupported { reason, .. }) => {
                        format!("{} `{}`: {reason}", node.op_type, node.output.first().map_or("", String::as_str))
                    }
                    Err(other) => return Err(other),
                },
            };
            open.extend(node.output.iter().filter(|name| !name.is_empty()).map(|name| (name.clone(), left.len())));
            let known = |name: &String| Some((name.clone(), *self.values.get(name)?));
            left.push(Left {
                kind: node.op_type.clone(),
                operands: node.input.iter().filter_map(known).collect(),
                outputs: node.output.iter().filter(|o| !o.is_empty()).cloned().collect(),
                reason,
                follows,
            });
        }
        Ok(left)
    }
}
