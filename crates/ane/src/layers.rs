//! Layer-by-layer comparison: every intermediate value of a network, compiled up to it, against fp32 evaluation.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::execute::own_extents;
use crate::tensor::{Array, agreement, compare};
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, Unary, ValueId, eval};

/// Comparison of one value.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// The operation that computes it.
    pub op: &'static str,
    /// Largest difference from fp32 evaluation, or from a given value.
    pub max: f32,
    /// Root mean square difference.
    pub rms: f32,
    /// RMS error of the network up to here if every result is rounded to fp16.
    pub rounding_rms: f32,
    /// Cosine similarity.
    pub cosine: f64,
    /// Reason why the network up to here does not compile.
    pub refused: Option<String>,
}

impl Layer {
    /// RMS error as a multiple of the fp16 rounding error.
    pub fn ratio(&self) -> f32 {
        self.rms / self.rounding_rms.max(f32::MIN_POSITIVE)
    }
}

/// Largest number of compared values: each takes a compilation and a run.
pub const MAX_LAYERS: usize = 2000;

/// Runs a network on inputs by name; returns its outputs.
pub type Run<'a> = dyn Fn(&Net, &[(String, Array)]) -> Result<Vec<(String, Array)>> + 'a;

/// Compares every floating-point result of an operation, in the network's order. `given` are reference values by name,
/// instead of evaluated ones; `run` compiles and executes the part of the network up to a value.
///
/// Errors: more values than [`MAX_LAYERS`], a given value with other extents, a network that cannot be evaluated. A part that `run`
/// refuses is not an error, but a layer with the reason.
pub fn compare_layers(
    net: &Net,
    inputs: &[(String, Array)],
    given: &[(String, Array)],
    run: &Run,
) -> Result<Vec<Layer>> {
    let values: Vec<(ValueId, &'static str)> = net
        .ops
        .iter()
        .flat_map(|op| op.outputs.iter().map(|&id| (id, op.kind.name())))
        .filter(|(id, _)| net.value(*id).data.is_none() && net.value(*id).ty.dtype.is_float())
        .collect();
    if values.len() > MAX_LAYERS {
        let message = format!("{} values to compare; the limit is {MAX_LAYERS}", values.len());
        return Err(Diagnostic::new(Code::Usage, message));
    }
    let all = Net {
        outputs: values.iter().map(|(id, _)| *id).collect(),
        states: Vec::new(),
        counted: Vec::new(),
        ..net.clone()
    };
    let tensors = tensors(net, inputs)?;
    let failed = |e: anemone_net::Error| Diagnostic::new(Code::Malformed, e.to_string());
    let exact = eval::eval(&all, &tensors).map_err(failed)?;
    let rounded = eval::eval_rounded(&all, &tensors).map_err(failed)?;
    let mut layers = Vec::new();
    for ((&(id, op), exact), rounded) in values.iter().zip(&exact).zip(&rounded) {
        let name = net.value(id).name.clone();
        let (exact, rounded) = (exact.data.to_f32(), rounded.data.to_f32());
        let wanted = match given.iter().find(|(n, _)| *n == name) {
            Some((_, array)) if array.data.len() != exact.len() => {
                let message = format!("{name} has {} elements, the given value {:?}", exact.len(), array.shape);
                return Err(Diagnostic::new(Code::BadTensor, message));
            }
            Some((_, array)) => array.data.as_slice(),
            None => exact.as_slice(),
        };
        let rounding_rms = agreement(&rounded, &exact).rms;
        let mut up_to = up_to(net, id);
        // The only function of a network may have a coarser table than one of several: then the other operations must follow it.
        if functions(&up_to) == 1 && functions(net) > 1 {
            let others = net.outputs.iter().copied().filter(|&output| output != id);
            up_to = Net {
                outputs: [id].into_iter().chain(others).collect(),
                states: Vec::new(),
                counted: Vec::new(),
                ..net.clone()
            };
        }
        let needed: Vec<(String, Array)> = inputs
            .iter()
            .filter(|(name, _)| up_to.inputs.iter().any(|&input| up_to.value(input).name == *name))
            .cloned()
            .collect();
        let ran = run(&up_to, &needed).map(|mut outputs| {
            own_extents(&up_to, &mut outputs);
            outputs
        });
        let mut layer = Layer { name, op, max: 0.0, rms: 0.0, rounding_rms, cosine: 1.0, refused: None };
        match ran {
            Ok(outputs) => {
                let got = outputs.iter().find(|(n, _)| *n == layer.name).or(outputs.first());
                let got = got.map_or(&[][..], |(_, array)| &array.data);
                let agreement = agreement(got, wanted);
                layer.max = compare(got, wanted, 0.0, 0.0).max_abs;
                (layer.rms, layer.cosine) = (agreement.rms, agreement.cosine);
            }
            Err(diagnostic) => layer.refused = Some(diagnostic.message),
        }
        layers.push(layer);
    }
    Ok(layers)
}

/// The network's inputs as tensors of their types.
fn tensors(net: &Net, inputs: &[(String, Array)]) -> Result<Vec<Tensor>> {
    net.inputs
        .iter()
        .map(|&id| {
            let value = net.value(id);
            let found = inputs.iter().find(|(name, _)| *name == value.name);
            let (_, array) =
                found.ok_or_else(|| Diagnostic::new(Code::Usage, format!("no data for input {}", value.name)))?;
            let data = match value.ty.dtype {
                DType::F16 | DType::F32 => Data::F32(array.data.clone()),
                other => Data::from_f32(other, &array.data),
            };
            Ok(Tensor { shape: value.ty.shape.clone(), data })
        })
        .collect()
}

/// Number of functions that may become tables.
fn functions(net: &Net) -> usize {
    let table = |op: &&Op| matches!(op.kind, OpKind::Unary(unary) if !matches!(unary, Unary::Relu | Unary::Identity));
    net.ops.iter().filter(table).count()
}

/// The part of a network that one value depends on, with the value as its only output.
fn up_to(net: &Net, value: ValueId) -> Net {
    let mut needed = vec![value];
    let mut ops = Vec::new();
    for op in net.ops.iter().rev() {
        if op.outputs.iter().any(|o| needed.contains(o)) {
            needed.extend(&op.inputs);
            ops.push(op.clone());
        }
    }
    ops.reverse();
    let inputs = net.inputs.iter().copied().filter(|id| needed.contains(id)).collect();
    Net { ops, inputs, outputs: vec![value], states: Vec::new(), counted: Vec::new(), ..net.clone() }
}
