//! Programs dispatched one after the other: each takes by name what is given and what those before it left.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::execute::{Execution, Run, check_together};
use crate::files;
use crate::tensor::Array;
use anemone_compile::segments::{self, Segment};
use anemone_compile::{Options, native};
use anemone_engine as engine;
use anemone_facts::chips::Chip;
use anemone_facts::formats::{by_code, e5 as rows};
use anemone_net::{Data, Net, Tensor, eval};
use anemone_program::e5::{Declared, Descriptor, ENGINE_SUFFIX, Record, State, Value, container_hash};
use anemone_program::hwx::Container;
use anemone_program::{Direction, Element, Nchw, Port, Program, Strides};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Programs in order of dispatch. A single program is a chain of one.
#[derive(Clone, Debug)]
pub struct Chain {
    name: String,
    programs: Vec<Program>,
    /// Ports that the caller fills, and ports that the caller gets.
    ends: [Vec<String>; 2],
    states: Vec<State>,
    /// Host segments, each with the number of programs before it.
    hosts: Vec<(usize, Net)>,
    /// Ends that no program has: what host segments alone take or give.
    host_ports: Vec<Port>,
}

impl From<Program> for Chain {
    fn from(program: Program) -> Chain {
        let names = |direction| program.ports_of(direction).map(|p| p.name.clone()).collect();
        let ends = [names(Direction::Input), names(Direction::Output)];
        Chain {
            name: program.name.clone(),
            ends,
            programs: vec![program],
            states: Vec::new(),
            hosts: Vec::new(),
            host_ports: Vec::new(),
        }
    }
}

impl Chain {
    /// The programs of a network's segments ([`native::segments`]), in their order.
    fn of_segments(net: &Net, mut programs: Vec<Program>) -> Chain {
        let states = written_states(net);
        if programs.len() == 1 {
            return Chain { states, ..Chain::from(programs.remove(0)) };
        }
        let names = |ids: &[anemone_net::ValueId]| ids.iter().map(|&id| net.value(id).name.clone()).collect();
        let ends = [names(&net.inputs), names(&net.outputs)];
        Chain { name: net.name.clone(), programs, ends, states, hosts: Vec::new(), host_ports: Vec::new() }
    }

    /// A network with host segments where the engine has no way, and why each is there.
    pub fn with_host(net: &Net, chip: &'static Chip, options: &Options) -> Result<(Chain, Vec<String>)> {
        let cut = segments::cut(net, chip, options)?;
        let reasons = cut.reasons.iter().map(|(_, error)| error.to_string()).collect();
        let (mut programs, mut hosts) = (Vec::new(), Vec::new());
        for segment in cut.segments {
            match segment {
                Segment::Engine(program) => programs.push(*program),
                Segment::Host(part) => hosts.push((programs.len(), *part)),
            }
        }
        if hosts.is_empty() && programs.len() == 1 {
            return Ok((Chain::of_network(net, programs.remove(0)), reasons));
        }
        let name = |id: &anemone_net::ValueId| net.value(*id).name.clone();
        let left = net.states.iter().map(|s| &s.output).filter(|id| !net.outputs.contains(id));
        let ends: [Vec<String>; 2] =
            [net.inputs.iter().map(name).collect(), net.outputs.iter().chain(left).map(name).collect()];
        let states = written_states(net);
        let mut chain = Chain { name: net.name.clone(), programs, ends, states, hosts, host_ports: Vec::new() };
        for (side, direction) in [Direction::Input, Direction::Output].into_iter().enumerate() {
            let bound: Vec<String> = chain.ports(direction).map(|p| p.name.clone()).collect();
            let missing = chain.ends[side].iter().filter(|name| !bound.contains(name));
            let ports: Vec<Port> = missing.filter_map(|name| host_port(net, name, direction)).collect();
            chain.host_ports.extend(ports);
        }
        Ok((chain, reasons))
    }

    /// The program of a network, with the states that the network declares.
    pub fn of_network(net: &Net, program: Program) -> Chain {
        Chain::of_segments(net, vec![program])
    }

    /// A network's program, or where `segmented`, as for a dispatch descriptor, the programs of its segments.
    pub fn of_net(net: &Net, segmented: bool, compile: impl FnMut(&Net) -> Result<Program>) -> Result<Chain> {
        let segments = if segmented { native::segments(net) } else { vec![net.clone()] };
        Ok(Chain::of_segments(net, segments.iter().map(compile).collect::<Result<_>>()?))
    }

    /// The chain that a dispatch descriptor at `path` names: its containers lie in the same folder and are known by their
    /// hash, whatever their names.
    pub fn beside(path: &Path, descriptor: &Descriptor) -> Result<Chain> {
        let mut reading = Reading::new(path, descriptor);
        let attributes = descriptor.attributes();
        for frame in descriptor.frames() {
            if let Some(op) = frame.record("operation") {
                reading.operation(op, frame, &attributes)?;
            }
        }
        if reading.programs.is_empty() {
            return Err(reading.malformed("it names no program of the engine".into()));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for state in &reading.states {
            let known = |names: &[String], name: &String| names.contains(name);
            if !known(&reading.ends[0], &state.input) || !known(&reading.ends[1], &state.output) {
                let State { input, output } = state;
                let message = format!("state {input} = {output}: an input cast in and an output cast out are needed");
                return Err(reading.malformed(message));
            }
        }
        let Reading { programs, ends, states, .. } = reading;
        Ok(Chain { name, programs, ends, states, hosts: Vec::new(), host_ports: Vec::new() })
    }

    /// Tensors held from run to run: zeros before the first, then what the output left.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Gives the next run's inputs what this run left of every state.
    pub fn hand_over(&self, outputs: &[(String, Array)], inputs: &mut [(String, Array)]) {
        for State { input, output } in &self.states {
            let left = outputs.iter().find(|(name, _)| name == output);
            let slot = inputs.iter_mut().find(|(name, _)| name == input);
            if let (Some((_, left)), Some((_, slot))) = (left, slot) {
                *slot = left.clone();
            }
        }
    }

    /// Name of the function that callers use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The programs.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Names of the results that the caller gets.
    pub fn outputs(&self) -> &[String] {
        &self.ends[1]
    }

    /// Ports that the caller fills, or gets.
    pub fn ports(&self, direction: Direction) -> impl Iterator<Item = &Port> {
        let names = &self.ends[usize::from(direction == Direction::Output)];
        let hosts = move |name: &String| self.host_ports.iter().find(|p| p.direction == direction && p.name == *name);
        let find = move |name: &String| {
            let bound = self.programs.iter().find_map(|p| p.ports_of(direction).find(|p| p.name == *name));
            bound.or_else(|| hosts(name))
        };
        names.iter().filter_map(find)
    }

    /// Host segments, each with the number of programs before it.
    pub fn hosts(&self) -> &[(usize, Net)] {
        &self.hosts
    }

    /// Every program checked and planned.
    pub fn execution(&self, options: engine::Options) -> Result<ChainExecution<'_>> {
        check_together(&self.programs)?;
        let executions = self.programs.iter().map(|p| Execution::new(p, options)).collect::<Result<_>>()?;
        Ok(ChainExecution { chain: self, executions })
    }
}

/// A chain planned once, to be run many times.
pub struct ChainExecution<'a> {
    chain: &'a Chain,
    executions: Vec<Execution<'a>>,
}

impl ChainExecution<'_> {
    /// Runs every program once, as [`Execution::run`]; tasks and traces follow each other.
    pub fn run(&mut self, inputs: &[(String, Array)]) -> Result<Run> {
        if let ([only], []) = (self.executions.as_mut_slice(), self.chain.hosts.as_slice()) {
            return only.run(inputs);
        }
        let mut whole = Run { outputs: Vec::new(), tasks: 0, skipped: Vec::new(), trace: Vec::new() };
        let mut known = inputs.to_vec();
        for at in 0..=self.executions.len() {
            for (_, host) in self.chain.hosts.iter().filter(|(before, _)| *before == at) {
                known.extend(on_host(host, &known)?);
            }
            let Some(execution) = self.executions.get_mut(at) else { break };
            let run = execution.run(&known)?;
            whole.tasks += run.tasks;
            whole.skipped.extend(run.skipped);
            whole.trace.extend(run.trace);
            known.extend(run.outputs);
        }
        for name in self.chain.outputs() {
            let at = known.iter().rposition(|(n, _)| n == name);
            let at = at.ok_or_else(|| Diagnostic::new(Code::Fault, format!("no program leaves the output {name}")))?;
            whole.outputs.push(known[at].clone());
        }
        Ok(whole)
    }
}

/// A port for what only host segments take or give: extents as a port has them, and no memory of a program's.
fn host_port(net: &Net, name: &str, direction: Direction) -> Option<Port> {
    let shape = &net.value(net.find(name)?).ty.shape;
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(3));
    let mut four = [1u32; 4];
    four[0] = outer.iter().map(|&n| n as u32).product();
    for (slot, &n) in four[4 - inner.len()..].iter_mut().zip(inner) {
        *slot = n as u32;
    }
    let [n, c, h, w] = four;
    Some(Port {
        name: name.into(),
        direction,
        bar: 0,
        shape: Nchw { n, c, h, w },
        strides: Strides { batch_bytes: 0, plane_bytes: 0, row_bytes: 0 },
        element: Element::Float16,
        bytes: 0,
    })
}

/// Runs a host segment on what is known.
fn on_host(net: &Net, known: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
    let mut tensors = Vec::new();
    for &id in &net.inputs {
        let value = net.value(id);
        let found = known.iter().rev().find(|(name, _)| *name == value.name);
        let (_, array) =
            found.ok_or_else(|| Diagnostic::new(Code::Usage, format!("no data for input {}", value.name)))?;
        if array.data.len() != value.ty.elements() {
            let (name, expected, found) = (&value.name, &value.ty.shape, &array.shape);
            return Err(Diagnostic::new(Code::BadTensor, format!("input {name} is {found:?}, expected {expected:?}")));
        }
        let data = match value.ty.dtype {
            dtype if dtype.is_float() => Data::F32(array.data.clone()),
            dtype => Data::from_i32(dtype, &array.data.iter().map(|&x| x as i32).collect::<Vec<_>>()),
        };
        tensors.push(Tensor { shape: value.ty.shape.clone(), data });
    }
    let outputs = eval::eval_typed(net, &tensors).map_err(|e| {
        Diagnostic::new(Code::Fault, format!("host segment {}: {e}", net.name)).help("check the places it reads by")
    })?;
    let names = net.outputs.iter().map(|&id| net.value(id).name.clone());
    Ok(names.zip(outputs).map(|(name, t)| (name, Array { data: t.data.to_f32(), shape: t.shape })).collect())
}

/// Most calls of a descriptor that are followed: each holds its program.
const MOST_CALLS: usize = 1024;

/// A descriptor followed operation by operation.
struct Reading<'a> {
    path: &'a Path,
    symbols: &'a [Value],
    containers: Containers,
    programs: Vec<Program>,
    ends: [Vec<String>; 2],
    states: Vec<State>,
    /// Tensors on the engine's side that are there.
    made: Vec<String>,
}

impl<'a> Reading<'a> {
    fn new(path: &'a Path, descriptor: &'a Descriptor) -> Reading<'a> {
        let symbols = descriptor.root.list("symbol_names");
        let containers = Containers::beside(path);
        let (programs, ends, states, made) = (Vec::new(), Default::default(), Vec::new(), Vec::new());
        Reading { path, symbols, containers, programs, ends, states, made }
    }

    fn malformed(&self, message: String) -> Diagnostic {
        Diagnostic::new(Code::Malformed, message).at(self.path.display())
    }

    /// Tensors that an operation reads or makes.
    fn tensors(&self, op: &Record, side: &str) -> Result<Vec<&'a str>> {
        let name = |value: &Value| match value {
            Value::Number(at) => match usize::try_from(*at).ok().and_then(|at| self.symbols.get(at)) {
                Some(Value::Text(name)) => Ok(name.as_str()),
                _ => Err(self.malformed(format!("{}: no symbol {at} in {side}", op.text("name")))),
            },
            other => Err(self.malformed(format!("{}: {side} has {other:?}", op.text("name")))),
        };
        op.list(side).iter().map(name).collect()
    }

    fn operation(&mut self, op: &Record, frame: &Record, attributes: &HashMap<&str, &Record>) -> Result<()> {
        let (inputs, outputs) = (self.tensors(op, "inputs")?, self.tensors(op, "outputs")?);
        match op.number("op_type") as u32 {
            rows::CAST => self.cast(op, &inputs, &outputs),
            rows::ANE_INFERENCE => {
                let attributes = attributes.get(op.text("attrs_section")).copied();
                self.inference((op, frame), attributes, &inputs, &outputs)?;
                self.aliases(op, frame)
            }
            kind => {
                let meaning = by_code(rows::OP_TYPES, kind).map_or("a kind that is not known", |c| c.meaning);
                let message = format!("{}: {meaning}; only programs of the engine are run here", op.text("name"));
                Err(Diagnostic::new(Code::UnsupportedOp, message).at(self.path.display()))
            }
        }
    }

    /// A tensor comes in or goes out; its bytes are laid out anew by whoever binds the port.
    fn cast(&mut self, op: &Record, inputs: &[&str], outputs: &[&str]) -> Result<()> {
        let (&[from], &[to]) = (inputs, outputs) else {
            let (i, o) = (inputs.len(), outputs.len());
            return Err(self.malformed(format!("{}: a cast of {i} tensors to {o}", op.text("name"))));
        };
        if to.strip_suffix(ENGINE_SUFFIX) == Some(from) {
            self.ends[0].push(from.to_string());
            self.made.push(to.to_string());
        } else if from.strip_suffix(ENGINE_SUFFIX) == Some(to) && self.made.iter().any(|m| m == from) {
            self.ends[1].push(to.to_string());
        } else {
            return Err(
                self.malformed(format!("{}: casts {from} to {to}, which is neither in nor out", op.text("name")))
            );
        }
        Ok(())
    }

    fn inference(
        &mut self,
        (op, frame): (&Record, &Record),
        attributes: Option<&Record>,
        inputs: &[&str],
        outputs: &[&str],
    ) -> Result<()> {
        let name = op.text("name");
        if self.programs.len() == MOST_CALLS {
            return Err(self.malformed(format!("{name}: it has more than {MOST_CALLS} calls")));
        }
        let hash = attributes.map_or("", |a| a.text("anehash"));
        let (program, declared) = self.containers.program(hash)?.ok_or_else(|| {
            let message = format!("{name}: no container (.hwx) beside it has the hash {hash:?}");
            Diagnostic::new(Code::Unreadable, message)
                .at(self.path.display())
                .help("write descriptor and containers together: ane compile MODEL --emit hwx,e5 -o FOLDER/")
        })?;
        for (direction, tensors) in [(Direction::Input, inputs), (Direction::Output, outputs)] {
            let mut ports: Vec<&str> = program.ports_of(direction).map(|p| p.name.as_str()).collect();
            let mut named: Vec<&str> = tensors.iter().filter_map(|t| t.strip_suffix(ENGINE_SUFFIX)).collect();
            ports.sort_unstable();
            named.sort_unstable();
            if ports != named || named.len() != tensors.len() {
                return Err(self.malformed(format!("{name}: binds {tensors:?}, its container has {ports:?}")));
            }
        }
        if let Some(missing) = inputs.iter().find(|t| self.made.iter().all(|m| m != **t)) {
            return Err(self.malformed(format!("{name}: nothing before it makes {missing}")));
        }
        let symbol = attributes.map_or("", |a| a.text("program_symbol"));
        if let Some(procedure) = declared.procedure.as_deref().filter(|p| *p != symbol) {
            return Err(self.malformed(format!("{name}: program symbol {symbol:?}, its container has {procedure:?}")));
        }
        for window in frame.records("ports") {
            let (port, address) = (window.text("name"), window.number("aperture_va"));
            let own = port.strip_suffix(ENGINE_SUFFIX).and_then(|port| declared.window(port));
            if let Some(own) = own.filter(|own| *own != address) {
                let message = format!("{name}: {port} at {address:#x}, its container has the window at {own:#x}");
                return Err(self.malformed(message));
            }
        }
        self.made.extend(outputs.iter().map(|t| t.to_string()));
        self.programs.push(program);
        Ok(())
    }

    /// States of an inference: an output that shares memory with an input.
    fn aliases(&mut self, op: &Record, frame: &Record) -> Result<()> {
        for alias in frame.records("aliases") {
            let at = alias.number("symbol_index");
            let held = usize::try_from(at).ok().and_then(|at| self.symbols.get(at));
            let input = if let Some(Value::Text(name)) = held { name.strip_suffix(ENGINE_SUFFIX) } else { None };
            let output = alias.text("name").strip_suffix(ENGINE_SUFFIX);
            let (Some(input), Some(output)) = (input, output) else {
                let message = format!("{}: alias {:?} of symbol {at}", op.text("name"), alias.text("name"));
                return Err(self.malformed(message));
            };
            let state = State { input: input.to_string(), output: output.to_string() };
            if let Some(other) = self.states.iter().find(|s| s.input == state.input || s.output == state.output) {
                let message =
                    format!("{}: {} = {} and {} = {}", op.text("name"), other.input, other.output, input, output);
                return Err(self.malformed(message));
            }
            self.states.push(state);
        }
        Ok(())
    }
}

/// Input and output of each state that a network writes, by port name.
pub(crate) fn written_states(net: &Net) -> Vec<State> {
    let name = |id| net.value(id).name.clone();
    let written = net.states.iter().filter(|s| s.input != s.output);
    written.map(|s| State { input: name(s.input), output: name(s.output) }).collect()
}

/// Containers of a folder, hashed one by one until the wanted one is found.
struct Containers {
    /// Not hashed yet; the next is the last.
    left: Vec<PathBuf>,
    known: HashMap<String, PathBuf>,
}

impl Containers {
    /// Those beside a descriptor; first those whose names begin as its name does.
    fn beside(path: &Path) -> Containers {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
        let mut left: Vec<PathBuf> =
            entries.filter(|p| p.extension().is_some_and(|e| e == "hwx") && p.is_file()).collect();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let other = |p: &PathBuf| !p.file_name().unwrap_or_default().to_string_lossy().starts_with(&*stem);
        left.sort_by_key(|p| std::cmp::Reverse((other(p), p.clone())));
        Containers { left, known: HashMap::new() }
    }

    /// The program of the container with this hash, and what the container declares.
    fn program(&mut self, hash: &str) -> Result<Option<(Program, Declared)>> {
        while !self.known.contains_key(hash) {
            let Some(path) = self.left.pop() else { return Ok(None) };
            // A file that cannot be read is none of those that are wanted.
            let Ok(bytes) = files::read(&path) else { continue };
            self.known.insert(container_hash(&bytes), path);
        }
        let path = &self.known[hash];
        let malformed = |e: &dyn std::fmt::Display| Diagnostic::new(Code::Malformed, e.to_string()).at(path.display());
        let bytes = files::read(path)?;
        let container = Container::read(&bytes).map_err(|e| malformed(&e))?;
        let program = container.program().map_err(|e| malformed(&e))?;
        Ok(Some((program, Declared::of(&bytes))))
    }
}
