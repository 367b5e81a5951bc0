//! Unary functions as rows: name, spelling in each format, parameters, value. Readers, writers, text and evaluator use them.
//!
//! To add a function, add a variant and its row here, and its lowering in the compiler.

/// Elementwise functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Unary {
    Identity,
    Relu,
    Relu6,
    LeakyRelu {
        alpha: f32,
    },
    Elu {
        alpha: f32,
    },
    Sigmoid,
    /// `clip(alpha * x + beta, 0, 1)`.
    SigmoidHard {
        alpha: f32,
        beta: f32,
    },
    Tanh,
    /// `alpha * tanh(beta * x)`.
    ScaledTanh {
        alpha: f32,
        beta: f32,
    },
    Gelu(GeluMode),
    Silu,
    Softplus,
    Softsign,
    Erf,
    Exp,
    Exp2,
    /// Natural logarithm of `x + epsilon`.
    Log {
        epsilon: f32,
    },
    Log2,
    Sqrt,
    /// `1 / sqrt(x + epsilon)`.
    Rsqrt {
        epsilon: f32,
    },
    /// `1 / (x + epsilon)`.
    Inverse {
        epsilon: f32,
    },
    Abs,
    Neg,
    Square,
    /// -1, 0 or 1.
    Sign,
    Ceil,
    Floor,
    /// To the nearest integer, ties to even.
    Round,
    Clip {
        min: f32,
        max: f32,
    },
    /// Rounds to the nearest integer, ties to even, and clamps to two integers: quantization of a scaled number.
    RoundClip {
        min: f32,
        max: f32,
    },
    /// `max(x, alpha)`.
    Threshold {
        alpha: f32,
    },
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

/// Factor of the argument in [`GeluMode::Sigmoid`], as coremltools defines `SIGMOID_APPROXIMATION`.
pub const GELU_SLOPE: f64 = 1.702;

/// Formula of the Gaussian error linear unit (GELU).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeluMode {
    /// `x/2 (1 + erf(x / sqrt 2))`.
    Exact,
    /// With `tanh(sqrt(2/pi) (x + 0.044715 x^3))`.
    Tanh,
    /// `x sigmoid(1.702 x)`, with [`GELU_SLOPE`].
    Sigmoid,
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name in the text form and in ONNX.
    pub name: &'static str,
    /// Name in MIL.
    pub mil: &'static str,
    /// Default value in MIL.
    pub mil_default: f32,
    /// Default value in ONNX.
    pub onnx_default: f32,
}

/// A unary function. [`Unary::Gelu`] has no row, since its parameter is not a number.
#[derive(Debug)]
pub struct Row {
    /// Name in the text form.
    pub name: &'static str,
    /// MIL operation; empty if there is none.
    pub mil: &'static str,
    /// ONNX operator; empty if there is none.
    pub onnx: &'static str,
    /// Parameters, at most two.
    pub params: &'static [Param],
    make: fn([f32; 2]) -> Unary,
    value: fn(f32, [f32; 2]) -> f32,
    /// Evaluator on integers, if the function is defined on them.
    integer: Option<fn(i64, [f32; 2]) -> i64>,
}

const fn same(name: &'static str, mil_default: f32, onnx_default: f32) -> Param {
    Param { name, mil: name, mil_default, onnx_default }
}

const LEAKY_ALPHA: &[Param] = &[same("alpha", 0.01, 0.01)];
const ELU_ALPHA: &[Param] = &[same("alpha", 1.0, 1.0)];
const HARD: &[Param] = &[same("alpha", 0.2, 0.2), same("beta", 0.5, 0.5)];
const SCALED: &[Param] = &[same("alpha", 1.0, 1.0), same("beta", 1.0, 1.0)];
const LOG_EPSILON: &[Param] = &[same("epsilon", 1e-45, 0.0)];
const RSQRT_EPSILON: &[Param] = &[same("epsilon", 1e-12, 0.0)];
const INVERSE_EPSILON: &[Param] = &[same("epsilon", 1e-4, 0.0)];
const THRESHOLD_ALPHA: &[Param] = &[same("alpha", f32::NEG_INFINITY, f32::NEG_INFINITY)];
const LIMITS: &[Param] = &[
    Param { name: "min", mil: "alpha", mil_default: f32::NEG_INFINITY, onnx_default: f32::NEG_INFINITY },
    Param { name: "max", mil: "beta", mil_default: f32::INFINITY, onnx_default: f32::INFINITY },
];

macro_rules! rows {
    ( $( $name:literal $mil:literal $onnx:literal $params:expr, $make:expr, $value:expr, $integer:expr; )* ) => {
        &[ $( Row {
            name: $name, mil: $mil, onnx: $onnx, params: $params, make: $make, value: $value, integer: $integer,
        } ),* ]
    };
}

// Name, MIL, ONNX, parameters; variant; value; value on integers. ONNX's `Clip` takes its limits as operands.
#[rustfmt::skip]
static ROWS: &[Row] = rows! {
    "identity" "identity" "" &[], |_| Unary::Identity, |x, _| x, Some(|x, _| x);
    // `max` would turn NaN into zero.
    "relu" "relu" "Relu" &[], |_| Unary::Relu, |x, _| if x < 0.0 { 0.0 } else { x }, Some(|x, _| x.max(0));
    "relu6" "relu6" "" &[], |_| Unary::Relu6, |x, _| x.clamp(0.0, 6.0), Some(|x, _| x.clamp(0, 6));
    "leaky_relu" "leaky_relu" "LeakyRelu" LEAKY_ALPHA, |[alpha, _]| Unary::LeakyRelu { alpha },
        |x, [alpha, _]| if x < 0.0 { alpha * x } else { x }, None;
    "elu" "elu" "Elu" ELU_ALPHA, |[alpha, _]| Unary::Elu { alpha },
        |x, [alpha, _]| if x < 0.0 { alpha * x.exp_m1() } else { x }, None;
    "sigmoid" "sigmoid" "Sigmoid" &[], |_| Unary::Sigmoid, |x, _| sigmoid(x), None;
    "sigmoid_hard" "sigmoid_hard" "HardSigmoid" HARD, |[alpha, beta]| Unary::SigmoidHard { alpha, beta },
        |x, [alpha, beta]| (alpha * x + beta).clamp(0.0, 1.0), None;
    "tanh" "tanh" "Tanh" &[], |_| Unary::Tanh, |x, _| x.tanh(), None;
    "scaled_tanh" "scaled_tanh" "" SCALED, |[alpha, beta]| Unary::ScaledTanh { alpha, beta },
        |x, [alpha, beta]| alpha * (beta * x).tanh(), None;
    "silu" "silu" "" &[], |_| Unary::Silu, |x, _| x * sigmoid(x), None;
    // ln(1 + e^x) without overflow of e^x.
    "softplus" "softplus" "Softplus" &[], |_| Unary::Softplus, |x, _| x.max(0.0) + (-x.abs()).exp().ln_1p(), None;
    "softsign" "softsign" "Softsign" &[], |_| Unary::Softsign, |x, _| x / (1.0 + x.abs()), None;
    "erf" "erf" "Erf" &[], |_| Unary::Erf, |x, _| libm::erff(x), None;
    "exp" "exp" "Exp" &[], |_| Unary::Exp, |x, _| x.exp(), None;
    "exp2" "exp2" "" &[], |_| Unary::Exp2, |x, _| x.exp2(), None;
    "log" "log" "Log" LOG_EPSILON, |[epsilon, _]| Unary::Log { epsilon }, |x, [epsilon, _]| (x + epsilon).ln(), None;
    "log2" "" "" &[], |_| Unary::Log2, |x, _| x.log2(), None;
    "sqrt" "sqrt" "Sqrt" &[], |_| Unary::Sqrt, |x, _| x.sqrt(), None;
    "rsqrt" "rsqrt" "" RSQRT_EPSILON, |[epsilon, _]| Unary::Rsqrt { epsilon },
        |x, [epsilon, _]| 1.0 / (x + epsilon).sqrt(), None;
    "inverse" "inverse" "Reciprocal" INVERSE_EPSILON, |[epsilon, _]| Unary::Inverse { epsilon },
        // Minus zero plus zero would lose its sign.
        |x, [epsilon, _]| if epsilon == 0.0 { 1.0 / x } else { 1.0 / (x + epsilon) }, None;
    "abs" "abs" "Abs" &[], |_| Unary::Abs, |x, _| x.abs(), Some(|x, _| x.abs());
    "neg" "" "Neg" &[], |_| Unary::Neg, |x, _| -x, Some(|x, _| -x);
    "square" "square" "" &[], |_| Unary::Square, |x, _| x * x, Some(|x, _| x * x);
    "sign" "sign" "Sign" &[], |_| Unary::Sign, |x, _| if x == 0.0 { 0.0 } else { x.signum() }, Some(|x, _| x.signum());
    "ceil" "ceil" "Ceil" &[], |_| Unary::Ceil, |x, _| x.ceil(), Some(|x, _| x);
    "floor" "floor" "Floor" &[], |_| Unary::Floor, |x, _| x.floor(), Some(|x, _| x);
    "round" "round" "Round" &[], |_| Unary::Round, |x, _| x.round_ties_even(), Some(|x, _| x);
    "clip" "clip" "" LIMITS, |[min, max]| Unary::Clip { min, max }, |x, [min, max]| clip(x, min, max),
        Some(|x, [min, max]| x.max(min.ceil() as i64).min(max.floor() as i64));
    "round_clip" "" "" LIMITS, |[min, max]| Unary::RoundClip { min, max },
        |x, [min, max]| clip(x.round_ties_even(), min, max),
        Some(|x, [min, max]| x.max(min.ceil() as i64).min(max.floor() as i64));
    "threshold" "threshold" "" THRESHOLD_ALPHA, |[alpha, _]| Unary::Threshold { alpha },
        |x, [alpha, _]| if x < alpha { alpha } else { x }, Some(|x, [alpha, _]| x.max(alpha.ceil() as i64));
    "sin" "sin" "Sin" &[], |_| Unary::Sin, |x, _| x.sin(), None;
    "cos" "cos" "Cos" &[], |_| Unary::Cos, |x, _| x.cos(), None;
    "tan" "tan" "Tan" &[], |_| Unary::Tan, |x, _| x.tan(), None;
    "asin" "asin" "Asin" &[], |_| Unary::Asin, |x, _| x.asin(), None;
    "acos" "acos" "Acos" &[], |_| Unary::Acos, |x, _| x.acos(), None;
    "atan" "atan" "Atan" &[], |_| Unary::Atan, |x, _| x.atan(), None;
    "sinh" "sinh" "Sinh" &[], |_| Unary::Sinh, |x, _| x.sinh(), None;
    "cosh" "cosh" "Cosh" &[], |_| Unary::Cosh, |x, _| x.cosh(), None;
    "atanh" "atanh" "Atanh" &[], |_| Unary::Atanh, |x, _| x.atanh(), None;
};

impl Row {
    /// Every row.
    pub fn all() -> &'static [Row] {
        ROWS
    }

    /// The row of that name in the text form.
    pub fn named(name: &str) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// The row of a MIL operation.
    pub fn of_mil(op: &str) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.mil == op && !op.is_empty())
    }

    /// The row of an ONNX operator.
    pub fn of_onnx(op: &str) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.onnx == op && !op.is_empty())
    }

    /// The function with its parameters, in the order of the row.
    pub fn make<E>(&self, mut param: impl FnMut(&Param) -> Result<f32, E>) -> Result<Unary, E> {
        let mut values = [0.0; 2];
        for (value, row) in values.iter_mut().zip(self.params) {
            *value = param(row)?;
        }
        Ok((self.make)(values))
    }
}

impl Unary {
    /// The row of the function.
    pub fn row(&self) -> Option<&'static Row> {
        let variant = std::mem::discriminant(self);
        ROWS.iter().find(|row| std::mem::discriminant(&(row.make)([0.0; 2])) == variant)
    }

    /// Name in the text form, without attributes.
    pub fn name(&self) -> &'static str {
        self.row().map_or("gelu", |row| row.name)
    }

    /// Values of the row's parameters, in its order, padded with zeros.
    pub fn params(&self) -> [f32; 2] {
        match *self {
            Unary::LeakyRelu { alpha } | Unary::Elu { alpha } | Unary::Threshold { alpha } => [alpha, 0.0],
            Unary::SigmoidHard { alpha, beta } | Unary::ScaledTanh { alpha, beta } => [alpha, beta],
            Unary::Log { epsilon } | Unary::Rsqrt { epsilon } | Unary::Inverse { epsilon } => [epsilon, 0.0],
            Unary::Clip { min, max } | Unary::RoundClip { min, max } => [min, max],
            _ => [0.0; 2],
        }
    }

    /// Returns true if the function is defined on integers too.
    pub fn takes_integers(&self) -> bool {
        self.row().is_some_and(|row| row.integer.is_some())
    }

    /// The function of floats.
    pub fn function(&self) -> impl Fn(f32) -> f32 {
        let params = self.params();
        let value: fn(f32, [f32; 2]) -> f32 = match (self.row(), self) {
            (Some(row), _) => row.value,
            (None, Unary::Gelu(GeluMode::Tanh)) => |x, _| {
                let root = (2.0 / std::f32::consts::PI).sqrt();
                0.5 * x * (1.0 + (root * (x + 0.044715 * x * x * x)).tanh())
            },
            (None, Unary::Gelu(GeluMode::Sigmoid)) => |x, _| x * sigmoid(GELU_SLOPE as f32 * x),
            (None, _) => |x, _| 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2)),
        };
        move |x| value(x, params)
    }

    /// The function of integers; must only be called if [`Unary::takes_integers`] returns true.
    pub fn integer_function(&self) -> impl Fn(i64) -> i64 {
        let params = self.params();
        let integer: fn(i64, [f32; 2]) -> i64 = self.row().and_then(|row| row.integer).unwrap_or(|x, _| x);
        move |x| integer(x, params)
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// As `f32::clamp`, which panics if `min` is greater than `max`; here the upper limit wins.
fn clip(x: f32, min: f32, max: f32) -> f32 {
    let x = if x < min { min } else { x };
    if x > max { max } else { x }
}
