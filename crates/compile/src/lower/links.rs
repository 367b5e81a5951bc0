//! The operations that compute and read each value.

use anemone_net::{Net, Op, ValueId};
use std::collections::HashMap;

/// Maker and readers of each value, so that a question about one value does not search the network.
pub(super) struct Links<'a> {
    makers: HashMap<ValueId, &'a Op>,
    readers: HashMap<ValueId, Vec<&'a Op>>,
}

impl<'a> Links<'a> {
    pub(super) fn of(net: &'a Net) -> Links<'a> {
        let mut readers: HashMap<ValueId, Vec<&Op>> = HashMap::new();
        for op in &net.ops {
            for (at, id) in op.inputs.iter().enumerate() {
                if !op.inputs[..at].contains(id) {
                    readers.entry(*id).or_default().push(op);
                }
            }
        }
        Links { makers: crate::rewrite::makers(net), readers }
    }

    /// The operation that computes the value; `None` for inputs and constants.
    pub(super) fn maker(&self, id: ValueId) -> Option<&'a Op> {
        self.makers.get(&id).copied()
    }

    /// Operations that read the value, in order, each once.
    pub(super) fn readers(&self, id: ValueId) -> &[&'a Op] {
        self.readers.get(&id).map_or(&[], Vec::as_slice)
    }
}
