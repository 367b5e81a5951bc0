//! Descriptors made from programs: casts of what goes in, one inference a program, casts of what comes out.
//!
//! The size follows the number of dispatches and of bound tensors, never what a program computes.

use anemone_facts::formats::{by_name, e5 as rows, hwx};
use sha2::{Digest, Sha256};

use super::{Descriptor, Record, Value};
use crate::hwx::Container;
use crate::{Direction, Element, Nchw, Port, Program, Strides};

/// A program in the chain.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The program. Its outputs are the inputs of later programs with the same names.
    pub program: &'a Program,
    /// The container's bytes, for the hash that ties both files together.
    pub container: &'a [u8],
}

/// A tensor that is held from call to call: what the output leaves is the input of the next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Input port.
    pub input: String,
    /// Output port.
    pub output: String,
}

/// What a descriptor says about its making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Name that callers use.
    pub function: String,
    /// Keys and values.
    pub entries: Vec<(String, String)>,
    /// Options of the compiler as text.
    pub options: String,
    /// Results that are given out although a later program of the chain takes them.
    pub outputs: Vec<String>,
}

/// The descriptor of a chain of programs.
pub fn from_calls(calls: &[Call], states: &[State], info: &Info) -> Descriptor {
    let mut chain = Chain { info, states, names: Vec::new(), operations: Vec::new() };
    let made = |name: &str, calls: &[Call]| {
        calls.iter().any(|c| c.program.ports_of(Direction::Output).any(|p| p.name == name))
    };
    let used =
        |name: &str, calls: &[Call]| calls.iter().any(|c| c.program.ports_of(Direction::Input).any(|p| p.name == name));
    let mut cast: Vec<&str> = Vec::new();
    for (i, call) in calls.iter().enumerate() {
        for port in call.program.ports_of(Direction::Input) {
            if !made(&port.name, &calls[..i]) && !cast.contains(&port.name.as_str()) {
                cast.push(&port.name);
                chain.cast(port);
            }
        }
    }
    for call in calls {
        chain.inference(call);
    }
    for (i, call) in calls.iter().enumerate() {
        let given_out = |p: &&Port| info.outputs.contains(&p.name) || !used(&p.name, &calls[i + 1..]);
        for port in call.program.ports_of(Direction::Output).filter(given_out) {
            chain.cast(port);
        }
    }
    chain.finish()
}

/// What follows a port's name in that of its tensor on the engine's side of the cast.
pub const ENGINE_SUFFIX: &str = "_ane";

/// Name of a tensor on the engine's side of its cast.
fn engine_name(port: &Port) -> String {
    format!("{}{ENGINE_SUFFIX}", port.name)
}

/// What a container declares of itself and a descriptor repeats; empty where the bytes are no container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Name and address of every port window.
    pub windows: Vec<(String, u64)>,
    /// Name of the procedure that its ports belong to.
    pub procedure: Option<String>,
}

impl Declared {
    /// Reads a container's declarations.
    pub fn of(container: &[u8]) -> Declared {
        let Ok(container) = Container::read(container) else { return Declared::default() };
        let windows = container.windows().map(|(_, w)| (w.name(), w.address)).collect();
        let procedure = container.tensor_records().map(|(_, record)| record.procedure()).find(|name| !name.is_empty());
        Declared { windows, procedure }
    }

    /// Address of a port's window.
    pub fn window(&self, port: &str) -> Option<u64> {
        self.windows.iter().find(|(name, _)| name == port).map(|(_, address)| *address)
    }
}

/// The hash that ties a descriptor to a container's bytes: SHA-256 of the SHA-256, hexadecimal.
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

/// How a tensor lies.
struct Layout {
    shape: Nchw,
    strides: Strides,
    element: Element,
}

impl Layout {
    fn engine(port: &Port) -> Layout {
        Layout { shape: port.shape, strides: port.strides, element: port.element }
    }

    /// Without padding.
    fn host(port: &Port) -> Layout {
        let s = port.shape;
        let row_bytes = (s.w as u64).saturating_mul(port.element.bytes());
        let plane_bytes = row_bytes.saturating_mul(s.h as u64);
        let batch_bytes = plane_bytes.saturating_mul(s.c as u64);
        Layout { strides: Strides { batch_bytes, plane_bytes, row_bytes }, ..Layout::engine(port) }
    }
}

fn storage(element: Element) -> u64 {
    let name = match element {
        Element::Uint8 => "uint8",
        Element::Int8 => "int8",
        Element::Float16 => "float16",
    };
    by_name(anemone_facts::enums::ELEMENTS, name).map_or(0, |c| c.code as u64)
}

/// A record by table and field names.
fn record(table: &str, fields: Vec<(&str, Value)>) -> Record {
    let row = rows::table(table).unwrap_or(&rows::TABLES[0]);
    let mut out = Record::empty(row);
    for (name, value) in fields {
        debug_assert!(row.field(name).is_some(), "{table}.{name}");
        if let Some(i) = row.field(name) {
            out.fields[i] = value;
        }
    }
    out
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

fn number(n: impl Into<u64>) -> Value {
    Value::Number(n.into())
}

fn numbers(all: impl IntoIterator<Item = u64>) -> Value {
    Value::List(all.into_iter().map(Value::Number).collect())
}

fn table(record: Record) -> Value {
    Value::Record(Box::new(record))
}

fn tables(all: Vec<Record>) -> Value {
    Value::List(all.into_iter().map(table).collect())
}

struct Chain<'a> {
    info: &'a Info,
    states: &'a [State],
    /// Tensors in order of first use.
    names: Vec<String>,
    operations: Vec<Planned>,
}

impl Chain<'_> {
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
        let aliases = self.states.iter().filter_map(|s| {
            let port = |name: &str| call.program.ports.iter().find(|p| p.name == name).map(engine_name);
            Some((port(&s.output)?, port(&s.input)?))
        });
        let aliases = aliases.collect();
        if let Some(op) = self.operations.last_mut() {
            (op.ports, op.aliases) = (windows, aliases);
        }
    }

    /// Apertures of the call's ports: those of its container. Where `container` holds no window of a port, windows follow
    /// one another, each on its own pages, and a state's output has the window of its input.
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
        let fields = vec![
            ("name", text(name)),
            ("anehash_path", text(format!("{name}/{name}_ane/model.anehash"))),
            ("blocks", tables(vec![record("Block", block)])),
        ];
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

fn operand(l: &Layout) -> Record {
    let s = l.shape;
    let extents = [s.n, s.c, s.h, s.w].map(u64::from);
    let element = l.element.bytes();
    let strides = [l.strides.batch_bytes, l.strides.plane_bytes, l.strides.row_bytes, element];
    let fields = vec![
        ("dim", numbers(extents)),
        ("stride", numbers(strides)),
        ("width", number(extents[3])),
        ("height", number(extents[2])),
        ("channels", number(extents[1])),
        ("batch_number", number(extents[0])),
        ("sequence_length", number(1u64)),
        ("stride_width", number(strides[3])),
        ("stride_height", number(strides[2])),
        ("stride_channels", number(strides[1])),
        ("stride_batch_number", number(strides[0])),
        ("stride_sequence_length", number(strides[0])),
        ("storage_type", number(storage(l.element))),
        ("component_pack", number(1u64)),
    ];
    record("Operand", vec![("descriptor", table(record("TensorDescriptor", fields)))])
}
