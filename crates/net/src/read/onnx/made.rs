//! Operators that are evaluated while reading: constants, shapes, ranges, signal windows.

use super::node::Node;
use crate::build::beyond::Beyond;
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, elements};

/// Largest constant that an operator may create, in elements.
pub(super) const MADE_ELEMENTS: usize = 1 << 24;

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Constant" => constant(n),
        "ConstantOfShape" => {
            let shape = n.integers(0, "shape")?.unwrap_or_default();
            let shape = n.sizes("shape", &shape)?;
            let value = match n.attribute("value").and_then(|a| a.t.as_ref()) {
                Some(message) => {
                    let (tensor, beyond) = n.t.tensor(message)?;
                    if let Some(beyond) = beyond {
                        return Err(n.unsupported(format!("the value {}", beyond.first)));
                    }
                    tensor.data
                }
                None => Data::F32(vec![0.0]),
            };
            filled(n, shape, &value)
        }
        "Shape" | "Size" => {
            let x = n.need(0)?;
            let shape: Vec<i32> = n.shape(x).iter().map(|&d| d as i32).collect();
            if n.op() == "Size" {
                let id = n.build().integers([], vec![shape.iter().product()]);
                return n.done(id);
            }
            let rank = shape.len() as i64;
            let at = |v: i64| (if v < 0 { v + rank } else { v }).clamp(0, rank) as usize;
            let (start, end) = (at(n.int("start", 0)), at(n.int("end", rank)));
            let part = shape.get(start..end.max(start)).unwrap_or_default().to_vec();
            let id = n.build().integers([part.len()], part);
            n.done(id)
        }
        "EyeLike" => {
            let x = n.need(0)?;
            let shape = n.shape(x);
            let &[rows, columns] = shape.as_slice() else { return Err(n.unsupported("operand not of rank 2")) };
            let k = n.int("k", 0);
            let dtype = match n.attribute("dtype") {
                Some(a) => i32::try_from(a.i).ok().and_then(super::element).and_then(|e| e.dtype()),
                None => Some(n.dtype(x)),
            };
            let dtype = dtype.ok_or_else(|| n.unsupported("the requested element type"))?;
            let one = |i: usize| (i % columns) as i64 - (i / columns) as i64 == k;
            let values: Vec<i32> = (0..rows * columns).map(|i| one(i).into()).collect();
            let tensor = Tensor { shape, data: Data::from_i32(dtype, &values) };
            let id = n.build().constant("eye", tensor);
            n.done(id)
        }
        "Range" => range(n),
        "HannWindow" => window(n, [0.5, 0.5, 0.0]),
        "HammingWindow" => window(n, [25.0 / 46.0, 21.0 / 46.0, 0.0]),
        "BlackmanWindow" => window(n, [0.42, 0.5, 0.08]),
        _ => Ok(false),
    }
}

fn constant(n: &mut Node) -> Result<bool, Error> {
    let attribute = |name: &str| n.attribute(name);
    let mut beyond = None;
    let tensor = if let Some(message) = attribute("value").and_then(|a| a.t.as_ref()) {
        let (tensor, found) = n.t.tensor(message)?;
        beyond = found;
        tensor
    } else if let Some(message) = attribute("sparse_value").and_then(|a| a.sparse_tensor.as_ref()) {
        n.t.sparse(message)?.1
    } else if let Some(a) = attribute("value_float") {
        Tensor::f32([], vec![a.f])
    } else if let Some(a) = attribute("value_floats") {
        Tensor::f32([a.floats.len()], a.floats.clone())
    } else if let Some(a) = attribute("value_int") {
        beyond = Beyond::of([i128::from(a.i)].into_iter());
        Tensor::i32([], vec![clamp(a.i)])
    } else if let Some(a) = attribute("value_ints") {
        beyond = Beyond::of(a.ints.iter().map(|&v| v.into()));
        Tensor::i32([a.ints.len()], a.ints.iter().map(|&v| clamp(v)).collect())
    } else {
        return Err(n.unsupported("a constant that is not a tensor of numbers"));
    };
    let id = n.build().constant("value", tensor);
    n.build().note_beyond(id, beyond);
    n.done(id)
}

pub(super) fn clamp(v: i64) -> i32 {
    v.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

fn filled(n: &mut Node, shape: Vec<usize>, value: &Data) -> Result<bool, Error> {
    let count = elements(&shape);
    if count > MADE_ELEMENTS {
        let what = "ConstantOfShape".to_string();
        return Err(Error::TooLarge { what, shape, elements: count, limit: MADE_ELEMENTS });
    }
    n.build().budget.spend(&shape)?;
    let dtype = value.dtype();
    let data = if dtype.is_float() {
        Data::from_f32(dtype, &vec![value.to_f32().first().copied().unwrap_or(0.0); count])
    } else {
        Data::from_i32(dtype, &vec![value.to_i32().first().copied().unwrap_or(0); count])
    };
    let id = n.build().constant("filled", Tensor { shape, data });
    n.done(id)
}

fn range(n: &mut Node) -> Result<bool, Error> {
    let mut ends = [0f64; 3];
    let mut dtype = DType::F32;
    for (i, name) in ["start", "limit", "delta"].into_iter().enumerate() {
        let tensor = n.constant(i, name)?.ok_or_else(|| n.missing(name))?;
        dtype = tensor.data.dtype();
        ends[i] = if dtype.is_float() {
            tensor.data.to_f32().first().copied().unwrap_or(0.0).into()
        } else {
            tensor.data.to_i32().first().copied().unwrap_or(0).into()
        };
    }
    let [start, limit, delta] = ends;
    let count = ((limit - start) / delta).ceil().max(0.0);
    if !(0.0..=MADE_ELEMENTS as f64).contains(&count) {
        return Err(n.unsupported(format!("a range of {count} elements")));
    }
    let values: Vec<f64> = (0..count as usize).map(|i| start + i as f64 * delta).collect();
    let data = if dtype.is_float() {
        Data::from_f32(dtype, &values.iter().map(|&v| v as f32).collect::<Vec<_>>())
    } else {
        Data::from_i32(dtype, &values.iter().map(|&v| v as i32).collect::<Vec<_>>())
    };
    let id = n.build().constant("range", Tensor { shape: vec![values.len()], data });
    n.done(id)
}

/// `a - b cos x + c cos 2x` over a period, or symmetric.
fn window(n: &mut Node, [a, b, c]: [f64; 3]) -> Result<bool, Error> {
    let size = n.integers(0, "size")?.and_then(|v| v.first().copied()).ok_or_else(|| n.missing("size"))?;
    let size = n.size("size", size)?;
    if size > MADE_ELEMENTS {
        return Err(n.unsupported(format!("a window of {size} elements")));
    }
    let dtype = i32::try_from(n.int("output_datatype", 1)).ok().and_then(super::element).and_then(|e| e.dtype());
    let dtype = dtype.ok_or_else(|| n.unsupported("the requested element type"))?;
    let steps = if n.flag("periodic", true) { size } else { size.saturating_sub(1).max(1) };
    let turn = std::f64::consts::TAU / steps as f64;
    let value = |i: usize| (a - b * (i as f64 * turn).cos() + c * (2.0 * i as f64 * turn).cos()) as f32;
    let data = Data::from_f32(dtype, &(0..size).map(value).collect::<Vec<f32>>());
    n.build().budget.spend(&[size])?;
    let id = n.build().constant("window", Tensor { shape: vec![size], data });
    n.done(id)
}
