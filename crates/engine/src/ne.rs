//! The neural engine: convolution, unity and bypass, maxima over channels, then scale and non-linearity.

use crate::exact;
use crate::fault::FaultKind;
use crate::lut::Table;
use crate::machine::Machine;
use crate::number;
use crate::number::packed::{Columns, Weights, product as product_exact};
use crate::plan::Constants;
use crate::tensor::{Extents, LIMIT, Tensor};
use crate::unpack::Coefficients;
use anemone_facts::Field::*;
use anemone_facts::code::{kernel, neural, nonlinear};
use anemone_facts::lut::RECORD_BYTES;
use anemone_facts::numerics::Mac;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

/// fp32 elements of unfolded input that one block of a convolution may take (4 MiB: stays in a core's cache share).
const BLOCK_ELEMENTS: usize = 1 << 20;
/// From this many elements on, a table is expanded to one value per fp16 argument.
const EXPAND_FROM: usize = 1 << 16;

/// A task of the neural engine, ready to run.
pub(crate) struct Neural {
    input: Extents,
    output: Extents,
    operation: Operation,
    activation: Activation,
}

enum Operation {
    Convolution(Convolution),
    /// Without coefficients, an output channel that reads all channels adds them up.
    SumOfChannels,
    /// Output channel `c` is the maximum of so many input channels from `c` times that on.
    MaxOverChannels(usize),
    Copy,
}

struct Convolution {
    window: Window,
    /// Input channels that one output channel reads.
    per_output: usize,
    /// Whether an output channel reads channels of its own.
    unicast: bool,
    /// Whether all groups use the first group's coefficients.
    reuse: bool,
    /// By group, one for all under `reuse`; `None` where they are read in every run.
    kernels: Option<Vec<Kernel>>,
}

/// Coefficients of one group as the arithmetic wants them.
enum Kernel {
    Fast(Coefficients),
    /// For each set of outputs that read the same inputs.
    Exact(Vec<Weights>, Option<Vec<f32>>),
}

enum Activation {
    None,
    Relu,
    /// The value of every fp16 argument where the record is known at planning.
    Table(Option<Vec<f32>>),
}

impl Machine<'_> {
    pub(crate) fn prepare_neural(&self, constants: &mut Constants) -> Result<Neural, FaultKind> {
        let input = Extents { g: self.size(NumGroups).max(1), c: self.size(Cin), h: self.size(Hin), w: self.size(Win) };
        let output = Extents { g: input.g, c: self.size(Cout), h: self.size(Hout), w: self.size(Wout) };
        input.elements()?;
        output.elements()?;
        let operation = match (self.get(NeOpMode), self.get(KernelMode)) {
            (neural::MAC, kernel::REAL) => Operation::Convolution(self.prepare_convolution(input, output, constants)?),
            (neural::MAC, kernel::UNITY) if self.get(UnicastEn) == 0 => {
                self.no_window()?;
                self.require(Cout, 1, "without coefficients all channels make one sum")?;
                if (output.h, output.w) != (input.h, input.w) {
                    return Err(
                        self.inconsistent(Wout, "without a kernel the result has the source's rows and columns")
                    );
                }
                Operation::SumOfChannels
            }
            (neural::MAC, kernel::UNITY) | (neural::BYPASS, kernel::UNITY) => {
                self.require(UnicastEn, 1, "without a kernel each channel reads itself")?;
                self.no_window()?;
                if output != input {
                    return Err(self.inconsistent(Cout, "without a kernel the result has the source's extents"));
                }
                Operation::Copy
            }
            (neural::MAX, kernel::UNITY) => {
                let per = self.size(UnicastCin);
                self.no_window()?;
                if per == 0 || per * output.c != input.c || (output.h, output.w) != (input.h, input.w) {
                    return Err(self.inconsistent(UnicastCin, "input channels over output channels expected"));
                }
                Operation::MaxOverChannels(per)
            }
            (value, _) => {
                return Err(FaultKind::NotHonoured {
                    field: NeOpMode,
                    value,
                    reason: "only mac, bypass without a kernel, and max without a kernel are executed",
                });
            }
        };
        let activation = self.prepare_activation(constants)?;
        Ok(Neural { input, output, operation, activation })
    }

    pub(crate) fn neural(&mut self, neural: &Neural) -> Result<(), FaultKind> {
        let x = self.source1(neural.input)?;
        let y = match &neural.operation {
            Operation::Convolution(convolution) => self.convolution(convolution, &x, neural.output)?,
            Operation::SumOfChannels => match self.mac {
                Some(mac) => exact::sum_of_channels(mac, &x, neural.output)?,
                None => sum_of_channels(&x, neural.output)?,
            },
            Operation::MaxOverChannels(per) => max_over_channels(&self.admitted(x), neural.output, *per)?,
            Operation::Copy => self.cropped(x),
        };
        let y = match self.model.planar() {
            Some(rules) => self.finish_exact(rules, y)?,
            None => self.epilogue(&neural.activation, y)?,
        };
        let y = if self.get(NeTranspose) == 1 { y.transposed() } else { y };
        self.store(y)
    }

    fn no_window(&self) -> Result<(), FaultKind> {
        for field in [Kw, Kh, Sx, Sy] {
            self.require(field, 1, "no window without a kernel")?;
        }
        for field in [Px, Py] {
            self.require(field, 0, "no padding without a kernel")?;
        }
        Ok(())
    }

    fn prepare_convolution(
        &self,
        input: Extents,
        output: Extents,
        constants: &mut Constants,
    ) -> Result<Convolution, FaultKind> {
        let window = self.window(input, output)?;
        let unicast = self.get(UnicastEn) == 1;
        let per_output = if unicast { self.size(UnicastCin).max(1) } else { input.c };
        if unicast && per_output * output.c != input.c {
            return Err(self.inconsistent(UnicastCin, "input channels over output channels expected"));
        }
        let reuse = self.get(GroupKernelReuse) == 1;
        let mut convolution = Convolution { window, per_output, unicast, reuse, kernels: None };
        let unfolded_row = convolution.taps() as u64 * output.w as u64;
        if unfolded_row > LIMIT {
            return Err(FaultKind::TooLarge { elements: unfolded_row, limit: LIMIT });
        }
        let groups = if reuse { 1 } else { input.g };
        let coefficients = (groups as u64).saturating_mul(output.c as u64).saturating_mul(convolution.taps() as u64);
        if constants.holds(self.bar(KBase0, Kbe0)?) && constants.keep(coefficients as usize) {
            let kernels: Result<_, _> = (0..groups).map(|g| self.kernel(&convolution, g, output.c)).collect();
            convolution.kernels = Some(kernels?);
        }
        Ok(convolution)
    }

    /// Coefficients of one group, packed.
    fn kernel(&self, convolution: &Convolution, g: usize, cout: usize) -> Result<Kernel, FaultKind> {
        let taps = convolution.taps();
        let coefficients = self.coefficients(g, cout, taps)?;
        let Some(mac) = self.mac else { return Ok(Kernel::Fast(coefficients)) };
        let rows = if convolution.unicast { 1 } else { cout };
        let sets = coefficients.weights.chunks_exact((rows * taps).max(1));
        Ok(Kernel::Exact(sets.map(|w| Weights::pack(mac, rows, taps, w)).collect(), coefficients.biases))
    }

    fn convolution(&self, convolution: &Convolution, x: &Tensor, output: Extents) -> Result<Tensor, FaultKind> {
        let (window, unicast, per_output) = (&convolution.window, convolution.unicast, convolution.per_output);
        let mut y = Tensor::zeros(output)?;
        let (in_group, out_group) = (x.ext.c * x.ext.plane(), output.c * output.plane());
        let mut held: Option<Kernel> = None;
        for g in 0..x.ext.g {
            let kernel = match &convolution.kernels {
                Some(kernels) => &kernels[if convolution.reuse { 0 } else { g }],
                None => match held {
                    Some(ref kernel) if convolution.reuse => kernel,
                    _ => held.insert(self.kernel(convolution, g, output.c)?),
                },
            };
            let from = &x.data[g * in_group..][..in_group];
            let to = &mut y.data[g * out_group..][..out_group];
            match (kernel, self.mac) {
                (Kernel::Exact(weights, biases), Some(mac)) => {
                    let (cin, cout) = if unicast { (per_output, 1) } else { (x.ext.c, output.c) };
                    window.exact(mac, from, to, weights, biases.as_deref(), cin, cout);
                }
                (Kernel::Fast(kernel), _) => {
                    if unicast {
                        window.depthwise(from, to, kernel, per_output);
                    } else {
                        window.dense(from, to, kernel, x.ext.c, output.c);
                    }
                    if let Some(biases) = &kernel.biases {
                        for (plane, &bias) in to.chunks_exact_mut(output.plane().max(1)).zip(biases) {
                            plane.iter_mut().for_each(|v| *v += bias);
                        }
                    }
                }
                (Kernel::Exact(..), None) => {}
            }
        }
        Ok(y)
    }

    fn window(&self, from: Extents, to: Extents) -> Result<Window, FaultKind> {
        let window = Window {
            k: [self.size(Kh), self.size(Kw)],
            s: [self.size(Sy).max(1), self.size(Sx).max(1)],
            p: [self.size(Py), self.size(Px)],
            from: [from.h, from.w],
            to: [to.h, to.w],
        };
        for (axis, (kernel, out)) in [(Kh, Hout), (Kw, Wout)].into_iter().enumerate() {
            if window.k[axis] == 0 {
                return Err(self.inconsistent(kernel, "a kernel has at least one element"));
            }
            if window.to[axis] == 0 || (window.to[axis] - 1) * window.s[axis] >= window.from[axis] + window.p[axis] {
                return Err(self.inconsistent(out, "the last window lies outside the source"));
            }
        }
        Ok(window)
    }

    fn prepare_activation(&self, constants: &Constants) -> Result<Activation, FaultKind> {
        if self.half(AccBias) != 0.0 && self.get(NeOpMode) == neural::BYPASS {
            return Err(self.inconsistent(AccBias, "a bypass adds nothing"));
        }
        match self.get(NonlinearMode) {
            nonlinear::NONE => Ok(Activation::None),
            nonlinear::RELU => Ok(Activation::Relu),
            value @ nonlinear::LUT => {
                if self.get(KernelMode) == kernel::REAL && self.get(NeOpMode) == neural::MAC {
                    return Err(FaultKind::NotHonoured {
                        field: NonlinearMode,
                        value,
                        reason: "a table behind coefficients in one stream is not executed",
                    });
                }
                let known = constants.holds(self.bar(KBase0, Kbe0)?);
                Ok(Activation::Table(if known { Some(self.table()?.expand()) } else { None }))
            }
            value => {
                Err(FaultKind::NotHonoured { field: NonlinearMode, value, reason: "none, relu and lut are executed" })
            }
        }
    }

    fn table(&self) -> Result<Table, FaultKind> {
        Table::read(self.stream(0, 0, RECORD_BYTES as u64)?)
    }

    /// `NL((y + AccBias) * PostScale)`. The sum and the product stay in fp32 unless a table is indexed by them.
    fn epilogue(&self, activation: &Activation, mut y: Tensor) -> Result<Tensor, FaultKind> {
        let (bias, scale) = (self.half(AccBias), self.half(PostScale));
        let affine = move |v: f32| (v + bias) * scale;
        let look_up = |y: &mut Tensor, values: &[f32]| {
            each(y, |v| values[number::round(affine(v)).to_bits() as usize]);
        };
        match activation {
            Activation::None if bias == 0.0 && scale == 1.0 => {}
            Activation::None => each(&mut y, affine),
            Activation::Relu => each(&mut y, move |v| affine(v).max(0.0)),
            Activation::Table(Some(values)) => look_up(&mut y, values),
            Activation::Table(None) => {
                let table = self.table()?;
                if y.data.len() >= EXPAND_FROM {
                    look_up(&mut y, &table.expand());
                } else {
                    each(&mut y, |v| table.eval(affine(v)));
                }
            }
        }
        Ok(y)
    }
}

/// Output channel `c` is the maximum of input channels `c * per ..`.
fn max_over_channels(x: &Tensor, output: Extents, per: usize) -> Result<Tensor, FaultKind> {
    let mut y = Tensor::zeros(output)?;
    let n = x.ext.plane().max(1);
    y.data.par_chunks_mut(n).zip(x.data.par_chunks(n * per)).for_each(|(y, x)| {
        y.copy_from_slice(&x[..n]);
        for plane in x.chunks_exact(n).skip(1) {
            y.iter_mut().zip(plane).for_each(|(y, &x)| *y = y.max(x));
        }
    });
    Ok(y)
}

fn sum_of_channels(x: &Tensor, output: Extents) -> Result<Tensor, FaultKind> {
    let mut y = Tensor::zeros(output)?;
    let n = x.ext.plane().max(1);
    y.data.par_chunks_mut(n).zip(x.data.par_chunks(n * x.ext.c.max(1))).for_each(|(y, x)| {
        x.chunks_exact(n).for_each(|plane| y.iter_mut().zip(plane).for_each(|(y, &x)| *y += x));
    });
    Ok(y)
}

impl Convolution {
    /// Coefficients of one output channel.
    fn taps(&self) -> usize {
        self.per_output * self.window.k[0] * self.window.k[1]
    }
}

fn each(y: &mut Tensor, f: impl Fn(f32) -> f32 + Sync) {
    y.data.par_iter_mut().with_min_len(1 << 14).for_each(|v| *v = f(*v));
}

/// A convolution's geometry; rows first.
struct Window {
    k: [usize; 2],
    s: [usize; 2],
    p: [usize; 2],
    from: [usize; 2],
    to: [usize; 2],
}

impl Window {
    fn is_pointwise(&self) -> bool {
        self.k == [1, 1] && self.s == [1, 1] && self.p == [0, 0] && self.from == self.to
    }

    /// Output columns whose input column for kernel column `kw` lies inside the source.
    fn columns(&self, kw: usize) -> std::ops::Range<usize> {
        let (s, p, n) = (self.s[1], self.p[1], self.from[1]);
        let first = p.saturating_sub(kw).div_ceil(s);
        let last = (n + p).saturating_sub(kw).div_ceil(s).min(self.to[1]);
        first.min(last)..last
    }

    /// Input row of kernel row `kh` for output row `oh`.
    fn row(&self, oh: usize, kh: usize) -> Option<usize> {
        (oh * self.s[0] + kh).checked_sub(self.p[0]).filter(|&h| h < self.from[0])
    }

    /// Each output channel reads `per` channels of its own.
    fn depthwise(&self, from: &[f32], to: &mut [f32], kernel: &Coefficients, per: usize) {
        let (in_plane, out_plane) = (self.from[0] * self.from[1], (self.to[0] * self.to[1]).max(1));
        let taps = per * self.k[0] * self.k[1];
        to.par_chunks_mut(out_plane).enumerate().for_each(|(c, to)| {
            let mut weights = kernel.weights[c * taps..][..taps].iter();
            for i in 0..per {
                let plane = &from[(c * per + i) * in_plane..][..in_plane];
                for kh in 0..self.k[0] {
                    for kw in 0..self.k[1] {
                        let Some(&weight) = weights.next() else { return };
                        self.accumulate(plane, to, kh, kw, weight);
                    }
                }
            }
        });
    }

    fn accumulate(&self, plane: &[f32], to: &mut [f32], kh: usize, kw: usize, weight: f32) {
        let columns = self.columns(kw);
        if columns.is_empty() {
            return;
        }
        let first = columns.start * self.s[1] + kw - self.p[1];
        for (oh, row) in to.chunks_exact_mut(self.to[1]).enumerate() {
            let Some(h) = self.row(oh, kh) else { continue };
            let source = &plane[h * self.from[1] + first..(h + 1) * self.from[1]];
            let row = &mut row[columns.clone()];
            if self.s[1] == 1 {
                row.iter_mut().zip(source).for_each(|(y, &x)| *y += weight * x);
            } else {
                row.iter_mut().zip(source.iter().step_by(self.s[1])).for_each(|(y, &x)| *y += weight * x);
            }
        }
    }

    /// Every output channel reads every input channel: unfold blocks of output rows, then a matrix product.
    fn dense(&self, from: &[f32], to: &mut [f32], kernel: &Coefficients, cin: usize, cout: usize) {
        let taps = cin * self.k[0] * self.k[1];
        let columns = self.to[0] * self.to[1];
        if taps == 0 || cout == 0 || columns == 0 {
            return;
        }
        let weights = MatRef::from_row_major_slice(&kernel.weights, cout, taps);
        if self.is_pointwise() {
            let from = MatRef::from_row_major_slice(from, cin, columns);
            product(MatMut::from_row_major_slice_mut(to, cout, columns), weights, from);
            return;
        }
        let rows = (BLOCK_ELEMENTS / (taps * self.to[1])).clamp(1, self.to[0]);
        let mut unfolded = vec![0.0; taps * rows * self.to[1]];
        for first in (0..self.to[0]).step_by(rows) {
            let n = rows.min(self.to[0] - first) * self.to[1];
            self.unfold(from, &mut unfolded[..taps * n], first, n);
            let unfolded = MatRef::from_row_major_slice(&unfolded[..taps * n], taps, n);
            let block = MatMut::from_row_major_slice_mut(to, cout, columns).subcols_mut(first * self.to[1], n);
            product(block, weights, unfolded);
        }
    }

    /// As the device's array sums, bias included: `cout` outputs at a time from the `cin` channels that they read.
    fn exact(
        &self,
        mac: &Mac,
        from: &[f32],
        to: &mut [f32],
        weights: &[Weights],
        biases: Option<&[f32]>,
        cin: usize,
        cout: usize,
    ) {
        let taps = cin * self.k[0] * self.k[1];
        let (in_set, columns) = (cin * self.from[0] * self.from[1], self.to[0] * self.to[1]);
        if taps == 0 || columns == 0 {
            return;
        }
        let rows = (BLOCK_ELEMENTS / (taps * self.to[1])).clamp(1, self.to[0]);
        let mut unfolded = vec![0.0; taps * rows * self.to[1]];
        let mut block = vec![0.0; cout * rows * self.to[1]];
        for (set, (to, weights)) in to.chunks_exact_mut((cout * columns).max(1)).zip(weights).enumerate() {
            let bias = biases.map_or(&[][..], |b| &b[set * cout..][..cout]);
            // Dense outputs all read the whole group; a unicast output reads channels of its own.
            let from = &from[(set * in_set).min(from.len() - in_set)..][..in_set];
            for first in (0..self.to[0]).step_by(rows) {
                let n = rows.min(self.to[0] - first) * self.to[1];
                self.unfold(from, &mut unfolded[..taps * n], first, n);
                let block = &mut block[..cout * n];
                product_exact(weights, &Columns::pack(mac, taps, n, &unfolded[..taps * n]), bias, block);
                for (to, row) in to.chunks_exact_mut(columns).zip(block.chunks_exact(n)) {
                    to[first * self.to[1]..][..n].copy_from_slice(row);
                }
            }
        }
    }

    /// im2col: row `(c, kh, kw)` holds the input element under that coefficient for `n` outputs from row `first` on.
    fn unfold(&self, from: &[f32], to: &mut [f32], first: usize, n: usize) {
        let plane = self.from[0] * self.from[1];
        let window = self.k[0] * self.k[1];
        to.par_chunks_mut(n).enumerate().for_each(|(tap, to)| {
            let (c, kh, kw) = (tap / window, tap % window / self.k[1], tap % self.k[1]);
            let plane = &from[c * plane..][..plane];
            let columns = self.columns(kw);
            for (i, row) in to.chunks_exact_mut(self.to[1]).enumerate() {
                let source = self.row(first + i, kh).filter(|_| !columns.is_empty());
                let Some(h) = source else {
                    row.fill(0.0);
                    continue;
                };
                row[..columns.start].fill(0.0);
                row[columns.end..].fill(0.0);
                let at = columns.start * self.s[1] + kw - self.p[1];
                let source = &plane[h * self.from[1] + at..(h + 1) * self.from[1]];
                let row = &mut row[columns.clone()];
                if self.s[1] == 1 {
                    row.copy_from_slice(&source[..row.len()]);
                } else {
                    row.iter_mut().zip(source.iter().step_by(self.s[1])).for_each(|(y, &x)| *y = x);
                }
            }
        });
    }
}

/// `to = a * b` in fp32.
fn product(to: MatMut<f32>, a: MatRef<f32>, b: MatRef<f32>) {
    // Small products are not worth waking the other cores.
    let work = a.nrows() * a.ncols() * b.ncols();
    let par = if work < 1 << 18 { Par::Seq } else { Par::rayon(0) };
    matmul(to, Accum::Replace, a, b, 1.0, par);
}
