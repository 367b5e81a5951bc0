//! Lowering of products with one constant matrix to 1x1 convolutions, with the columns of the other matrix as channels.
//!
//! Transposing columns to channels costs a task. It is done once for all products of a value, and a value that only products read,
//! perhaps through unary functions, stays transposed between them (`docs/evidence.md`, key `h13-fusion`).

use super::Lowerer;
use super::layout::copy_kind;
use super::links::Links;
use crate::error::Result;
use crate::ir::*;
use crate::target::ahead;
use anemone_facts::kernel::ENGINES;
use anemone_facts::staging::{FOLD, FOLDED_OUTPUTS, LANES, TURNED_BYTES};
use anemone_net::{Net, Op, OpKind, ValueId};
use std::collections::HashSet;
use std::sync::Arc;

/// A matrix with its columns as channels.
#[derive(Clone, Debug)]
pub(super) struct TransposedMatrix {
    /// Channels and rows; if folded, the rows in groups of eight.
    view: View,
    /// Rows of the matrix.
    rows: usize,
}

impl TransposedMatrix {
    /// Number of elements.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// A matrix of that many rows, one column of `view` each.
    pub(super) fn of_rows(view: View, rows: usize) -> TransposedMatrix {
        TransposedMatrix { view, rows }
    }

    /// A matrix of one row whose columns are channels already, such as the reshaped result of a network's last pooling.
    pub(super) fn already(view: &View, shape: &[usize]) -> Option<TransposedMatrix> {
        let (columns, rows) = shape.split_last()?;
        let mut channels = view.lead.iter().filter(|axis| axis.extent > 1);
        let (axis, None) = (*channels.next()?, channels.next()) else { return None };
        let alike = view.width == 1 && axis.extent == *columns && rows.iter().all(|&n| n == 1);
        alike.then(|| TransposedMatrix { view: View { lead: vec![axis], ..view.clone() }, rows: 1 })
    }
}

/// Results of products with one constant matrix of at most `most` bytes.
pub(super) fn products(net: &Net, most: u64) -> HashSet<ValueId> {
    net.ops
        .iter()
        .filter(|op| multiplied(net, op, most).is_some())
        .filter_map(|op| op.outputs.first().copied())
        .collect()
}

/// Left operand of a product with one constant matrix of at most `most` bytes; `None` for other operations.
pub(super) fn multiplied(net: &Net, op: &Op, most: u64) -> Option<ValueId> {
    let matrix = op.inputs.get(1).map(|&id| net.value(id)).filter(|value| value.data.is_some())?;
    if matrix.ty.shape.iter().product::<usize>() as u64 * ELEMENT_BYTES > most {
        return None;
    }
    let one = matrix.ty.shape.iter().rev().skip(2).all(|&n| n == 1) && matrix.ty.shape.len() > 1;
    let straight = matches!(op.kind, OpKind::Linear | OpKind::MatMul { transpose_x: false, .. });
    (one && straight).then(|| op.inputs[0])
}

/// Values that are read only as left operands of products with one constant matrix of at most `most` bytes.
pub(super) fn operands_alone(net: &Net, most: u64) -> HashSet<ValueId> {
    let others = |op: &Op| usize::from(multiplied(net, op, most).is_some());
    let read = net.ops.iter().flat_map(|op| &op.inputs[others(op)..]).chain(&net.outputs);
    let barred: HashSet<&ValueId> = read.collect();
    net.ops.iter().filter_map(|op| multiplied(net, op, most)).filter(|id| !barred.contains(id)).collect()
}

/// Values whose rows are channels: products of two computed matrices, perhaps through unary functions.
pub(super) fn by_rows(net: &Net, most: u64) -> HashSet<ValueId> {
    let mut rows = HashSet::new();
    for op in &net.ops {
        let number = |&id: &ValueId| net.value(id).data.as_ref().is_some_and(|t| t.shape.iter().all(|&n| n == 1));
        let made = match op.kind {
            OpKind::MatMul { .. } => multiplied(net, op, most).is_none(),
            OpKind::Unary(_) => rows.contains(&op.inputs[0]),
            OpKind::Binary(_) => op.inputs.iter().any(|id| rows.contains(id)) && op.inputs.iter().any(number),
            _ => false,
        };
        rows.extend(op.outputs.iter().copied().filter(|_| made));
    }
    rows
}

/// Results of two computed operands that only norms of their rows read: their rows are channels, as those of the norms are.
pub(super) fn summed_for_norms(net: &Net, links: &Links) -> HashSet<ValueId> {
    let computed = |id: &ValueId| net.value(*id).data.is_none();
    let normed = |op: &Op, id: ValueId| match &op.kind {
        OpKind::LayerNorm { axes, .. } => {
            op.inputs == [id] && axes.len() == 1 && axes[0] + 1 == net.value(id).ty.shape.len()
        }
        _ => false,
    };
    let of = |op: &Op| {
        let &[out] = op.outputs.as_slice() else { return None };
        let shape = |id: ValueId| net.value(id).ty.shape.as_slice();
        let (last, batch) = shape(out).split_at_checked(shape(out).len().checked_sub(2)?).map(|(b, l)| (l, b))?;
        let matrix = last[0] > 1 && batch.iter().all(|&n| n == 1);
        let alike = op.inputs.iter().all(|id| computed(id) && shape(*id) == shape(out));
        let readers = links.readers(out);
        let read = !readers.is_empty() && readers.iter().all(|reader| normed(reader, out));
        (matches!(op.kind, OpKind::Binary(_)) && matrix && alike && read && !net.outputs.contains(&out)).then_some(out)
    };
    net.ops.iter().filter_map(of).collect()
}

/// A matrix with its rows as channels: the axis of one element behind them is the row.
pub(super) fn rows_as_channels(view: &View) -> View {
    let mut view = view.clone();
    if let Some(&rows) = view.lead.last() {
        let one = Axis { extent: 1, stride_bytes: rows.extent as u64 * rows.stride_bytes };
        view.lead = vec![rows, one];
    }
    view
}

impl Lowerer<'_> {
    pub(super) fn linear(&mut self, op: &Op) -> Result<()> {
        let bias = self.bias_of(op)?;
        let Some(weights) = self.weights(op.inputs[1]) else {
            return Err(self.unsupported("a matrix computed at run time", "make the weight a constant"));
        };
        self.product(op.inputs[0], op.outputs[0], weights, bias)
    }

    /// `x · y`, as a convolution if `y` is one constant matrix that may become coefficients, otherwise with coefficients from memory.
    pub(super) fn matmul(&mut self, op: &Op, transpose_x: bool, transpose_y: bool) -> Result<()> {
        let (x, y) = (op.inputs[0], op.inputs[1]);
        let (x_rank, y_rank) = (self.shape(x).len(), self.shape(y).len());
        if x_rank < 2 || y_rank < 2 {
            return Err(self.unsupported("a product with a vector", "reshape the vector to a matrix"));
        }
        let one_matrix = self.shape(y)[..y_rank - 2].iter().all(|&n| n == 1);
        let bytes = self.shape(y).iter().product::<usize>() as u64 * ELEMENT_BYTES;
        let constant =
            self.constant(y).filter(|_| one_matrix && bytes <= self.options.most_resident(self.chip)).cloned();
        let Some(constant) = constant else {
            return if self.attention_turned(op)? { Ok(()) } else { self.runtime_matmul(op, transpose_x, transpose_y) };
        };
        let (rows, columns) = (constant.shape[y_rank - 2], constant.shape[y_rank - 1]);
        let given = Weights::from(&constant);
        let weights = if transpose_y {
            given
        } else {
            let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
            let values = &given.values[..];
            given.with(turned.map(|i| values[i]).collect::<Vec<_>>())
        };
        if !transpose_x {
            return self.product(x, op.outputs[0], weights, None);
        }
        let (from, to) = (self.view(x)?, self.result(op.outputs[0]));
        let conventions = self.options.conventions();
        let &[.., depth, rows] = self.shape(x).as_slice() else {
            return Err(self.unsupported("a product with a vector", "reshape the vector to a matrix"));
        };
        if conventions.left_matrices_turned && self.folds(rows, depth, to.width) {
            let turned = self.exchanged(&from, from.lead.len() - 1, "left")?;
            return self.product_views(&turned, &to, weights, None);
        }
        // The rows of `x` are the channels, without a transpose.
        let weights = Arc::new(weights);
        let rank = to.lead.len();
        let batch: Vec<usize> = to.lead[..rank - 1].iter().map(|a| a.extent).collect();
        for index in indices(&batch) {
            let (Some(source), Some(result)) = (rows_first(&matrix(&from, &index)), rows_first(&matrix(&to, &index)))
            else {
                return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
            };
            self.push(dense(weights.clone(), None), vec![source], vec![[false; 3]], result, true);
        }
        Ok(())
    }

    /// `out = x · wᵀ + b`.
    fn product(&mut self, x: ValueId, out: ValueId, weights: Weights, bias: Option<Vec<f32>>) -> Result<()> {
        let columns = self.shape(out).last().copied().unwrap_or(1);
        let Some(source) = self.turned_of(x, columns)? else {
            let (from, to) = (self.view(x)?, self.result(out));
            return self.product_views(&from, &to, weights, bias);
        };
        let (weights, bias) = (Arc::new(weights), bias.map(Arc::new));
        let folded = source.view.lead.len() > 1;
        if self.stay_turned.contains(&out) && !(folded && self.read_as_right(out)) {
            let mut shape = source.view.shape();
            shape[0] = columns;
            let view = self.scratch("", &shape);
            let (from, to) = (self.channels(&source.view)?, self.channels(&view)?);
            self.push(dense(weights, bias), vec![from], vec![[false; 3]], to, false);
            self.turned.insert(out, TransposedMatrix { view, ..source });
            return Ok(());
        }
        let to = self.result(out);
        let flat = [source.rows, columns];
        match self.reshaped(&to, &flat)? {
            Some(rows) => self.turn_back(&source, &rows, weights, bias),
            None => {
                let rows = self.scratch("rows", &flat);
                self.turn_back(&source, &rows, weights, bias)?;
                self.reshape_into(&rows, &to)
            }
        }
    }

    /// A value with its columns as channels, transposed on first use; `None` if one task cannot transpose
    /// it.
    fn turned_of(&mut self, x: ValueId, outputs: usize) -> Result<Option<TransposedMatrix>> {
        if let Some(turned) = self.turned.get(&x) {
            return Ok(Some(turned.clone()));
        }
        let from = self.shared_operand(x)?;
        let rows: usize = from.lead.iter().map(|a| a.extent).product();
        if self.chip.hal.max_transpose_width.is_some_and(|most| rows as u64 > most) {
            return Ok(None);
        }
        let flat = match self.reshaped(&from, &[rows, from.width])? {
            Some(flat) => flat,
            None => {
                // Rows without a single stride are copied together once, for all products of the value.
                let dense = self.scratch("rows", &from.shape());
                self.copy(&from, &dense)?;
                let Some(flat) = self.reshaped(&dense, &[rows, from.width])? else { return Ok(None) };
                flat
            }
        };
        let turned = self.stage(&flat, outputs)?;
        self.turned.insert(x, turned.clone());
        Ok(Some(turned))
    }

    /// View of a product's operand. A small network input that an elementwise operation reads too is copied to tile memory once
    /// for both.
    fn shared_operand(&mut self, x: ValueId) -> Result<View> {
        let from = self.view(x)?;
        // A chain whose result is not stored at once reads `x` where the transpose has left it (`chain_pair_add_ln_d256_s64`).
        let kept = self.options.conventions().operands_kept;
        let combined = |op: &&Op| {
            matches!(op.kind, OpKind::Binary(_)) && (!kept || op.outputs.iter().any(|out| self.outputs.contains(out)))
        };
        let small = from.elements() as u64 * ELEMENT_BYTES <= TURNED_BYTES;
        let input = self.graph.buffer(from.buffer).role == Role::Input && !self.outputs.contains(&x);
        if !self.options.conventions().shared_inputs_staged
            || !small
            || !input
            || !self.links.readers(x).iter().any(combined)
        {
            return Ok(from);
        }
        let brought = self.scratch("operand", &from.shape());
        self.copy(&from, &brought)?;
        self.views.insert(x, brought.clone());
        Ok(brought)
    }

    /// Source and destination views of a unary function whose operand and result both stay transposed; `None` otherwise.
    pub(super) fn turned_pair(&mut self, x: ValueId, out: ValueId) -> Option<(View, View)> {
        let from = self.turned.get(&x).filter(|_| self.stay_turned.contains(&out))?.clone();
        let to = self.scratch("", &from.view.shape());
        self.turned.insert(out, TransposedMatrix { view: to.clone(), ..from });
        Some((from.view, to))
    }

    /// Applies a number to a matrix that only products with constant matrices read, where nothing else reads `x`: it is transposed first
    /// (`chain_pair_mul_mm_d256_s64`). Returns `false` for others.
    pub(super) fn turned_affine(&mut self, x: ValueId, out: ValueId, affine: Affine) -> Result<bool> {
        let product = self.links.readers(out).first().and_then(|op| op.outputs.first().copied());
        let Some(product) = product.filter(|_| self.operands_alone.contains(&out) && self.links.readers(x).len() == 1)
        else {
            return Ok(false);
        };
        let columns = self.shape(product).last().copied().unwrap_or(1);
        let Some(source) = self.turned_of(x, columns)? else { return Ok(false) };
        let view = self.scratch("", &source.view.shape());
        let (from, to) = (self.channels(&source.view)?, self.channels(&view)?);
        let kind = Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs: false, affine, relu: false };
        self.push(kind, vec![from], vec![[false; 3]], to, false);
        self.turned.insert(out, TransposedMatrix { view, ..source });
        Ok(true)
    }

    /// `x[.., K] · w[N, K]ᵀ + b`: columns become channels, a 1x1 convolution follows, and its result is transposed back when it is
    /// stored.
    pub(super) fn product_views(
        &mut self,
        from: &View,
        to: &View,
        weights: Weights,
        bias: Option<Vec<f32>>,
    ) -> Result<()> {
        // All rows of x become columns of the convolution.
        let rows: usize = from.lead.iter().map(|a| a.extent).product();
        let flat_from = self.reshaped(from, &[rows, from.width])?;
        let flat_to = self.reshaped(to, &[rows, to.width])?;
        let (Some(source), Some(result)) = (&flat_from, &flat_to) else {
            // Rows without a single stride are copied together, before the product or behind it.
            if flat_from.is_none() {
                let source = self.scratch("rows", &from.shape());
                self.copy(from, &source)?;
                return self.product_views(&source, to, weights, bias);
            }
            let result = self.scratch("product", &to.shape());
            self.product_views(from, &result, weights, bias)?;
            return self.copy(&result, to);
        };
        let (weights, bias) = (Arc::new(weights), bias.map(Arc::new));
        let most = self.chip.hal.max_transpose_width.map_or(rows, |w| w as usize).max(1);
        for start in (0..rows).step_by(most) {
            let part = |v: &View| View {
                offset_bytes: v.offset_bytes + start as u64 * v.lead[0].stride_bytes,
                lead: vec![Axis { extent: most.min(rows - start), ..v.lead[0] }],
                ..v.clone()
            };
            self.product_flat(&part(source), &part(result), weights.clone(), bias.clone())?;
        }
        Ok(())
    }

    /// Product of contiguous rows, transposed before and after it.
    fn product_flat(
        &mut self,
        from: &View,
        to: &View,
        weights: Arc<Weights>,
        bias: Option<Arc<Vec<f32>>>,
    ) -> Result<()> {
        let source = self.stage(from, to.width)?;
        self.turn_back(&source, to, weights, bias)
    }

    /// The columns of a matrix as channels, for a product with a number of outputs. Rows are folded, eight side by side, if that takes
    /// fewer passes.
    fn stage(&mut self, from: &View, outputs: usize) -> Result<TransposedMatrix> {
        let rows = from.lead[0].extent;
        if !self.options.conventions().rows_folded || !self.folds(rows, from.width, outputs) {
            return Ok(TransposedMatrix { view: self.exchanged(from, 0, "turned")?, rows });
        }
        let view = self.scratch("turned", &[from.width, rows / FOLD, FOLD]);
        let middle = self.channels(&view)?;
        self.push(copy_kind(), vec![square(from)], vec![[false; 3]], middle, true);
        Ok(TransposedMatrix { view, rows })
    }

    /// View of a transposed matrix for a task.
    pub(super) fn channels(&self, view: &View) -> Result<View4> {
        let seen = if view.lead.len() == 1 { channels_first(view) } else { view.nchw() };
        seen.ok_or_else(|| self.unsupported("more than four axes", "reshape first"))
    }

    /// Product with a transposed matrix, whose result is rows again.
    fn turn_back(
        &mut self,
        source: &TransposedMatrix,
        to: &View,
        weights: Arc<Weights>,
        bias: Option<Arc<Vec<f32>>>,
    ) -> Result<()> {
        let folded = source.view.lead.len() > 1;
        let middle = self.channels(&source.view)?;
        let straight = |lowerer: &Self, view: &View| {
            rows_first(view).ok_or_else(|| lowerer.unsupported("more than four axes", "reshape first"))
        };
        if folded && self.graph.buffer(to.buffer).role == Role::Scratch && to.lead.len() == 1 {
            self.push(dense(weights, bias), vec![middle], vec![[false; 3]], square(to), true);
            return Ok(());
        }
        let to = straight(self, to)?;
        if !folded {
            self.push(dense(weights, bias), vec![middle], vec![[false; 3]], to, true);
            return Ok(());
        }
        let product = self.scratch("product", &[source.rows, to.width]);
        self.push(dense(weights, bias), vec![middle], vec![[false; 3]], square(&product), true);
        let from = straight(self, &product)?;
        self.push(copy_kind(), vec![from], vec![[false; 3]], to, false);
        Ok(())
    }
}

impl Lowerer<'_> {
    /// Returns true if rows are folded into a square: each accumulator then holds more output channels, so that many
    /// outputs take fewer passes. Rows that fill a square by themselves are folded only if the coefficients of the remaining passes
    /// fit kernel memory. Zin 9.509 folds them if those of all passes do (`chain_lnproj_d768_s64`: three of 24 KiB are not folded), or for
    /// many passes (`rrmm_r2rb_m64_k2048_n2048_tx0_ty1`: eight).
    fn folds(&self, rows: usize, inputs: usize, outputs: usize) -> bool {
        let square = rows.is_multiple_of(FOLD) && (2 * FOLD..=FOLD * FOLD).contains(&rows);
        let (plane_bytes, pass) = ((inputs * LANES) as u64 * ELEMENT_BYTES, ENGINES * LANES);
        let passes = outputs.div_ceil(pass);
        let stay = match self.options.conventions().many_passes_folded {
            true => passes > MANY_PASSES || ahead(plane_bytes, passes + 1, self.chip),
            false => ahead(plane_bytes, passes, self.chip),
        };
        let worth = match rows == FOLD * FOLD {
            true => outputs > FOLDED_OUTPUTS && stay,
            false => outputs > pass,
        };
        square && worth
    }
}

/// Passes of 256 outputs above which 64 rows are folded in any case: eight are, four are not (`matmul_m64_k1024_n1024_ty1`).
const MANY_PASSES: usize = 4;

/// A product with coefficients `[out][in]`.
fn dense(weights: Arc<Weights>, bias: Option<Arc<Vec<f32>>>) -> Kind {
    Kind::Conv {
        window: Window::UNIT,
        connect: Connect::Dense,
        weights,
        bias,
        post_scale: 1.0,
        nonlinear: Nonlinear::None,
    }
}

/// The rows of a matrix folded into a square, eight side by side.
fn square(view: &View) -> View4 {
    let one = Axis { extent: 1, stride_bytes: 0 };
    let Axis { extent: rows, stride_bytes: row } = view.lead[0];
    let side = Axis { extent: FOLD, stride_bytes: row };
    let axes = [one, side, Axis { extent: rows / FOLD, stride_bytes: FOLD as u64 * row }];
    View4 { buffer: view.buffer, offset_bytes: view.offset_bytes, axes, width: view.width }
}

/// One matrix of a batch; leading axes of extent 1 are broadcast.
pub(super) fn matrix(view: &View, index: &[usize]) -> View {
    let rank = view.lead.len() - 1;
    let own = &index[index.len().saturating_sub(rank)..];
    let skipped = rank - own.len();
    let offset: u64 = view.lead[skipped..rank]
        .iter()
        .zip(own)
        .map(|(a, &i)| if a.extent == 1 { 0 } else { i as u64 * a.stride_bytes })
        .sum();
    View { offset_bytes: view.offset_bytes + offset, lead: view.lead[rank..].to_vec(), ..view.clone() }
}

/// A two-axis view with its first axis as channels.
pub(super) fn channels_first(view: &View) -> Option<View4> {
    let one = Axis { extent: 1, stride_bytes: 0 };
    let &[channels] = view.lead.as_slice() else { return None };
    Some(View4 { buffer: view.buffer, offset_bytes: view.offset_bytes, axes: [one, channels, one], width: view.width })
}

/// [`channels_first`] for a tensor whose rows are the channels; the single remaining row is the whole matrix.
pub(super) fn rows_first(view: &View) -> Option<View4> {
    let mut view = channels_first(view)?;
    let channels = view.axes[1];
    view.axes[2].stride_bytes = channels.extent as u64 * channels.stride_bytes;
    Some(view)
}

/// All index tuples below the extents.
pub(super) fn indices(extents: &[usize]) -> Vec<Vec<usize>> {
    extents
        .iter()
        .fold(vec![vec![]], |all, &n| all.iter().flat_map(|p| (0..n).map(|i| [p.as_slice(), &[i]].concat())).collect())
}
