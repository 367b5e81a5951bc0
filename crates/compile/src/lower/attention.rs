//! Attention between products with constants, as zin 9.509 computes it: what a product of computed matrices reads and writes stays
//! transposed where the products around it leave it so (`docs/evidence.md`, key `h13-fusion`).

use super::Lowerer;
use super::product::{TransposedMatrix, matrix, multiplied, operands_alone, products};
use crate::error::Result;
use crate::ir::*;
use anemone_net::{Binary, Net, Op, OpKind, ValueId};
use std::collections::HashSet;

/// Most rows of the matrices of an attention that stay transposed: products of more rows are divided, and no record has such ones.
const MOST_ROWS: usize = 128;

/// Returns true for one matrix of several rows, as many as stay transposed.
fn one(net: &Net, id: ValueId) -> bool {
    let shape = &net.value(id).ty.shape;
    let rows = shape.iter().rev().nth(1).is_some_and(|rows| (2..=MOST_ROWS).contains(rows));
    rows && shape.iter().rev().skip(2).all(|&n| n == 1)
}

/// Results of products of one computed matrix with the result of a product with constants, both read once, and only as left operands of
/// products with constants.
pub(super) fn computed_transposed(net: &Net, most: u64) -> HashSet<ValueId> {
    let (alone, counts) = (operands_alone(net, most), net.read_counts());
    let made = products(net, most);
    let of = |op: &Op| {
        let plain = matches!(op.kind, OpKind::MatMul { transpose_x: false, transpose_y: false });
        let (&[x, y], &[out]) = (op.inputs.as_slice(), op.outputs.as_slice()) else { return None };
        let computed = net.value(x).data.is_none() && made.contains(&y) && counts.get(y.0 as usize) == Some(&1);
        let ones = [out, y, x].iter().all(|&id| one(net, id));
        (plain && computed && ones && x != y && alone.contains(&out)).then_some(out)
    };
    net.ops.iter().filter_map(of).collect()
}

/// Values that stay transposed: results of such products, perhaps through unary functions, that only such products read, perhaps through
/// unary functions. With `attention`, also right operands of products of computed matrices that read them so, and the results in it.
/// With `factors`, multiplications by a number are such functions.
pub(super) fn kept_transposed(
    net: &Net,
    most: u64,
    attention: Option<&HashSet<ValueId>>,
    factors: bool,
) -> HashSet<ValueId> {
    let turned = |op: &Op| attention.is_some_and(|all| op.outputs.iter().any(|out| all.contains(out)));
    let right = |op: &Op| {
        let scores = matches!(op.kind, OpKind::MatMul { transpose_x: false, transpose_y: true });
        let computed = op.inputs.iter().all(|&id| net.value(id).data.is_none());
        turned(op) || attention.is_some() && scores && computed && op.inputs.iter().all(|&id| one(net, id))
    };
    let number = |id: ValueId| net.value(id).data.as_ref().is_some_and(|t| t.shape.iter().all(|&n| n == 1));
    let shape = |id: ValueId| &net.value(id).ty.shape;
    let function = |op: &Op| match (&op.kind, op.inputs.as_slice()) {
        (OpKind::Unary(_), &[x, ..]) => Some(x),
        (OpKind::Binary(Binary::Mul), &[x, y]) => {
            (factors && number(y) && shape(x) == shape(op.outputs[0])).then_some(x)
        }
        _ => None,
    };
    let mut barred: HashSet<ValueId> = net.outputs.iter().copied().collect();
    for op in net.ops.iter().rev() {
        let passes = function(op).filter(|_| op.outputs.iter().all(|o| !barred.contains(o)));
        // The first operand of these may stay transposed.
        let first = multiplied(net, op, most).or(passes).is_some();
        let spared = |at: usize| at == 0 && first || at == 1 && right(op);
        barred.extend(op.inputs.iter().enumerate().filter(|(at, _)| !spared(*at)).map(|(_, id)| id));
    }
    let mut stay = HashSet::new();
    for op in &net.ops {
        let made = multiplied(net, op, most).is_some() || function(op).is_some_and(|x| stay.contains(&x)) || turned(op);
        stay.extend(op.outputs.iter().copied().filter(|o| made && !barred.contains(o)));
    }
    stay
}

impl Lowerer<'_> {
    /// Returns true for the right operand of a product of computed matrices, whose rows must not be folded.
    pub(super) fn read_as_right(&self, id: ValueId) -> bool {
        self.links
            .readers(id)
            .iter()
            .any(|op| matches!(op.kind, OpKind::MatMul { .. }) && op.inputs.get(1) == Some(&id))
    }

    /// The product of a computed matrix `x` and of the result `y` of a product with constants, where only products with constants read the
    /// product: their operand, `(yᵀ · xᵀ)`, is computed, whose coefficients the product before writes
    /// (`chain_block_d256_s64_proj1`). Returns `false` for other products.
    pub(super) fn attention_turned(&mut self, op: &Op) -> Result<bool> {
        let (x, y, out) = (op.inputs[0], op.inputs[1], op.outputs[0]);
        let right = self.turned_right(y).filter(|_| self.attention_turned.contains(&out));
        let Some(right) = right else { return Ok(false) };
        let x = self.view(x)?;
        let [.., rows, _] = self.shape(op.inputs[0])[..] else { return Ok(false) };
        let [.., columns] = self.shape(out)[..] else { return Ok(false) };
        let to = self.scratch("", &[columns, rows]);
        let left = matrix(&x, &vec![0; x.lead.len() - 1]);
        let first = self.graph.layers.len();
        self.interleaved_product(&right, &left, &to, true, None)?;
        // The copy has one row.
        let products = self.graph.layers[first..].iter_mut().filter(|layer| matches!(layer.kind, Kind::Product { .. }));
        products.for_each(|layer| layer.sources[0].axes[2].stride_bytes = 0);
        self.turned.insert(out, TransposedMatrix::of_rows(to, rows));
        Ok(true)
    }

    /// The right operand of a product of computed matrices, and true if it is to be transposed: not one that stays transposed.
    pub(super) fn right_operand(&mut self, id: ValueId, transpose: bool) -> Result<(View, bool)> {
        match self.turned_right(id).filter(|_| transpose && self.stay_turned.contains(&id)) {
            Some(right) => Ok((right, false)),
            None => Ok((self.view(id)?, transpose)),
        }
    }

    /// A matrix that stays transposed, if its rows are not folded.
    fn turned_right(&self, id: ValueId) -> Option<View> {
        self.turned.get(&id).map(|turned| turned.view().clone()).filter(|view| view.lead.len() == 1)
    }
}
