//! Call sequence of a descriptor: engine calls with the containers that they refer to, processor calls with their code.

use anemone_facts::formats::{by_code, e5 as rows};
use std::collections::{HashMap, HashSet};

use super::build::{Counted, ENGINE_SUFFIX, HostCall, HostTensor, State};
use super::{Descriptor, Record, Value};

/// Largest number of calls of a descriptor, each of which holds its program.
const MOST_CALLS: usize = 1024;

/// A call of an engine program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineCall {
    /// Name of the operation.
    pub name: String,
    /// Hash of the container, hexadecimal.
    pub hash: String,
    /// Name of the program in its container.
    pub symbol: String,
    /// Names of the ports that it reads.
    pub inputs: Vec<String>,
    /// Names of the ports that it writes.
    pub outputs: Vec<String>,
    /// Name and address of the windows of its ports.
    pub windows: Vec<(String, u64)>,
}

/// A call, in the order of the descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Call of an engine program.
    Engine(EngineCall),
    /// Call on the processor.
    Host(HostCall),
}

/// Calls of a descriptor, with its inputs, outputs and states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Calls in order.
    pub calls: Vec<Dispatch>,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Tensors kept between runs.
    pub states: Vec<State>,
    /// Outputs of which another output has the number of real rows.
    pub counted: Vec<Counted>,
}

/// Error for a descriptor whose calls cannot be executed in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unfollowed {
    /// Reason, with the operation's name.
    pub what: String,
    /// True if the descriptor is consistent, but requires an operation that is not supported.
    pub unsupported: bool,
}

fn malformed(what: String) -> Unfollowed {
    Unfollowed { what, unsupported: false }
}

impl Descriptor {
    /// Calls in order. Errors: a tensor that is read before it is written, and states that do not pair an input with an output of the caller.
    pub fn sequence(&self) -> Result<Sequence, Unfollowed> {
        let mut reading = Reading {
            symbols: self.root.list("symbol_names"),
            attributes: self.attributes(),
            out: Sequence::default(),
            on_engine: HashSet::new(),
            on_host: HashSet::new(),
            named: false,
        };
        for frame in self.frames() {
            if let Some(function) = frame.record("function") {
                reading.ends(function);
            }
            if let Some(op) = frame.record("operation") {
                reading.operation(op, frame)?;
            }
        }
        reading.finish()
    }
}

/// State of the walk over the operations of a descriptor.
struct Reading<'a> {
    symbols: &'a [Value],
    attributes: HashMap<&'a str, &'a Record>,
    out: Sequence,
    /// Available tensors on the engine's side, by their name there.
    on_engine: HashSet<&'a str>,
    /// Tensors written by a call, available on the host's side.
    on_host: HashSet<String>,
    /// True if the function declares its inputs and outputs.
    named: bool,
}

impl<'a> Reading<'a> {
    /// Reads the inputs and outputs that the function declares, and which of them count rows: with processor calls, some tensors have no cast.
    fn ends(&mut self, function: &Record) {
        let names = |side| -> Vec<String> {
            let text = |value: &Value| if let Value::Text(name) = value { Some(name.clone()) } else { None };
            function.list(side).iter().filter_map(text).collect()
        };
        self.out.counted.extend(function.records("counted").map(|of| Counted {
            rows: of.text("rows").to_string(),
            count: of.text("count").to_string(),
            axis: of.number("axis") as usize,
        }));
        self.named = !function.list("outputs").is_empty();
        if self.named {
            (self.out.inputs, self.out.outputs) = (names("inputs"), names("outputs"));
        }
    }

    /// Names of the tensors that an operation reads or writes.
    fn tensors(&self, op: &Record, side: &str) -> Result<Vec<&'a str>, Unfollowed> {
        let name = |value: &Value| match value {
            Value::Number(at) => match usize::try_from(*at).ok().and_then(|at| self.symbols.get(at)) {
                Some(Value::Text(name)) => Ok(name.as_str()),
                _ => Err(malformed(format!("{}: no symbol {at} in {side}", op.text("name")))),
            },
            other => Err(malformed(format!("{}: {side} has {other:?}", op.text("name")))),
        };
        op.list(side).iter().map(name).collect()
    }

    fn operation(&mut self, op: &Record, frame: &Record) -> Result<(), Unfollowed> {
        let (inputs, outputs) = (self.tensors(op, "inputs")?, self.tensors(op, "outputs")?);
        if self.out.calls.len() == MOST_CALLS {
            return Err(malformed(format!("{}: it has more than {MOST_CALLS} calls", op.text("name"))));
        }
        match op.number("op_type") as u32 {
            rows::CAST => self.cast(op, &inputs, &outputs),
            rows::ANE_INFERENCE => {
                self.inference((op, frame), &inputs, &outputs)?;
                self.aliases(op, frame)
            }
            rows::CPU_INFERENCE => self.processor((op, frame), &inputs, &outputs),
            kind => {
                let meaning = by_code(rows::OP_TYPES, kind).map_or("unknown kind", |c| c.meaning);
                let name = op.text("name");
                let what = format!("{name}: {meaning}; only engine programs and processor calls are executed");
                Err(Unfollowed { what, unsupported: true })
            }
        }
    }

    /// Follows the cast of an input or output; the binding of the port converts its layout.
    fn cast(&mut self, op: &Record, inputs: &[&'a str], outputs: &[&'a str]) -> Result<(), Unfollowed> {
        let name = op.text("name");
        let (&[from], &[to]) = (inputs, outputs) else {
            let (i, o) = (inputs.len(), outputs.len());
            return Err(malformed(format!("{name}: a cast of {i} tensors to {o}")));
        };
        if to.strip_suffix(ENGINE_SUFFIX) == Some(from) {
            let known = self.on_host.contains(from) || self.out.inputs.iter().any(|n| n == from);
            if !known && self.named {
                return Err(malformed(format!("{name}: no earlier operation writes {from}")));
            }
            if !known {
                self.out.inputs.push(from.to_string());
            }
            self.on_engine.insert(to);
            return Ok(());
        }
        if from.strip_suffix(ENGINE_SUFFIX) == Some(to) && self.on_engine.contains(from) {
            self.on_host.insert(to.to_string());
            if !self.named {
                self.out.outputs.push(to.to_string());
            }
            return Ok(());
        }
        Err(malformed(format!("{name}: casts {from} to {to}, which is neither an input nor an output")))
    }

    fn inference(
        &mut self,
        (op, frame): (&Record, &Record),
        inputs: &[&'a str],
        outputs: &[&'a str],
    ) -> Result<(), Unfollowed> {
        let name = op.text("name").to_string();
        let ports = |tensors: &[&str]| -> Result<Vec<String>, Unfollowed> {
            let port = |t: &&str| t.strip_suffix(ENGINE_SUFFIX).map(str::to_string);
            let all: Option<Vec<String>> = tensors.iter().map(port).collect();
            all.ok_or_else(|| malformed(format!("{name}: binds {tensors:?}, of which one is not on the engine's side")))
        };
        if let Some(missing) = inputs.iter().find(|t| !self.on_engine.contains(**t)) {
            return Err(malformed(format!("{name}: no earlier operation writes {missing}")));
        }
        let attributes = self.attributes.get(op.text("attrs_section")).copied();
        let attribute = |field| attributes.map_or("", |a| a.text(field)).to_string();
        let window = |w: &Record| {
            let port = w.text("name").strip_suffix(ENGINE_SUFFIX)?;
            Some((port.to_string(), w.number("aperture_va")))
        };
        let call = EngineCall {
            hash: attribute("anehash"),
            symbol: attribute("program_symbol"),
            inputs: ports(inputs)?,
            outputs: ports(outputs)?,
            windows: frame.records("ports").filter_map(window).collect(),
            name,
        };
        self.on_engine.extend(outputs);
        self.out.calls.push(Dispatch::Engine(call));
        Ok(())
    }

    fn processor(
        &mut self,
        (op, frame): (&Record, &Record),
        inputs: &[&'a str],
        outputs: &[&'a str],
    ) -> Result<(), Unfollowed> {
        let name = op.text("name");
        let missing = inputs.iter().find(|t| !self.on_host.contains(**t) && !self.out.inputs.iter().any(|n| n == *t));
        if let Some(missing) = missing {
            return Err(malformed(format!("{name}: no earlier operation writes {missing}")));
        }
        let attributes = self.attributes.get(op.text("attrs_section")).copied();
        let Some(attributes) = attributes.filter(|a| a.table.name == "CpuInferenceAttrs") else {
            return Err(malformed(format!("{name}: a processor call without code")));
        };
        let descriptors: Vec<&Record> =
            frame.records("operands").filter_map(|operand| operand.record("descriptor")).collect();
        if descriptors.len() != inputs.len() + outputs.len() {
            let (found, expected) = (descriptors.len(), inputs.len() + outputs.len());
            return Err(malformed(format!("{name}: {found} operands for {expected} tensors")));
        }
        let tensor = |(name, descriptor): (&&str, &&Record)| {
            let extent = |value: &Value| if let Value::Number(n) = value { *n } else { 0 };
            let shape = descriptor.list("dim").iter().map(extent).collect();
            HostTensor { name: name.to_string(), storage: descriptor.number("storage_type") as u32, shape }
        };
        let constants = match attributes.get("constants") {
            Value::Bytes(bytes) => bytes.clone(),
            _ => Vec::new(),
        };
        let (read, made) = descriptors.split_at(inputs.len());
        self.out.calls.push(Dispatch::Host(HostCall {
            name: attributes.text("function_name").to_string(),
            language: attributes.text("language").to_string(),
            code: attributes.text("code").to_string(),
            constants,
            inputs: inputs.iter().zip(read).map(tensor).collect(),
            outputs: outputs.iter().zip(made).map(tensor).collect(),
        }));
        self.on_host.extend(outputs.iter().map(|t| t.to_string()));
        self.aliases(op, frame)
    }

    /// Records the states of a call: outputs that share memory with an input.
    fn aliases(&mut self, op: &Record, frame: &Record) -> Result<(), Unfollowed> {
        for alias in frame.records("aliases") {
            let at = alias.number("symbol_index");
            let held = usize::try_from(at).ok().and_then(|at| self.symbols.get(at));
            let input = if let Some(Value::Text(name)) = held { Some(self.plain(name)) } else { None };
            let output = Some(self.plain(alias.text("name"))).filter(|name| !name.is_empty());
            let name = op.text("name");
            let (Some(input), Some(output)) = (input, output) else {
                return Err(malformed(format!("{name}: alias {:?} of symbol {at}", alias.text("name"))));
            };
            let state = State { input: input.to_string(), output: output.to_string() };
            if let Some(other) = self.out.states.iter().find(|s| s.input == state.input || s.output == state.output) {
                let what = format!("{name}: {} = {} and {} = {}", other.input, other.output, input, output);
                return Err(malformed(what));
            }
            self.out.states.push(state);
        }
        Ok(())
    }

    /// Name of a tensor without the suffix of the engine's side.
    fn plain<'n>(&self, name: &'n str) -> &'n str {
        name.strip_suffix(ENGINE_SUFFIX).filter(|_| self.on_engine.contains(name)).unwrap_or(name)
    }

    fn finish(self) -> Result<Sequence, Unfollowed> {
        let given = |name: &String| self.on_host.contains(name) || self.out.inputs.contains(name);
        if let Some(missing) = self.out.outputs.iter().find(|name| !given(name)) {
            return Err(malformed(format!("no operation writes the output {missing}")));
        }
        if self.out.calls.is_empty() {
            return Err(malformed("it refers to no engine program".into()));
        }
        for State { input, output } in &self.out.states {
            if !self.out.inputs.contains(input) || !self.on_host.contains(output) {
                let what = format!("state {input} = {output}: an input cast in and an output cast out are needed");
                return Err(malformed(what));
            }
        }
        for Counted { rows, count, .. } in &self.out.counted {
            if let Some(missing) = [rows, count].into_iter().find(|name| !self.out.outputs.contains(name)) {
                return Err(malformed(format!("{count} counts the rows of {rows}: no output {missing}")));
            }
        }
        Ok(self.out)
    }
}
