//! Chains of programs: each program reads inputs of the caller and results of earlier programs, by name.

mod beside;
mod execution;

use crate::compile::program_of;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use crate::host;
use crate::tensor::Array;
use crate::watch::{self, Watched};
use anemone_compile::segments::{self, Segment};
use anemone_compile::{Options, native};
use anemone_engine as engine;
use anemone_facts::chips::Chip;
use anemone_facts::numerics;
use anemone_net::{Data, Net, OpKind, Tensor, TensorType, Value, ValueId, eval};
use anemone_program::e5::{Call, Counted, HostCall, Repeat, State, Step};
use anemone_program::{Direction, Element, Nchw, Port, Program, Strides, cost};
use std::collections::HashSet;

pub use execution::ChainExecution;

/// Programs in dispatch order. A single program is a chain of one.
#[derive(Clone, Debug, Default)]
pub struct ProgramChain {
    name: String,
    programs: Vec<Program>,
    /// Names of the inputs and of the outputs of the caller.
    ends: [Vec<String>; 2],
    states: Vec<State>,
    counted: Vec<Counted>,
    /// Host segments, each with the number of programs before it.
    hosts: Vec<(usize, Net)>,
    /// Counted loops.
    loops: Vec<Repeat>,
    /// Programs, host segments and ends of loops in execution order.
    order: Vec<Part>,
    /// Ends without a port in any program: inputs and outputs of host segments and loops only.
    host_ports: Vec<Port>,
    /// Types of ends of loops only, and of outputs that are inputs.
    host_types: Vec<(String, TensorType)>,
    /// Outputs that are inputs: a run returns what it is given.
    passed: Vec<(String, TensorType)>,
}

/// A step of a chain, by its index among steps of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Program(usize),
    Host(usize),
    Begin(usize),
    End(usize),
}

impl From<Program> for ProgramChain {
    fn from(program: Program) -> ProgramChain {
        let names = |direction| program.ports_of(direction).map(|p| p.name.clone()).collect();
        let ends = [names(Direction::Input), names(Direction::Output)];
        ProgramChain {
            name: program.name.clone(),
            ends,
            programs: vec![program],
            order: vec![Part::Program(0)],
            ..ProgramChain::default()
        }
    }
}

/// Partitioning of a network into programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// None: one program.
    Whole,
    /// At native layers, as in a dispatch descriptor.
    Natives,
    /// At native layers and attention: in the book, scaled dot-product attention is a boundary between programs.
    Attention,
}

impl ProgramChain {
    /// The programs of a network's segments ([`native::segments`]), in order.
    fn of_segments(net: &Net, mut programs: Vec<Program>) -> ProgramChain {
        let (states, counted, passed) = (written_states(net), counted_outputs(net), passed(net));
        if programs.len() == 1 && passed.is_empty() {
            return ProgramChain { states, counted, ..ProgramChain::from(programs.remove(0)) };
        }
        let order = (0..programs.len()).map(Part::Program).collect();
        let chain = ProgramChain { name: net.name.clone(), programs, states, order, ..ProgramChain::default() };
        ProgramChain { ends: ends(net), counted, passed, ..chain }.bound()
    }

    /// A network with host segments for operations without an engine path, and the reason for each.
    pub fn with_host(net: &Net, chip: &'static Chip, options: &Options) -> Result<(ProgramChain, Vec<String>)> {
        crate::native::exact_indices(net)?;
        let cut = segments::cut(net, chip, options, &mut files::Releasing::new(&mut Watched))?;
        let reasons = cut.reasons.iter().map(|(_, error)| error.to_string()).collect();
        let mut chain = ProgramChain { name: net.name.clone(), ..ProgramChain::default() };
        chain.add(cut.segments)?;
        if chain.is_single() {
            return Ok((ProgramChain::of_network(net, chain.programs.remove(0)), reasons));
        }
        (chain.ends, chain.states, chain.passed) = (ends(net), written_states(net), passed(net));
        chain.counted = counted_outputs(net);
        Ok((chain.bound(), reasons))
    }

    /// Appends segments.
    fn add(&mut self, segments: Vec<Segment>) -> Result<()> {
        for segment in segments {
            match segment {
                Segment::Engine(program) => {
                    self.order.push(Part::Program(self.programs.len()));
                    self.programs.push(*program);
                }
                Segment::Host(part) => {
                    self.order.push(Part::Host(self.hosts.len()));
                    self.hosts.push((self.programs.len(), *part));
                }
                Segment::Loop(turns) => {
                    let repeat = host::repeat_of(&turns.whole).map_err(|e| Diagnostic::new(Code::Defect, e))?;
                    let at = self.loops.len();
                    self.loops.push(repeat);
                    self.order.push(Part::Begin(at));
                    self.add(turns.segments)?;
                    self.order.push(Part::End(at));
                }
            }
        }
        Ok(())
    }

    /// Returns true for a single program without host segments.
    pub fn is_single(&self) -> bool {
        matches!(self.order[..], [Part::Program(0)]) && self.passed.is_empty()
    }

    /// Counted loops: their iterations, and the tensors that each iteration reads and writes.
    pub fn loops(&self) -> &[Repeat] {
        &self.loops
    }

    /// Number of dispatches of each program in a run.
    pub fn dispatches(&self) -> Vec<u64> {
        let (mut times, mut all) = (vec![1u64], vec![1; self.programs.len()]);
        for part in &self.order {
            let now = times.last().copied().unwrap_or(1);
            match *part {
                Part::Begin(at) => times.push(now.saturating_mul(self.loops[at].turns)),
                Part::End(_) => drop(times.pop()),
                Part::Program(at) => all[at] = now,
                Part::Host(_) => {}
            }
        }
        all
    }

    /// A network as one program if the engine has a path for all of it, else as [`ProgramChain::with_host`]. Errors: the compiler's,
    /// which name the operation.
    pub fn whole(net: &Net, chip: &'static Chip, options: &Options) -> Result<(ProgramChain, Vec<String>)> {
        ProgramChain::with_host(net, chip, options).map_err(|error| {
            // Nobody reads the error of a compile that was stopped.
            let compiled = if watch::stopped() { None } else { program_of(net, chip, options, &mut ()).err() };
            compiled.unwrap_or(error)
        })
    }

    /// The program of a network, with the states that the network declares.
    pub fn of_network(net: &Net, program: Program) -> ProgramChain {
        ProgramChain::of_segments(net, vec![program])
    }

    /// A network's program, or the programs of its segments.
    pub fn of_net(net: &Net, cut: Cut, compile: impl FnMut(&Net) -> Result<Program>) -> Result<ProgramChain> {
        let segments = match cut {
            Cut::Whole => vec![net.clone()],
            Cut::Natives => native::segments(net),
            Cut::Attention => native::attention_segments(net),
        };
        Ok(ProgramChain::of_segments(net, segments.iter().map(compile).collect::<Result<_>>()?))
    }

    /// The chain with ports for ends without a port in any program: inputs and outputs of host segments only, and outputs that are inputs.
    fn bound(mut self) -> ProgramChain {
        for (side, direction) in [Direction::Input, Direction::Output].into_iter().enumerate() {
            let bound: Vec<String> = self.ports(direction).map(|p| p.name.clone()).collect();
            let missing = self.ends[side].iter().filter(|name| !bound.contains(name));
            let mut ports = Vec::new();
            for name in missing {
                let of_loop = || self.loops.iter().find_map(|repeat| host::type_in(repeat, name));
                let of_passed = || self.passed.iter().find(|(own, _)| own == name).map(|(_, ty)| ty.clone());
                let of_host = self.host_value(name).map(|value| value.ty.clone());
                let Some(ty) = of_host.clone().or_else(of_loop).or_else(of_passed) else { continue };
                ports.extend(host_port(name, &ty.shape, direction));
                if of_host.is_none() {
                    self.host_types.push((name.clone(), ty));
                }
            }
            self.host_ports.extend(ports);
        }
        self
    }

    /// A tensor of a host segment, by name.
    fn host_value(&self, name: &str) -> Option<&Value> {
        self.hosts.iter().find_map(|(_, net)| net.find(name).map(|id| net.value(id)))
    }

    /// Declared type of an end in its network, if a host segment has it; ports of programs are always fp16 with four extents.
    pub fn declared(&self, name: &str) -> Option<&TensorType> {
        let of_loops = || self.host_types.iter().find(|(own, _)| own == name).map(|(_, ty)| ty);
        self.host_value(name).map(|value| &value.ty).or_else(of_loops)
    }

    /// Tensors kept between runs: zeros before the first, then the value of the output.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Outputs whose first rows are real, each with the output that has their number.
    pub fn counted(&self) -> &[Counted] {
        &self.counted
    }

    /// Copies the final value of every state to the inputs of the next run.
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

    /// Moves large kernel data to memory that can be released once a plan has packed it.
    pub(crate) fn set_aside(&mut self) {
        for program in &mut self.programs {
            program.kernel = files::set_aside(&program.kernel);
        }
    }

    /// Removes the kernel data of every program after it has been written elsewhere.
    #[cfg(feature = "system")]
    pub(crate) fn strip(&mut self) {
        self.programs.iter_mut().for_each(|program| program.kernel = anemone_net::read::Bytes::new());
    }

    /// The programs.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The program of a chain of one.
    pub fn only_program_mut(&mut self) -> Option<&mut Program> {
        if self.is_single() { self.programs.first_mut() } else { None }
    }

    /// Modelled time of a run with all its dispatches; `None` if a program has none.
    pub fn modelled(&self, chip: &Chip) -> Option<cost::Cost> {
        let mut all = Vec::new();
        for (program, times) in self.programs.iter().zip(self.dispatches()) {
            let one = cost::of_program(program, chip)?;
            all.extend(std::iter::repeat_n(one, usize::try_from(times).ok()?));
        }
        cost::Cost::sum(all)
    }

    /// Names of the caller's outputs.
    pub fn outputs(&self) -> &[String] {
        &self.ends[1]
    }

    /// Ports of the caller in one direction.
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

    /// Names of the caller's inputs.
    pub fn inputs(&self) -> &[String] {
        &self.ends[0]
    }

    /// Names of the whole numbers that are exact beyond fp16: positions that the host finds, and what it computes from them, from
    /// constants and from whole inputs alone.
    pub fn exact_whole(&self) -> HashSet<String> {
        let mut exact = HashSet::new();
        for (_, host) in &self.hosts {
            let whole = |id: ValueId| host.value(id).ty.dtype.is_integer();
            for op in &host.ops {
                let known = |id: &ValueId| {
                    let value = host.value(*id);
                    let given = exact.contains(&value.name) || self.ends[0].contains(&value.name);
                    value.data.is_some() || whole(*id) && given
                };
                let positions = matches!(op.kind, OpKind::ArgReduce { .. } | OpKind::ArgSort { .. });
                if positions || op.inputs.iter().all(known) {
                    let names = op.outputs.iter().filter(|id| whole(**id)).map(|id| host.value(*id).name.clone());
                    exact.extend(names.collect::<Vec<_>>());
                }
            }
        }
        exact
    }

    /// Refuses a form that has no place for host segments.
    pub fn check_no_host(&self, form: &str) -> Result<()> {
        if let Some(repeat) = self.loops.first() {
            let Repeat { name, turns, .. } = repeat;
            let message = format!("loop {name} of {turns} iterations: {form} has no place for host operations");
            return Err(Diagnostic::new(Code::UnsupportedOp, message)
                .help("--emit hwx,e5: a dispatch descriptor has a place for it; --engine-only unrolls it"));
        }
        let Some((_, host)) = self.hosts.first() else { return Ok(()) };
        let kinds: Vec<&str> = host.ops.iter().map(|op| op.kind.name()).collect();
        let (name, kinds) = (&host.name, kinds.join(", "));
        let message = format!("host segment {name} ({kinds}): {form} has no place for host operations");
        Err(Diagnostic::new(Code::UnsupportedOp, message)
            .help("--emit hwx,e5: a dispatch descriptor stores it as a processor call"))
    }

    /// Host segments and both ends of loops as processor calls of a descriptor, in order.
    pub fn host_calls(&self) -> Vec<HostCall> {
        let call = |part: &Part| match *part {
            Part::Program(_) => None,
            Part::Host(at) => Some(host::call_of(&self.hosts[at].1)),
            Part::Begin(at) => Some(self.loops[at].begin()),
            Part::End(at) => Some(self.loops[at].end()),
        };
        self.order.iter().filter_map(call).collect()
    }

    /// The chain's steps over containers, one per program, and over [`ProgramChain::host_calls`].
    pub fn steps<'a>(&'a self, containers: &'a [impl AsRef<[u8]>], hosts: &'a [HostCall]) -> Vec<Step<'a>> {
        let mut calls = hosts.iter().map(Step::Host);
        let step = |part: &Part| match *part {
            Part::Program(at) => {
                let (program, container) = (&self.programs[at], containers.get(at)?);
                Some(Step::Engine(Call { program, container: container.as_ref() }))
            }
            _ => calls.next(),
        };
        self.order.iter().filter_map(step).collect()
    }

    /// The arithmetic model of the programs' generation.
    pub fn exact_model(&self) -> Result<numerics::Model> {
        let Some(program) = self.programs.first() else { return Ok(numerics::Model::Fast) };
        let generation = program.layout.generation;
        numerics::generation(generation).map(|g| g.mac).ok_or_else(|| {
            let message = format!("no arithmetic is known for {generation}");
            Diagnostic::new(Code::UnsupportedOp, message).help("--numerics fast")
        })
    }

    /// Checks and plans every program.
    pub fn execution(&self, options: engine::Options) -> Result<ChainExecution<&ProgramChain>> {
        ChainExecution::new(self, options)
    }
}

/// A port for an input or output of host segments and loops only: extents in the form of ports, without memory in a program.
fn host_port(name: &str, shape: &[usize], direction: Direction) -> Option<Port> {
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
        volume_channels: None,
        strides: Strides { batch_bytes: 0, plane_bytes: 0, row_bytes: 0 },
        element: Element::Float16,
        bytes: 0,
    })
}

/// Evaluates a network in fp32, without compiling it; inputs and outputs are arrays by name. States that are not given are zeros.
pub fn evaluate(net: &Net, inputs: &[(String, Array)]) -> Result<Vec<(String, Array)>> {
    let known: Vec<&str> = net.inputs.iter().map(|&id| net.value(id).name.as_str()).collect();
    if let Some((name, _)) = inputs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        let message = format!("the network has no input {name}");
        return Err(Diagnostic::new(Code::Usage, message).help(format!("it has: {}", known.join(", "))));
    }
    let outputs = eval::eval(net, &tensors(net, inputs, true)?);
    Ok(named_outputs(net, outputs.map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?))
}

/// A network's inputs from arrays by name; the last of several with one name.
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

/// Names of a network's inputs, and of its outputs and states after a run.
fn ends(net: &Net) -> [Vec<String>; 2] {
    let name = |id: &ValueId| net.value(*id).name.clone();
    let left = net.states.iter().map(|s| &s.output).filter(|id| !net.outputs.contains(id) && !net.inputs.contains(id));
    [net.inputs.iter().map(name).collect(), net.outputs.iter().chain(left).map(name).collect()]
}

/// Outputs of a network that are inputs, but for states.
fn passed(net: &Net) -> Vec<(String, TensorType)> {
    let given = net.outputs.iter().filter(|&id| net.inputs.contains(id) && net.states.iter().all(|s| s.input != *id));
    given.map(|&id| (net.value(id).name.clone(), net.value(id).ty.clone())).collect()
}

/// Outputs of which another output has the number of real rows, by port name.
pub fn counted_outputs(net: &Net) -> Vec<Counted> {
    let name = |id| net.value(id).name.clone();
    net.counted.iter().map(|c| Counted { rows: name(c.rows), count: name(c.count), axis: c.axis }).collect()
}

/// Input and output of each state that a network writes, by port name.
pub(crate) fn written_states(net: &Net) -> Vec<State> {
    let name = |id| net.value(id).name.clone();
    let written = net.states.iter().filter(|s| s.input != s.output);
    written.map(|s| State { input: name(s.input), output: name(s.output) }).collect()
}
