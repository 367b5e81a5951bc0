//! Single operators over the graph that another reader builds: rows whose number depends on values follow the same rules in every format.

use super::node::Node;
use super::rows::Computed;
use super::{Translator, follow, proto};
use crate::build::Builder;
use crate::error::Error;
use crate::graph::ValueId;
use crate::read::{MemoryFiles, Options};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

/// Opset of the operators.
const OPSET: i64 = 22;

/// The graph of another reader, with what is known of its rows.
pub struct Lent<'b> {
    pub build: &'b mut Builder,
    pub computed: &'b mut Computed,
    pub notes: &'b mut Vec<String>,
}

impl Lent<'_> {
    /// Translates nodes, and adds their results to the values.
    pub fn translate(&mut self, nodes: &[proto::Node], values: &mut HashMap<String, ValueId>) -> Result<(), Error> {
        self.with(values, |t| nodes.iter().try_for_each(|node| Node::new(t, node)?.translate()))
    }

    /// Marks results that the other reader made as this node's would be marked; a result that is an operand becomes a copy of it.
    pub fn follow(&mut self, node: &proto::Node, values: &mut HashMap<String, ValueId>) -> Result<(), Error> {
        self.with(values, |t| follow::follow(&mut Node::new(t, node)?).map(|_| ()))
    }

    fn with(
        &mut self,
        values: &mut HashMap<String, ValueId>,
        work: impl FnOnce(&mut Translator) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (files, options, lost) = (MemoryFiles::default(), Options::default(), OnceCell::new());
        let mut translator = Translator {
            build: std::mem::replace(self.build, Builder::new("")),
            files: &files,
            options: &options,
            opset: OPSET,
            functions: &[],
            values: std::mem::take(values),
            sequences: HashMap::new(),
            absent: HashSet::new(),
            external: HashMap::new(),
            wide: HashMap::new(),
            depth: 0,
            notes: Vec::new(),
            left: None,
            computed: std::mem::take(self.computed),
            lost: &lost,
        };
        let done = work(&mut translator);
        let Translator { build, values: made, computed, mut notes, .. } = translator;
        (*self.build, *self.computed, *values) = (build, computed, made);
        self.notes.append(&mut notes);
        done
    }
}
