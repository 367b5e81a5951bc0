//! How coefficients stand in the kernel section: shared by whoever packs and whoever unpacks them
//! (`docs/evidence.md`, keys `h13-kernel` and `h13-zero-skip`).

/// Engines that a program addresses, each with a stream of its own. A power of two.
pub const ENGINES: usize = 16;
/// Every stream, every group within a stream, and what follows a table or a palette starts on this boundary.
pub const ALIGN_BYTES: u64 = 64;
/// Bytes of coefficients that one pass of an engine takes at most (`kmem_cap_dense` of every chip): where a pass of all lanes
/// has more, the convolution is cut into single passes of fewer (`h13-kernel`).
pub const PASS_BYTES: u64 = 64 << 10;

/// The form that skips zeros.
pub mod zero_skip {
    /// Little-endian count of the bytes of a pass that follow it: masks and values.
    pub const COUNT_BYTES: usize = 3;
    /// Mask bits of one kernel element: one a lane, and no fewer than these.
    pub const MIN_MASK_BITS: usize = 4;
    /// The form is chosen where more than one place in so many is empty.
    pub const WORTH_EMPTY: usize = 7;

    /// The kernel elements in the order of their mask bits: by position within the stride, then by window of that
    /// stride, rows first in both. `None` where the last window reaches beyond the kernel.
    pub fn order(kernel: [usize; 2], stride: [usize; 2]) -> Vec<Option<usize>> {
        let windows = [kernel[0].div_ceil(stride[0].max(1)), kernel[1].div_ceil(stride[1].max(1))];
        let mut order = Vec::with_capacity(windows[0] * windows[1] * stride[0] * stride[1]);
        for phase in (0..stride[0]).flat_map(|y| (0..stride[1]).map(move |x| [y, x])) {
            for window in (0..windows[0]).flat_map(|y| (0..windows[1]).map(move |x| [y, x])) {
                let [y, x] = [0, 1].map(|axis| window[axis] * stride[axis] + phase[axis]);
                order.push((y < kernel[0] && x < kernel[1]).then_some(y * kernel[1] + x));
            }
        }
        order
    }
}

/// The four extra coefficient streams by position: what each would hold (`docs/evidence.md`, key `book-streams`).
pub mod extra {
    /// One fp16 bias per output channel.
    pub const BIAS: u32 = 0;
    /// One fp16 scale per output channel.
    pub const POST_SCALE: u32 = 1;
    /// The palette.
    pub const PALETTE: u32 = 2;
    /// The activation table.
    pub const TABLE: u32 = 3;
}

#[cfg(test)]
mod tests {
    use super::zero_skip::order;

    #[test]
    fn elements_go_by_phase() {
        assert_eq!(order([1, 1], [2, 2]), [Some(0), None, None, None]);
        let of_3x3 = order([3, 3], [2, 2]);
        assert_eq!(of_3x3.iter().flatten().copied().collect::<Vec<_>>(), [0, 2, 6, 8, 1, 7, 3, 5, 4]);
        assert_eq!(of_3x3.len(), 16);
        assert_eq!(of_3x3[4..8], [Some(1), None, Some(7), None]);
        assert_eq!(order([2, 3], [1, 1]), [0, 1, 2, 3, 4, 5].map(Some));
    }
}
