//! The operations of the graph. Frontends translate every model format into this set; `infer` gives result types,
//! `eval` the meaning.

/// What an operation computes. Operand lists are given as `(x, w, [b])`, brackets marking optional ones.
///
/// Spatial lists (`strides`, `kernel`, ...) have one entry per spatial axis: rank 3 tensors `[N, C, W]` have one,
/// rank 4 `[N, C, H, W]` two, rank 5 `[N, C, D, H, W]` three. `pads` are `(before, after)` per spatial axis.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// `(x, w, [b])`: cross-correlation, `w` is `[Cout, Cin / groups, k...]`, `b` is `[Cout]`.
    Conv { strides: Vec<usize>, pads: Vec<(usize, usize)>, dilations: Vec<usize>, groups: usize },
    /// `(x, y)`: batched matrix product over the last two axes, leading axes broadcast.
    MatMul { transpose_x: bool, transpose_y: bool },
    /// `(x, w, [b])`: `x · wᵀ + b` over the last axis, `w` is `[N, K]`, `b` is `[N]`.
    Linear,
    /// `(x)`: elementwise function.
    Unary(Unary),
    /// `(x, y)`: elementwise with broadcasting.
    Binary(Binary),
    /// `(x)`: sliding window. `ceil_mode` keeps a last window that reaches past the padded end.
    Pool { kind: PoolKind, kernel: Vec<usize>, strides: Vec<usize>, pads: Vec<(usize, usize)>, ceil_mode: bool },
    /// `(x)`: reduction over `axes` (sorted, non-negative).
    Reduce { kind: ReduceKind, axes: Vec<usize>, keep_dims: bool },
    /// `(x)`: softmax over one axis.
    Softmax { axis: usize },
    /// `(x0, x1, ...)`: concatenation along one axis.
    Concat { axis: usize },
    /// `(x)`: same elements in order, other extents (those of the result).
    Reshape,
    /// `(x)`: result axis `i` is operand axis `perm[i]`.
    Transpose { perm: Vec<usize> },
    /// `(x)`: elements `begin[i], begin[i] + stride[i], ...` before `end[i]` along each axis; all in range, strides positive.
    Slice { begin: Vec<usize>, end: Vec<usize>, stride: Vec<usize> },
    /// `(x, mean, variance, [gamma], [beta])`: per-channel affine, channel axis 1. An absent gamma with a present beta
    /// is not representable: frontends supply ones.
    BatchNorm { epsilon: f32 },
    /// `(x, [gamma], [beta])`: normalization over `axes`; gamma and beta have the extents of those axes.
    LayerNorm { axes: Vec<usize>, epsilon: f32 },
    /// `(x, [gamma], [beta])`: normalization over the spatial axes of each channel; gamma and beta are `[C]`.
    InstanceNorm { epsilon: f32 },
    /// `(x)`: constant padding, `(before, after)` per axis.
    Pad { pads: Vec<(usize, usize)>, value: f32 },
    /// `(x)`: conversion to the result's element type.
    Cast,
}

/// Elementwise functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Unary {
    Identity,
    Relu,
    Relu6,
    LeakyRelu { alpha: f32 },
    Elu { alpha: f32 },
    Sigmoid,
    /// `clip(alpha * x + beta, 0, 1)`.
    SigmoidHard { alpha: f32, beta: f32 },
    Tanh,
    /// `alpha * tanh(beta * x)`.
    ScaledTanh { alpha: f32, beta: f32 },
    Gelu(GeluMode),
    Silu,
    Softplus,
    Softsign,
    Erf,
    Exp,
    Exp2,
    /// Natural logarithm of `x + epsilon`.
    Log { epsilon: f32 },
    Log2,
    Sqrt,
    /// `1 / sqrt(x + epsilon)`.
    Rsqrt { epsilon: f32 },
    /// `1 / (x + epsilon)`.
    Inverse { epsilon: f32 },
    Abs,
    Neg,
    Square,
    Sign,
    Ceil,
    Floor,
    Round,
    Clip { min: f32, max: f32 },
    /// `max(x, alpha)`.
    Threshold { alpha: f32 },
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Atanh,
}

/// Which formula of the Gaussian error linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeluMode {
    /// `x/2 (1 + erf(x / sqrt 2))`.
    Exact,
    /// With `tanh(sqrt(2/pi) (x + 0.044715 x^3))`.
    Tanh,
    /// `x sigmoid(1.702 x)`.
    Sigmoid,
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
    FloorDiv,
    Mod,
}

/// Window functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Largest element; padding never wins.
    Max,
    /// Mean; with `exclude_padding` over the elements inside the input, else over the whole window.
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
