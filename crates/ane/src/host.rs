//! Host segments: parts of a network that the processor computes, and their encoding in a dispatch descriptor.
//!
//! The code of a processor call is the network's text; its constants are a table. An entry of the table has a code of the
//! element type, the rank, the extents and the number of bytes as 64-bit little-endian words, then the dense bytes.

use anemone_facts::formats::e5::CODE_LANGUAGE;
use anemone_net::{DType, Data, Net, OpKind, Scan, Tensor, TensorType, Value, ValueId, eval, text};
use anemone_program::e5::{Carried, HostCall, HostTensor, Repeat, Scanned, Source};
#[cfg(feature = "system")]
use anemone_runtime::e5rt::{HostExecutor, HostSegment};
use std::sync::Arc;

/// Element types of the table, by their code.
const DTYPES: [DType; 8] =
    [DType::F16, DType::F32, DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::Bool];
/// Largest rank of a constant.
const MOST_AXES: u64 = 16;

/// Code of an element type in the descriptor; truth values are bytes.
pub fn storage(dtype: DType) -> u32 {
    match dtype {
        DType::U8 | DType::Bool => 1,
        DType::I8 => 2,
        DType::F16 => 3,
        DType::F32 => 4,
        DType::I16 => 5,
        DType::U16 => 6,
        DType::I32 => 7,
    }
}

/// A host segment as a processor call of a descriptor.
pub fn call_of(net: &Net) -> HostCall {
    let (code, blobs) = text::print(net);
    let mut constants = Vec::new();
    for blob in blobs {
        let dtype = blob.data.dtype();
        let code = DTYPES.iter().position(|d| *d == dtype).unwrap_or(0) as u64;
        let mut bytes = Vec::new();
        blob.data.dense().stored(&mut |part| bytes.extend_from_slice(part));
        let extents = blob.shape.iter().map(|&n| n as u64);
        for word in [code, blob.shape.len() as u64].into_iter().chain(extents).chain([bytes.len() as u64]) {
            constants.extend_from_slice(&word.to_le_bytes());
        }
        constants.extend_from_slice(&bytes);
    }
    let tensors = |ids: &[ValueId]| -> Vec<HostTensor> { ids.iter().map(|&id| declared(net.value(id))).collect() };
    HostCall {
        name: net.name.clone(),
        language: CODE_LANGUAGE.into(),
        code,
        constants,
        inputs: tensors(&net.inputs),
        outputs: tensors(&net.outputs),
    }
}

/// The network of a processor call, checked.
pub fn net_of(call: &HostCall) -> Result<Net, String> {
    if call.language != CODE_LANGUAGE {
        return Err(format!("code in {:?}; only {CODE_LANGUAGE:?} is supported", call.language));
    }
    let blobs = tensors_of(&call.constants).ok_or("its constants are truncated, or not a table of tensors")?;
    let net = text::parse(&call.code, &blobs).map_err(|e| e.to_string())?;
    if let Err(errors) = anemone_net::check::check(&net) {
        return Err(errors.first().map_or("an invalid network".into(), |e| e.to_string()));
    }
    let ends =
        |ids: &[anemone_net::ValueId]| -> Vec<String> { ids.iter().map(|&id| net.value(id).name.clone()).collect() };
    let named = |all: &[HostTensor]| -> Vec<String> { all.iter().map(|t| t.name.clone()).collect() };
    if ends(&net.inputs) != named(&call.inputs) || ends(&net.outputs) != named(&call.outputs) {
        let (found, expected) = (ends(&net.inputs), named(&call.inputs));
        return Err(format!("its code reads {found:?}, the call passes {expected:?}, or their results differ"));
    }
    Ok(net)
}

/// Declaration of a tensor in a descriptor.
fn declared(value: &Value) -> HostTensor {
    let shape = value.ty.shape.iter().map(|&n| n as u64).collect();
    HostTensor { name: value.name.clone(), storage: storage(value.ty.dtype), shape }
}

/// A loop, the only operation of a network, in the form of a descriptor.
pub fn repeat_of(whole: &Net) -> Result<Repeat, String> {
    let [op] = whole.ops.as_slice() else { return Err("a loop is one operation".into()) };
    let OpKind::Loop(l) = &op.kind else { return Err(format!("{} is not a loop", op.name)) };
    let source = |id: ValueId| match &whole.value(id).data {
        None => Source::Tensor(whole.value(id).name.clone()),
        Some(tensor) => {
            let mut bytes = Vec::new();
            tensor.data.dense().stored(&mut |part| bytes.extend_from_slice(part));
            Source::Constant(bytes)
        }
    };
    let inside = |id: ValueId| declared(l.body.value(id));
    let mut repeat = Repeat { name: whole.name.clone(), turns: l.turns as u64, ..Repeat::default() };
    for slot in 0..l.carried {
        repeat.carried.push(Carried {
            start: source(op.inputs[slot]),
            now: inside(l.body.inputs[slot]),
            next: inside(l.body.outputs[slot]).name,
            last: whole.value(op.outputs[slot]).name.clone(),
        });
    }
    let scanned = |at: usize, scan: &Scan| Scanned {
        whole: source(op.inputs[l.carried + at]),
        part: inside(l.body.inputs[l.carried + at]),
        axis: scan.axis,
        backwards: scan.backwards,
    };
    repeat.scanned = l.scanned.iter().enumerate().map(|(at, scan)| scanned(at, scan)).collect();
    let collected = |at: usize, scan: &Scan| Scanned {
        whole: Source::Tensor(whole.value(op.outputs[l.carried + at]).name.clone()),
        part: inside(l.body.outputs[l.carried + at]),
        axis: scan.axis,
        backwards: scan.backwards,
    };
    repeat.collected = l.collected.iter().enumerate().map(|(at, scan)| collected(at, scan)).collect();
    Ok(repeat)
}

/// Type of a tensor outside of a loop that the loop reads or writes.
pub fn type_in(repeat: &Repeat, name: &str) -> Option<TensorType> {
    let (begin, end) = (repeat.begin(), repeat.end());
    let tensor = begin.inputs.into_iter().chain(end.outputs).find(|tensor| tensor.name == name)?;
    let dtype = *DTYPES.iter().find(|&&dtype| storage(dtype) == tensor.storage)?;
    Some(TensorType { dtype, shape: tensor.shape.iter().map(|&n| n as usize).collect() })
}

/// Numbers from dense bytes.
pub fn numbers(code: u32, bytes: &[u8]) -> Option<Vec<f32>> {
    let dtype = *DTYPES.iter().find(|&&dtype| storage(dtype) == code)?;
    Some(Data::from_le_bytes(dtype, bytes).to_f32())
}

fn tensors_of(mut rest: &[u8]) -> Option<Vec<Arc<Tensor>>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let mut word = || {
            let (head, tail) = rest.split_first_chunk::<8>()?;
            rest = tail;
            Some(u64::from_le_bytes(*head))
        };
        let dtype = *DTYPES.get(usize::try_from(word()?).ok()?)?;
        let rank = word().filter(|&n| n <= MOST_AXES)?;
        let shape: Vec<usize> = (0..rank).map(|_| usize::try_from(word()?).ok()).collect::<Option<_>>()?;
        let bytes = usize::try_from(word()?).ok()?;
        let elements = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n))?;
        if elements.checked_mul(dtype.bytes())? != bytes {
            return None;
        }
        let (data, tail) = rest.split_at_checked(bytes)?;
        rest = tail;
        all.push(Arc::new(Tensor { shape, data: Data::from_le_bytes(dtype, data) }));
    }
    Some(all)
}

/// Evaluates a host segment in its declared element types. Errors name it.
pub fn evaluate(net: &Net, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    eval::eval_typed(net, inputs).map_err(|e| format!("host segment {}: {e}", net.name))
}

/// The network evaluator behind the runtime's interface for host segments.
#[cfg(feature = "system")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Evaluator;

#[cfg(feature = "system")]
struct Segment(Net);

#[cfg(feature = "system")]
impl HostExecutor for Evaluator {
    fn prepare(&self, call: &HostCall) -> Result<Arc<dyn HostSegment>, String> {
        Ok(Arc::new(Segment(net_of(call)?)))
    }
}

#[cfg(feature = "system")]
impl HostSegment for Segment {
    fn run(&self, inputs: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
        let Segment(net) = self;
        let tensors = net.inputs.iter().zip(inputs).map(|(&id, bytes)| {
            let ty = &net.value(id).ty;
            Tensor { shape: ty.shape.clone(), data: Data::from_le_bytes(ty.dtype, bytes) }
        });
        let results = evaluate(net, &tensors.collect::<Vec<_>>())?;
        let bytes = |(&id, tensor): (&anemone_net::ValueId, Tensor)| {
            let mut out = Vec::new();
            tensor.cast(net.value(id).ty.dtype).data.stored(&mut |part| out.extend_from_slice(part));
            out
        };
        Ok(net.outputs.iter().zip(results).map(bytes).collect())
    }
}
