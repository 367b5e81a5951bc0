//! Kernel selected for a task of the neural engine, and reasons why others were rejected.

use super::{Neural, Operation, flat};
use crate::packed::Packed;
use anemone_kernels::conv::Kernels;
use anemone_kernels::conv::registry::{Query, select};

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
            None => only("coefficients packed in every run, then as the registry says"),
            Some(Packed::Fast(kernels)) => of(kernels),
            Some(Packed::Exact(_)) => only("exact array"),
            Some(Packed::ExactBlocks(_)) => only("exact array, blocks of channels"),
            Some(Packed::Scaled(_)) => only("tap by tap, with factors of channels"),
        }
    }
}
