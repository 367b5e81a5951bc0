//! Depth: the planes of the source that a task reads for each plane of the result.
//!
//! A task is executed plane by plane. The kernel of a convolution may have depth: the source planes under it are then treated as
//! channels, the planes of a channel side by side, so that coefficients are in the order input channel, kernel plane,
//! kernel row, kernel column.

use crate::fault::FaultKind;
use crate::machine::Machine;
use anemone_facts::Field::*;
use anemone_facts::code::{class, kernel, neural};
use anemone_kernels::tensor::{Extents, LIMIT, Tensor};
use std::ops::Range;

/// A convolution's window over depth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    pub(crate) kernel: usize,
    stride: usize,
    padding: usize,
    from: usize,
}

impl Depth {
    /// Source plane for plane `k` of the kernel and plane `to` of the result; `None` in the padding.
    fn plane(&self, to: u64, k: usize) -> Option<u64> {
        let at = (to as usize * self.stride + k).checked_sub(self.padding)?;
        (at < self.from).then_some(at as u64)
    }
}

impl Machine<'_> {
    /// Planes of the result.
    pub(crate) fn depths(&self) -> Range<u64> {
        0..u64::from(self.get(Dout)).max(1)
    }

    /// Planes of the result that are computed one by one: a reduction covers its planes
    /// (`reduce_probe_mean_ax1_2_3_1x64x8x8`, `norm_layer_norm_ax1_2_3_1x64x8x8`: 64 rows of 8 columns in 8 planes, times 1/4096).
    pub(crate) fn computed_depths(&self) -> Range<u64> {
        if self.reduces() { 0..1 } else { self.depths() }
    }

    /// Planes of the source.
    pub(crate) fn source_depths(&self) -> Range<u64> {
        0..u64::from(self.get(Din)).max(1)
    }

    /// Planes of a kernel; most have one.
    pub(crate) fn kernel_planes(&self) -> usize {
        self.size(Kd).max(1)
    }

    /// The task's window over depth; `None` if each plane of the result reads the corresponding plane of the source.
    pub(crate) fn depth_window(&self) -> Option<Depth> {
        let (kernel, stride, padding) = (self.kernel_planes(), self.size(Sz).max(1), self.size(Pz));
        let plain = (kernel, stride, padding) == (1, 1, 0) && self.depths() == self.source_depths();
        (!plain).then_some(Depth { kernel, stride, padding, from: self.size(Din).max(1) })
    }

    /// Checks that the task's use of depth is one that is executed.
    pub(crate) fn check_depth(&self) -> Result<(), FaultKind> {
        let refused = |field, reason| Err(FaultKind::NotHonoured { field, value: self.get(field), reason });
        let (from, to) = (self.source_depths().end, self.depths().end);
        if let Some(window) = self.depth_window() {
            let convolves = self.get(TaskClass) == class::NEURAL
                && (self.get(NeOpMode), self.get(KernelMode)) == (neural::MAC, kernel::REAL);
            if !convolves {
                let field = [Kd, Sz].into_iter().find(|&f| self.get(f) > 1).unwrap_or(Dout);
                let field = if self.get(Pz) > 0 { Pz } else { field };
                return refused(field, "only a convolution has a window over depth, or a result of another depth");
            }
            if self.get(SparseFmt) == 1 {
                return refused(
                    SparseFmt,
                    "no source says in which order a kernel with a window over depth skips zeros",
                );
            }
            if (to - 1).saturating_mul(window.stride as u64) >= from + window.padding as u64 {
                return Err(self.inconsistent(Dout, "the last window lies behind the source"));
            }
        }
        if from.max(to) == 1 {
            return Ok(());
        }
        let per_group = |c, h, w| [c, h, w].iter().map(|&f| u64::from(self.get(f))).product::<u64>();
        let (input, output) = (per_group(Cin, Hin, Win), per_group(Cout, Hout, Wout));
        let groups = u64::from(self.get(NumGroups)).max(1);
        let elements = input.max(output).saturating_mul(groups).saturating_mul(from.max(to));
        if elements > LIMIT {
            return Err(FaultKind::TooLarge { elements, limit: LIMIT });
        }
        Ok(())
    }

    /// The source planes under a window, as channels, the planes of a channel side by side. `ext` are the extents of one plane.
    pub(crate) fn source_planes(&mut self, window: &Depth, ext: Extents) -> Result<Tensor, FaultKind> {
        let mut all = Tensor::zeros(Extents { c: ext.c * window.kernel, ..ext })?;
        let plane = ext.plane().max(1);
        for k in 0..window.kernel {
            let Some(at) = window.plane(self.depth, k) else { continue };
            self.source_depth = at;
            let x = self.source1(ext)?;
            let planes = all.data.chunks_exact_mut(plane).skip(k).step_by(window.kernel);
            for (to, from) in planes.zip(x.data.chunks_exact(plane)) {
                to.copy_from_slice(from);
            }
        }
        Ok(all)
    }
}
