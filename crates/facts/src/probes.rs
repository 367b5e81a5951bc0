//! Published measurements of the arithmetic, as programs with inputs and results: tests of the models.
//!
//! A row is a small network in the text form of the `net` crate. `crates/ane/tests/nets/probes.rs` compiles and executes every
//! row in every model and compares with `met`; `docs/numerics.md` prints the rows. Source keys are explained there.

use crate::numerics::Model::{self, Fast, Fixed, Tiled};

/// One measured result.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Name.
    pub name: &'static str,
    /// Statements that define `%y` from `%x`, and from `%ones`, a constant of ones with the extents of `%x`. In text form of a
    /// network, result types included.
    pub program: &'static str,
    /// Extents of `%x`.
    pub shape: &'static [usize],
    /// Elements of `%x`: values with their repetition counts in a row; the list is repeated to the size of `%x`.
    pub input: &'static [(f32, usize)],
    /// Result of the device, element by element, to fp16; the sign of a zero counts. [`FINITE`] where only that is known.
    pub measured: &'static [f32],
    /// Author of the measurement, and chips.
    pub source: &'static str,
    /// Models that reproduce it.
    pub met: &'static [Model],
    /// Reason of a deviation, or other remarks.
    pub note: &'static str,
}

/// Stands for any finite number.
pub const FINITE: f32 = f32::MAX;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;
/// 2^-24, the smallest positive number of fp16.
const LEAST: f32 = 5.960_464_5e-8;
const ALL: &[Model] = &[Fast, Fixed, Tiled];
const EXACT: &[Model] = &[Fixed, Tiled];
const TILES: &[Model] = &[Tiled];
const NONE: &[Model] = &[];

/// A row without a note.
const fn row(
    name: &'static str,
    program: &'static str,
    shape: &'static [usize],
    input: &'static [(f32, usize)],
    measured: &'static [f32],
    source: &'static str,
    met: &'static [Model],
) -> Probe {
    Probe { name, program, shape, input, measured, source, met, note: "" }
}

impl Probe {
    const fn note(self, note: &'static str) -> Probe {
        Probe { note, ..self }
    }
}

/// A sum as a matrix product with a constant vector of ones.
const fn sum(
    name: &'static str,
    shape: &'static [usize],
    input: &'static [(f32, usize)],
    measured: &'static [f32],
    source: &'static str,
    met: &'static [Model],
) -> Probe {
    row(name, "%y: f16[1, 1] = linear(%x, %ones)", shape, input, measured, source, met)
}

const REDUCE: &str = "%y: f16[1] = reduce_sum(%x) axes=[1] keep_dims=false";
const STAGE: &str = "needs the first stage";
const ADD_ZERO: &str = "const %z: f16[1] = [0.0] %y: f16[1, 1] = add(%x, %z)";
const TIMES_ONE: &str = "const %z: f16[1] = [1.0] %y: f16[1, 1] = mul(%x, %z)";
const SLICE_1: &str = "%y: f16[1, 1, 1, 7] = slice(%x) begin=[0, 0, 0, 1] end=[1, 1, 1, 8] stride=[1, 1, 1, 1]";
const SLICE_32: &str = "%y: f16[1, 1, 1, 2] = slice(%x) begin=[0, 0, 0, 32] end=[1, 1, 1, 34] stride=[1, 1, 1, 1]";
const SLICE_0: &str = "%y: f16[1, 1, 1, 2] = slice(%x) begin=[0, 0, 0, 0] end=[1, 1, 1, 2] stride=[1, 1, 1, 1]";
const SLICE_ROWS: &str = "%y: f16[1, 1, 1, 2] = slice(%x) begin=[0, 0, 1, 0] end=[1, 1, 2, 2] stride=[1, 1, 1, 1]";
const CONV: &str = "const %w: f16[1, 1, 1, 1] = [1.0] \
     %y: f16[1, 1, 1, 1] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1";
const MAX_ONE: &str = "const %z: f16[1] = [1.0] %y: f16[1, 1] = max(%x, %z)";

/// All rows.
pub static PROBES: &[Probe] = &[
    sum("16000 ones", &[1, 16000], &[(1.0, 16000)], &[16000.0], "book: M1", ALL),
    sum("16384 ones", &[1, 16384], &[(1.0, 16384)], &[16384.0], "ANEForge: M1", ALL),
    sum("8192 and 16 ones", &[1, 17], &[(8192.0, 1), (1.0, 16)], &[8208.0], "book: M1", ALL),
    sum("4096 and 1024 ones", &[1, 1025], &[(4096.0, 1), (1.0, 1024)], &[5116.0], "book: M1", TILES).note(STAGE),
    sum("1024, -1024, 1, sixteen times", &[1, 48], &[(1024.0, 1), (-1024.0, 1), (1.0, 1)], &[16.0], "book: M1", ALL),
    sum("1024, 1, -1024, sixteen times", &[1, 48], &[(1024.0, 1), (1.0, 1), (-1024.0, 1)], &[16.0], "book: M1", ALL),
    sum("3000, -3000, 1, sixteen times", &[1, 48], &[(3000.0, 1), (-3000.0, 1), (1.0, 1)], &[16.0], "book: M1", ALL),
    sum("3000, 1, -3000, sixteen times", &[1, 48], &[(3000.0, 1), (1.0, 1), (-3000.0, 1)], &[16.0], "book: M1", ALL),
    sum("4000, -4000, 1, sixteen times", &[1, 48], &[(4000.0, 1), (-4000.0, 1), (1.0, 1)], &[16.0], "book: M1", ALL),
    sum("4000, 1, -4000, sixteen times", &[1, 48], &[(4000.0, 1), (1.0, 1), (-4000.0, 1)], &[16.0], "book: M1", ALL),
    sum("4090, -4090, 1, sixteen times", &[1, 48], &[(4090.0, 1), (-4090.0, 1), (1.0, 1)], &[16.0], "book: M1", ALL),
    sum("4090, 1, -4090, sixteen times", &[1, 48], &[(4090.0, 1), (1.0, 1), (-4090.0, 1)], &[16.0], "book: M1", ALL),
    sum("4096, -4096, 1, sixteen times", &[1, 48], &[(4096.0, 1), (-4096.0, 1), (1.0, 1)], &[4.0], "book: M1", TILES)
        .note(STAGE),
    sum("4096, 1, -4096, sixteen times", &[1, 48], &[(4096.0, 1), (1.0, 1), (-4096.0, 1)], &[4.0], "book: M1", TILES)
        .note(STAGE),
    sum("8000, -8000, 1, sixteen times", &[1, 48], &[(8000.0, 1), (-8000.0, 1), (1.0, 1)], &[4.0], "book: M1", TILES)
        .note(STAGE),
    sum("8000, 1, -8000, sixteen times", &[1, 48], &[(8000.0, 1), (1.0, 1), (-8000.0, 1)], &[4.0], "book: M1", TILES)
        .note(STAGE),
    sum(
        "16000, -16000, 1, sixteen times",
        &[1, 48],
        &[(16000.0, 1), (-16000.0, 1), (1.0, 1)],
        &[4.0],
        "book: M1",
        TILES,
    )
    .note(STAGE),
    sum(
        "16000, 1, -16000, sixteen times",
        &[1, 48],
        &[(16000.0, 1), (1.0, 1), (-16000.0, 1)],
        &[4.0],
        "book: M1",
        TILES,
    )
    .note(STAGE),
    sum(
        "30000, -30000, 1, sixteen times",
        &[1, 48],
        &[(30000.0, 1), (-30000.0, 1), (1.0, 1)],
        &[4.0],
        "book: M1",
        TILES,
    )
    .note(STAGE),
    sum(
        "30000, 1, -30000, sixteen times",
        &[1, 48],
        &[(30000.0, 1), (1.0, 1), (-30000.0, 1)],
        &[4.0],
        "book: M1",
        TILES,
    )
    .note(STAGE),
    sum("32752", &[1, 1], &[(32752.0, 1)], &[32752.0], "book: M1; suite: M1 to M6", ALL),
    sum("32768", &[1, 1], &[(32768.0, 1)], &[INF], "book: M1; suite: M1 to M6", EXACT),
    sum("-32768", &[1, 1], &[(-32768.0, 1)], &[-INF], "book: M1", EXACT),
    sum("16384 twice", &[1, 2], &[(16384.0, 2)], &[INF], "book: M1", EXACT),
    sum("32 times 1000", &[1, 32], &[(1000.0, 32)], &[32000.0], "ANEForge: M5", ALL),
    sum("33 times 1000", &[1, 33], &[(1000.0, 33)], &[INF], "ANEForge: M5", EXACT),
    sum("20000 twice, two zeros, -20000", &[1, 5], &[(20000.0, 2), (0.0, 2), (-20000.0, 1)], &[INF], "book: M1", EXACT),
    sum("2048 and 1", &[1, 2], &[(2048.0, 1), (1.0, 1)], &[2048.0], "book: M1", &[Fast, Tiled])
        .note("the tie; the next row but one has the other"),
    sum("2048 and 1", &[1, 2], &[(2048.0, 1), (1.0, 1)], &[2050.0], "book: M5", &[Fixed]).note("the tie"),
    row("257 and seven 256", REDUCE, &[1, 8], &[(257.0, 1), (256.0, 7)], &[2050.0], "suite: M1 to M6", &[Fixed])
        .note("the tie"),
    sum("2^-24 twice", &[1, 2], &[(LEAST, 2)], &[0.0], "book: M1", EXACT),
    sum("the largest subnormal number twice", &[1, 2], &[(1023.0 * LEAST, 2)], &[0.0], "book: M1", TILES)
        .note("if the book means every subnormal number; the published norms say it does not"),
    row("59968 and 5504", REDUCE, &[1, 2], &[(59968.0, 1), (5504.0, 1)], &[65472.0], "book: M1", ALL),
    row("40000 twice", REDUCE, &[1, 2], &[(40000.0, 2)], &[INF], "book: M1", ALL),
    row("one channel, 1x1, 60000", CONV, &[1, 1, 1, 1], &[(60000.0, 1)], &[60000.0], "book: M1", &[Fast])
        .note("as a layer with coefficients it is a sum of one product, and the row below holds"),
    row("one channel, 1x1, 40000", CONV, &[1, 1, 1, 1], &[(40000.0, 1)], &[INF], "study: M4, M6", EXACT),
    row("x * x, 255.875", "%y: f16[1, 1] = mul(%x, %x)", &[1, 1], &[(255.875, 1)], &[65472.0], "book: M1", ALL),
    row("x * x, 256", "%y: f16[1, 1] = mul(%x, %x)", &[1, 1], &[(256.0, 1)], &[INF], "book: M1", ALL),
    row("x * 1, 60000", TIMES_ONE, &[1, 1], &[(60000.0, 1)], &[60000.0], "book: M1", ALL),
    row("x + 0, 2^-24", ADD_ZERO, &[1, 1], &[(LEAST, 1)], &[LEAST], "book: M1", ALL),
    row("x * 1, 2^-24", TIMES_ONE, &[1, 1], &[(LEAST, 1)], &[LEAST], "book: M1", ALL),
    row("x + 0, -0", ADD_ZERO, &[1, 1], &[(-0.0, 1)], &[0.0], "book: M1", EXACT),
    row("x + 0, NaN", ADD_ZERO, &[1, 1], &[(NAN, 1)], &[INF], "book: M1", EXACT),
    row("relu, NaN", "%y: f16[1, 1] = relu(%x)", &[1, 1], &[(NAN, 1)], &[INF], "book: M1", EXACT),
    row("max(x, 1), NaN", MAX_ONE, &[1, 1], &[(NAN, 1)], &[INF], "book: M1", EXACT),
    row("sigmoid, NaN", "%y: f16[1, 1] = sigmoid(%x)", &[1, 1], &[(NAN, 1)], &[1.0], "book: M1", EXACT),
    row("tanh, NaN", "%y: f16[1, 1] = tanh(%x)", &[1, 1], &[(NAN, 1)], &[1.0], "book: M1", EXACT),
    row("erf, NaN", "%y: f16[1, 1] = erf(%x)", &[1, 1], &[(NAN, 1)], &[1.0], "book: M1", EXACT),
    row("exp, NaN", "%y: f16[1, 1] = exp(%x)", &[1, 1], &[(NAN, 1)], &[INF], "book: M1", EXACT),
    row(
        "softmax, NaN and 1, 2, 3",
        "%y: f16[1, 4] = softmax(%x) axis=1",
        &[1, 4],
        &[(NAN, 1), (1.0, 1), (2.0, 1), (3.0, 1)],
        &[1.0, 0.0, 0.0, 0.0],
        "book: M1",
        EXACT,
    ),
    row("x - x, infinite", "%y: f16[1, 1] = sub(%x, %x)", &[1, 1], &[(INF, 1)], &[0.0], "book: M1", EXACT),
    row(
        "0 * x, infinite",
        "const %z: f16[1, 2] = [0.0, 0.0] %y: f16[1, 2] = mul(%x, %z)",
        &[1, 2],
        &[(INF, 2)],
        &[0.0, 0.0],
        "book: M1",
        EXACT,
    ),
    row("sqrt, -1", "%y: f16[1, 1] = sqrt(%x)", &[1, 1], &[(-1.0, 1)], &[0.0], "book: M1", EXACT),
    row("rsqrt, -1", "%y: f16[1, 1] = rsqrt(%x) epsilon=0.0", &[1, 1], &[(-1.0, 1)], &[0.0], "book: M1", EXACT),
    row("log, -1", "%y: f16[1, 1] = log(%x) epsilon=0.0", &[1, 1], &[(-1.0, 1)], &[0.0], "book: M1", EXACT),
    row("log, 0", "%y: f16[1, 1] = log(%x) epsilon=0.0", &[1, 1], &[(0.0, 1)], &[-45440.0], "book: M1", NONE)
        .note("Apple's tables differ by version of the compiler; the sample programs' has minus infinity"),
    row("inverse, -0", "%y: f16[1, 1] = inverse(%x) epsilon=0.0", &[1, 1], &[(-0.0, 1)], &[INF], "book: M1", EXACT),
    row("rsqrt, -0", "%y: f16[1, 1] = rsqrt(%x) epsilon=0.0", &[1, 1], &[(-0.0, 1)], &[INF], "book: M1", ALL),
    row("sqrt, -0", "%y: f16[1, 1] = sqrt(%x)", &[1, 1], &[(-0.0, 1)], &[0.0], "book: M1", ALL),
    row(
        "softmax, 1000, 1, 2, 3",
        "%y: f16[1, 4] = softmax(%x) axis=1",
        &[1, 4],
        &[(1000.0, 1), (1.0, 1), (2.0, 1), (3.0, 1)],
        &[1.0, 0.0, 0.0, 0.0],
        "book: M1",
        ALL,
    ),
    row(
        "softmax, four equal",
        "%y: f16[1, 4] = softmax(%x) axis=1",
        &[1, 4],
        &[(3.0, 4)],
        &[0.25, 0.25, 0.25, 0.25],
        "book: M1",
        ALL,
    ),
    row("exp, 11.0859375", "%y: f16[1, 1] = exp(%x)", &[1, 1], &[(11.085_937_5, 1)], &[FINITE], "book: M1", ALL),
    row("exp, 11.09375", "%y: f16[1, 1] = exp(%x)", &[1, 1], &[(11.093_75, 1)], &[INF], "book: M1", ALL),
    row("gelu, 0", "%y: f16[1, 1] = gelu(%x) mode=exact", &[1, 1], &[(0.0, 1)], &[-0.000_543], "book: M1", NONE)
        .note("Apple's tables differ by version of the compiler"),
    row("silu, 0", "%y: f16[1, 1] = silu(%x)", &[1, 1], &[(0.0, 1)], &[-0.001_259], "book: M1", NONE)
        .note("a table in the book; x * sigmoid(x) in the sample programs"),
    row("softplus, infinite", "%y: f16[1, 1] = softplus(%x)", &[1, 1], &[(INF, 1)], &[0.0], "book: M1", NONE),
    row("softsign, infinite", "%y: f16[1, 1] = softsign(%x)", &[1, 1], &[(INF, 1)], &[0.0], "book: M1", EXACT),
    row("columns from 1 on, 4094", SLICE_1, &[1, 1, 1, 8], &[(4094.0, 8)], &[4094.0; 7], "suite: M1, M2", ALL),
    row("columns from 1 on, 4096", SLICE_1, &[1, 1, 1, 8], &[(4096.0, 8)], &[INF; 7], "suite: M1, M2", NONE)
        .note("the words of Apple's crop are not known; this compiler exchanges axes, which has no gain"),
    row("columns from 32 on, 4094", SLICE_32, &[1, 1, 1, 34], &[(4094.0, 34)], &[4094.0; 2], "book: M1", ALL),
    row("columns from 32 on, 4096", SLICE_32, &[1, 1, 1, 34], &[(4096.0, 34)], &[INF; 2], "book: M1", EXACT),
    row("columns from 0 on, 60000", SLICE_0, &[1, 1, 1, 34], &[(60000.0, 34)], &[60000.0; 2], "book: M1", ALL),
    row("rows from 1 on, 60000", SLICE_ROWS, &[1, 1, 2, 2], &[(60000.0, 4)], &[60000.0; 2], "book: M1", ALL),
];
