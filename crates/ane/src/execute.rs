//! A program on the software engine: inputs bound, run, outputs taken.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::tensor::{Array, compare};
use anemone_engine::{Memory, Options, run};
use anemone_net::{DType, Data, Net, Tensor, eval};
use anemone_program::{Direction, Port, Program};
use half::f16;

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// Outputs by name, in port order, with the ports' extents.
    pub outputs: Vec<(String, Array)>,
    /// Tasks executed.
    pub tasks: usize,
    /// Faults that a lenient run passed over.
    pub passed_over: Vec<String>,
}

/// Runs a program. `inputs` are by port name; every input port must have one, with as many elements as the port.
pub fn execute(program: &Program, inputs: &[(String, Array)], options: Options) -> Result<Run> {
    let mut memory = Memory::for_program(program);
    for port in program.ports_of(Direction::Input) {
        let Some((_, array)) = inputs.iter().find(|(name, _)| *name == port.name) else {
            return Err(Diagnostic::new(Code::Usage, format!("no data for input {}", port.name)));
        };
        if array.data.len() as u64 != port.shape.elements() {
            let message = format!(
                "input {} takes {} elements ({} x {} x {} x {}), the array has {} {:?}",
                port.name,
                port.shape.elements(),
                port.shape.n,
                port.shape.c,
                port.shape.h,
                port.shape.w,
                array.data.len(),
                array.shape
            );
            return Err(Diagnostic::new(Code::BadTensor, message));
        }
        let region = memory.region_mut(port.bar).ok_or_else(|| defect(port))?;
        let bytes = region.bytes_mut();
        for ((start, width), row) in rows(port).zip(array.data.chunks(port.shape.w as usize)) {
            let slots = bytes.get_mut(start..start + 2 * width).ok_or_else(|| defect(port))?;
            for (slot, &x) in slots.chunks_exact_mut(2).zip(row) {
                slot.copy_from_slice(&f16::from_f32(x).to_le_bytes());
            }
        }
    }
    let outcome = run(program, &mut memory, options)?;
    if let Some(name) = outcome.incomplete.first() {
        return Err(Diagnostic::new(Code::Fault, format!("output {name} is not wholly written")));
    }
    let mut outputs = Vec::new();
    for port in program.ports_of(Direction::Output) {
        let bytes = memory.region(port.bar).ok_or_else(|| defect(port))?.bytes();
        let mut data = Vec::with_capacity(port.shape.elements() as usize);
        for (start, width) in rows(port) {
            let row = bytes.get(start..start + 2 * width).ok_or_else(|| defect(port))?;
            data.extend(row.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()));
        }
        let s = port.shape;
        outputs.push((port.name.clone(), Array { shape: [s.n, s.c, s.h, s.w].map(|n| n as usize).to_vec(), data }));
    }
    let passed_over = outcome.passed_over.iter().map(|f| f.to_string()).collect();
    Ok(Run { outputs, tasks: outcome.tasks, passed_over })
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

/// What rounding every result to fp16 costs in a network, on these inputs: the largest difference of one output between
/// plain fp32 evaluation and evaluation with rounding. `None` where the network cannot be evaluated.
pub fn rounding_cost(net: &Net, inputs: &[(String, Array)], output: &str) -> Option<f32> {
    let tensors: Vec<Tensor> = net
        .inputs
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
        .collect::<Option<_>>()?;
    let at = net.outputs.iter().position(|&id| net.value(id).name == output)?;
    let (exact, rounded) = (eval::eval(net, &tensors).ok()?, eval::eval_rounded(net, &tensors).ok()?);
    let (Data::F32(exact), Data::F32(rounded)) = (&exact[at].data, &rounded[at].data) else { return None };
    Some(compare(rounded, exact, 0.0, 0.0).max_abs)
}
