//! Replacement of products with one constant matrix by convolutions (`ReplaceMatmulWithConv` of the book's table 22.3).

use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::chips::Chip;
use anemone_net::{Data, Net, OpKind, Tensor, Value, compress};
use std::sync::Arc;

/// Turns a product with one constant matrix into `linear`, a convolution (`ReplaceMatmulWithConv` of the book's table 22.3), so that
/// affines after it can be absorbed.
///
/// Under the book's convention a matrix larger than tile memory stays a product: "a weight above the 2 MB ceiling stays a tiled matrix multiply".
pub fn replace_matmul(net: &mut Net, chip: &'static Chip, options: &Options, reasons: &mut Remarks) -> Result<()> {
    let ceiling = options.most_resident(chip);
    for at in 0..net.ops.len() {
        let OpKind::MatMul { transpose_x: false, transpose_y } = net.ops[at].kind else { continue };
        let y = net.ops[at].inputs[1];
        let value = net.value(y);
        let (Some(tensor), [outer @ .., rows, columns]) = (&value.data, value.ty.shape.as_slice()) else { continue };
        // A product keeps all axes of the constant, so its outer axes must not add any.
        let rank = net.value(net.ops[at].inputs[0]).ty.shape.len();
        if outer.iter().any(|&n| n != 1) || rank < 2 || outer.len() + 2 > rank {
            continue;
        }
        let (rows, columns) = (*rows, *columns);
        let bytes = (rows * columns) as u64 * 2;
        if bytes > ceiling {
            reasons.say(|| {
                format!("{}: a matrix of {bytes} bytes stays a product; the limit is {ceiling}", net.ops[at].name)
            });
            continue;
        }
        let weight = if transpose_y {
            Tensor { shape: vec![rows, columns], data: tensor.data.clone() }
        } else {
            // fp16 weights stay fp16, which keeps the memory of large models low.
            let data = match &*tensor.data.dense() {
                Data::F16(data) => Data::F16(transposed(data, rows, columns)),
                data => Data::F32(transposed(&data.floats(), rows, columns)),
            };
            compress::recompressed(Tensor { shape: vec![columns, rows], data }, [tensor.as_ref()])
        };
        let name = format!("{}.weight", net.ops[at].name);
        let ty = weight.ty();
        let id = net.add_value(Value { name, ty, data: Some(Arc::new(weight)), surface: None });
        reasons.say(|| format!("{}: its second operand is a constant matrix", net.ops[at].name));
        net.ops[at].kind = OpKind::Linear;
        net.ops[at].inputs[1] = id;
    }
    Ok(())
}

/// The transpose of a matrix of `rows` by `columns`, in blocks whose lines stay in the first cache.
fn transposed<T: Copy + Default>(data: &[T], rows: usize, columns: usize) -> Vec<T> {
    const BLOCK: usize = 32;
    let mut out = vec![T::default(); rows * columns];
    for first_row in (0..rows).step_by(BLOCK) {
        let last_row = rows.min(first_row + BLOCK);
        for first in (0..columns).step_by(BLOCK) {
            for column in first..columns.min(first + BLOCK) {
                let line = &mut out[column * rows..][first_row..last_row];
                for (to, row) in line.iter_mut().zip(first_row..) {
                    *to = data[row * columns + column];
                }
            }
        }
    }
    out
}
