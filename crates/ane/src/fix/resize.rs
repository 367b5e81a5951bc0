//! Resampling by any factor: a product with an interpolation matrix along each axis.

use super::Rewriter;
use anemone_net::{Binary, Data, Net, Op, OpKind, Tensor, TensorType, Value, ValueId, eval};

/// Largest matrix.
const MOST_ELEMENTS: usize = 1 << 20;

pub fn rewrite(r: &mut Rewriter, op: &Op, result: ValueId) -> Option<String> {
    let x = *op.inputs.first()?;
    let (from, to) = (r.shape(x), r.shape(result));
    if from.len() != 4 || from[..2] != to[..2] {
        return None;
    }
    let mut value = x;
    let axes: Vec<usize> = [3, 2].into_iter().filter(|&axis| from[axis] != to[axis]).collect();
    let last = *axes.last()?;
    for axis in axes {
        let matrix = matrix(&op.kind, from[axis], to[axis])?;
        let mut shape = r.shape(value);
        shape[axis] = to[axis];
        let columns = axis == 3;
        let (extents, values) = if columns {
            (vec![1, 1, from[axis], to[axis]], matrix)
        } else {
            let turned = (0..to[axis]).flat_map(|o| (0..from[axis]).map(move |i| (i, o)));
            (vec![1, 1, to[axis], from[axis]], turned.map(|(i, o)| matrix[i * to[axis] + o]).collect())
        };
        let kind = || OpKind::MatMul { transpose_x: false, transpose_y: false };
        let operands = |by: ValueId| if columns { [value, by] } else { [by, value] };
        let target = (axis == last).then_some(result);
        value = match r.precise(x, &extents, values) {
            [Some(near), Some(rest)] => {
                let parts = [near, rest].map(|by| r.push(kind(), &operands(by), shape.clone()));
                r.into(OpKind::Binary(Binary::Add), &parts, shape, target)
            }
            [near, _] => r.into(kind(), &operands(near?), shape, target),
        };
    }
    Some("a product with a constant matrix along each axis".into())
}

/// The interpolation matrix, from the resampling of each unit vector: rows are operand elements, columns result elements.
fn matrix(kind: &OpKind, from: usize, to: usize) -> Option<Vec<f32>> {
    if from * to > MOST_ELEMENTS {
        return None;
    }
    let mut net = Net { name: "units".into(), ..Net::default() };
    let mut value = |name: &str, columns: usize| {
        let ty = TensorType::new(anemone_net::DType::F32, vec![1, from, 1, columns]);
        net.add_value(Value { name: name.into(), ty, data: None, surface: None })
    };
    let (x, y) = (value("x", from), value("y", to));
    net.inputs.push(x);
    net.outputs.push(y);
    net.ops.push(Op { name: "y".into(), kind: kind.clone(), inputs: vec![x], outputs: vec![y] });
    let units = (0..from * from).map(|at| f32::from(u8::from(at % from == at / from))).collect();
    let input = Tensor { shape: vec![1, from, 1, from], data: Data::F32(units) };
    let outputs = eval::eval(&net, &[input]).ok()?;
    Some(outputs.first()?.data.to_f32())
}
