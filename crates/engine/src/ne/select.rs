//! Kernel selection for tasks of the neural engine, with the reasons for rejections.

use super::{Convolution, Neural, Operation, flat};
use crate::machine::Machine;
use crate::numerics::Parameters;
use crate::packed::Packed;
use anemone_conv::exact::{self, Exact, Groups};
use anemone_conv::registry::{Query, Row, select};
use anemone_conv::{Im2col, Kernels, convolve, convolve_by};
use anemone_facts::Field::*;
use anemone_kernels::copy::NanRule;
use anemone_kernels::epilogue::{Activation, Epilogue, ExactEpilogue};
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::registry::Rejected;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut};
use anemone_kernels::workers::Workers;
use half::f16;

/// An fp32 convolution with its kernel.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    /// The staging buffer.
    pub staging: &'a Im2col,
    /// Packed coefficients.
    pub kernels: &'a Kernels,
    /// `None` if every run packs the coefficients: the kernel is then selected for the packed layout.
    pub row: Option<&'static Row>,
    /// Factor of each channel of the source, for a kernel that scales it.
    pub factors: Option<&'a [f16]>,
}

impl Planned<'_> {
    /// Executes the convolution and its epilogue; `ext` are the extents of the result before it is transposed.
    pub fn convolve(self, workers: &Workers, finish: &Epilogue, from: TensorView, to: TensorViewMut, ext: Extents) {
        match self.row {
            Some(row) => convolve_by(row, workers, self.staging, self.kernels, finish, from, self.factors, to, ext),
            None => convolve(workers, self.staging, self.kernels, finish, from, to, ext),
        }
    }
}

/// Kernel of a convolution.
#[derive(Clone, Copy)]
pub(crate) enum Kernel {
    /// Sums in fp32.
    Fp32(&'static Row),
    /// Sums of a fixed-point accumulator.
    Array(&'static exact::registry::Row),
}

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Kernel::Fp32(row) => row.name,
            Kernel::Array(row) => row.name,
        }
    }
}

/// Text of a predicted time.
fn predicted(nanos: usize) -> String {
    format!("{:.1} us predicted on one thread", nanos as f64 / 1000.0)
}

impl Convolution {
    /// The convolution with a fixed-point accumulator; `None` without one, or without a planned epilogue.
    pub(super) fn exact<'a>(
        &'a self,
        mac: Option<&'static AccumulatorSpec>,
        exactly: Option<&'a ExactEpilogue>,
        groups: Groups<'a>,
    ) -> Option<Exact<'a>> {
        let (window, channels, unicast, staging) = (&self.window, self.per_output, self.unicast, &self.staging);
        Some(Exact { mac: mac?, window, channels, unicast, staging, groups, exactly: exactly? })
    }

    /// Executes the convolution with a fixed-point accumulator by its kernel; the extents are those of source and result, before it is
    /// transposed.
    pub(super) fn convolve_exact(
        &self,
        workers: &Workers,
        of: &Exact,
        from: TensorView,
        to: TensorViewMut,
        [input, ext]: [Extents; 2],
    ) {
        let by = |from: TensorView, to: TensorViewMut, ext| match self.kernel {
            Some(Kernel::Array(row)) => exact::convolve_by(row, workers, of, from, to, ext),
            _ => exact::convolve(workers, of, from, to, ext),
        };
        match self.sequence {
            true => flat::convolve_sequence(workers, by, from, to, [input, ext]),
            false => by(from, to, ext),
        }
    }

    /// The convolution in fp32; `extents` are those of source and result, before it is transposed.
    pub(super) fn convolve_fast(
        &self,
        workers: &Workers,
        kernels: &Kernels,
        finish: &Epilogue,
        from: TensorView,
        factors: Option<&[f16]>,
        to: TensorViewMut,
        extents: [Extents; 2],
    ) {
        let of = Planned { factors, ..self.planned(kernels) };
        match self.sequence {
            true => {
                let by = |from: TensorView, to: TensorViewMut, ext| of.convolve(workers, finish, from, to, ext);
                flat::convolve_sequence(workers, by, from, to, extents);
            }
            false => of.convolve(workers, finish, from, to, extents[1]),
        }
    }

    /// Returns true if its kernel multiplies the channels of its source by factors.
    pub(crate) fn scales(&self) -> bool {
        matches!(self.kernel, Some(Kernel::Fp32(row)) if row.scales) && self.staging.is_pointwise() && !self.sequence
    }

    /// The fp32 convolution of these coefficients, with its kernel.
    pub(super) fn planned<'a>(&'a self, kernels: &'a Kernels) -> Planned<'a> {
        let row = match self.kernel {
            Some(Kernel::Fp32(row)) => Some(row),
            _ => None,
        };
        Planned { staging: &self.staging, kernels, row, factors: None }
    }
}

impl Neural {
    /// Selects the kernel of a convolution with constant coefficients. `transposed` is true if the task exchanges channels and columns
    /// of its result.
    pub(crate) fn select(&mut self, mac: Option<&'static AccumulatorSpec>, transposed: bool) {
        let Some((kernel, ..)) = self.selected(mac, transposed) else { return };
        if let Operation::Convolution(convolution) = &mut self.operation {
            convolution.kernel = Some(kernel);
        }
    }

    /// Kernel of a convolution with constant coefficients, its predicted nanoseconds on one thread, and the rejected kernels.
    fn selected(&self, mac: Option<&'static AccumulatorSpec>, transposed: bool) -> Option<(Kernel, usize, Rejected)> {
        let Operation::Convolution(convolution) = &self.operation else { return None };
        // Results in tensors are transposed afterwards, and the channels of a single column, stored as a row, need no transposition.
        let transposed = transposed && self.operands.is_ok() && self.output.w != 1;
        let ext = if convolution.sequence { flat::one_row(self.output) } else { self.output };
        let groups = match convolution.coefficients.as_ref()? {
            Packed::Fast(kernels) => {
                let query = Query { staging: &convolution.staging, kernels, transposed, ext };
                let (row, rejected) = select(&query);
                return Some((Kernel::Fp32(row), (row.cost)(&query), rejected));
            }
            Packed::Exact(groups) => Groups::Sets(groups),
            Packed::ExactBlocks(kernels) => Groups::Blocks(kernels),
            Packed::Scaled(_) => return None,
        };
        let of = convolution.exact(mac, self.exactly.as_ref(), groups)?;
        let query = exact::registry::Query { of: &of, transposed, ext };
        let (row, rejected) = exact::registry::select(&query);
        Some((Kernel::Array(row), (row.cost)(&query), rejected))
    }

    /// Name of the kernel, and the reason for the rejection of each kernel before it in the registry. `transposed` is true if the task
    /// exchanges channels and columns of its result.
    pub(crate) fn selection(&self, mac: Option<&'static AccumulatorSpec>, transposed: bool) -> (String, Rejected) {
        let only = |name: &str| (name.to_string(), Vec::new());
        let convolution = match &self.operation {
            Operation::Convolution(convolution) => convolution,
            Operation::SumOfChannels | Operation::MaxOverChannels(_) | Operation::ProductOfChannels => {
                return only("tensors");
            }
            Operation::Copy => return only("copy with epilogue"),
        };
        match (&convolution.coefficients, self.selected(mac, transposed)) {
            (None, _) => {
                let name = "selected in every run, when coefficients are packed".to_string();
                (name, vec![("coefficients packed at planning", convolution.unknown)])
            }
            (Some(Packed::Fast(kernels)), Some((kernel, nanos, rejected))) => {
                let rows = if convolution.sequence { ", planes of one column as one row" } else { "" };
                (
                    format!("{}{rows}, coefficients in {}, {}", kernel.name(), kernels.packing(), predicted(nanos)),
                    rejected,
                )
            }
            (Some(Packed::Exact(_)), Some((kernel, nanos, mut rejected))) => {
                let has_no_table = self.exactly.as_ref().is_some_and(|exactly| exactly.clamp().is_some());
                let why = match has_no_table {
                    true => "it is not fused, and not a matrix by a vector",
                    false => "its epilogue is a table",
                };
                rejected.insert(0, ("blocks of channels", why));
                (format!("{}, {}", kernel.name(), predicted(nanos)), rejected)
            }
            (Some(_), Some((kernel, nanos, rejected))) => {
                (format!("{}, {}", kernel.name(), predicted(nanos)), rejected)
            }
            (Some(Packed::Scaled(_)), None) => only("tap by tap, with channel scales"),
            (Some(_), None) => only("tensors"),
        }
    }
}

impl Machine<'_> {
    /// Tests by the task's fields whether it is computed from memory to memory; the error is the reason why it goes through tensors. Operands
    /// are not tested.
    pub(crate) fn computes_in_place(&self, neural: &Neural) -> Result<(), &'static str> {
        let copies = match &neural.operation {
            Operation::Convolution(_) => false,
            Operation::Copy => true,
            _ => return Err("it reduces channels without coefficients"),
        };
        let exact = self.model.rounding().is_some();
        let stages = (exact || self.mac.is_some() && !copies) && neural.exactly.is_none();
        match () {
            () if self.get(InputRelu) == 1 => Err("a ReLU comes before it"),
            () if self.depth_window().is_some() => Err("its window has depth"),
            () if self.get(PostScaleMode) == 1 => Err("channels have scales of their own"),
            () if stages => Err("its epilogue is not known at planning"),
            () if exact && copies && self.crop_gain_log2().is_some() => Err("it crops with a gain"),
            () => Ok(()),
        }
    }

    /// NaN rule of a task that only copies; `None` for any other task.
    pub(crate) fn copies(&self, neural: &Neural) -> Option<NanRule> {
        let copies = matches!(neural.operation, Operation::Copy)
            && self.get(InputRelu) == 0
            && self.get(PostScaleMode) != 1
            && self.depth_window().is_none();
        let plain = match self.model.rounding() {
            None if matches!(neural.activation, Activation::None) => self.added() == 0.0 && self.factor() == 1.0,
            None => false,
            Some(_) => matches!(neural.exactly, Some(ExactEpilogue::Admit)) && self.crop_gain_log2().is_none(),
        };
        let rule = if self.model.rounding().is_some() { NanRule::Infinity } else { NanRule::Quiet };
        (copies && plain).then_some(rule)
    }

    /// Activation of a task that copies elements through bias, scale and activation; `None` for any other task, and if its table is not
    /// read at planning.
    pub(crate) fn activates(&self, neural: &Neural) -> Option<Activation> {
        let copies = matches!(neural.operation, Operation::Copy)
            && [InputRelu, PostScaleMode].iter().all(|&field| self.get(field) == 0)
            && self.depth_window().is_none();
        let known = !matches!(neural.activation, Activation::Unread);
        (copies && known).then(|| neural.activation.clone())
    }

    /// Extents of the result as stored.
    pub(super) fn stored_result(&self, neural: &Neural) -> Extents {
        if self.get(NeTranspose) == 1 { neural.output.transposed() } else { neural.output }
    }
}
