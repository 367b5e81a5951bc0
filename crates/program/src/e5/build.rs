//! Descriptors built from programs: casts of the inputs, one inference per program, casts of the outputs. Processor calls
//! read and write tensors on the host's side of the casts.
//!
//! The size depends on the number of dispatches and bound tensors, not on the content of programs.

use anemone_facts::formats::{e5 as rows, hwx};
use sha2::{Digest, Sha256};

use super::layout::{Layout, number, numbers, operand, record, storage, table, tables, text};
use super::{Descriptor, Record, Value};
use crate::hwx::Container;
use crate::{Direction, Port, Program};

/// A program in the chain.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The program. Its outputs are inputs of later programs by name.
    pub program: &'a Program,
    /// Bytes of the container, whose hash links both files.
    pub container: &'a [u8],
}

/// A tensor that is kept between calls: the output becomes the input of the next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Input port.
    pub input: String,
    /// Output port.
    pub output: String,
}

/// An output whose first rows are real, and the output with their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Name of the output with rows.
    pub rows: String,
    /// Name of the output with their number.
    pub count: String,
    /// Axis of the rows in the model.
    pub axis: usize,
}

/// Build information of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Name that callers use.
    pub function: String,
    /// Keys and values.
    pub entries: Vec<(String, String)>,
    /// Options of the compiler as text.
    pub options: String,
    /// Results that are outputs in addition to being read by a later program of the chain.
    pub outputs: Vec<String>,
    /// Outputs of which another output has the number of real rows.
    pub counted: Vec<Counted>,
}

/// A tensor on the host's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTensor {
    /// Name.
    pub name: String,
    /// Code of the element type.
    pub storage: u32,
    /// Extents.
    pub shape: Vec<u64>,
}

/// A part of the graph that the processor computes. The code is opaque here; its language defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCall {
    /// Name.
    pub name: String,
    /// Language of the code.
    pub language: String,
    /// The operations.
    pub code: String,
    /// Tables that the code refers to.
    pub constants: Vec<u8>,
    /// Tensors that it reads.
    pub inputs: Vec<HostTensor>,
    /// Tensors that it writes.
    pub outputs: Vec<HostTensor>,
}

/// One step of a chain.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A program of the engine.
    Engine(Call<'a>),
    /// A call on the processor.
    Host(&'a HostCall),
}

/// The descriptor of a chain of programs.
pub fn from_calls(calls: &[Call], states: &[State], info: &Info) -> Descriptor {
    let steps: Vec<Step> = calls.iter().map(|&call| Step::Engine(call)).collect();
    from_steps(&steps, &[], states, info)
}

/// The descriptor of a chain of programs and processor calls. `inputs` and `info.outputs` name the caller's inputs and outputs; both are
/// written if there is a processor call, since casts alone do not identify them then.
pub fn from_steps(steps: &[Step], inputs: &[String], states: &[State], info: &Info) -> Descriptor {
    let mut chain = ChainDescriptor { info, states, names: Vec::new(), operations: Vec::new(), ends: None };
    let ports = |step: &Step, direction| -> Vec<Port> {
        match step {
            Step::Engine(call) => call.program.ports_of(direction).cloned().collect(),
            Step::Host(_) => Vec::new(),
        }
    };
    let made = |name: &str, steps: &[Step]| {
        steps.iter().any(|step| match step {
            Step::Engine(_) => ports(step, Direction::Output).iter().any(|p| p.name == name),
            Step::Host(call) => call.outputs.iter().any(|t| t.name == name),
        })
    };
    let used = |name: &str, steps: &[Step]| {
        steps.iter().any(|step| ports(step, Direction::Input).iter().any(|p| p.name == name))
    };
    let mut cast: Vec<String> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        for port in ports(step, Direction::Input) {
            if !made(&port.name, &steps[..i]) && !cast.contains(&port.name) {
                chain.cast(&port);
                cast.push(port.name);
            }
        }
    }
    let mut back: Vec<String> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Engine(call) => {
                for port in ports(step, Direction::Input) {
                    let on_host = steps[..i]
                        .iter()
                        .any(|s| matches!(s, Step::Host(call) if call.outputs.iter().any(|t| t.name == port.name)));
                    if on_host && !cast.contains(&port.name) {
                        chain.cast(&port);
                        cast.push(port.name);
                    }
                }
                chain.inference(call);
            }
            Step::Host(call) => {
                let before = steps[..i].iter().flat_map(|s| ports(s, Direction::Output));
                let wanted = before.filter(|p| call.inputs.iter().any(|t| t.name == p.name));
                for port in wanted.collect::<Vec<_>>() {
                    if !back.contains(&port.name) {
                        chain.cast(&port);
                        back.push(port.name);
                    }
                }
                chain.on_host(call);
            }
        }
    }
    for (i, step) in steps.iter().enumerate() {
        for port in ports(step, Direction::Output) {
            let given_out = info.outputs.contains(&port.name) || !used(&port.name, &steps[i + 1..]);
            if given_out && !back.contains(&port.name) {
                chain.cast(&port);
            }
        }
    }
    if steps.iter().any(|step| matches!(step, Step::Host(_))) {
        chain.ends = Some((inputs.to_vec(), info.outputs.clone()));
    }
    chain.finish()
}

/// Suffix that turns a port's name into that of its tensor on the engine's side of the cast.
pub const ENGINE_SUFFIX: &str = "_ane";

/// Name of a tensor on the engine's side of its cast.
fn engine_name(port: &Port) -> String {
    format!("{}{ENGINE_SUFFIX}", port.name)
}

/// The program with names of the engine's side: procedure and ports with [`ENGINE_SUFFIX`], as in the container of the book's sample of
/// three tasks.
pub fn with_engine_names(program: &Program) -> Program {
    let mut named = program.clone();
    named.name.push_str(ENGINE_SUFFIX);
    named.ports.iter_mut().for_each(|port| port.name.push_str(ENGINE_SUFFIX));
    named
}

/// The program with the names of the descriptor's function, if all its ports have names of the engine's side.
pub fn without_engine_names(mut program: Program) -> Program {
    if program.ports.iter().all(|port| port.name.ends_with(ENGINE_SUFFIX)) {
        let plain = |name: &mut String| name.truncate(name.len() - ENGINE_SUFFIX.len());
        program.ports.iter_mut().for_each(|port| plain(&mut port.name));
        if program.name.ends_with(ENGINE_SUFFIX) {
            plain(&mut program.name);
        }
    }
    program
}

/// Declarations of a container that a descriptor repeats; empty if the bytes are not a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Name and address of every port window.
    pub windows: Vec<(String, u64)>,
    /// Name of the procedure of its ports.
    pub procedure: Option<String>,
}

impl Declared {
    /// Reads a container's declarations.
    pub fn of(container: &[u8]) -> Declared {
        // Declarations precede the contents, which may be large and are not read if possible.
        let fetch = |at: u64, into: &mut [u8]| {
            let bytes = usize::try_from(at).ok().and_then(|at| container.get(at..at.checked_add(into.len())?));
            bytes.map(|bytes| into.copy_from_slice(bytes)).ok_or(())
        };
        let outline = Container::outline(container.len() as u64, fetch).ok().flatten();
        let Some(container) = outline.or_else(|| Container::read(container).ok()) else { return Declared::default() };
        let windows = container.windows().map(|(_, w)| (w.name(), w.address)).collect();
        let procedure = container.tensor_records().map(|(_, record)| record.procedure()).find(|name| !name.is_empty());
        Declared { windows, procedure }
    }

    /// Address of a port's window, which may have the name of the tensor on the engine's side.
    pub fn window(&self, port: &str) -> Option<u64> {
        let named = |name: &str| name == port || name.strip_suffix(ENGINE_SUFFIX) == Some(port);
        self.windows.iter().find(|(name, _)| named(name)).map(|(_, address)| *address)
    }
}

/// The hash that links a descriptor to a container: SHA-256 of the SHA-256 of its bytes, hexadecimal.
pub fn container_hash(container: &[u8]) -> String {
    Sha256::digest(Sha256::digest(container)).iter().map(|b| format!("{b:02x}")).collect()
}

struct Planned {
    name: String,
    kind: u32,
    inputs: Vec<(String, Layout)>,
    outputs: Vec<(String, Layout)>,
    attributes: Record,
    ports: Vec<Record>,
    aliases: Vec<(String, String)>,
}

struct ChainDescriptor<'a> {
    info: &'a Info,
    states: &'a [State],
    /// Tensors in order of first use.
    names: Vec<String>,
    operations: Vec<Planned>,
    /// Names of the caller's inputs and outputs, if the descriptor states them.
    ends: Option<(Vec<String>, Vec<String>)>,
}

impl ChainDescriptor<'_> {
    fn plan(&mut self, kind: u32, inputs: Vec<(String, Layout)>, outputs: Vec<(String, Layout)>, attributes: Record) {
        for (name, _) in inputs.iter().chain(&outputs) {
            if !self.names.contains(name) {
                self.names.push(name.clone());
            }
        }
        let word = rows::OP_TYPES.iter().find(|c| c.code == kind).map_or("", |c| c.name);
        let name = format!("Op{}_{word}", self.operations.len());
        let (ports, aliases) = (Vec::new(), Vec::new());
        self.operations.push(Planned { name, kind, inputs, outputs, attributes, ports, aliases });
    }

    /// The cast of an input to the engine's layout, or of an output back.
    fn cast(&mut self, port: &Port) {
        let (host, engine) = ((port.name.clone(), Layout::host(port)), (engine_name(port), Layout::engine(port)));
        let (from, to) = if port.direction == Direction::Input { (host, engine) } else { (engine, host) };
        let element = number(storage(port.element));
        let pack = number(1u64);
        let fields = vec![("src_dtype", element.clone()), ("dst_dtype", element), ("component_pack", pack)];
        self.plan(rows::CAST, vec![from], vec![to], record("CastAttrs", fields));
    }

    fn on_host(&mut self, call: &HostCall) {
        let tensors = |all: &[HostTensor]| -> Vec<(String, Layout)> {
            all.iter().map(|t| (t.name.clone(), Layout::of_shape(&t.shape, u64::from(t.storage)))).collect()
        };
        let attributes = record(
            "CpuInferenceAttrs",
            vec![
                ("function_name", text(&call.name)),
                ("language", text(&call.language)),
                ("code", text(&call.code)),
                ("constants", Value::Bytes(call.constants.clone())),
            ],
        );
        self.plan(rows::CPU_INFERENCE, tensors(&call.inputs), tensors(&call.outputs), attributes);
        let aliases = self.aliases(|output| call.outputs.iter().any(|t| t.name == output).then(|| output.to_string()));
        if let Some(op) = self.operations.last_mut() {
            op.aliases = aliases;
        }
    }

    fn inference(&mut self, call: &Call) {
        let ports = |direction| -> Vec<(String, Layout)> {
            call.program.ports_of(direction).map(|p| (engine_name(p), Layout::engine(p))).collect()
        };
        let declared = Declared::of(call.container);
        let symbol = declared.procedure.clone().unwrap_or_else(|| format!("{}{ENGINE_SUFFIX}", call.program.name));
        let attributes = record(
            "AneInferenceAttrs",
            vec![
                ("procedure_name", text(&call.program.name)),
                ("anehash", text(container_hash(call.container))),
                ("program_symbol", text(symbol)),
                ("intermediate_buffer_handle", number(0u64)),
                ("compiler_options", text(&self.info.options)),
            ],
        );
        self.plan(rows::ANE_INFERENCE, ports(Direction::Input), ports(Direction::Output), attributes);
        let windows = self.windows(call, &declared);
        let aliases = self.aliases(|output| {
            let port = call.program.ports_of(Direction::Output).find(|p| p.name == output);
            port.map(engine_name)
        });
        if let Some(op) = self.operations.last_mut() {
            (op.ports, op.aliases) = (windows, aliases);
        }
    }

    /// States whose output the last call writes: the output's name, as `made` returns it, and the name of the input on the side where it is read.
    fn aliases(&self, made: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        let states = self.states.iter().filter_map(|state| {
            let engine = format!("{}{ENGINE_SUFFIX}", state.input);
            let held = [engine, state.input.clone()].into_iter().find(|name| self.names.contains(name))?;
            Some((made(&state.output)?, held))
        });
        states.collect()
    }

    /// Windows of the call's ports as in its container. If `container` has no window for a port, windows are
    /// consecutive, each on its own pages, and a state's output has the window of its input.
    fn windows(&self, call: &Call, declared: &Declared) -> Vec<Record> {
        let program = call.program;
        let mut next = hwx::VM_BASE;
        let mut placed: Vec<(&str, u64)> = Vec::new();
        let inputs_first = program.ports_of(Direction::Input).chain(program.ports_of(Direction::Output));
        inputs_first
            .map(|port| {
                let held = self.states.iter().find(|s| s.output == port.name).map(|s| s.input.as_str());
                let shared = held.and_then(|input| placed.iter().find(|(name, _)| *name == input));
                let known = declared.window(&port.name).or(shared.map(|(_, address)| *address));
                let address = known.unwrap_or(next);
                if known.is_none() {
                    let pages = port.bytes.max(1).checked_next_multiple_of(rows::STATE_STRIDE).unwrap_or(u64::MAX);
                    next = next.saturating_add(pages);
                }
                placed.push((&port.name, address));
                let fields = vec![
                    ("name", text(engine_name(port))),
                    ("byte_size", number(port.bytes)),
                    ("aperture_va", number(address)),
                ];
                record("IOPort", fields)
            })
            .collect()
    }

    fn finish(self) -> Descriptor {
        let section = |op: &Planned, part: &str| format!("{}.{part}", op.name);
        let mut symbols: Vec<String> = self.operations.iter().map(|o| o.name.clone()).collect();
        symbols.extend(self.names.iter().cloned());
        for op in &self.operations {
            symbols.extend([section(op, rows::ARG_FRAME), section(op, rows::OP_ATTRS)]);
        }
        let index = |name: &str| symbols.iter().position(|s| s == name).unwrap_or(0) as u64;
        let mut sections = Vec::new();
        for (i, op) in self.operations.iter().enumerate() {
            let mut frame = vec![("operation", table(operation(op, &index, &section)))];
            if i == 0 {
                frame.push(("function", table(self.function())));
            }
            let operands = op.inputs.iter().chain(&op.outputs).map(|(_, layout)| operand(layout)).collect();
            frame.push(("operands", tables(operands)));
            if !op.ports.is_empty() {
                frame.push(("ports", tables(op.ports.clone())));
            }
            if !op.aliases.is_empty() {
                let alias = |(name, held): &(String, String)| {
                    let fields = vec![
                        ("name", text(name)),
                        ("symbol_index", number(index(held))),
                        ("addr_offset", number(0u64)),
                    ];
                    record("AliasSymbol", fields)
                };
                frame.push(("aliases", tables(op.aliases.iter().map(alias).collect())));
            }
            let attributes = record("OpAttrs", vec![("attrs", table(op.attributes.clone()))]);
            for (part, kind, data) in [
                (rows::ARG_FRAME, rows::ARG_FRAME_KIND, record("ArgFrame", frame)),
                (rows::OP_ATTRS, rows::OP_ATTRS_KIND, attributes),
            ] {
                let data = Value::Nested(Box::new(data));
                let fields = vec![("name", text(section(op, part))), ("kind", number(kind)), ("data", data)];
                sections.push(record("Section", fields));
            }
        }
        let entry = |(key, value): &(String, String)| {
            record("BuildInfoEntry", vec![("key", text(key)), ("value", text(value))])
        };
        let entries = tables(self.info.entries.iter().map(entry).collect());
        Descriptor::of(record(
            rows::ROOT,
            vec![
                ("symbol_names", Value::List(symbols.into_iter().map(Value::Text).collect())),
                ("build_info", table(record("BuildInfo", vec![("entries", entries)]))),
                ("sections", tables(sections)),
                ("format_version", number(rows::FORMAT_VERSION as u64)),
            ],
        ))
    }

    fn function(&self) -> Record {
        let block = vec![("name", text("block0")), ("operations", numbers(0..self.operations.len() as u64))];
        let name = &self.info.function;
        let mut fields = vec![
            ("name", text(name)),
            ("anehash_path", text(format!("{name}/{name}_ane/model.anehash"))),
            ("blocks", tables(vec![record("Block", block)])),
        ];
        if let Some((inputs, outputs)) = &self.ends {
            let names = |all: &[String]| Value::List(all.iter().map(text).collect());
            fields.extend([("inputs", names(inputs)), ("outputs", names(outputs))]);
        }
        if !self.info.counted.is_empty() {
            let counted = |of: &Counted| {
                let axis = number(of.axis as u64);
                record("CountedOutput", vec![("rows", text(&of.rows)), ("count", text(&of.count)), ("axis", axis)])
            };
            fields.push(("counted", tables(self.info.counted.iter().map(counted).collect())));
        }
        record("Function", fields)
    }
}

fn operation(op: &Planned, index: &dyn Fn(&str) -> u64, section: &dyn Fn(&Planned, &str) -> String) -> Record {
    let places = |all: &[(String, Layout)]| numbers(all.iter().map(|(name, _)| index(name)));
    let fields = vec![
        ("name", text(&op.name)),
        ("op_type", number(op.kind)),
        ("inputs", places(&op.inputs)),
        ("outputs", places(&op.outputs)),
        ("arg_frame", text(section(op, rows::ARG_FRAME))),
        ("attrs_section", text(section(op, rows::OP_ATTRS))),
    ];
    record("Operation", fields)
}
