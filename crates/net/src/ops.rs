//! The operations of the graph. Frontends translate every model format into this set; `infer` defines result types,
//! `eval` the meaning.

pub mod graph;
mod loops;
pub mod unary;

use crate::native::Native;

pub use loops::{Loop, MOST_TURNS, Scan, UNROLLED_OPS};
pub use unary::{GELU_SLOPE, GeluMode, Unary};

/// Kind of operation, with its attributes. Operand lists are given as `(x, w, [b])`, brackets marking optional ones. Every
/// operation has one result, of the element type of `x` unless said otherwise.
///
/// Spatial lists (`strides`, `kernel`, ...) have one entry per spatial axis: rank 3 tensors `[N, C, W]` have one,
/// rank 4 `[N, C, H, W]` two, rank 5 `[N, C, D, H, W]` three. `pads` are `(before, after)` per spatial axis.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum OpKind {
    /// `(x, w, [b])`: cross-correlation, `w` is `[Cout, Cin / groups, k...]`, `b` is `[Cout]`. Weights may be stored in
    /// another element type than `x`.
    Conv { strides: Vec<usize>, pads: Vec<(usize, usize)>, dilations: Vec<usize>, groups: usize },
    /// `(x, w, [b])`: transposed cross-correlation (scatter), `w` is `[Cin, Cout / groups, k...]`, `b` is `[Cout]`.
    /// `pads` cut from the result, `output_pads` lengthen it after the last element.
    ConvTranspose {
        strides: Vec<usize>,
        pads: Vec<(usize, usize)>,
        output_pads: Vec<usize>,
        dilations: Vec<usize>,
        groups: usize,
    },
    /// `(x, y)`: batched matrix product over the last two axes, leading axes broadcast.
    MatMul { transpose_x: bool, transpose_y: bool },
    /// `(x, w, [b])`: `x · wᵀ + b` over the last axis, `w` is `[N, K]`, `b` is `[N]`. Weights may be stored in another
    /// element type than `x`.
    Linear,
    /// `(x, w)`: `x · wᵀ` over the last axis, `w` is `[N, K]`, where elements with weight zero are not read: an infinite element affects
    /// only the results that it is part of. For cumulative sums and interpolation along an axis.
    Combine,
    /// `(x)`: elementwise function.
    Unary(Unary),
    /// `(x, y)`: elementwise with broadcasting; comparisons give `Bool`.
    Binary(Binary),
    /// `(condition, x, y)`: `x` where the `Bool` condition holds, else `y`, with broadcasting; the element type of `x`.
    Select,
    /// `(x)`: sliding window. `ceil_mode` keeps a last window that extends past the padded end if it starts inside
    /// the input or the padding before it.
    Pool { kind: PoolKind, kernel: Vec<usize>, strides: Vec<usize>, pads: Vec<(usize, usize)>, ceil_mode: bool },
    /// `(x)`: reduction over `axes` (sorted, non-negative).
    Reduce { kind: ReduceKind, axes: Vec<usize>, keep_dims: bool },
    /// `(x)`: softmax over one axis.
    Softmax { axis: usize },
    /// `(x0, x1, ...)`: concatenation along one axis.
    Concat { axis: usize },
    /// `(x)`: same elements in order, other extents (those of the result).
    Reshape,
    /// `(x)`: repeats axes of extent one (and adds leading axes) up to the extents of the result.
    Broadcast,
    /// `(x)`: result axis `i` is operand axis `perm[i]`.
    Transpose { perm: Vec<usize> },
    /// `(x)`: elements `begin[i], begin[i] + stride[i], ...` before `end[i]` along each axis; all in range, strides positive.
    Slice { begin: Vec<usize>, end: Vec<usize>, stride: Vec<usize> },
    /// `(x, indices)`: axis `axis` of `x` is replaced by the axes of `indices`. A negative index counts from the end.
    Gather { axis: usize },
    /// `(x, indices)`: `indices` has the extents of the result, which are those of `x` except along `axis`; each element is read
    /// at its own position, with the position along `axis` replaced by the index. A negative index counts from the end.
    GatherAlong { axis: usize },
    /// `(x, indices)`: the last axis of `indices` holds positions along the axes of `x` after the first `batch_dims`, which
    /// both share; remaining axes of `x` are copied whole.
    GatherNd { batch_dims: usize },
    /// `(x, indices, updates)`: `x` with the elements at the positions of [`OpKind::GatherAlong`] combined with `updates`,
    /// in order.
    ScatterAlong { axis: usize, mode: ScatterMode },
    /// `(x, indices, updates)`: as [`OpKind::ScatterAlong`] at the positions of [`OpKind::GatherNd`] without batch axes.
    ScatterNd { mode: ScatterMode },
    /// `(x)`: position of the greatest (or least) element along one axis, as `I32`; the first of equal ones, or the last.
    ArgReduce { greatest: bool, last: bool, axis: usize, keep_dims: bool },
    /// `(x)`: positions along one axis in sorted order, as `I32`; the sort is stable.
    ArgSort { axis: usize, descending: bool },
    /// `(boxes, scores, overlap?)`, `[N, B, 4]` of centre, width and height, and `[N, B, K]`: positions of the boxes that are kept, best score first, as
    /// `I32` of `[N, most]`, padded with -1. A box is kept if its best score is at least `score_threshold`, unless its intersection over union
    /// with a better kept box (with `per_class`, of the same class) exceeds `overlap`, which an operand of one element replaces. If no box passes,
    /// the best is kept.
    Suppress { overlap: f32, score_threshold: f32, most: usize, per_class: bool },
    /// `(x, coordinates)`: `x` is `[N, C, H, W]`, `coordinates` is `[N, Ho, Wo, 2]`: column and row in elements of `x`, with
    /// integers at centres; the result is `[N, C, Ho, Wo]`.
    Sample { mode: ResizeMode, outside: Outside },
    /// `(x, mean, variance, [gamma], [beta])`: per-channel affine, channel axis 1. A beta without a gamma
    /// cannot be represented: frontends supply ones.
    BatchNorm { epsilon: f32 },
    /// `(x, [gamma], [beta])`: normalization over `axes`; gamma and beta have the extents of those axes.
    LayerNorm { axes: Vec<usize>, epsilon: f32 },
    /// `(x, [gamma], [beta])`: normalization over the spatial axes of each channel; gamma and beta are `[C]`.
    InstanceNorm { epsilon: f32 },
    /// `(x)`: constant padding, `(before, after)` per axis.
    Pad { pads: Vec<(usize, usize)>, value: f32 },
    /// `(x)`: padding by elements of `x`, `(before, after)` per axis.
    PadEdge { pads: Vec<(usize, usize)>, mode: EdgeMode },
    /// `(x)`: resampling of every axis whose extent differs from that of the result.
    Resize { mode: ResizeMode, coordinates: Coordinates },
    /// `(x)`: conversion to the result's element type; float to integer truncates, non-zero numbers are true.
    Cast,
    /// A layer that the model names directly: its [`crate::native::Kind`] defines operands and meaning.
    Native(Box<Native>),
    /// `(carried..., scanned..., invariant...)`: a [`Loop`]; results are the carried values after the last iteration, then the collected tensors.
    Loop(Box<Loop>),
}

impl OpKind {
    /// Name in the text form, without attributes.
    pub fn name(&self) -> &'static str {
        match self {
            OpKind::Conv { .. } => "conv",
            OpKind::ConvTranspose { .. } => "conv_transpose",
            OpKind::MatMul { .. } => "matmul",
            OpKind::Linear => "linear",
            OpKind::Combine => "combine",
            OpKind::Unary(unary) => unary.name(),
            OpKind::Binary(binary) => binary.name(),
            OpKind::Select => "select",
            OpKind::Pool { kind, .. } => match kind {
                PoolKind::Max => "max_pool",
                PoolKind::Average { .. } => "avg_pool",
                PoolKind::L2 => "l2_pool",
            },
            OpKind::Reduce { kind, .. } => kind.name(),
            OpKind::Softmax { .. } => "softmax",
            OpKind::Concat { .. } => "concat",
            OpKind::Reshape => "reshape",
            OpKind::Broadcast => "broadcast",
            OpKind::Transpose { .. } => "transpose",
            OpKind::Slice { .. } => "slice",
            OpKind::Gather { .. } => "gather",
            OpKind::GatherAlong { .. } => "gather_along",
            OpKind::GatherNd { .. } => "gather_nd",
            OpKind::ScatterAlong { .. } => "scatter_along",
            OpKind::ScatterNd { .. } => "scatter_nd",
            OpKind::ArgReduce { greatest: true, .. } => "arg_max",
            OpKind::ArgReduce { greatest: false, .. } => "arg_min",
            OpKind::ArgSort { .. } => "arg_sort",
            OpKind::Suppress { .. } => "suppress",
            OpKind::Sample { .. } => "sample",
            OpKind::BatchNorm { .. } => "batch_norm",
            OpKind::LayerNorm { .. } => "layer_norm",
            OpKind::InstanceNorm { .. } => "instance_norm",
            OpKind::Pad { .. } => "pad",
            OpKind::PadEdge { .. } => "pad_edge",
            OpKind::Resize { .. } => "resize",
            OpKind::Cast => "cast",
            OpKind::Native(native) => native.schema().tag,
            OpKind::Loop(_) => "loop",
        }
    }
}

/// Elementwise functions of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    Pow,
    /// Quotient rounded towards minus infinity.
    FloorDiv,
    /// Remainder with the sign of the divisor.
    Mod,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Bitwise and.
    BitAnd,
    /// Bitwise or.
    BitOr,
    /// Bitwise exclusive or.
    BitXor,
    /// Left shift; bits beyond the element type are lost. Zero if the shift count is negative or not less than the
    /// number of bits.
    ShiftLeft,
    /// Arithmetic right shift. Only the sign is left if the shift count is negative or not less than the
    /// number of bits.
    ShiftRight,
}

impl Binary {
    /// Every function.
    pub const ALL: [Binary; 20] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Max,
        Binary::Min,
        Binary::Pow,
        Binary::FloorDiv,
        Binary::Mod,
        Binary::Equal,
        Binary::NotEqual,
        Binary::Less,
        Binary::LessEqual,
        Binary::Greater,
        Binary::GreaterEqual,
        Binary::BitAnd,
        Binary::BitOr,
        Binary::BitXor,
        Binary::ShiftLeft,
        Binary::ShiftRight,
    ];

    /// Name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Max => "max",
            Binary::Min => "min",
            Binary::Pow => "pow",
            Binary::FloorDiv => "floor_div",
            Binary::Mod => "mod",
            Binary::Equal => "equal",
            Binary::NotEqual => "not_equal",
            Binary::Less => "less",
            Binary::LessEqual => "less_equal",
            Binary::Greater => "greater",
            Binary::GreaterEqual => "greater_equal",
            Binary::BitAnd => "bit_and",
            Binary::BitOr => "bit_or",
            Binary::BitXor => "bit_xor",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRight => "shift_right",
        }
    }

    /// Returns true for bitwise functions, which floats do not support.
    pub fn is_of_bits(&self) -> bool {
        matches!(self, Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight)
    }

    /// Returns true for comparisons, which return a truth value.
    pub fn is_comparison(&self) -> bool {
        matches!(
            self,
            Binary::Equal
                | Binary::NotEqual
                | Binary::Less
                | Binary::LessEqual
                | Binary::Greater
                | Binary::GreaterEqual
        )
    }
}

/// Window functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Largest element; padding never wins.
    Max,
    /// Mean; with `exclude_padding` over the elements inside the input, else over the part of the window
    /// inside the padded input.
    Average {
        /// Divide by the number of elements inside the input.
        exclude_padding: bool,
    },
    /// Root of the sum of squares.
    L2,
}

/// Reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReduceKind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    SumSquare,
    L1,
    L2,
    LogSum,
    LogSumExp,
}

impl ReduceKind {
    /// Every reduction.
    pub const ALL: [ReduceKind; 10] = [
        ReduceKind::Sum,
        ReduceKind::Mean,
        ReduceKind::Max,
        ReduceKind::Min,
        ReduceKind::Prod,
        ReduceKind::SumSquare,
        ReduceKind::L1,
        ReduceKind::L2,
        ReduceKind::LogSum,
        ReduceKind::LogSumExp,
    ];

    /// Name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            ReduceKind::Sum => "reduce_sum",
            ReduceKind::Mean => "reduce_mean",
            ReduceKind::Max => "reduce_max",
            ReduceKind::Min => "reduce_min",
            ReduceKind::Prod => "reduce_prod",
            ReduceKind::SumSquare => "reduce_sum_square",
            ReduceKind::L1 => "reduce_l1",
            ReduceKind::L2 => "reduce_l2",
            ReduceKind::LogSum => "reduce_log_sum",
            ReduceKind::LogSumExp => "reduce_log_sum_exp",
        }
    }
}

/// Source of the elements of padding that is not constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeMode {
    /// Mirrored about the edge element, which is not repeated; pads are less than the extent.
    Reflect,
    /// The edge element repeated.
    Replicate,
}

/// Interpolation of a resampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeMode {
    /// The element at the position rounded down (`HalfPixel`: the nearest element).
    Nearest,
    /// Linear interpolation along every resampled axis.
    Linear,
}

/// Coordinate transform of a resampling: position in the operand of element `o` of the result, clamped to the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// `o * in / out`.
    Asymmetric,
    /// `(o + 1/2) * in / out - 1/2`.
    HalfPixel,
    /// `o * (in - 1) / (out - 1)`: first and last elements coincide.
    AlignCorners,
}

/// Combination of a scattered update with the element that it updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ScatterMode {
    Update,
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

impl ScatterMode {
    /// Every mode, with its name.
    pub const ALL: [(&'static str, ScatterMode); 7] = [
        ("update", ScatterMode::Update),
        ("add", ScatterMode::Add),
        ("sub", ScatterMode::Sub),
        ("mul", ScatterMode::Mul),
        ("div", ScatterMode::Div),
        ("max", ScatterMode::Max),
        ("min", ScatterMode::Min),
    ];

    /// The binary function of the mode; `None` for plain replacement.
    pub fn binary(self) -> Option<Binary> {
        Some(match self {
            ScatterMode::Update => return None,
            ScatterMode::Add => Binary::Add,
            ScatterMode::Sub => Binary::Sub,
            ScatterMode::Mul => Binary::Mul,
            ScatterMode::Div => Binary::Div,
            ScatterMode::Max => Binary::Max,
            ScatterMode::Min => Binary::Min,
        })
    }
}

/// Padding mode of sampling positions outside the operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outside {
    /// A constant.
    Value(f32),
    /// The nearest element.
    Border,
    /// Elements mirrored about the outermost ones.
    Reflect,
    /// Elements mirrored about the outer edges, half an element further out.
    Symmetric,
}

impl Outside {
    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Outside::Value(_) => "value",
            Outside::Border => "border",
            Outside::Reflect => "reflect",
            Outside::Symmetric => "symmetric",
        }
    }
}
