//! The neural engine: convolution, copy, maximum and sum over channels, followed by bias, scale and activation.

mod channel_scale;
mod channels;
pub(crate) mod flat;
mod in_place;
pub(crate) mod select;

use channels::{max_over_channels, product_of_channels, sum_of_channels};
pub(crate) use in_place::Beside;
pub(crate) use select::Kernel;

use crate::constants::{Constants, PackingKey};
use crate::direct::{Operands, Stored};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::numerics::Parameters;
use crate::packed::Packed;
use anemone_conv::exact::{self, Exact, Groups, Sets};
use anemone_conv::{Coefficients, Im2col, Kernels, Packing};
use anemone_facts::Field::*;
use anemone_facts::code::{kernel, neural};
use anemone_kernels::cost;
use anemone_kernels::epilogue::{Activation, Epilogue, ExactEpilogue};
use anemone_kernels::exact::Weights;
use anemone_kernels::filter::Values;
use anemone_kernels::num;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::tensor::{Extents, LIMIT, Tensor};
use anemone_kernels::view::{TensorView, TensorViewMut, dense};
use anemone_kernels::window::Window;
use anemone_kernels::workers::chunks;
use anemone_program::Program;
use half::f16;
use std::sync::Arc;

/// A planned task of the neural engine.
pub(crate) struct Neural {
    pub(crate) input: Extents,
    pub(crate) output: Extents,
    pub(crate) operation: Operation,
    pub(crate) activation: Activation,
    /// Epilogue of the exact models, if it is known at planning.
    pub(crate) exactly: Option<ExactEpilogue>,
    /// Operands of a memory-to-memory task; the error is the reason why the task goes through tensors.
    pub(crate) operands: Result<Operands, &'static str>,
}

pub(crate) enum Operation {
    Convolution(Box<Convolution>),
    /// Sum over input channels, without coefficients.
    SumOfChannels,
    /// Maximum over this many input channels for each output channel.
    MaxOverChannels(usize),
    /// Product of two input channels for each output channel.
    ProductOfChannels,
    Copy,
}

pub(crate) struct Convolution {
    pub(crate) window: Window,
    pub(crate) staging: Im2col,
    /// Input channels per output channel, times the depth planes of the kernel.
    pub(crate) per_output: usize,
    /// True for depthwise: every output channel reads input channels of its own.
    pub(crate) unicast: bool,
    /// True if all groups use the first group's coefficients.
    pub(crate) reuse: bool,
    /// Packed coefficients; `None` if every run packs them.
    pub(crate) coefficients: Option<Packed>,
    /// Kernel selected at planning; `None` if every run packs the coefficients.
    pub(crate) kernel: Option<Kernel>,
    /// Reason why every run packs the coefficients.
    pub(crate) unknown: &'static str,
    /// True if planes of one column are executed as one row; `staging` then describes these rows (see `flat.rs`).
    pub(crate) sequence: bool,
    /// True if coefficients are read from a region other than the kernel section: results of other tasks, or inputs.
    pub(crate) from_memory: bool,
}

impl Convolution {
    /// Coefficients per output channel.
    pub(crate) fn taps(&self) -> usize {
        self.per_output * self.window.elements()
    }

    /// Coefficients of one group, packed for a fixed-point accumulator; a depthwise convolution has a set per output channel.
    pub(crate) fn sets(&self, mac: &'static AccumulatorSpec, weights: &Values, cout: usize) -> Vec<Weights> {
        let taps = self.taps();
        if !self.unicast {
            return vec![Weights::of(mac, cout, taps, weights)];
        }
        let channels = (0..weights.len()).step_by(taps.max(1));
        channels.map(|at| Weights::of(mac, 1, taps, &weights.slice(at..at + taps))).collect()
    }
}

impl Neural {
    /// Kind of computation in a few words, for listings.
    pub(crate) fn name(&self) -> &'static str {
        match &self.operation {
            Operation::Convolution(c) if c.coefficients.is_none() && c.from_memory => "product of two operands",
            Operation::Convolution(c) if c.unicast => "depthwise convolution",
            Operation::Convolution(c) if c.staging.is_gemv() => "matrix by vector",
            Operation::Convolution(c) if c.window.elements() == 1 => "pointwise convolution",
            Operation::Convolution(_) => "convolution",
            Operation::SumOfChannels => "sum of channels",
            Operation::MaxOverChannels(_) => "maximum over channels",
            Operation::ProductOfChannels => "product of channels",
            Operation::Copy if matches!(self.activation, Activation::Table(_) | Activation::Unread) => "table",
            Operation::Copy => "copy",
        }
    }

    /// Returns true if every run reads coefficients or a table from memory.
    pub(crate) fn reads_streams(&self) -> bool {
        let unread = matches!(self.activation, Activation::Unread);
        unread || matches!(&self.operation, Operation::Convolution(c) if c.coefficients.is_none())
    }
}

impl Machine<'_> {
    pub(crate) fn prepare_neural(&self, constants: &mut Constants) -> Result<Neural, FaultKind> {
        let input = Extents { g: self.size(NumGroups).max(1), c: self.size(Cin), h: self.size(Hin), w: self.size(Win) };
        let output = Extents { g: input.g, c: self.size(Cout), h: self.size(Hout), w: self.size(Wout) };
        input.elements()?;
        output.elements()?;
        self.check_extra_streams()?;
        let operation = match (self.get(NeOpMode), self.get(KernelMode)) {
            (neural::MAC, kernel::REAL) => {
                Operation::Convolution(Box::new(self.prepare_convolution(input, output, constants)?))
            }
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
            (neural::MULTIPLY, kernel::UNITY) => {
                self.no_window()?;
                self.require(UnicastEn, 1, "each result multiplies channels of its own")?;
                self.require(UnicastCin, 2, "pairs of channels are multiplied")?;
                if 2 * output.c != input.c || (output.h, output.w) != (input.h, input.w) {
                    return Err(self.inconsistent(UnicastCin, "input channels over output channels expected"));
                }
                Operation::ProductOfChannels
            }
            (value, _) => {
                return Err(FaultKind::NotHonoured {
                    field: NeOpMode,
                    value,
                    reason: "only mac, and bypass, max and multiply without a kernel are executed",
                });
            }
        };
        let multiplies = matches!(operation, Operation::ProductOfChannels);
        self.require(ElemMultMode, u32::from(multiplies), "set where channels are multiplied, and only there")?;
        let activation = self.prepare_activation(constants)?;
        let exactly = match operation {
            // The scales of channels come between the sum and the epilogue.
            Operation::Convolution(_) if self.get(PostScaleMode) == 1 => None,
            Operation::Convolution(_) => self.prepare_exactly(constants, true)?,
            Operation::Copy => self.prepare_exactly(constants, false)?,
            _ => None,
        };
        let mut neural = Neural { input, output, operation, activation, exactly, operands: Err("") };
        let stored = Stored { input, second: None, output: self.stored_result(&neural) };
        neural.operands = self.computes_in_place(&neural).and_then(|()| self.operands(stored));
        Ok(neural)
    }

    /// Executes the task by the path that was selected at planning.
    pub(crate) fn neural(&mut self, neural: &Neural) -> Result<(), FaultKind> {
        match &neural.operands {
            Ok(operands) => self.compute_in_place(neural, operands, Beside::default()),
            Err(_) => self.compute_tensors(neural),
        }
    }

    /// Executes the task through tensors, for every form of operand and window.
    fn compute_tensors(&mut self, neural: &Neural) -> Result<(), FaultKind> {
        let x = match self.depth_window() {
            Some(window) => self.source_planes(&window, neural.input)?,
            None => self.source1(neural.input)?,
        };
        let y = match &neural.operation {
            Operation::Convolution(convolution) => self.convolution(convolution, neural, x)?,
            Operation::SumOfChannels => {
                let sums = match self.mac {
                    Some(mac) => crate::exact::sum_of_channels(mac, &x, neural.output)?,
                    None => sum_of_channels(&x, neural.output)?,
                };
                self.finished(neural, sums)?
            }
            Operation::MaxOverChannels(per) => {
                let largest = max_over_channels(&self.admitted(x), neural.output, *per)?;
                self.finished(neural, largest)?
            }
            Operation::ProductOfChannels => {
                let products = product_of_channels(&self.admitted(x), neural.output)?;
                self.finished(neural, products)?
            }
            Operation::Copy => self.finished(neural, self.cropped(x))?,
        };
        let y = if self.get(NeTranspose) == 1 { y.transposed() } else { y };
        self.store(y)
    }

    /// Activation of the task; a table that was not read at planning is read here.
    pub(super) fn activation_of(&self, neural: &Neural) -> Result<Activation, FaultKind> {
        match &neural.activation {
            Activation::Unread => self.activation(),
            known => Ok(known.clone()),
        }
    }

    /// Applies the task's epilogue: bias, scale, activation and rounding.
    pub(crate) fn finished(&self, neural: &Neural, mut y: Tensor) -> Result<Tensor, FaultKind> {
        if let Some(rules) = self.model.rounding() {
            let Some(exactly) = &neural.exactly else { return self.finish_exact(rules, y) };
            exactly.tensor(self.workers, &mut y);
            return Ok(y);
        }
        let activation = self.activation_of(neural)?;
        let finish = Epilogue { bias: self.added(), scale: self.factor(), activation: &activation };
        let nanos = cost::one_by_one(y.data.len());
        chunks(&mut y.data, 1 << 12, nanos, |_, row| {
            let mut rounded = [f16::ZERO; 1 << 12];
            let rounded = &mut rounded[..row.len()];
            finish.row(0.0, row, rounded);
            num::widen_row(rounded, row);
        });
        Ok(y)
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
        if per_output == 0 {
            return Err(self.inconsistent(Cin, "a convolution reads at least one channel"));
        }
        // The depth planes of a kernel are treated as channels: see `volume.rs`.
        let per_output = per_output * self.kernel_planes();
        let reuse = self.get(GroupKernelReuse) == 1;
        let taps = per_output as u64 * (window.k[0] * window.k[1]) as u64;
        let unfolded_row = taps * output.w as u64;
        if unfolded_row > LIMIT {
            return Err(FaultKind::TooLarge { elements: unfolded_row, limit: LIMIT });
        }
        let threads = self.workers.threads_for(self.fields.nanos(self.mac.is_some()));
        // Channel scales have kernels for both directions.
        let sequence = self.get(PostScaleMode) == 0 && flat::is_sequence(&window);
        let bar = self.bar(KBase0, Kbe0)?;
        let from_memory = bar != Program::KERNEL_BAR;
        let (window, planned) =
            if sequence { (flat::along_columns(&window), flat::one_row(output)) } else { (window, output) };
        let staging = Im2col::new(window.clone(), per_output, unicast, planned, threads)?;
        let (coefficients, unknown) = (None, constants.unknown(bar));
        let mut convolution = Convolution {
            window,
            staging,
            per_output,
            unicast,
            reuse,
            coefficients,
            kernel: None,
            unknown,
            sequence,
            from_memory,
        };
        if constants.holds(bar) {
            let key = self.packing_key(&convolution, input.g, output.c);
            let mut packed = constants.packed(key, || self.pack(&convolution, input.g, output.c))?;
            if let Some(Packed::Fast(kernels)) = &mut packed {
                kernels.read_from(&convolution.staging);
            }
            (convolution.coefficients, convolution.unknown) = (packed, constants.full());
        }
        Ok(convolution)
    }

    /// Packs the task's coefficients for this run; `None` if they were packed at planning.
    pub(super) fn unless_kept(&self, convolution: &Convolution, neural: &Neural) -> Result<Option<Packed>, FaultKind> {
        match convolution.coefficients {
            Some(_) => Ok(None),
            None => self.pack(convolution, neural.input.g, neural.output.c).map(Some),
        }
    }

    /// Cache key of [`Machine::pack`]: everything its result depends on, except tap offsets in the staged source.
    fn packing_key(&self, convolution: &Convolution, groups: usize, cout: usize) -> PackingKey {
        let packing = Packing::for_staging(&convolution.staging, self.stores_transposed(convolution), cout);
        let form = [groups, cout, convolution.taps(), packing.height(), usize::from(convolution.unicast)];
        let mut words = self.stream_words();
        words.extend(form.iter().map(|&n| n as u32));
        PackingKey(words)
    }

    /// Returns true if the kernel stores channels and columns exchanged; a sequence has a single column.
    fn stores_transposed(&self, convolution: &Convolution) -> bool {
        self.get(NeTranspose) == 1 && !convolution.sequence
    }

    fn pack(&self, convolution: &Convolution, groups: usize, cout: usize) -> Result<Packed, FaultKind> {
        let taps = convolution.taps();
        let groups = if convolution.reuse { groups.min(1) } else { groups };
        if self.get(PostScaleMode) == 1 {
            return Ok(Packed::Scaled(Arc::new(self.pack_scaled(convolution, groups, cout)?)));
        }
        let form = self.form(cout, taps)?;
        if convolution.staging.is_pointwise() && !convolution.unicast {
            let rows = self.rows_of_groups(&form, groups, cout)?;
            if let (Some(rows), Some(mac)) = (&rows, self.mac) {
                let mut sets = vec![Sets::default(); groups];
                chunks(&mut sets, 1, cost::one_by_one(groups * cout * taps), |g, sets| {
                    let (rows, biases) = &rows[g];
                    for (sets, of_channels) in sets {
                        sets.push(Weights::of_rows(mac, rows, taps));
                        of_channels.clone_from(biases);
                    }
                });
                return Ok(Packed::Exact(Arc::new(sets)));
            }
            if let Some(rows) = rows {
                let transposed = self.stores_transposed(convolution);
                return Ok(Packed::Fast(Kernels::pack_rows(&convolution.staging, transposed, cout, rows)));
            }
        }
        // Groups are unpacked in parallel, because a product of two operands does it at every run.
        let mut all: Vec<Option<Result<Coefficients, FaultKind>>> = (0..groups).map(|_| None).collect();
        chunks(&mut all, 1, cost::one_by_one(groups * cout * taps), |g, of| {
            for of in of.iter_mut() {
                *of = Some(self.coefficients_of(&form, g).map(|(of, _)| of));
            }
        });
        let coefficients = all.into_iter().flatten();
        let Some(mac) = self.mac else {
            let coefficients = coefficients.collect::<Result<_, _>>()?;
            let transposed = self.stores_transposed(convolution);
            return Ok(Packed::Fast(Kernels::pack(&convolution.staging, transposed, cout, coefficients)));
        };
        let exact = coefficients.map(|group| group.map(|g| (convolution.sets(mac, &g.weights, cout), g.biases)));
        Ok(Packed::Exact(Arc::new(exact.collect::<Result<_, FaultKind>>()?)))
    }

    fn convolution(&self, convolution: &Convolution, neural: &Neural, x: Tensor) -> Result<Tensor, FaultKind> {
        let output = neural.output;
        let kept = convolution.coefficients.as_ref().filter(|packed| !matches!(packed, Packed::ExactBlocks(_)));
        let read = match kept {
            Some(_) => None,
            None => Some(self.pack(convolution, neural.input.g, neural.output.c)?),
        };
        let Some(packed) = kept.or(read.as_ref()) else { return Ok(Tensor::zeros(output)?) };
        let mut from = vec![f16::ZERO; x.data.len()];
        num::round_row(&x.data, &mut from);
        let source = TensorView { data: &from, strides: dense(x.ext) };
        let kernels = match packed {
            Packed::Scaled(scaled) => return self.convolve_scaled(scaled, convolution, neural, source),
            Packed::Exact(groups) => {
                return self.finished(neural, self.exact_sums(groups, convolution, source, [x.ext, output])?);
            }
            Packed::Fast(kernels) | Packed::ExactBlocks(kernels) => kernels,
        };
        let activation = self.activation_of(neural)?;
        let finish = Epilogue { bias: self.added(), scale: self.factor(), activation: &activation };
        let mut to = vec![f16::ZERO; output.elements()?];
        let target = TensorViewMut { data: &mut to, strides: dense(output), transposed: false };
        convolution.convolve_fast(self.workers, kernels, &finish, source, None, target, [x.ext, output]);
        let mut y = Tensor::zeros(output)?;
        num::widen_row(&to, &mut y.data);
        Ok(y)
    }

    /// Sums of the fixed-point accumulator as fp16 values, before the epilogue.
    pub(crate) fn exact_sums(
        &self,
        groups: &[Sets],
        convolution: &Convolution,
        source: TensorView,
        [input, output]: [Extents; 2],
    ) -> Result<Tensor, FaultKind> {
        let mut y = Tensor::zeros(output)?;
        let Some(mac) = self.mac else { return Ok(y) };
        let mut to = vec![f16::ZERO; y.data.len()];
        let target = TensorViewMut { data: &mut to, strides: dense(output), transposed: false };
        let (channels, unicast, exactly) = (convolution.per_output, convolution.unicast, &ExactEpilogue::Admit);
        let (window, staging) = (&convolution.window, &convolution.staging);
        let groups = Groups::Sets(groups);
        let of = Exact { mac, window, channels, unicast, staging, groups, exactly };
        let by = |from: TensorView, to: TensorViewMut, ext| exact::convolve(self.workers, &of, from, to, ext);
        match convolution.sequence {
            true => flat::convolve_sequence(self.workers, by, source, target, [input, output]),
            false => by(source, target, output),
        }
        num::widen_row(&to, &mut y.data);
        Ok(y)
    }

    pub(crate) fn window(&self, from: Extents, to: Extents) -> Result<Window, FaultKind> {
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
}
