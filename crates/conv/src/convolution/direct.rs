//! Direct kernel: implicit im2col over staged rows.

use super::{CHANNELS, Im2col, TAPS};
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::filter::Filter;
use anemone_kernels::gemm::microkernel::{Ahead, MicroKernel, PANEL, SLACK};
use anemone_kernels::host::{Rows, fetch};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{OutputTile, TensorView, Transposed};
use anemone_kernels::workers::{Scratch, scratch_slice};
use pulp::{Simd, WithSimd};

/// Outputs that all panels compute one after another: whole runs of every panel height, whose operands, of [`TAPS`] taps, stay in L2.
const OUTPUTS_AT_ONCE: usize = 512;

/// Tile of the direct kernel. In a tile of a transposed result channels and columns are exchanged.
pub(super) struct Job<'a, 'b> {
    pub(super) staging: &'a Im2col,
    pub(super) kernel: &'a Filter,
    pub(super) finish: &'a Epilogue<'a>,
    pub(super) offsets: &'a [u32],
    pub(super) from: TensorView<'a>,
    pub(super) ext: Extents,
    pub(super) transposed: bool,
    pub(super) share: &'a mut OutputTile<'b>,
    pub(super) scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { staging, kernel, finish, offsets, from, ext, transposed, share, scratch } = self;
        let columns = ext.w;
        let taps = kernel.packed.taps();
        let area = staging.staged_elements();
        let outputs = share.rows * staging.width;
        let stride = outputs + SLACK;
        let (first, channels) = if transposed { (0, ext.c) } else { (share.first_channel, share.channels()) };
        let at_once = if staging.unicast { staging.at_once(channels) } else { CHANNELS };
        let sources = if staging.unicast { at_once } else { 1 };
        let staged = scratch_slice(&mut scratch.staged, sources * area + staging.staged_slack());
        let sums = scratch_slice(&mut scratch.sums, at_once * stride);
        let widened = scratch_slice(&mut scratch.panel, at_once * TAPS.min(taps));
        let halves = scratch_slice(&mut scratch.halves, if transposed { at_once * share.rows * columns } else { 0 });
        let rows = Rows { count: share.rows, columns, from_stride: staging.width, to_stride: columns };
        staged[sources * area..].fill(0.0);
        for c in (0..channels).step_by(at_once) {
            let channel = first + c;
            let count = at_once.min(channels - c);
            // The halo is filled with the first channels and stays.
            let around = (c == 0).then_some(0.0);
            // One call for both: its code is long.
            let fresh = if staging.unicast { count } else { usize::from(c == 0) };
            for (m, staged) in staged.chunks_exact_mut(area.max(1)).enumerate().take(fresh) {
                let read = if staging.unicast { (channel + m) * staging.channels } else { 0 };
                let place = [share.group, share.first_row];
                staging.stage(simd, from, place, read, around, staged, &mut scratch.wide);
            }
            let height = if staging.unicast { 1 } else { PANEL };
            for tap in (0..taps).step_by(TAPS) {
                let some = tap..taps.min(tap + TAPS);
                for m in (0..count).step_by(height) {
                    kernel.packed.widen(channel + m, some.clone(), &mut widened[m * some.len()..]);
                    if !staging.unicast {
                        // Prefetch the coefficients of the next panel.
                        fetch(kernel.packed.bytes_of_taps(channel + m + height, some.clone()));
                    }
                }
                // All panels read the operands of some outputs while these are in cache.
                for output in (0..outputs).step_by(OUTPUTS_AT_ONCE) {
                    for m in (0..count).step_by(height) {
                        let source = if staging.unicast { &staged[m * area..] } else { &staged[..] };
                        let height = kernel.packed.height(channel + m);
                        let panel = &widened[m * some.len()..][..height * some.len()];
                        let (source, sums) = (&source[output..], &mut sums[m * stride + output..]);
                        let outputs = OUTPUTS_AT_ONCE.min(outputs - output);
                        let (places, resume, ahead) = (&offsets[some.clone()], tap > 0, Ahead::NONE);
                        MicroKernel { panel, height, source, places, sums, stride, outputs, ahead, resume }
                            .with_simd(simd);
                    }
                }
            }
            let mut tabulated = false;
            for m in 0..count {
                let bias = kernel.bias(channel + m);
                // Includes the padding between rows, which is not stored.
                let sums = &mut sums[m * stride..][..outputs];
                tabulated = finish.tabulate(simd, bias, sums);
                if !tabulated {
                    finish.stages(bias, sums);
                }
            }
            if !transposed {
                share.store(
                    [c, 0, 0],
                    count,
                    sums,
                    stride,
                    rows,
                    #[inline(always)]
                    |from, to, rows| finish.rows(simd, tabulated, from, to, rows),
                );
                continue;
            }
            for m in 0..count {
                finish.rows(simd, tabulated, &sums[m * stride..], &mut halves[m * share.rows * columns..], rows);
            }
            let from = Transposed { data: halves, stride: share.rows * columns, columns, first: c };
            from.store(share, 0, share.rows, 0, count);
        }
    }
}
