//! Execution of a program on the software engine: binding of inputs, run, outputs.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use crate::tensor::{Array, Elements, View, agreement, random_as, views};
use crate::warnings;
use anemone_engine::{Memory, Options, Plan, Profile, TaskTrace};
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, Unary, eval};
use anemone_program::{Direction, Element, Port, Program};
use half::f16;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Outputs by name, in port order, with the ports' extents.
    pub outputs: Vec<(String, Array)>,
    /// Number of executed tasks.
    pub tasks: usize,
    /// Faults that a lenient run skipped.
    pub skipped: Vec<String>,
    /// Record of each task, if the options request it.
    pub trace: Vec<TaskTrace>,
}

/// Largest size of a program's buffers in bytes. The engine's address space is larger; the host's memory may not be.
const MAX_BUFFER_BYTES: u64 = 1 << 32;
/// Largest number of elements of a port in the software engine.
const MAX_PORT_ELEMENTS: u64 = 1 << 28;

/// Refuses programs whose buffers together are too large.
pub fn check_together(programs: &[Program]) -> Result<()> {
    let of_ports = programs.iter().flat_map(|p| &p.ports).map(|p| p.bytes);
    let all = programs.iter().map(|p| p.scratch_bytes).chain(of_ports).fold(0u64, u64::saturating_add);
    if all <= MAX_BUFFER_BYTES {
        return Ok(());
    }
    let whose =
        if programs.len() == 1 { "the program asks".to_string() } else { format!("{} programs ask", programs.len()) };
    let message = format!("{whose} for {all} bytes of buffers; the software engine has {MAX_BUFFER_BYTES}");
    Err(Diagnostic::new(Code::Fault, message))
}

/// Refuses a program whose buffers are too large or cannot be filled.
pub fn check(program: &Program) -> Result<()> {
    check_together(std::slice::from_ref(program))?;
    for port in &program.ports {
        if port.element == Element::Int8 {
            let (name, element) = (&port.name, port.element);
            let message = format!("port {name}: element type {element:?}; only Float16 and Uint8 are supported here");
            return Err(Diagnostic::new(Code::UnsupportedOp, message));
        }
        let s = port.shape;
        let (extents, elements) = (port.extents(), s.elements());
        if elements == 0 {
            let message = format!("port {} has shape {extents:?}: no axis may be 0", port.name);
            return Err(Diagnostic::new(Code::Malformed, message));
        }
        if elements > MAX_PORT_ELEMENTS {
            let (name, limit) = (&port.name, MAX_PORT_ELEMENTS);
            let message =
                format!("port {name} has shape {extents:?}: {elements} elements; the software engine supports {limit}");
            return Err(Diagnostic::new(Code::Fault, message));
        }
        if port.strides.tight_bytes(port.shape, port.element.bytes()) > port.bytes {
            return Err(defect(port));
        }
    }
    Ok(())
}

/// Runs a program once, as [`Execution::run`].
pub fn execute(program: &Program, inputs: &[(String, Array)], options: Options) -> Result<Run> {
    Execution::new(program, options)?.run(inputs)
}

/// A program planned once, to be run many times.
pub struct Execution {
    ports: Vec<Port>,
    plan: Plan,
    memory: Memory,
}

impl Execution {
    /// Checks and plans a program.
    pub fn new(program: &Program, options: Options) -> Result<Self> {
        check(program)?;
        let mut pages = files::Pending::default();
        let plan = Plan::observed(program, options, &mut |bytes| pages.add(bytes))?;
        pages.release();
        let memory = plan.memory();
        Ok(Execution { ports: program.ports.clone(), plan, memory })
    }

    /// The plan that is executed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Measures the plan's steps over `runs` runs, as [`Plan::profile`]. Inputs as for [`Execution::run`].
    pub fn profile(&mut self, inputs: &[(String, Array)], runs: usize) -> Result<Profile> {
        self.bind(&views(inputs))?;
        Ok(self.plan.profile(&mut self.memory, runs)?)
    }

    /// Runs once. `inputs` are by port name; every input port must have one, with the port's extents: axes may be split,
    /// merged, added or removed, but not exchanged.
    pub fn run(&mut self, inputs: &[(String, Array)]) -> Result<Run> {
        self.bind(&views(inputs))?;
        self.run_bound()
    }

    /// Writes inputs directly to the memory of their ports, for one [`Execution::run_bound`].
    pub fn bind(&mut self, inputs: &[(&str, View)]) -> Result<()> {
        bind(&self.ports, &mut self.memory, inputs)
    }

    /// Runs once on the bound inputs.
    pub fn run_bound(&mut self) -> Result<Run> {
        let outcome = self.plan.run(&mut self.memory)?;
        if let Some(name) = outcome.incomplete.first() {
            return Err(Diagnostic::new(Code::Fault, format!("output {name} is not completely written")));
        }
        let skipped = outcome.skipped.iter().map(|f| f.to_string()).collect();
        let outputs = take(&self.ports, &self.memory)?;
        Ok(Run { outputs, tasks: outcome.tasks, skipped, trace: outcome.trace })
    }
}

/// Writes inputs to the memory of their ports.
fn bind(ports: &[Port], memory: &mut Memory, inputs: &[(&str, View)]) -> Result<()> {
    for port in ports.iter().filter(|p| p.direction == Direction::Input) {
        let Some((_, view)) = inputs.iter().find(|(name, _)| *name == port.name) else {
            return Err(Diagnostic::new(Code::Usage, format!("no data for input {}", port.name)));
        };
        let s = port.shape;
        let extents = port.dims();
        if view.elements() as u64 != s.elements() || !view.lies_as(&extents) {
            let message = format!("input {} has shape {extents:?}, the array {:?}", port.name, view.shape);
            let error = Diagnostic::new(Code::BadTensor, message);
            return Err(match order(view.shape, &extents) {
                Some(axes) => error.help(format!("numpy.transpose(x, {axes:?}) has the order of its axes")),
                None => error,
            });
        }
        let region = memory.region_mut(port.bar).ok_or_else(|| defect(port))?;
        let bytes = region.bytes_mut();
        let done = match view.elements {
            Elements::F32(data) if port.element == Element::Uint8 => write_bytes(port, bytes, data, |&x| x),
            Elements::F16(data) if port.element == Element::Uint8 => write_bytes(port, bytes, data, |x| x.to_f32()),
            Elements::F32(data) => write_rows(port, bytes, data, |&x| f16::from_f32(x)),
            Elements::F16(data) => write_rows(port, bytes, data, |&x| x),
        };
        done.ok_or_else(|| defect(port))?;
    }
    Ok(())
}

/// Axes of an array in the order of `extents`, apart from axes of extent 1: rows before columns where both are alike.
fn order(array: &[usize], extents: &[usize]) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = (0..array.len()).collect();
    let mut axes = Vec::new();
    for &extent in extents.iter().filter(|&&extent| extent != 1) {
        let at = left.iter().position(|&axis| array[axis] == extent)?;
        axes.push(left.remove(at));
    }
    let ones = left.iter().all(|&axis| array[axis] == 1);
    left.extend(axes);
    ones.then_some(left)
}

/// Writes a port's elements to its buffer; `None` if that is too small.
fn write_rows<T>(port: &Port, bytes: &mut [u8], data: &[T], half: impl Fn(&T) -> f16) -> Option<()> {
    for ((start, width), row) in rows(port).zip(data.chunks(port.shape.w as usize)) {
        let slots = bytes.get_mut(start..start + 2 * width)?;
        for (slot, x) in slots.chunks_exact_mut(2).zip(row) {
            slot.copy_from_slice(&half(x).to_le_bytes());
        }
    }
    Some(())
}

/// Writes a port's elements to its buffer as bytes, rounded and within their range; `None` if that is too small.
fn write_bytes<T>(port: &Port, bytes: &mut [u8], data: &[T], number: impl Fn(&T) -> f32) -> Option<()> {
    for ((start, width), row) in rows(port).zip(data.chunks(port.shape.w as usize)) {
        let slots = bytes.get_mut(start..start + width)?;
        slots.iter_mut().zip(row).for_each(|(slot, x)| *slot = number(x).round_ties_even() as u8);
    }
    Some(())
}

/// Outputs by port name, in port order.
fn take(ports: &[Port], memory: &Memory) -> Result<Vec<(String, Array)>> {
    let mut outputs = Vec::new();
    for port in ports.iter().filter(|p| p.direction == Direction::Output) {
        let bytes = memory.region(port.bar).ok_or_else(|| defect(port))?.bytes();
        let mut data = Vec::with_capacity(port.shape.elements() as usize);
        for (start, width) in rows(port) {
            let size = width * port.element.bytes() as usize;
            let row = bytes.get(start..start + size).ok_or_else(|| defect(port))?;
            if port.element == Element::Uint8 {
                data.extend(row.iter().map(|&byte| f32::from(byte)));
                continue;
            }
            data.extend(row.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()));
        }
        outputs.push((port.name.clone(), Array { shape: port.dims(), data }));
    }
    Ok(outputs)
}

fn defect(port: &Port) -> Diagnostic {
    Diagnostic::new(Code::Malformed, format!("port {} does not fit its buffer of {} bytes", port.name, port.bytes))
}

/// Byte offset and width of every row of a port, in row-major order.
fn rows(port: &Port) -> impl Iterator<Item = (usize, usize)> {
    let (strides, shape) = (port.strides, port.shape);
    let (c, h) = (shape.c as u64, shape.h as u64);
    (0..shape.n as u64 * c * h).map(move |i| {
        let start = i / (c * h) * strides.batch_bytes + i / h % c * strides.plane_bytes + i % h * strides.row_bytes;
        (start as usize, shape.w as usize)
    })
}

/// Initial value of a state's port: zeros. `None` for other ports.
pub fn state_at_start(net: &Net, port: &Port) -> Option<Array> {
    let state = net.states.iter().any(|s| net.value(s.input).name == port.name);
    let s = port.shape;
    let shape = port.dims();
    state.then(|| Array { shape, data: vec![0.0; s.elements() as usize] })
}

/// Reshapes outputs to the extents of the network; ports always have four.
pub fn own_extents(net: &Net, outputs: &mut [(String, Array)]) {
    for (name, array) in outputs {
        if let Some(&id) = net.outputs.iter().find(|&&id| net.value(id).name == *name) {
            array.shape = net.value(id).ty.shape.clone();
        }
    }
}

/// Error that fp16 rounding of every result causes in a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundingCost {
    /// Largest difference.
    pub max: f32,
    /// Root mean square difference.
    pub rms: f32,
}

impl RoundingCost {
    /// The cost by the elements that are finite in both results: an overflow of one would make every error of the others acceptable.
    fn between(rounded: &[f32], exact: &[f32]) -> RoundingCost {
        let finite = rounded.iter().zip(exact).filter(|(a, b)| a.is_finite() && b.is_finite());
        let max = finite.fold(0f32, |max, (a, b)| max.max((a - b).abs()));
        RoundingCost { max, rms: agreement(rounded, exact).rms }
    }
}

/// Measures the error of fp16 rounding in a network, on these inputs: the difference of one output between fp32
/// evaluation and evaluation with every result rounded, to the digits of fp16 alone if its range leaves no finite element. `None` if the
/// network cannot be evaluated.
pub fn rounding_cost(net: &Net, inputs: &[(String, Array)], output: &str) -> Option<RoundingCost> {
    let tensors = tensors_of(net, inputs)?;
    let at = net.outputs.iter().position(|&id| net.value(id).name == output)?;
    let (exact, rounded) = (eval::eval(net, &tensors).ok()?, eval::eval_rounded(net, &tensors).ok()?);
    let (Data::F32(exact), Data::F32(rounded)) = (&exact[at].data, &rounded[at].data) else { return None };
    if exact.iter().zip(rounded).any(|(a, b)| a.is_finite() && b.is_finite()) {
        return Some(RoundingCost::between(rounded, exact));
    }
    // A number beyond fp16's range, such as a divisor's least value of 1e-12, makes NaN of everything; programs keep it in range.
    let shortened = eval::eval_shortened(net, &tensors).ok()?;
    let Data::F32(shortened) = &shortened[at].data else { return None };
    Some(RoundingCost::between(shortened, exact))
}

/// Inputs of a network by name as tensors of its types; `None` without data for one, or for other types than floats and int32.
fn tensors_of(net: &Net, inputs: &[(String, Array)]) -> Option<Vec<Tensor>> {
    net.inputs
        .iter()
        .map(|&id| {
            let value = net.value(id);
            let (_, array) = inputs.iter().find(|(name, _)| *name == value.name)?;
            let data = match value.ty.dtype {
                DType::F16 | DType::F32 => Data::F32(array.data.clone()),
                DType::I32 => Data::I32(array.data.iter().map(|&x| x as i32).collect()),
                _ => return None,
            };
            Some(Tensor { shape: value.ty.shape.clone(), data })
        })
        .collect()
}

/// Number of other roundings in [`level_cost`].
const OTHER_ROUNDINGS: u32 = 16;

/// The cost of rounding in an output of a network that rounds to whole numbers, as quantization does: a value beside the middle of two
/// levels moves to either one by chance. The largest cost of several roundings. `None` for other networks, and for those that take long to
/// evaluate.
pub fn level_cost(net: &Net, inputs: &[(String, Array)], output: &str) -> Option<RoundingCost> {
    let rounds = |op: &Op| {
        let whole =
            matches!(op.kind, OpKind::Unary(Unary::Round | Unary::RoundClip { .. } | Unary::Floor | Unary::Ceil));
        whole && net.value(op.inputs[0]).ty.dtype.is_float()
    };
    net.ops.iter().find(|op| rounds(op))?;
    if !warnings::is_compared(net, warnings::OF_ONE_RUN / u64::from(OTHER_ROUNDINGS)) {
        return None;
    }
    let tensors = tensors_of(net, inputs)?;
    let at = net.outputs.iter().position(|&id| net.value(id).name == output)?;
    let exact = eval::eval(net, &tensors).ok()?;
    let Data::F32(exact) = &exact[at].data else { return None };
    let mut all = rounding_cost(net, inputs, output)?;
    for seed in 1..=OTHER_ROUNDINGS {
        let rounded = eval::eval_dithered(net, &tensors, seed).ok()?;
        let Data::F32(rounded) = &rounded[at].data else { return None };
        let cost = RoundingCost::between(rounded, exact);
        all = RoundingCost { max: all.max.max(cost.max), rms: all.rms.max(cost.rms) };
    }
    Some(all)
}

/// Seed of [`moved`].
const MOVING_SEED: u64 = 1;

/// Inputs with one element in four, drawn with a fixed seed, changed by one unit in the last place of fp16, up or down: half a unit
/// in the root mean square, compared with 0.29 for one rounding. `None` if all are integers, such as indices of a table, since other
/// indices are another input.
pub fn moved(inputs: &[(String, Array)]) -> Option<Vec<(String, Array)>> {
    let mut any = false;
    let moved = inputs.iter().map(|(name, array)| {
        let mut array = array.clone();
        if array.data.iter().any(|x| x.fract() != 0.0) {
            any = true;
            let count = array.data.len();
            for (x, draw) in array.data.iter_mut().zip(random_as(DType::F16, MOVING_SEED, count)) {
                let near = f16::from_f32(*x);
                let bits = match draw {
                    d if d > 0.75 => near.to_bits().wrapping_add(1),
                    d if d < -0.75 => near.to_bits().wrapping_sub(1),
                    _ => continue,
                };
                let moved = f16::from_bits(bits);
                if moved.is_finite() && near.is_finite() && near.to_f32() != 0.0 {
                    *x = moved.to_f32();
                }
            }
        }
        (name.clone(), array)
    });
    let moved = moved.collect();
    any.then_some(moved)
}

/// Difference of an output of two runs, as a cost of rounding.
pub fn cost_between(a: &[(String, Array)], b: &[(String, Array)], output: &str) -> Option<RoundingCost> {
    let of = |outputs: &'_ [(String, Array)]| outputs.iter().position(|(name, _)| name == output);
    let (a, b) = (&a[of(a)?].1.data, &b[of(b)?].1.data);
    Some(RoundingCost::between(a, b))
}
