//! Columns of one value that slices, signs and concatenations put into another order, as a product with a constant matrix. Ours.
//!
//! A rotary embedding exchanges the halves or the neighbours of a head's columns. Columns that begin within a row of memory, or that are no
//! neighbours, are exchanged with rows several times. A product with a matrix of signs takes two tasks, and each of its sums has one
//! term, so that numbers keep their values.

use super::{Builder, maker_behind, makers, number, rewrite};
use crate::error::Result;
use crate::ir::{ELEMENT_BYTES, ROW_ALIGN};
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::chips::Chip;
use anemone_net::{Binary, Net, Op, OpKind, Unary, ValueId};
use std::collections::{HashMap, HashSet};

/// Most columns of either side: each column of the result costs one multiplication for every column of the operand.
const MOST_COLUMNS: usize = 256;

/// Columns of a value, with the same rows.
#[derive(Clone)]
struct Selection {
    base: ValueId,
    /// Column of the base, and true for its negative, for each element behind the axes of the rows.
    columns: Vec<(usize, bool)>,
    /// True behind a concatenation.
    joined: bool,
}

/// A product that computes a selection.
struct Product {
    base: ValueId,
    columns: Vec<(usize, bool)>,
    /// Transposes of the rows behind it, the last one first.
    perms: Vec<Vec<usize>>,
}

/// Replaces concatenations of unaligned columns of one computed value, which are multiplied, by products with a constant matrix.
pub fn select_columns(net: &mut Net, chip: &'static Chip, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let most = chip.hal.max_transpose_width.map_or(usize::MAX, |most| most as usize);
    let found = found(net, most);
    if found.is_empty() {
        return Ok(());
    }
    rewrite(net, reasons, |builder, op| {
        match op.outputs.first().and_then(|out| found.get(out)) {
            Some(product) => builder.selected(product, op.outputs[0]),
            None => builder.ops.push(op.clone()),
        }
        Ok(())
    })?;
    super::remove_dead(net, options, reasons)
}

/// Selections that are computed as products, by their results.
fn found(net: &Net, most_rows: usize) -> HashMap<ValueId, Product> {
    let makers = makers(net);
    let mut known: HashMap<ValueId, Selection> = HashMap::new();
    for op in &net.ops {
        if let (&[out], Some(selection)) = (op.outputs.as_slice(), selection(net, op, &known)) {
            known.insert(out, selection);
        }
    }
    let mut readers: HashMap<ValueId, Vec<&Op>> = HashMap::new();
    for op in &net.ops {
        op.inputs.iter().for_each(|&id| readers.entry(id).or_default().push(op));
    }
    let outputs: HashSet<ValueId> = net.outputs.iter().copied().collect();
    // Products lose the sign of zeros, which products behind them do not show.
    let multiplied = |id: &ValueId| {
        let multiplies =
            |op: &&Op| matches!(op.kind, OpKind::Binary(Binary::Mul) | OpKind::Linear | OpKind::MatMul { .. });
        !outputs.contains(id) && readers.get(id).is_some_and(|all| all.iter().all(multiplies))
    };
    let fits = |selection: &Selection| {
        let shape = &net.value(selection.base).ty.shape;
        let rows: usize = shape[..shape.len() - 1].iter().product();
        let columns = shape[shape.len() - 1].max(selection.columns.len());
        columns <= MOST_COLUMNS && rows <= most_rows && selection.joined && !selection.is_aligned()
    };
    known.retain(|id, selection| fits(selection) && multiplied(id) && is_computed(selection.base, &makers));
    known.into_iter().map(|(id, selection)| (id, Product::of(selection, &makers))).collect()
}

/// Returns true for values that operations of finite results compute: zeros times other numbers are zero.
fn is_computed(id: ValueId, makers: &HashMap<ValueId, &Op>) -> bool {
    let moves = |kind: &OpKind| matches!(kind, OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. });
    let maker = maker_behind(id, makers, moves);
    maker.is_some_and(|op| matches!(op.kind, OpKind::Linear | OpKind::LayerNorm { .. } | OpKind::Binary(Binary::Mul)))
}

/// The columns that the result of an operation has.
fn selection(net: &Net, op: &Op, known: &HashMap<ValueId, Selection>) -> Option<Selection> {
    let (&from, &out) = (op.inputs.first()?, op.outputs.first()?);
    let shape = |id: ValueId| &net.value(id).ty.shape;
    let flipped = |selection: &Selection| {
        let columns = selection.columns.iter().map(|&(at, negative)| (at, !negative)).collect();
        Selection { columns, ..selection.clone() }
    };
    match &op.kind {
        OpKind::Slice { begin, end, stride } => {
            let of = known.get(&from).cloned().or_else(|| Selection::whole(net, from))?;
            let (rows, all) = (shape(of.base).len() - 1, shape(from));
            let uncut = (0..rows).all(|i| begin[i] == 0 && end[i] == all[i] && stride[i] == 1);
            let places = |i: usize| (begin[i]..end[i]).step_by(stride[i].max(1));
            let at = (rows..all.len()).fold(vec![0], |at, i| {
                at.iter().flat_map(|&before| places(i).map(move |own| before * all[i] + own)).collect()
            });
            let columns = at.into_iter().map(|i| of.columns.get(i).copied()).collect::<Option<_>>()?;
            uncut.then_some(Selection { columns, ..of })
        }
        OpKind::Reshape => {
            let of = known.get(&from)?;
            let rows = &shape(of.base)[..shape(of.base).len() - 1];
            shape(out).starts_with(rows).then(|| of.clone())
        }
        OpKind::Unary(Unary::Neg) => known.get(&from).map(flipped),
        OpKind::Binary(Binary::Mul) => {
            let &[a, b] = op.inputs.as_slice() else { return None };
            let other = [(a, b), (b, a)].into_iter().find(|&(_, factor)| number(net, factor) == Some(-1.0))?.0;
            (shape(other) == shape(out)).then(|| known.get(&other).map(flipped)).flatten()
        }
        OpKind::Concat { axis } => {
            let parts: Vec<&Selection> = op.inputs.iter().map(|id| known.get(id)).collect::<Option<_>>()?;
            let base = parts.first()?.base;
            let rows = shape(base).len() - 1;
            let outer: usize = shape(out).get(rows..*axis)?.iter().product();
            let same = parts.iter().all(|part| part.base == base);
            let columns = (0..outer).flat_map(|i| {
                parts.iter().flat_map(move |part| {
                    let each = part.columns.len() / outer;
                    part.columns[i * each..(i + 1) * each].iter().copied()
                })
            });
            (same && outer > 0).then(|| Selection { base, columns: columns.collect(), joined: true })
        }
        _ => None,
    }
}

impl Selection {
    /// All columns of a matrix of floats.
    fn whole(net: &Net, base: ValueId) -> Option<Selection> {
        let ty = &net.value(base).ty;
        let (&columns, rows) = ty.shape.split_last()?;
        let matrix = !rows.is_empty() && ty.dtype.is_float() && net.value(base).data.is_none();
        matrix.then(|| Selection { base, columns: (0..columns).map(|at| (at, false)).collect(), joined: false })
    }

    /// Returns true if all runs of neighbours begin at rows of memory, and end there: these are multiplied in their places.
    fn is_aligned(&self) -> bool {
        let aligned = |at: usize| (at as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN);
        let continues = |at: usize| {
            let [before, own] = [self.columns[at - 1], self.columns[at]];
            own == (before.0 + 1, before.1)
        };
        (0..self.columns.len()).all(|at| at > 0 && continues(at) || aligned(at) && aligned(self.columns[at].0))
    }
}

impl Product {
    /// The product before transposes of the rows, whose results are views.
    fn of(selection: Selection, makers: &HashMap<ValueId, &Op>) -> Product {
        let Selection { mut base, columns, .. } = selection;
        let mut perms = Vec::new();
        while let Some(Op { kind: OpKind::Transpose { perm }, inputs, .. }) = makers.get(&base) {
            if perm.last() != Some(&(perm.len() - 1)) {
                break;
            }
            perms.push(perm.clone());
            base = inputs[0];
        }
        Product { base, columns, perms }
    }
}

impl Builder<'_> {
    fn selected(&mut self, product: &Product, out: ValueId) {
        let Product { base, columns, perms } = product;
        let mut shape = self.shape(*base);
        let (inputs, outputs) = (shape[shape.len() - 1], columns.len());
        let mut signs = vec![0.0; inputs * outputs];
        for (row, &(column, negative)) in columns.iter().enumerate() {
            signs[row * inputs + column] = if negative { -1.0 } else { 1.0 };
        }
        let signs = self.constant("signs", vec![outputs, inputs], signs);
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let mut made = self.op("selected", OpKind::Linear, &[*base, signs], shape.clone());
        for perm in perms.iter().rev() {
            shape = perm.iter().map(|&axis| shape[axis]).collect();
            made = self.op("rows", OpKind::Transpose { perm: perm.clone() }, &[made], shape.clone());
        }
        self.push(OpKind::Reshape, &[made], out);
    }
}
