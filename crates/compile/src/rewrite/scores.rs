//! Transposition of the matrix between two products of computed matrices, such as the scores of an attention. Ours.
//!
//! A product has the rows of its left matrix as output channels, of which a task computes few. If there are many more rows than columns, as where
//! all places of an image attend to a few, the transposed matrix takes fewer tasks: `(x · y)ᵀ = yᵀ · xᵀ`.

use super::{Builder, makers, rewrite};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use crate::staged_rows;
use anemone_facts::chips::Chip;
use anemone_net::{Data, Net, Op, OpKind, Tensor, ValueId};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Fewest rows for each column of a matrix that is transposed. With fewer the engine takes longer, which keeps parts of rows in cache.
const LEAST_ROWS: usize = 2;

/// Most columns of a matrix that is transposed. With more the engine takes longer: its sums and maxima over channels are slower than those of rows.
const MOST_COLUMNS: usize = 512;

/// Most copies that exchange rows and columns of the first product's rows and of the second product's results. Products with constants before and behind
/// them do so at no cost.
const COPIES: usize = 3;

/// Computes what is between two products of computed matrices transposed, and the second product too, whose result is transposed back.
///
/// Barriers: other readers of what is between, operations that are not elementwise but softmax, computed operands with both rows and columns, more
/// rows than a tensor has columns.
pub fn transpose_scores(net: &mut Net, chip: &'static Chip, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().rows_in_few_tasks {
        return Ok(());
    }
    let (uses, makers) = (net.read_counts(), makers(net));
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !net.outputs.contains(&id);
    let widest = chip.hal.max_tensor_width.map_or(usize::MAX, |n| n as usize);
    let fits = |op: &Op| op.inputs.first().is_some_and(|&x| net.value(x).ty.shape.iter().all(|&n| n <= widest));
    let products = net.ops.iter().filter(|op| matches!(op.kind, OpKind::MatMul { transpose_x: false, .. }) && fits(op));
    let chains = products.filter_map(|op| chain(net, op, &makers, alone));
    let between: HashSet<ValueId> = chains.flatten().collect();
    if between.is_empty() {
        return Ok(());
    }
    let made: RefCell<HashMap<ValueId, ValueId>> = RefCell::default();
    rewrite(net, reasons, |builder, op| {
        if let Some(out) = op.outputs.first().filter(|out| between.contains(out)) {
            let across = builder.across(op, &made.borrow());
            made.borrow_mut().insert(*out, across);
            return Ok(());
        }
        match op.inputs.first().and_then(|x| made.borrow().get(x).copied()) {
            Some(left) => builder.product_across(op, left),
            None => builder.ops.push(op.clone()),
        }
        Ok(())
    })
}

/// Results from one product of computed matrices to the left matrix of another, last one first; `None` if there are none or it does not pay to
/// transpose them.
fn chain(
    net: &Net,
    product: &Op,
    makers: &HashMap<ValueId, &Op>,
    alone: impl Fn(ValueId) -> bool,
) -> Option<Vec<ValueId>> {
    let &[left, right] = product.inputs.as_slice() else { return None };
    let shape = |id: ValueId| net.value(id).ty.shape.as_slice();
    let &[.., rows, columns] = shape(left) else { return None };
    let few = rows >= LEAST_ROWS * columns && columns <= MOST_COLUMNS;
    if !few || shape(right).len() < 2 || net.value(right).data.is_some() || left == right {
        return None;
    }
    let tasks = |rows: &usize| staged_rows::tasks(*rows);
    let transposed = tasks(&columns) + tasks(shape(product.outputs[0]).last()?);
    let (mut results, mut id) = (Vec::new(), left);
    loop {
        let float = net.value(id).ty.dtype.is_float();
        let op = makers.get(&id).filter(|_| alone(id) && float && shape(id) == shape(left))?;
        results.push(id);
        let follows = |x: ValueId| net.value(x).data.is_none() && shape(x) == shape(left);
        id = match (&op.kind, op.inputs.as_slice()) {
            (OpKind::MatMul { .. }, &[x, y]) => {
                let computed = [x, y].iter().all(|&id| net.value(id).data.is_none() && shape(id).len() > 1);
                let copies = if of_constants(net, x, makers) { 0 } else { COPIES };
                return (computed && transposed + copies < 2 * tasks(&rows)).then_some(results);
            }
            (OpKind::Unary(_) | OpKind::Softmax { .. }, &[x]) => x,
            (OpKind::Binary(_), &[x, y]) if follows(x) && crosses(net, y) => x,
            (OpKind::Binary(_), &[x, y]) if follows(y) && crosses(net, x) => y,
            _ => return None,
        };
    }
}

/// Returns true for a result of a product with constants, perhaps with moves, addends and factors behind it.
fn of_constants(net: &Net, mut id: ValueId, makers: &HashMap<ValueId, &Op>) -> bool {
    while let Some(op) = makers.get(&id) {
        let computed = op.inputs.iter().find(|&&x| net.value(x).data.is_none());
        id = match (&op.kind, computed) {
            (OpKind::Linear | OpKind::Conv { .. }, _) => return true,
            (OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Binary(_), Some(&x)) => x,
            _ => return false,
        };
    }
    false
}

/// Returns true for an operand whose rows and columns are exchanged without a copy: a constant, or one row or column.
fn crosses(net: &Net, id: ValueId) -> bool {
    let value = net.value(id);
    value.data.is_some() || value.ty.shape.len() < 2 || value.ty.shape.iter().rev().take(2).any(|&n| n == 1)
}

/// Extents with the last two exchanged, of which a missing one is 1; those of one element stay.
fn exchanged(shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    if shape.iter().product::<usize>() > 1 {
        shape.splice(..0, std::iter::repeat_n(1, 2usize.saturating_sub(shape.len())));
        let last = shape.len() - 1;
        shape.swap(last - 1, last);
    }
    shape
}

impl Builder<'_> {
    /// The transposed result of an operation, of whose operands `made` has the transposed ones.
    fn across(&mut self, op: &Op, made: &HashMap<ValueId, ValueId>) -> ValueId {
        let last = self.shape(op.outputs[0]).len() - 1;
        let (kind, inputs) = match op.kind {
            OpKind::MatMul { transpose_x, transpose_y } => {
                let kind = OpKind::MatMul { transpose_x: !transpose_y, transpose_y: !transpose_x };
                (kind, op.inputs.iter().rev().copied().collect())
            }
            ref kind => {
                let kind = match *kind {
                    OpKind::Softmax { axis } if axis + 1 >= last => OpKind::Softmax { axis: 2 * last - 1 - axis },
                    ref kind => kind.clone(),
                };
                let operand = |&id: &ValueId| made.get(&id).copied().unwrap_or_else(|| self.operand_across(id));
                (kind, op.inputs.iter().map(operand).collect::<Vec<_>>())
            }
        };
        self.value_across(op, kind, &inputs)
    }

    fn value_across(&mut self, op: &Op, kind: OpKind, inputs: &[ValueId]) -> ValueId {
        let (out, shape) = (op.outputs[0], exchanged(&self.shape(op.outputs[0])));
        let across = self.value("across", self.net.value(out).ty.dtype, shape);
        self.push(kind, inputs, across);
        across
    }

    /// An operand for which [`crosses`] is true, with its rows and columns exchanged.
    fn operand_across(&mut self, id: ValueId) -> ValueId {
        let (from, shape) = (self.shape(id), exchanged(&self.shape(id)));
        if from == shape {
            return id;
        }
        let Some(tensor) = self.net.value(id).data.clone() else {
            return self.reshaped("exchanged", id, shape);
        };
        let (columns, rows) = (*from.last().unwrap_or(&1), *from.iter().rev().nth(1).unwrap_or(&1));
        let given = tensor.data.to_f32();
        let matrices = given.chunks((rows * columns).max(1));
        let data = matrices.flat_map(|of| (0..of.len()).map(|at| of[at % rows * columns + at / rows])).collect();
        self.constant_of("exchanged", Tensor { shape, data: Data::F32(data) })
    }

    /// The product that reads the transposed matrix `left`, and its result transposed back.
    fn product_across(&mut self, op: &Op, left: ValueId) {
        let OpKind::MatMul { transpose_y, .. } = op.kind else { return };
        let kind = OpKind::MatMul { transpose_x: !transpose_y, transpose_y: false };
        let across = self.value_across(op, kind, &[op.inputs[1], left]);
        let mut perm: Vec<usize> = (0..self.shape(across).len()).collect();
        let last = perm.len() - 1;
        perm.swap(last - 1, last);
        self.push(OpKind::Transpose { perm }, &[across], op.outputs[0]);
    }
}
