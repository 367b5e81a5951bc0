//! Replacement of products with one constant matrix by convolutions (`ReplaceMatmulWithConv` of the book's table 22.3).

use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::chips::Chip;
use anemone_net::{DType, Data, Net, OpKind, Tensor, Value, compress};
use rayon::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Turns a product with one constant matrix into `linear`, a convolution (`ReplaceMatmulWithConv` of the book's table 22.3), so that
/// affines after it can be absorbed.
///
/// Under the book's convention a matrix larger than tile memory stays a product: "a weight above the 2 MB ceiling stays a tiled matrix multiply".
pub fn replace_matmul(net: &mut Net, chip: &'static Chip, options: &Options, reasons: &mut Remarks) -> Result<()> {
    let ceiling = options.most_resident(chip);
    let mut replaced = Vec::new();
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
        replaced.push((at, tensor.clone(), [rows, columns], transpose_y));
    }
    let weights: Vec<Tensor> =
        replaced.par_iter().map(|(_, tensor, extents, by_outputs)| weight(tensor, *extents, *by_outputs)).collect();
    for ((at, ..), weight) in replaced.into_iter().zip(weights) {
        let name = format!("{}.weight", net.ops[at].name);
        let ty = weight.ty();
        let id = net.add_value(Value { name, ty, data: Some(Arc::new(weight)), surface: None });
        reasons.say(|| format!("{}: its second operand is a constant matrix", net.ops[at].name));
        net.ops[at].kind = OpKind::Linear;
        net.ops[at].inputs[1] = id;
    }
    Ok(())
}

/// The weights of a matrix with these rows and columns, one row an output; `by_outputs` if the matrix has that order.
fn weight(tensor: &Tensor, [rows, columns]: [usize; 2], by_outputs: bool) -> Tensor {
    if by_outputs {
        return Tensor { shape: vec![rows, columns], data: tensor.data.clone() };
    }
    // fp16 weights stay fp16, which keeps the memory of large models low.
    let data = match tensor.data.dtype() {
        DType::F16 => match &*tensor.data.dense() {
            Data::F16(data) => Data::F16(transposed(data, columns)),
            data => Data::F32(transposed(&data.floats(), columns)),
        },
        _ => {
            let mut matrix = Transposed::new(rows, columns);
            let _ = tensor.data.visit_rows(columns, &mut |part| {
                matrix.add(part);
                ControlFlow::Continue(())
            });
            Data::F32(matrix.data)
        }
    };
    compress::recompressed(Tensor { shape: vec![columns, rows], data }, [tensor])
}

/// The transpose of a matrix with this number of columns.
fn transposed<T: Copy + Default>(data: &[T], columns: usize) -> Vec<T> {
    let mut matrix = Transposed::new(data.len() / columns.max(1), columns);
    matrix.add(data);
    matrix.data
}

/// The transpose of a matrix that is given some rows at a time.
struct Transposed<T> {
    data: Vec<T>,
    rows: usize,
    columns: usize,
    /// Number of rows given so far.
    given: usize,
}

impl<T: Copy + Default> Transposed<T> {
    fn new(rows: usize, columns: usize) -> Transposed<T> {
        Transposed { data: vec![T::default(); rows * columns], rows, columns, given: 0 }
    }

    /// Adds rows, in blocks whose lines stay in the first cache.
    fn add(&mut self, part: &[T]) {
        const BLOCK: usize = 32;
        for rows in part.chunks(BLOCK * self.columns.max(1)) {
            let count = rows.len() / self.columns.max(1);
            for first in (0..self.columns).step_by(BLOCK) {
                for column in first..self.columns.min(first + BLOCK) {
                    let line = &mut self.data[column * self.rows + self.given..][..count];
                    line.iter_mut().zip(rows.iter().skip(column).step_by(self.columns)).for_each(|(to, &x)| *to = x);
                }
            }
            self.given += count;
        }
    }
}
