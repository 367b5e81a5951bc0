//! Kernel selected for a task of the neural engine, and reasons why others were rejected.

use super::{Convolution, Neural, Operation, flat};
use crate::machine::Machine;
use crate::numerics::Parameters;
use crate::packed::Packed;
use anemone_facts::Field::*;
use anemone_kernels::conv::registry::{Query, Row, select};
use anemone_kernels::conv::{Im2col, Kernels, convolve, convolve_by};
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut};
use anemone_kernels::workers::Workers;

/// A convolution in fp32 with its kernel.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) staging: &'a Im2col,
    pub(super) kernels: &'a Kernels,
    /// `None` if coefficients are packed in every run: the kernel is then selected for what is packed.
    pub(super) row: Option<&'static Row>,
}

impl Planned<'_> {
    /// `to = finish(kernels * from)`; `ext` is the result's extents before it is transposed.
    pub(super) fn convolve(
        self,
        workers: &Workers,
        finish: &Epilogue,
        from: TensorView,
        to: TensorViewMut,
        ext: Extents,
    ) {
        match self.row {
            Some(row) => convolve_by(row, workers, self.staging, self.kernels, finish, from, to, ext),
            None => convolve(workers, self.staging, self.kernels, finish, from, to, ext),
        }
    }
}

impl Convolution {
    /// The convolution of these coefficients, with its kernel.
    pub(super) fn planned<'a>(&'a self, kernels: &'a Kernels) -> Planned<'a> {
        Planned { staging: &self.staging, kernels, row: self.kernel }
    }
}

impl Neural {
    /// Selects the kernel of a convolution in fp32 whose coefficients are known. `transposed` is true if the task exchanges channels and
    /// columns of its result.
    pub(crate) fn select(&mut self, transposed: bool) {
        let Some((row, _)) = self.selected(transposed) else { return };
        if let Operation::Convolution(convolution) = &mut self.operation {
            convolution.kernel = Some(row);
        }
    }

    fn selected(&self, transposed: bool) -> Option<(&'static Row, Vec<(&'static str, &'static str)>)> {
        let Operation::Convolution(convolution) = &self.operation else { return None };
        let Some(Packed::Fast(kernels)) = &convolution.coefficients else { return None };
        // Tensors are transposed afterwards, and the channels of one column, stored as a row, need no exchange.
        let transposed = transposed && self.operands.is_ok() && self.output.w != 1;
        let ext = if convolution.sequence { flat::one_row(self.output) } else { self.output };
        Some(select(&Query { staging: &convolution.staging, kernels, transposed, ext }))
    }

    /// The kernel's name, and for each kernel before it in the registry why it does not do the task. `transposed` is true if the task
    /// exchanges channels and columns of its result.
    pub(crate) fn selection(&self, transposed: bool) -> (String, Vec<(&'static str, &'static str)>) {
        let only = |name: &str| (name.to_string(), Vec::new());
        let convolution = match &self.operation {
            Operation::Convolution(convolution) => convolution,
            Operation::SumOfChannels | Operation::MaxOverChannels(_) => return only("tensors"),
            Operation::Copy => return only("copy with epilogue"),
        };
        if let Some((row, rejected)) = self.selected(transposed) {
            let rows = if convolution.sequence { ", planes of one column as one row" } else { "" };
            let packing = match &convolution.coefficients {
                Some(Packed::Fast(kernels)) => kernels.packing(),
                _ => "panels",
            };
            return (format!("{}{rows}, coefficients in {packing}", row.name), rejected);
        }
        match &convolution.coefficients {
            None => {
                let name = "coefficients packed in every run, then as the registry says".to_string();
                (name, vec![("coefficients packed at planning", convolution.unknown)])
            }
            Some(Packed::Fast(_)) => only("tensors"),
            Some(Packed::Exact(_)) => {
                let bounded = self.exactly.as_ref().is_some_and(|exactly| exactly.bounds().is_some());
                let why = match bounded {
                    true => "it is not fused, and not a matrix by a vector",
                    false => "its epilogue is more than two bounds",
                };
                ("exact array".to_string(), vec![("blocks of channels", why)])
            }
            Some(Packed::ExactBlocks(_)) => only("exact array, blocks of channels"),
            Some(Packed::Scaled(_)) => only("tap by tap, with factors of channels"),
        }
    }
}

impl Machine<'_> {
    /// Tests whether the computation goes from memory to memory, by the task's fields; the error is the reason why it goes through tensors.
    /// Its operands may lie anyhow.
    pub(super) fn computes_in_place(&self, neural: &Neural) -> Result<(), &'static str> {
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
            () if self.get(PostScaleMode) == 1 => Err("channels have factors of their own"),
            () if stages => Err("its epilogue is not known at planning"),
            () if exact && copies && self.crop_gain_log2().is_some() => Err("it crops with a gain"),
            () => Ok(()),
        }
    }

    /// Extents of the result as it is stored.
    pub(super) fn stored_result(&self, neural: &Neural) -> Extents {
        if self.get(NeTranspose) == 1 { neural.output.transposed() } else { neural.output }
    }
}
