//! A node: its operands and attributes, and the values of its outputs.

use super::proto::{self, Attribute};
use super::{
    Translator, attention, bits, classical, contributed, counts, elementwise, index, linear_attention, loss, made,
    masked, normalize, quantized, recurrent, regions, rows, sequence, shape, spatial, spectrum, subgraph,
};
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{DType, Tensor, ValueId};
use crate::stored::Element;
use std::sync::Arc;

/// Most operations that are searched for the input of a value.
const LONGEST_CHAIN: usize = 64;

/// Operators that a static graph cannot represent, or that are not arithmetic, each with its reason and a suggestion.
pub const REFUSED: &[(&[&str], &str)] = &[
    (
        &["NonZero", "Unique", "Compress", "NonMaxSuppression"],
        "the extents of its result depend on values: the graph is static. End the model before it, and do this on the host",
    ),
    (
        &["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"],
        "random numbers at run time: results would not repeat. Make the numbers an input of the model",
    ),
    (
        &["StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch", "TfIdfVectorizer", "LabelEncoder"],
        "strings are not tensors of numbers. Begin the model after it, with its result as an input",
    ),
    (&["ImageDecoder"], "files within tensors are not decoded. Make the decoded image an input of the model"),
    (&["Adam", "Adagrad", "Momentum", "Gradient"], "training is not part of a network. Export the model for inference"),
    (&["DictVectorizer", "CastMap", "ZipMap"], "maps are not tensors. Export without them (skl2onnx: zipmap=False)"),
];

/// Domains without a translation, each with its reason and a suggestion.
const REFUSED_DOMAINS: &[(&str, &str)] = &[(
    "com.microsoft.nchwc",
    "its weights are in blocks as wide as the vectors of the processor that ONNX Runtime saved the graph on. Save it with a graph \
     optimization level of at most ORT_ENABLE_EXTENDED",
)];

/// A node under translation.
pub struct Node<'n, 'a> {
    pub t: &'n mut Translator<'a>,
    pub node: &'n proto::Node,
    pub inputs: Vec<Option<ValueId>>,
}

impl<'n, 'a> Node<'n, 'a> {
    pub fn new(t: &'n mut Translator<'a>, node: &'n proto::Node) -> Result<Self, Error> {
        let first = node.output.iter().find(|o| !o.is_empty()).cloned().unwrap_or_default();
        let place = || format!("{} `{first}`", node.op_type);
        let reads_sequences = sequence::reads(&node.op_type);
        let unbound = |name: &String| t.sequences.contains_key(name) || t.absent.contains(name);
        let operand = |name: &String| match name.is_empty() || reads_sequences && unbound(name) {
            true => Ok(None),
            false => t.value(name, &place()).map(Some),
        };
        let inputs = node.input.iter().map(operand).collect::<Result<Vec<_>, Error>>()?;
        let name = if node.name.is_empty() { first.clone() } else { node.name.clone() };
        t.build.begin(&first, &name);
        Ok(Node { t, node, inputs })
    }

    pub fn translate(mut self) -> Result<(), Error> {
        let known = matches!(self.node.domain.as_str(), "" | "ai.onnx");
        if known {
            counts::check(&self)?;
        }
        if rows::translate(&mut self)? {
            return Ok(());
        }
        self.translate_known()
    }

    /// Translates the node, whatever its operands are.
    pub fn translate_known(&mut self) -> Result<(), Error> {
        let n = self;
        let known = matches!(n.node.domain.as_str(), "" | "ai.onnx");
        let done = known
            && (sequence::translate(n)?
                || elementwise::translate(n)?
                || made::translate(n)?
                || shape::translate(n)?
                || index::translate(n)?
                || spatial::translate(n)?
                || regions::translate(n)?
                || spectrum::translate(n)?
                || bits::translate(n)?
                || linear_attention::translate(n)?
                || normalize::translate(n)?
                || attention::translate(n)?
                || loss::translate(n)?
                || quantized::translate(n)?
                || recurrent::translate(n)?
                || classical::translate(n)?)
            || n.node.domain == classical::DOMAIN && classical::translate_classical(n)?
            || n.node.domain == masked::DOMAIN && masked::translate(n)?
            || n.node.domain == contributed::DOMAIN && contributed::translate(n)?
            || n.node.domain == attention::PREVIEW && attention::translate_preview(n)?
            || subgraph::translate(n)?;
        if done {
            return Ok(());
        }
        let op = n.node.op_type.as_str();
        let domain = REFUSED_DOMAINS.iter().find(|row| row.0 == n.node.domain).map(|row| row.1);
        let reason = domain.or(REFUSED.iter().find(|(names, _)| names.contains(&op)).map(|row| row.1));
        Err(n.unsupported(match (reason, n.node.domain.as_str()) {
            (Some(reason), _) => reason.to_string(),
            (None, _) if known => "no translation for this operator".to_string(),
            (None, classical::DOMAIN) => {
                "no translation for this operator of ai.onnx.ml. Run it on the host".to_string()
            }
            (None, domain) => {
                format!("no translation for operators of the domain {domain}. Export with operators of ai.onnx")
            }
        }))
    }

    pub fn op(&self) -> &'n str {
        &self.node.op_type
    }

    pub fn build(&mut self) -> &mut Builder {
        &mut self.t.build
    }

    pub fn opset(&self) -> i64 {
        self.t.opset
    }

    pub fn unsupported(&self, reason: impl Into<String>) -> Error {
        let output = self.node.output.first().cloned().unwrap_or_default();
        Error::Unsupported { op: self.node.op_type.clone(), output, reason: reason.into() }
    }

    /// The node in messages: its operator, and the name of its first output.
    pub fn place(&self) -> String {
        format!("{} `{}`", self.node.op_type, self.node.output.first().map_or("", String::as_str))
    }

    pub fn missing(&self, key: &str) -> Error {
        Error::Missing { place: self.place(), key: key.to_string() }
    }

    /// An optional operand.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// A required operand.
    pub fn need(&self, index: usize) -> Result<ValueId, Error> {
        self.input(index).ok_or_else(|| self.missing(&format!("input {index}")))
    }

    pub fn shape(&self, id: ValueId) -> Vec<usize> {
        self.t.build.shape(id)
    }

    pub fn dtype(&self, id: ValueId) -> DType {
        self.t.build.dtype(id)
    }

    pub fn attribute(&self, name: &str) -> Option<&'n Attribute> {
        self.node.attribute.iter().find(|a| a.name == name)
    }

    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |a| a.i)
    }

    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.int(name, default.into()) != 0
    }

    pub fn float(&self, name: &str, default: f32) -> f32 {
        self.attribute(name).map_or(default, |a| a.f)
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.attribute(name).map(|a| String::from_utf8_lossy(&a.s).into_owned())
    }

    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|a| a.ints.clone())
    }

    pub fn size(&self, name: &str, value: i64) -> Result<usize, Error> {
        usize::try_from(value).map_err(|_| self.unsupported(format!("`{name}` is {value}")))
    }

    pub fn sizes(&self, name: &str, values: &[i64]) -> Result<Vec<usize>, Error> {
        values.iter().map(|&v| self.size(name, v)).collect()
    }

    /// Data of an operand that must be constant while reading.
    pub fn constant(&self, index: usize, what: &str) -> Result<Option<Arc<Tensor>>, Error> {
        let Some(id) = self.input(index) else { return Ok(None) };
        match self.t.build.data(id) {
            Some(tensor) => Ok(Some(tensor.clone())),
            None => Err(self.unsupported(match self.integer_behind(id) {
                Some(input) => format!(
                    "`{what}` is computed at run time from input `{input}`: the graph is static. Give `{input}` a value that is known before (`--value \
                     {input}=...`), or export with a constant"
                ),
                None => format!("`{what}` is computed at run time: the graph is static. Export with a constant"),
            })),
        }
    }

    /// An input of integers that a value is computed from, if it is computed from such inputs and constants alone.
    pub fn integer_behind(&self, id: ValueId) -> Option<&str> {
        let net = &self.t.build.net;
        let (mut open, mut found, mut steps) = (vec![id], None, 0);
        while let Some(id) = open.pop() {
            let value = net.value(id);
            steps += 1;
            if value.data.is_some() {
                continue;
            }
            if net.inputs.contains(&id) && value.ty.dtype == DType::I32 {
                found = Some(value.name.as_str());
                continue;
            }
            let maker = net.ops.iter().rev().find(|op| op.outputs.contains(&id)).filter(|_| steps <= LONGEST_CHAIN)?;
            open.extend(&maker.inputs);
        }
        found
    }

    /// Integers of an operand that must be constant while reading.
    pub fn integers(&self, index: usize, what: &str) -> Result<Option<Vec<i64>>, Error> {
        Ok(self.constant(index, what)?.map(|t| t.data.to_i32().into_iter().map(i64::from).collect()))
    }

    /// Integers from an attribute in older opsets, from an operand in newer ones.
    pub fn either(&self, name: &str, index: usize) -> Result<Option<Vec<i64>>, Error> {
        match self.ints(name) {
            Some(values) => Ok(Some(values)),
            None => self.integers(index, name),
        }
    }

    /// An axis of a tensor of this rank; negative ones count from the end.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize, Error> {
        let at = if axis < 0 { axis + rank as i64 } else { axis };
        let inside = usize::try_from(at).ok().filter(|&a| a < rank);
        inside.ok_or_else(|| self.unsupported(format!("axis {axis} of a tensor of rank {rank}")))
    }

    /// Sorted axes without duplicates.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, Error> {
        let mut axes = axes.iter().map(|&a| self.axis(a, rank)).collect::<Result<Vec<usize>, Error>>()?;
        axes.sort_unstable();
        axes.dedup();
        Ok(axes)
    }

    /// Binds the first output; returns true.
    pub fn done(&mut self, id: ValueId) -> Result<bool, Error> {
        self.output(0, id);
        self.finish(1)
    }

    /// Binds an output, if it is used.
    pub fn output(&mut self, index: usize, id: ValueId) {
        let Some(name) = self.node.output.get(index).filter(|n| !n.is_empty()) else { return };
        // Names in inner graphs may repeat.
        let own = if self.t.depth == 0 { name.clone() } else { self.t.build.fresh(name) };
        self.t.build.entitle(id, &own);
        self.t.sequences.remove(name);
        self.t.absent.remove(name);
        self.t.values.insert(name.clone(), id);
        if let Some(element) = self.unsigned(id) {
            self.t.note_element(id, element);
        }
    }

    /// Makes an output an optional value without element.
    pub fn output_absent(&mut self, index: usize) {
        if let Some(name) = self.node.output.get(index) {
            self.t.absent.insert(name.clone());
        }
    }

    /// Binds an output to a sequence, if it is used.
    pub fn output_sequence(&mut self, index: usize, items: Vec<ValueId>) {
        let Some(name) = self.node.output.get(index).filter(|n| !n.is_empty()) else { return };
        self.t.values.remove(name);
        self.t.sequences.insert(name.clone(), items);
    }

    /// The unsigned integers of 32 or 64 bits that a result is of, as its first operand of integers is: results of another type
    /// are no integers of 32 bits here, or are not negative.
    fn unsigned(&self, id: ValueId) -> Option<Element> {
        let own = matches!(self.op(), "Cast" | "CastLike" | "OneHot");
        if own || self.t.build.dtype(id) != DType::I32 || self.inputs.contains(&Some(id)) {
            return None;
        }
        let mut integers = self.inputs.iter().flatten().filter(|&&x| self.t.build.dtype(x) == DType::I32);
        let element = self.t.wide_element(*integers.next()?)?;
        matches!(element, Element::UInt(_)).then_some(element)
    }

    /// Requires all used outputs to be bound.
    pub fn finish(&self, given: usize) -> Result<bool, Error> {
        match self.node.output.iter().skip(given).find(|o| !o.is_empty()) {
            None => Ok(true),
            Some(name) => Err(self.unsupported(format!("its output `{name}` has no translation"))),
        }
    }
}
