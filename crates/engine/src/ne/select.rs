//! Kernel selected for a task of the neural engine, and reasons why others were rejected.

use super::{Neural, Operation, flat};
use crate::machine::Machine;
use crate::numerics::Parameters;
use crate::packed::Packed;
use anemone_facts::Field::*;
use anemone_kernels::conv::Kernels;
use anemone_kernels::conv::registry::{Query, select};
use anemone_kernels::tensor::Extents;

impl Neural {
    /// The kernel's name, and for each kernel before it in the registry why it does not do the task. `transposed` is whether the
    /// result is stored with channels and columns exchanged.
    pub(crate) fn selection(&self, transposed: bool) -> (String, Vec<(&'static str, &'static str)>) {
        let only = |name: &str| (name.to_string(), Vec::new());
        let convolution = match &self.operation {
            Operation::Convolution(convolution) => convolution,
            Operation::SumOfChannels | Operation::MaxOverChannels(_) => return only("tensors"),
            Operation::Copy => return only("copy with epilogue"),
        };
        let of = |kernels: &Kernels| {
            // The channels of one column, stored as a row, need no exchange.
            let transposed = transposed && self.output.w != 1;
            let ext = if convolution.sequence { flat::one_row(self.output) } else { self.output };
            let query = Query { staging: &convolution.staging, kernels, transposed, ext };
            let (row, rejected) = select(&query);
            let rows = if convolution.sequence { ", planes of one column as one row" } else { "" };
            (format!("{}{rows}", row.name), rejected)
        };
        match &convolution.coefficients {
            None => {
                let name = "coefficients packed in every run, then as the registry says".to_string();
                (name, vec![("coefficients packed at planning", convolution.unknown)])
            }
            Some(Packed::Fast(kernels)) => of(kernels),
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
    /// Tests whether the task goes from memory to memory, by its fields; the error is the reason why it goes through tensors.
    pub(crate) fn in_place(&self, neural: &Neural) -> Result<(), &'static str> {
        self.computes_in_place(neural)?;
        self.in_rows(neural.input, self.stored_result(neural)).map(|_| ())
    }

    /// As [`Machine::in_place`], of the computation alone: its operands may lie anyhow.
    pub(super) fn computes_in_place(&self, neural: &Neural) -> Result<(), &'static str> {
        let copies = match &neural.operation {
            Operation::Convolution(_) => false,
            Operation::Copy => true,
            _ => return Err("it reduces channels without coefficients"),
        };
        let exact = self.model.rounding().is_some();
        let stages = exact && neural.exactly.is_none();
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
