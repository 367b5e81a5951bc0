//! Packed coefficients of a task of the neural engine.

use anemone_conv::Kernels;
use anemone_conv::exact::Sets;
use anemone_kernels::filter::Values;
use std::sync::Arc;

/// Packed coefficients, shared between tasks.
#[derive(Clone)]
pub(crate) enum Packed {
    Fast(Kernels),
    /// Sets of a fixed-point accumulator, by group; one for all groups under `reuse`.
    Exact(Arc<Vec<Sets>>),
    /// Coefficients of a fixed-point accumulator in blocks of channels.
    ExactBlocks(Kernels),
    /// Coefficients with a scale for each channel.
    Scaled(Arc<Scaled>),
}

impl Packed {
    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Packed::Fast(kernels) | Packed::ExactBlocks(kernels) => kernels.bytes(),
            Packed::Exact(groups) => groups.iter().flat_map(|(sets, _)| sets).map(|set| set.bytes()).sum(),
            Packed::Scaled(scaled) => scaled.bytes(),
        }
    }
}

/// Coefficients of a convolution with a scale for each channel, by group.
#[derive(Default)]
pub(crate) struct Scaled {
    /// `[out][taps]`, in the model `fast`.
    pub(crate) weights: Vec<Values>,
    /// Sets of a fixed-point accumulator, without biases.
    pub(crate) sets: Vec<Sets>,
    /// Scale and offset of each channel's sum, by group.
    pub(crate) gains: Vec<Vec<[f32; 2]>>,
}

impl Scaled {
    /// Size of the coefficients in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let sets = self.sets.iter().flat_map(|(sets, _)| sets).map(|set| set.bytes());
        self.weights.iter().map(Values::bytes).chain(sets).sum()
    }
}
