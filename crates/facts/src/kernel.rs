//! Layout of coefficients in the kernel section, for packing and unpacking
//! (`docs/evidence.md`, keys `h13-kernel` and `h13-zero-skip`).

/// Engines that a program addresses, each with a stream of its own. A power of two.
pub const ENGINES: usize = 16;
/// Alignment of every stream, of every group within a stream, and of the data after a table or a palette.
pub const ALIGN_BYTES: u64 = 64;
/// Most bytes of coefficients that an engine reads in one pass (`kmem_cap_dense` of every chip): a convolution whose pass over all
/// lanes has more is split into passes of fewer lanes (`h13-kernel`).
pub const PASS_BYTES: u64 = 64 << 10;

/// The zero-skipped form.
pub mod zero_skip {
    /// Bytes of the little-endian count that precedes the masks and values of a pass.
    pub const COUNT_BYTES: usize = 3;
    /// Least number of mask bits of a kernel element, whose lanes have one each: the channels that an accumulator holds, of results with
    /// computed sides up to [`SMALL_SIDE`](crate::staging::SMALL_SIDE) and of others
    /// (`encoder_conv_idx_c256_n256_k3x3_s2_g256_bias1_same_dw1`).
    pub fn least_mask_bits([rows, columns]: [usize; 2], transposed: bool) -> usize {
        if rows.max(columns) <= crate::staging::SMALL_SIDE && !transposed { 4 } else { 2 }
    }
    /// The form is chosen if more than one element in this many is zero.
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

/// The four extra coefficient streams by position (`docs/evidence.md`, key `book-streams`).
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
