//! Programs dispatched one after the other: each takes by name what is given and what those before it left.

use crate::compile::program_of;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::execute::{Execution, Run, check_together};
use crate::files;
use crate::host;
use crate::tensor::{Array, View, views};
use anemone_compile::segments::{self, Segment};
use anemone_compile::{Options, native};
use anemone_engine as engine;
use anemone_facts::chips::Chip;
use anemone_facts::numerics;
use anemone_net::{Data, Net, Tensor, TensorType, Value, eval};
use anemone_program::e5::{
    Call, Declared, Descriptor, Dispatch, EngineCall, HostCall, Sequence, State, Step, container_hash,
    without_engine_names,
};
use anemone_program::hwx::Container;
use anemone_program::{Direction, Element, Nchw, Port, Program, Strides};
use std::collections::HashMap;
use std::ops::Deref;
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
    /// Ends that no program has: inputs and outputs of host segments alone.
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

/// Cuts that divide a network into programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nowhere: one program.
    Whole,
    /// Around native layers, as a dispatch descriptor has them.
    Natives,
    /// Around native layers and attention, as the book has it: scaled dot-product attention is a hard cut between programs.
    Attention,
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
        let cut = segments::cut(net, chip, options, &mut files::Releasing::new(&mut ()))?;
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
        chain.bind_hosts();
        Ok((chain, reasons))
    }

    /// A network as one program where the engine has a way for all of it, else as [`Chain::with_host`]; the error is the
    /// compiler's own, which names the operation.
    pub fn whole(net: &Net, chip: &'static Chip, options: &Options) -> Result<(Chain, Vec<String>)> {
        Chain::with_host(net, chip, options).map_err(|error| {
            let compiled = program_of(net, chip, options, &mut ());
            compiled.err().unwrap_or(error)
        })
    }

    /// The program of a network, with the states that the network declares.
    pub fn of_network(net: &Net, program: Program) -> Chain {
        Chain::of_segments(net, vec![program])
    }

    /// A network's program, or the programs of its segments, as it is cut.
    pub fn of_net(net: &Net, cut: Cut, compile: impl FnMut(&Net) -> Result<Program>) -> Result<Chain> {
        let segments = match cut {
            Cut::Whole => vec![net.clone()],
            Cut::Natives => native::segments(net),
            Cut::Attention => native::attention_segments(net),
        };
        Ok(Chain::of_segments(net, segments.iter().map(compile).collect::<Result<_>>()?))
    }

    /// The chain that a dispatch descriptor at `path` names: its containers lie in the same folder and are known by their
    /// hash, whatever their names. Processor calls are host segments.
    pub fn beside(path: &Path, descriptor: &Descriptor) -> Result<Chain> {
        let malformed = |message: String| Diagnostic::new(Code::Malformed, message).at(path.display());
        let Sequence { calls, inputs, outputs, states } = descriptor.sequence().map_err(|e| {
            let code = if e.unsupported { Code::UnsupportedOp } else { Code::Malformed };
            Diagnostic::new(code, e.what).at(path.display())
        })?;
        let mut containers = Containers::beside(path);
        let (mut programs, mut hosts) = (Vec::new(), Vec::new());
        for call in &calls {
            match call {
                Dispatch::Engine(call) => programs.push(containers.called(call, path)?),
                Dispatch::Host(call) => {
                    let net = host::net_of(call).map_err(|e| malformed(format!("{}: {e}", call.name)))?;
                    hosts.push((programs.len(), net));
                }
            }
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut chain = Chain { name, programs, ends: [inputs, outputs], states, hosts, host_ports: Vec::new() };
        chain.bind_hosts();
        Ok(chain)
    }

    /// Gives ports to the ends that no program has: inputs and outputs of host segments alone.
    fn bind_hosts(&mut self) {
        for (side, direction) in [Direction::Input, Direction::Output].into_iter().enumerate() {
            let bound: Vec<String> = self.ports(direction).map(|p| p.name.clone()).collect();
            let missing = self.ends[side].iter().filter(|name| !bound.contains(name));
            let ports: Vec<Port> = missing.filter_map(|name| host_port(self.host_value(name)?, direction)).collect();
            self.host_ports.extend(ports);
        }
    }

    /// A tensor of a host segment, by name.
    fn host_value(&self, name: &str) -> Option<&Value> {
        self.hosts.iter().find_map(|(_, net)| net.find(name).map(|id| net.value(id)))
    }

    /// Type of an end as its network declares it, where a host segment has it; programs alone say fp16 and four extents.
    pub fn declared(&self, name: &str) -> Option<&TensorType> {
        self.host_value(name).map(|value| &value.ty)
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

    /// Puts large kernel data where its memory can go back to the system once a plan has packed it.
    pub(crate) fn set_aside(&mut self) {
        for program in &mut self.programs {
            program.kernel = files::set_aside(&program.kernel);
        }
    }

    /// The programs.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The program of a chain of one.
    pub fn only_program_mut(&mut self) -> Option<&mut Program> {
        match (self.programs.as_mut_slice(), self.hosts.as_slice()) {
            ([program], []) => Some(program),
            _ => None,
        }
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

    /// Names of the inputs that the caller gives.
    pub fn inputs(&self) -> &[String] {
        &self.ends[0]
    }

    /// Refuses to leave out host segments: in `form` there is no place for them.
    pub fn check_no_host(&self, form: &str) -> Result<()> {
        let Some((_, host)) = self.hosts.first() else { return Ok(()) };
        let kinds: Vec<&str> = host.ops.iter().map(|op| op.kind.name()).collect();
        let (name, kinds) = (&host.name, kinds.join(", "));
        let message = format!("host segment {name} ({kinds}): {form} cannot carry what runs on the host");
        Err(Diagnostic::new(Code::UnsupportedOp, message)
            .help("--emit hwx,e5: a dispatch descriptor carries it as a processor call"))
    }

    /// Host segments as a descriptor carries them, each with the number of programs before it.
    pub fn host_calls(&self) -> Vec<(usize, HostCall)> {
        self.hosts.iter().map(|(before, net)| (*before, host::call_of(net))).collect()
    }

    /// The chain's steps over containers, one a program, and over [`Chain::host_calls`].
    pub fn steps<'a>(&'a self, containers: &'a [Vec<u8>], hosts: &'a [(usize, HostCall)]) -> Vec<Step<'a>> {
        let mut steps = Vec::new();
        for at in 0..=self.programs.len() {
            steps.extend(hosts.iter().filter(|(before, _)| *before == at).map(|(_, call)| Step::Host(call)));
            if let (Some(program), Some(container)) = (self.programs.get(at), containers.get(at)) {
                steps.push(Step::Engine(Call { program, container }));
            }
        }
        steps
    }

    /// The arithmetic of the generation that it is compiled for.
    pub fn exact_model(&self) -> Result<numerics::Model> {
        let Some(program) = self.programs.first() else { return Ok(numerics::Model::Fast) };
        let generation = program.layout.generation;
        numerics::generation(generation).map(|g| g.mac).ok_or_else(|| {
            let message = format!("no arithmetic is known for {generation}");
            Diagnostic::new(Code::UnsupportedOp, message).help("--numerics fast")
        })
    }

    /// Every program checked and planned.
    pub fn execution(&self, options: engine::Options) -> Result<ChainExecution<&Chain>> {
        ChainExecution::new(self, options)
    }
}

/// A chain planned once, to be run many times.
pub struct ChainExecution<C> {
    chain: C,
    executions: Vec<Execution>,
    /// Inputs of the next run, where several programs or host segments read them.
    bound: Vec<(String, Array)>,
}

impl<C: Deref<Target = Chain>> ChainExecution<C> {
    /// Every program checked and planned.
    pub fn new(chain: C, options: engine::Options) -> Result<Self> {
        check_together(&chain.programs)?;
        let executions = chain.programs.iter().map(|p| Execution::new(p, options)).collect::<Result<_>>()?;
        Ok(ChainExecution { chain, executions, bound: Vec::new() })
    }

    /// Runs every program once, as [`Execution::run`]; tasks and traces follow each other.
    pub fn run(&mut self, inputs: &[(String, Array)]) -> Result<Run> {
        self.bind(&views(inputs))?;
        self.run_bound()
    }

    /// Takes the inputs of one [`ChainExecution::run_bound`]: a single program has them written where it reads them, others
    /// get copies.
    pub fn bind(&mut self, inputs: &[(&str, View)]) -> Result<()> {
        if let ([only], []) = (self.executions.as_mut_slice(), self.chain.hosts.as_slice()) {
            return only.bind(inputs);
        }
        self.bound = inputs.iter().map(|(name, view)| (name.to_string(), view.to_array())).collect();
        Ok(())
    }

    /// Runs every program once on the inputs that were bound.
    pub fn run_bound(&mut self) -> Result<Run> {
        if let ([only], []) = (self.executions.as_mut_slice(), self.chain.hosts.as_slice()) {
            return only.run_bound();
        }
        let mut whole = Run { outputs: Vec::new(), tasks: 0, skipped: Vec::new(), trace: Vec::new() };
        let mut known = std::mem::take(&mut self.bound);
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

/// A port for an input or output of host segments alone: extents as a port has them, and no memory of a program's.
fn host_port(value: &Value, direction: Direction) -> Option<Port> {
    let (name, shape) = (value.name.as_str(), &value.ty.shape);
    if shape.iter().any(|&n| u32::try_from(n).is_err()) {
        return None;
    }
    let (outer, inner) = shape.split_at(shape.len().saturating_sub(3));
    let mut four = [1u32; 4];
    four[0] = outer.iter().fold(1u32, |all, &n| all.saturating_mul(n as u32));
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

/// Runs a host segment on the arrays known so far.
fn on_host(net: &Net, known: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
    let outputs = host::evaluate(net, &tensors(net, known, false)?)
        .map_err(|e| Diagnostic::new(Code::Fault, e).help("check the places it reads by"))?;
    Ok(named_outputs(net, outputs))
}

/// Evaluates a network in fp32, without compiling it: arrays by name in, arrays by name out. States that are not given are zeros.
pub fn evaluate(net: &Net, inputs: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
    let known: Vec<&str> = net.inputs.iter().map(|&id| net.value(id).name.as_str()).collect();
    if let Some((name, _)) = inputs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        let message = format!("the network has no input {name}");
        return Err(Diagnostic::new(Code::Usage, message).help(format!("it has: {}", known.join(", "))));
    }
    let outputs = eval::eval(net, &tensors(net, inputs, true)?);
    Ok(named_outputs(net, outputs.map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?))
}

/// A network's inputs of arrays by name; of several of one name, the last.
fn tensors(net: &Net, known: &[(String, Array)], zero_states: bool) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for &id in &net.inputs {
        let value = net.value(id);
        let found = known.iter().rev().find(|(name, _)| *name == value.name).map(|(_, array)| array);
        let zeros =
            || (zero_states && net.states.iter().any(|s| s.input == id)).then(|| vec![0.0; value.ty.elements()]);
        let given = match found {
            Some(array) if array.data.len() == value.ty.elements() => array.data.clone(),
            Some(array) => {
                let (name, expected, found) = (&value.name, &value.ty.shape, &array.shape);
                let message = format!("input {name} is {found:?}, expected {expected:?}");
                return Err(Diagnostic::new(Code::BadTensor, message));
            }
            None => zeros().ok_or_else(|| Diagnostic::new(Code::Usage, format!("no data for input {}", value.name)))?,
        };
        let data = match value.ty.dtype {
            dtype if dtype.is_float() => Data::F32(given),
            dtype => Data::from_i32(dtype, &given.iter().map(|&x| x as i32).collect::<Vec<_>>()),
        };
        tensors.push(Tensor { shape: value.ty.shape.clone(), data });
    }
    Ok(tensors)
}

fn named_outputs(net: &Net, outputs: Vec<Tensor>) -> Vec<(String, Array)> {
    let names = net.outputs.iter().map(|&id| net.value(id).name.clone());
    names.zip(outputs).map(|(name, t)| (name, Array { data: t.data.to_f32(), shape: t.shape })).collect()
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

    /// The program that a call of the descriptor at `path` names. Its container has the ports, the windows and the name that
    /// the descriptor says.
    fn called(&mut self, call: &EngineCall, path: &Path) -> Result<Program> {
        let EngineCall { name, hash, symbol, .. } = call;
        let malformed = |message: String| Err(Diagnostic::new(Code::Malformed, message).at(path.display()));
        let (program, declared) = self.program(hash)?.ok_or_else(|| {
            let message = format!("{name}: no container (.hwx) beside it has the hash {hash:?}");
            Diagnostic::new(Code::Unreadable, message)
                .at(path.display())
                .help("write descriptor and containers together: ane compile MODEL --emit hwx,e5 -o FOLDER/")
        })?;
        // Tensors may have their names of the engine's side in the container.
        let program = match program.ports.iter().all(|port| call.windows.iter().any(|(name, _)| *name == port.name)) {
            true => program,
            false => without_engine_names(program),
        };
        for (direction, tensors) in [(Direction::Input, &call.inputs), (Direction::Output, &call.outputs)] {
            let mut ports: Vec<&str> = program.ports_of(direction).map(|p| p.name.as_str()).collect();
            let mut named: Vec<&str> = tensors.iter().map(String::as_str).collect();
            ports.sort_unstable();
            named.sort_unstable();
            if ports != named {
                return malformed(format!("{name}: binds {tensors:?}, its container has {ports:?}"));
            }
        }
        if let Some(procedure) = declared.procedure.as_deref().filter(|p| p != symbol) {
            return malformed(format!("{name}: program symbol {symbol:?}, its container has {procedure:?}"));
        }
        for (port, address) in &call.windows {
            if let Some(own) = declared.window(port).filter(|own| own != address) {
                let message = format!("{name}: {port} at {address:#x}, its container has the window at {own:#x}");
                return malformed(message);
            }
        }
        Ok(program)
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
        let bytes = files::mapped(path)?;
        let container = Container::read_shared(&bytes).map_err(|e| malformed(&e))?;
        let program = container.program().map_err(|e| malformed(&e))?;
        Ok(Some((program, Declared::of(&bytes))))
    }
}
