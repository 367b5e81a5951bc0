//! Convolutions and products with constant matrices.

use super::Lowerer;
use super::layout::copy_kind;
use crate::Compat;
use crate::anec::*;
use crate::check::own;
use crate::error::{Error, Result};
use anemone_facts::Field;
use anemone_facts::kernel::ENGINES;
use anemone_facts::staging::{FOLD, FOLDED_OUTPUTS, STAGED_INTERLEAVE};
use anemone_net::Op;
use std::sync::Arc;

impl Lowerer<'_> {
    /// What the window fields and the chip's kernel limits admit.
    pub(super) fn check_kernel(&self, window: &Window) -> Result<()> {
        if let Some(refusal) = own::kernel_refused(window.kernel.map(|k| k as i64), self.chip) {
            return Err(Error::Rule { op: self.op.clone(), refusal: Box::new(refusal) });
        }
        self.check_window(window)
    }

    /// What the window fields can hold.
    pub(super) fn check_window(&self, window: &Window) -> Result<()> {
        for (axis, (k, s, p)) in
            [(Field::Kh, Field::Sy, Field::Py), (Field::Kw, Field::Sx, Field::Px)].into_iter().enumerate()
        {
            self.limit("window extent", window.kernel[axis], self.field_max(k))?;
            self.limit("stride", window.stride[axis], self.field_max(s))?;
            self.limit("padding", window.pad[axis], self.field_max(p))?;
        }
        Ok(())
    }

    /// Largest value of a register field.
    pub(super) fn field_max(&self, field: Field) -> Option<u64> {
        Some(self.chip.layout?.row(field)?.max() as u64)
    }

    /// Largest stride that one task can have.
    fn max_stride(&self) -> usize {
        self.field_max(Field::Sx).unwrap_or(1) as usize
    }

    /// One task per batch element: neural-engine groups would each want their own coefficients.
    pub(super) fn push_per_batch(&mut self, kind: Kind, source: View4, result: View4) {
        for n in 0..source.groups() {
            let at = |v: View4| View4 {
                offset_bytes: v.offset_bytes + n as u64 * v.axes[0].stride_bytes,
                axes: [Axis { extent: 1, stride_bytes: 0 }, v.axes[1], v.axes[2]],
                ..v
            };
            self.push(kind.clone(), vec![at(source)], vec![[false; 3]], at(result), false);
        }
    }

    /// A layer without coefficients takes groups as they are; one with coefficients once per group.
    pub(super) fn push_groups(&mut self, kind: Kind, source: View4, result: View4) {
        if matches!(kind, Kind::Conv { .. }) {
            self.push_per_batch(kind, source, result);
        } else {
            self.push(kind, vec![source], vec![[false; 3]], result, false);
        }
    }

    pub(super) fn conv(
        &mut self,
        op: &Op,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
        groups: usize,
    ) -> Result<()> {
        let (x, w) = (op.inputs[0], op.inputs[1]);
        let Some(tensor) = self.constant(w).cloned() else {
            return Err(self.unsupported("a kernel computed at run time", "make the kernel a constant"));
        };
        let shape = tensor.shape.clone();
        let spatial = shape.len() - 2;
        if spatial > 2 {
            return Err(self.unsupported("three-dimensional kernels", "split the depth axis into channels"));
        }
        let bias = self.bias_of(op)?;
        let (cout, per_group) = (shape[0], shape[1]);
        let missing = 2 - spatial;
        let pick = |i: usize, default: usize, from: &dyn Fn(usize) -> usize| {
            if i < missing { default } else { from(i - missing) }
        };
        let extents = [0, 1].map(|i| pick(i, 1, &|j| shape[j + 2]));
        let dilation = [0, 1].map(|i| pick(i, 1, &|j| dilations[j]));
        let (weights, kernel) = dilate(tensor.as_ref().into(), extents, dilation);
        let mut window = Window {
            kernel,
            stride: [0, 1].map(|i| pick(i, 1, &|j| strides[j])),
            pad: [0, 1].map(|i| pick(i, 0, &|j| pads[j].0)),
        };
        let remaining = self.factor_strides(&mut window);
        // One-axis convolutions get a row axis of extent 1.
        let rows = |mut v: View| {
            for _ in 0..missing {
                v.lead.insert(v.lead.len().min(2), Axis { extent: 1, stride_bytes: 0 });
            }
            v
        };
        let (from, to) = (rows(self.view(x)?), rows(self.result(op.outputs[0])));
        let conv = Convolution { window, groups, per_group, cout, weights, bias };
        if remaining == [1, 1] {
            return self.convolve(conv, &from, &to);
        }
        // Strides beyond the field: compute a denser result, then keep every n-th row and column of it.
        let mut shape = to.shape();
        let mut stride = vec![1; shape.len()];
        let spatial_from = shape.len() - 2;
        for (axis, &keep) in remaining.iter().enumerate() {
            let at = spatial_from + axis;
            shape[at] = (shape[at] - 1) * keep + 1;
            stride[at] = keep;
        }
        let dense = self.scratch("dense", &shape);
        self.convolve(conv, &from, &dense)?;
        self.slice_into(&dense, &vec![0; shape.len()], &shape, &stride, &to)
    }

    /// A convolution between views of four axes.
    pub(super) fn convolve(&mut self, conv: Convolution, from: &View, to: &View) -> Result<()> {
        if own::turned(conv.window.kernel.map(|k| k as i64), self.chip) {
            let rows = from.lead.len() - 1;
            let turned = self.exchanged(from, rows, "turned")?;
            let mut shape = to.shape();
            shape.swap(rows, rows + 1);
            let result = self.scratch("result", &shape);
            self.convolve(conv.exchanged(), &turned, &result)?;
            return self.copy_transposed(&result, to, rows);
        }
        self.check_kernel(&conv.window)?;
        let (Some(source), Some(result)) = (from.nchw(), to.nchw()) else {
            return Err(self.unsupported("more than four axes", "reshape first"));
        };
        self.connect(conv, source, result);
        Ok(())
    }

    pub(super) fn bias_of(&self, op: &Op) -> Result<Option<Vec<f32>>> {
        match op.inputs.get(2) {
            None => Ok(None),
            Some(&b) => match self.constant(b) {
                Some(t) => Ok(Some(t.data.to_f32())),
                None => Err(self.unsupported("a bias computed at run time", "add it after the convolution")),
            },
        }
    }

    fn connect(&mut self, conv: Convolution, source: View4, result: View4) {
        let Convolution { window, groups, per_group, cout, weights, bias } = conv;
        // 4.2.1 streams biases even where all are zero.
        let bias = bias.filter(|b| self.options.compat == Compat::Zin421 || b.iter().any(|&x| x != 0.0)).map(Arc::new);
        let kind = |connect, weights, bias| Kind::Conv {
            window,
            connect,
            weights,
            bias,
            post_scale: 1.0,
            nonlinear: Nonlinear::None,
        };
        if groups == cout && groups > 1 {
            // Depthwise, also with several input channels per output channel.
            let connect = Connect::Unicast { per_output: per_group };
            return self.push_per_batch(kind(connect, Arc::new(weights), bias), source, result);
        }
        if groups == 1 {
            return self.push_per_batch(kind(Connect::Dense, Arc::new(weights), bias), source, result);
        }
        // Groups take the group axis; the batch is unrolled.
        let out_per_group = cout / groups;
        let weights = Arc::new(weights);
        for n in 0..source.groups() {
            let regroup = |v: View4, channels: usize| View4 {
                offset_bytes: v.offset_bytes + n as u64 * v.axes[0].stride_bytes,
                axes: [
                    Axis { extent: groups, stride_bytes: v.axes[1].stride_bytes * channels as u64 },
                    Axis { extent: channels, ..v.axes[1] },
                    v.axes[2],
                ],
                ..v
            };
            let kind = kind(Connect::Dense, weights.clone(), bias.clone());
            self.push(kind, vec![regroup(source, per_group)], vec![[false; 3]], regroup(result, out_per_group), false);
        }
    }

    /// Takes from each stride the largest factor that its field can hold; returns what is left of them.
    fn factor_strides(&self, window: &mut Window) -> [usize; 2] {
        let most = self.max_stride();
        let mut remaining = [1, 1];
        for (stride, rest) in window.stride.iter_mut().zip(&mut remaining) {
            let factor = (1..=most).rev().find(|f| stride.is_multiple_of(*f)).unwrap_or(1);
            *rest = *stride / factor;
            *stride = factor;
        }
        remaining
    }

    pub(super) fn linear(&mut self, op: &Op) -> Result<()> {
        let bias = self.bias_of(op)?;
        let Some(w) = self.constant(op.inputs[1]) else {
            return Err(self.unsupported("a matrix computed at run time", "make the weight a constant"));
        };
        let weights = w.as_ref().into();
        let (from, to) = (self.view(op.inputs[0])?, self.result(op.outputs[0]));
        self.product_views(&from, &to, weights, bias)
    }

    /// `x · y`, by a convolution where `y` is one constant matrix, else with coefficients computed at run time.
    pub(super) fn matmul(&mut self, op: &Op, transpose_x: bool, transpose_y: bool) -> Result<()> {
        let (x, y) = (op.inputs[0], op.inputs[1]);
        let (x_rank, y_rank) = (self.shape(x).len(), self.shape(y).len());
        if x_rank < 2 || y_rank < 2 {
            return Err(self.unsupported("a product with a vector", "reshape the vector to a matrix"));
        }
        let one_matrix = self.shape(y)[..y_rank - 2].iter().all(|&n| n == 1);
        let constant = self.constant(y).filter(|_| one_matrix).cloned();
        let Some(constant) = constant else { return self.runtime_matmul(op, transpose_x, transpose_y) };
        let (rows, columns) = (constant.shape[y_rank - 2], constant.shape[y_rank - 1]);
        let given = Weights::from(constant.as_ref());
        let weights = if transpose_y {
            given
        } else {
            let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
            given.with(turned.map(|i| given.values[i]).collect())
        };
        let (from, to) = (self.view(x)?, self.result(op.outputs[0]));
        if !transpose_x {
            return self.product_views(&from, &to, weights, None);
        }
        // The rows of `x` are channels as they stand.
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

    /// The rows of `x` become output channels whose coefficients lie in memory; the rows of `y` are the channels of the
    /// source. One matrix of the batch at a time.
    fn runtime_matmul(&mut self, op: &Op, transpose_x: bool, transpose_y: bool) -> Result<()> {
        let (mut x, mut y) = (self.view(op.inputs[0])?, self.view(op.inputs[1])?);
        let to = self.result(op.outputs[0]);
        if transpose_x {
            x = self.exchanged(&x, x.lead.len() - 1, "left")?;
        }
        let depth = y.width;
        if transpose_y && self.options.modern() && depth.is_multiple_of(STAGED_INTERLEAVE) {
            return self.runtime_matmul_staged(&x, &y, &to);
        }
        if transpose_y {
            y = self.exchanged(&y, y.lead.len() - 1, "right")?;
        }
        let rank = to.lead.len();
        let batch: Vec<usize> = to.lead[..rank - 1].iter().map(|a| a.extent).collect();
        for index in indices(&batch) {
            let (x, y, to) = (matrix(&x, &index), matrix(&y, &index), matrix(&to, &index));
            let Some(source) = rows_first(&y) else {
                return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
            };
            self.product_of_matrices(&x, source, &to)?;
        }
        Ok(())
    }

    /// As [`Lowerer::runtime_matmul`] for `y[N, K]`: its columns become channels side by side in sets.
    fn runtime_matmul_staged(&mut self, x: &View, y: &View, to: &View) -> Result<()> {
        let rank = to.lead.len();
        let batch: Vec<usize> = to.lead[..rank - 1].iter().map(|a| a.extent).collect();
        for index in indices(&batch) {
            let (x, y, to) = (matrix(x, &index), matrix(y, &index), matrix(to, &index));
            let (columns, depth) = (y.lead[0].extent, y.width);
            let staged = self.scratch("right", &[depth / STAGED_INTERLEAVE, columns * STAGED_INTERLEAVE]);
            let (Some(from), Some(planes)) = (rows_first(&y), channels_first(&staged)) else {
                return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
            };
            let source = View4 {
                axes: [planes.axes[0], Axis { extent: depth, ..planes.axes[1] }, planes.axes[2]],
                width: columns,
                ..planes
            };
            let kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None };
            self.push(kind, vec![from], vec![[false; 3]], source, true);
            if let Some(layer) = self.graph.layers.last_mut() {
                layer.interleave = STAGED_INTERLEAVE;
            }
            let first = self.graph.layers.len();
            self.product_of_matrices(&x, source, &to)?;
            for layer in &mut self.graph.layers[first..] {
                if matches!(layer.kind, Kind::Product { .. }) {
                    layer.source_interleave = STAGED_INTERLEAVE;
                }
            }
        }
        Ok(())
    }

    /// `to[M, N] = x[M, K] · y[K, N]`, in pieces of rows that fill whole engines.
    fn product_of_matrices(&mut self, x: &View, source: View4, to: &View) -> Result<()> {
        let Some(result) = rows_first(to) else {
            return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
        };
        let rows = to.lead[0].extent;
        let mut start = 0;
        while start < rows {
            let (count, lanes) = rows_at_once(rows - start);
            let part = |v: &View| View {
                offset_bytes: v.offset_bytes + start as u64 * v.lead[0].stride_bytes,
                lead: vec![Axis { extent: count, ..v.lead[0] }],
                ..v.clone()
            };
            let coefficients = self.coefficient_planes(&part(x), lanes)?;
            let mut result = result;
            result.offset_bytes += start as u64 * result.axes[1].stride_bytes;
            result.axes[1].extent = count;
            let kind = Kind::Product { lanes };
            self.push(kind, vec![source, coefficients], vec![[false; 3]; 2], result, false);
            start += count;
        }
        Ok(())
    }

    /// Rows of a matrix as coefficient streams. A row on its own is one already; several lanes are interleaved first.
    fn coefficient_planes(&mut self, rows: &View, lanes: usize) -> Result<View4> {
        let Some(source) = rows_first(rows) else {
            return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
        };
        if lanes == 1 {
            return Ok(source);
        }
        let count = rows.lead[0].extent;
        let staged = self.scratch("coefficients", &[count / lanes, rows.width * lanes]);
        let Some(planes) = channels_first(&staged) else { return Ok(source) };
        let result = View4 {
            axes: [planes.axes[0], Axis { extent: count, ..planes.axes[1] }, planes.axes[2]],
            width: rows.width,
            ..planes
        };
        // The planar engine copies.
        let (op, window, affine) = (PoolOp::Sum, Window::UNIT, Affine::UNIT);
        let kind = Kind::Pool { op, window, abs: false, affine, relu: false };
        self.push(kind, vec![source], vec![[false; 3]], result, false);
        if let Some(layer) = self.graph.layers.last_mut() {
            layer.interleave = lanes;
        }
        Ok(planes)
    }

    /// `x[.., K] · w[N, K]ᵀ + b`: columns become channels, a 1x1 convolution follows, its result turns back on the way
    /// out.
    pub(super) fn product_views(
        &mut self,
        from: &View,
        to: &View,
        weights: Weights,
        bias: Option<Vec<f32>>,
    ) -> Result<()> {
        let rank = from.lead.len();
        // All rows of x side by side as columns of the convolution.
        let rows: usize = from.lead.iter().map(|a| a.extent).product();
        let (weights, bias) = (Arc::new(weights), bias.map(Arc::new));
        let flat_from = self.reshaped(from, &[rows, from.width])?;
        let flat_to = self.reshaped(to, &[rows, to.width])?;
        if let (Some(flat_from), Some(flat_to)) = (flat_from, flat_to) {
            let most = self.chip.hal.max_transpose_width.map_or(rows, |w| w as usize).max(1);
            for start in (0..rows).step_by(most) {
                let part = |v: &View| View {
                    offset_bytes: v.offset_bytes + start as u64 * v.lead[0].stride_bytes,
                    lead: vec![Axis { extent: most.min(rows - start), ..v.lead[0] }],
                    ..v.clone()
                };
                self.product_flat(&part(&flat_from), &part(&flat_to), weights.clone(), bias.clone())?;
            }
            return Ok(());
        }
        // Rows that no single stride reaches: the innermost axis at a time.
        let inner = rank.saturating_sub(1);
        let outer: Vec<usize> = from.lead[..inner].iter().map(|a| a.extent).collect();
        for index in indices(&outer) {
            let at = |v: &View| View {
                offset_bytes: v.offset_bytes
                    + index.iter().zip(&v.lead).map(|(&i, a)| i as u64 * a.stride_bytes).sum::<u64>(),
                lead: v.lead[inner..].to_vec(),
                ..v.clone()
            };
            self.product_flat(&at(from), &at(to), weights.clone(), bias.clone())?;
        }
        Ok(())
    }

    fn product_flat(
        &mut self,
        from: &View,
        to: &View,
        weights: Arc<Weights>,
        bias: Option<Arc<Vec<f32>>>,
    ) -> Result<()> {
        if self.options.modern() && folds(from.lead[0].extent, to.width) {
            return self.product_folded(from, to, weights, bias);
        }
        let turned = self.exchanged(from, 0, "turned")?;
        let (Some(source), Some(result)) = (channels_first(&turned), rows_first(to)) else {
            return Err(self.unsupported("more than four axes", "reshape first"));
        };
        self.push(dense(weights, bias), vec![source], vec![[false; 3]], result, true);
        Ok(())
    }

    /// As [`Lowerer::product_flat`], eight rows of `x` side by side and the eights below each other.
    fn product_folded(
        &mut self,
        from: &View,
        to: &View,
        weights: Arc<Weights>,
        bias: Option<Arc<Vec<f32>>>,
    ) -> Result<()> {
        let rows = from.lead[0].extent;
        let square = |v: &View| {
            let one = Axis { extent: 1, stride_bytes: 0 };
            let row = v.lead[0].stride_bytes;
            let axes = [
                one,
                Axis { extent: FOLD, stride_bytes: row },
                Axis { extent: rows / FOLD, stride_bytes: FOLD as u64 * row },
            ];
            View4 { buffer: v.buffer, offset_bytes: v.offset_bytes, axes, width: v.width }
        };
        let turned = self.scratch("turned", &[from.width, rows / FOLD, FOLD]);
        let product = self.scratch("product", &[rows, to.width]);
        let Some(middle) = turned.nchw() else { return Err(self.unsupported("more than four axes", "reshape first")) };
        self.push(copy_kind(), vec![square(from)], vec![[false; 3]], middle, true);
        self.push(dense(weights, bias), vec![middle], vec![[false; 3]], square(&product), true);
        let (Some(rows_from), Some(rows_to)) = (rows_first(&product), rows_first(to)) else {
            return Err(self.unsupported("more than four axes", "reshape first"));
        };
        self.push(copy_kind(), vec![rows_from], vec![[false; 3]], rows_to, false);
        Ok(())
    }
}

/// Whether so many rows are folded into a square: then each accumulator holds more output channels, and those that one
/// pass does not hold take fewer passes.
fn folds(rows: usize, outputs: usize) -> bool {
    rows.is_multiple_of(FOLD) && (2 * FOLD..=FOLD * FOLD).contains(&rows) && outputs > FOLDED_OUTPUTS
}

/// A convolution with constant coefficients `[cout][per_group][kh][kw]`.
pub(super) struct Convolution {
    pub(super) window: Window,
    pub(super) groups: usize,
    pub(super) per_group: usize,
    pub(super) cout: usize,
    pub(super) weights: Weights,
    pub(super) bias: Option<Vec<f32>>,
}

impl Convolution {
    /// The same with rows and columns in each other's place.
    fn exchanged(self) -> Convolution {
        let [kh, kw] = self.window.kernel;
        let turn = |[a, b]: [usize; 2]| [b, a];
        let Window { kernel, stride, pad } = self.window;
        let window = Window { kernel: turn(kernel), stride: turn(stride), pad: turn(pad) };
        let kernels = self.weights.values.chunks_exact((kh * kw).max(1));
        let turned = kernels.flat_map(|k| (0..kw).flat_map(move |c| (0..kh).map(move |r| k[r * kw + c])));
        let weights = self.weights.with(turned.collect());
        Convolution { window, weights, ..self }
    }
}

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

/// Output rows of one product with run-time coefficients, and lanes per engine: as many as fill sixteen engines evenly.
fn rows_at_once(rows: usize) -> (usize, usize) {
    // Interleaves of 2, 4 and 8 are what Apple's programs use.
    let lanes = [8, 4, 2].into_iter().find(|lanes| rows >= ENGINES * lanes).unwrap_or(1);
    (rows.min(ENGINES * lanes), lanes)
}

/// One matrix of a batch; leading axes of extent 1 repeat.
fn matrix(view: &View, index: &[usize]) -> View {
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
fn channels_first(view: &View) -> Option<View4> {
    let one = Axis { extent: 1, stride_bytes: 0 };
    let &[channels] = view.lead.as_slice() else { return None };
    Some(View4 { buffer: view.buffer, offset_bytes: view.offset_bytes, axes: [one, channels, one], width: view.width })
}

/// As [`channels_first`] for a tensor whose rows are the channels: the one row left is the whole matrix.
fn rows_first(view: &View) -> Option<View4> {
    let mut view = channels_first(view)?;
    let channels = view.axes[1];
    view.axes[2].stride_bytes = channels.extent as u64 * channels.stride_bytes;
    Some(view)
}

/// All index tuples below the extents.
fn indices(extents: &[usize]) -> Vec<Vec<usize>> {
    extents
        .iter()
        .fold(vec![vec![]], |all, &n| all.iter().flat_map(|p| (0..n).map(|i| [p.as_slice(), &[i]].concat())).collect())
}

/// Kernels with zeros between their elements; the engine knows no dilation.
fn dilate(weights: Weights, extents: [usize; 2], dilation: [usize; 2]) -> (Weights, [usize; 2]) {
    if dilation == [1, 1] {
        return (weights, extents);
    }
    let wide = [0, 1].map(|i| (extents[i] - 1) * dilation[i] + 1);
    let (taps, wide_taps) = (extents[0] * extents[1], wide[0] * wide[1]);
    let mut out = vec![0.0; weights.values.len() / taps * wide_taps];
    for (kernel, wide_kernel) in weights.values.chunks_exact(taps).zip(out.chunks_exact_mut(wide_taps)) {
        for (i, &w) in kernel.iter().enumerate() {
            let (h, c) = (i / extents[1], i % extents[1]);
            wide_kernel[h * dilation[0] * wide[1] + c * dilation[1]] = w;
        }
    }
    (weights.with(out), wide)
}
