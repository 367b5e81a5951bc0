//! Networks built layer by layer, from named native layers.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::model::Model;
use crate::tensor::Array;
use anemone_net::native::{self, Native, Raw};
use anemone_net::read::netplist::inline;
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, TensorType, Value, ValueId, check, infer};
use std::collections::HashMap;
use std::sync::Arc;

/// Axes of every operand: batch, channels, rows, columns.
const RANK: usize = 4;

/// A network under construction. Operands are `[N, C, H, W]` in fp16.
#[derive(Debug, Default)]
pub struct Graph {
    net: Net,
    own: Arc<Mark>,
}

/// Identity of a graph, compared by address; it is not zero-sized, so that addresses differ.
#[derive(Debug, Default)]
struct Mark(#[allow(dead_code)] u8);

/// A value of a graph.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Its name.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    id: ValueId,
    of: Arc<Mark>,
}

impl Graph {
    /// A graph without layers.
    pub fn new(name: &str) -> Graph {
        Graph { net: Net { name: name.to_string(), ..Net::default() }, own: Arc::default() }
    }

    /// An input with these extents.
    pub fn input(&mut self, name: &str, shape: &[usize]) -> Result<Operand> {
        let operand = self.value(name, shape, None)?;
        self.net.inputs.push(operand.id);
        Ok(operand)
    }

    /// A constant; a single element may be given without extents.
    pub fn constant(&mut self, name: &str, array: &Array) -> Result<Operand> {
        let shape = if array.data.len() == 1 { vec![1; RANK] } else { array.shape.clone() };
        self.value(name, &shape, Some(&array.data))
    }

    fn value(&mut self, name: &str, shape: &[usize], data: Option<&[f32]>) -> Result<Operand> {
        if self.net.find(name).is_some() {
            return Err(Diagnostic::new(Code::Usage, format!("the name {name} is used already")));
        }
        let elements = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        if shape.len() != RANK || elements.is_none_or(|n| n == 0 || data.is_some_and(|d| d.len() != n)) {
            let message = format!("{name} has shape {shape:?}, expected are {RANK} axes of at least 1: [N, C, H, W]");
            return Err(Diagnostic::new(Code::BadTensor, message));
        }
        let ty = TensorType::new(DType::F16, shape);
        let data = data.map(|d| Arc::new(Tensor { shape: shape.to_vec(), data: Data::from_f32(DType::F16, d) }));
        let id = self.net.add_value(Value { name: name.to_string(), ty, data, surface: None });
        Ok(Operand { name: name.to_string(), shape: shape.to_vec(), id, of: self.own.clone() })
    }

    /// The operand's value, if it belongs to this graph.
    fn id(&self, operand: &Operand) -> Result<ValueId> {
        match Arc::ptr_eq(&operand.of, &self.own) {
            true => Ok(operand.id),
            false => Err(Diagnostic::new(Code::Usage, format!("{} is of another graph", operand.name))),
        }
    }

    /// A native layer by its `Type` tag, independent of case and underscores; its result is called `name`.
    ///
    /// Errors: an unknown tag, parameters that its schema does not accept, operands that do not match.
    pub fn native(&mut self, name: &str, tag: &str, operands: &[Operand], params: &[(String, Raw)]) -> Result<Operand> {
        let named = native::named(tag).ok_or_else(|| {
            let near = native::nearest(tag).map_or(String::new(), |near| format!("the nearest is {near}; "));
            Diagnostic::new(Code::Usage, format!("no native layer is called {tag}"))
                .help(format!("{near}`ane ops --layers` lists them"))
        })?;
        let inputs: Vec<ValueId> = operands.iter().map(|o| self.id(o)).collect::<Result<_>>()?;
        let constants: Vec<bool> = inputs.iter().map(|&id| self.net.value(id).data.is_some()).collect();
        let named = named.with(&constants);
        let refused = |e: anemone_net::Error| {
            Diagnostic::new(Code::Malformed, e.to_string())
                .about(named.tag, name)
                .help(format!("ane ops {}", named.tag))
        };
        let Some(schema) = named.schema else {
            return self.unit(&named, name, &inputs, params).map_err(|e| match e {
                Refusal::Unit(e) => refused(e),
                Refusal::Graph(e) => e,
            });
        };
        let kind = OpKind::Native(Box::new(Native::read(schema, name, params).map_err(refused)?));
        let types: Vec<&TensorType> = inputs.iter().map(|&id| &self.net.value(id).ty).collect();
        let result = infer::infer(&kind, &types, None).map_err(refused)?;
        let [ty] = result.as_slice() else {
            return Err(Diagnostic::new(Code::Defect, format!("{tag} has {} results", result.len())));
        };
        let shape = ty.shape.clone();
        let result = self.value(name, &shape, None)?;
        self.net.ops.push(Op { name: name.to_string(), kind, inputs, outputs: vec![result.id] });
        Ok(result)
    }

    /// A unit that is translated to operations of the graph by the reader of netplists.
    fn unit(
        &mut self,
        named: &native::Named,
        name: &str,
        inputs: &[ValueId],
        params: &[(String, Raw)],
    ) -> std::result::Result<Operand, Refusal> {
        let of = |&id: &ValueId| {
            let value = self.net.value(id);
            inline::Operand { ty: value.ty.clone(), data: value.data.clone() }
        };
        let stated: Vec<inline::Operand> = inputs.iter().map(of).collect();
        let unit = inline::unit(named, name, &stated, params).map_err(Refusal::Unit)?;
        let computed = inputs.iter().zip(&stated).filter(|(_, o)| o.data.is_none()).map(|(&id, _)| id);
        let mut made: HashMap<ValueId, ValueId> = unit.inputs.iter().copied().zip(computed).collect();
        let last = unit.outputs.first().copied();
        let mut result = None;
        for op in &unit.ops {
            for &id in op.inputs.iter().chain(&op.outputs) {
                if made.contains_key(&id) {
                    continue;
                }
                let value = unit.value(id);
                let title = if Some(id) == last { name.to_string() } else { self.fresh(name) };
                if self.net.find(&title).is_some() {
                    let message = format!("the name {title} is used already");
                    return Err(Refusal::Graph(Diagnostic::new(Code::Usage, message)));
                }
                let (ty, data) = (value.ty.clone(), value.data.clone());
                let shape = ty.shape.clone();
                let own = self.net.add_value(Value { name: title.clone(), ty, data, surface: None });
                made.insert(id, own);
                if Some(id) == last {
                    result = Some(Operand { name: title, shape, id: own, of: self.own.clone() });
                }
            }
            let own = |ids: &[ValueId]| ids.iter().filter_map(|id| made.get(id).copied()).collect::<Vec<_>>();
            let (inputs, outputs) = (own(&op.inputs), own(&op.outputs));
            let title = outputs.first().map_or_else(String::new, |&id| self.net.value(id).name.clone());
            self.net.ops.push(Op { name: title, kind: op.kind.clone(), inputs, outputs });
        }
        result.ok_or_else(|| Refusal::Graph(Diagnostic::new(Code::Defect, format!("{name} has no result"))))
    }

    /// An unused name with this prefix.
    fn fresh(&self, stem: &str) -> String {
        let mut at = self.net.values.len();
        loop {
            let name = format!("{stem}.{at}");
            if self.net.find(&name).is_none() {
                return name;
            }
            at += 1;
        }
    }

    /// Makes a layer's result an output.
    pub fn output(&mut self, operand: &Operand) -> Result<()> {
        let id = self.id(operand)?;
        if !self.net.outputs.contains(&id) {
            self.net.outputs.push(id);
        }
        Ok(())
    }

    /// The network, checked.
    pub fn model(&self) -> Result<Model> {
        if self.net.outputs.is_empty() {
            return Err(Diagnostic::new(Code::Usage, "the graph has no output").help("call output() for a result"));
        }
        check::check(&self.net).map_err(|all| {
            let text: Vec<String> = all.iter().map(|e| e.to_string()).collect();
            Diagnostic::new(Code::Malformed, text.join("; "))
        })?;
        Ok(Model::Net { net: Box::new(self.net.clone()), notes: Vec::new() })
    }
}

/// Reason for the refusal of a unit.
enum Refusal {
    /// By its reader.
    Unit(anemone_net::Error),
    /// By the graph.
    Graph(Diagnostic),
}
