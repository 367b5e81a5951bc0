//! Findings of random networks that were mended: each as text with its inputs, and the seed that drew it (0: found otherwise).

use super::draw::Case;
use super::{Outcome, outcome};
use anemone_net::{Data, Tensor, text};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// Seed, network without its frame, and inputs, each repeated to the extents of the network's.
type Found = (u64, &'static str, &'static [&'static [f32]]);

static FOUND: &[Found] = &[
    // A truth value lost its conversion where an integer was made of it.
    (
        6_004_807,
        "  input %x: f16[3, 5]
  %t: bool[3, 5] = cast(%x)
  %y: u8[3, 5] = cast(%t)
  output %y
",
        &[&[-3.0, 0.0, 2.5, INF]],
    ),
    (
        5_000_808,
        "  input %c: bool[4, 5, 1]
  input %a: f16[1, 5, 1]
  input %b: f16[1, 5, 1]
  %s: f16[4, 5, 1] = select(%c, %a, %b)
  %t: bool[4, 5, 1] = cast(%s)
  %y: i32[4, 5, 1] = cast(%t)
  output %y
",
        &[&[0.0, 1.0, 1.0], &[-3.0], &[0.5, 0.0]],
    ),
    // Places are whole floats: powers of integers to them went through logarithms.
    (
        5_001_494,
        "  input %x: f16[5, 3, 1, 5]
  input %b: i32[5, 1, 1, 1]
  %p: i32[5, 1, 1, 5] = arg_min(%x) last=false axis=1 keep_dims=true
  %y: i32[5, 1, 1, 5] = pow(%b, %p)
  output %y
",
        &[&[1.0, 0.0, -1.0, 3.0, 2.0, -7.0, 0.5], &[7.0, -3.0]],
    ),
    (
        6_028_368,
        "  input %x: f16[4, 5, 3, 2]
  input %e: i32[4, 1, 1, 2]
  %p: i32[4, 1, 3, 2] = arg_max(%x) last=false axis=1 keep_dims=true
  %y: i32[4, 1, 3, 2] = pow(%p, %e)
  output %y
",
        &[&[1.0, 0.0, -1.0, 3.0, 2.0, -7.0, 0.5], &[3.0, 2.0, 1.0]],
    ),
    // A function that steps where a table's range ends, and is another there: found by volumes sampled at their edges.
    (
        0,
        "  input %x: f16[1, 8]
  input %v: f16[1, 8]
  %f: f16[1, 8] = floor(%x)
  const %one: f16[] = [1.0]
  %p: f16[1, 8] = add(%f, %one)
  %h: f16[1, 8] = clip(%p) min=0.0 max=2.0
  %e: bool[1, 8] = equal(%h, %p)
  const %zero: f16[] = [0.0]
  %y: f16[1, 8] = select(%e, %v, %zero)
  output %y
",
        &[&[-1.0, 0.0, 1.0, 2.0, 3.0, 0.5, 2.5, 1.5], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]],
    ),
    // A sum that was left in sets of channels that it does not have.
    (
        6_034_880,
        "  input %x: f16[4, 2]
  input %u: f16[1, 4]
  const %m: f16[2] = [-3.0, -3.0]
  const %v: f16[2] = [3.25, 3.25]
  const %g: f16[2] = [-3.0, -3.0]
  const %b: f16[2] = [-3.0, -3.0]
  %n: f16[4, 2] = batch_norm(%x, %m, %v, %g, %b) epsilon=1e-5
  %t: f16[2, 4] = transpose(%n) perm=[1, 0]
  const %i: i32[1, 4] = [1, 0, 0, 0]
  %y: f16[2, 4] = scatter_along(%t, %i, %u) axis=0 mode=update
  output %y
",
        &[&[1.0, 0.0, -1.0, 3.0, 2.0], &[7.0, -3.0]],
    ),
    // A mean of integers was rounded before its fraction was dropped: refused, for the host.
    (
        6_036_853,
        "  input %x: i32[4, 4]
  %y: i32[4, 1] = reduce_mean(%x) axes=[1] keep_dims=true
  output %y
",
        &[&[127.0, 1000.0, 0.0, 1000.0]],
    ),
    // Doubts that no warning told: NaN and infinities before places, integers divided by zero.
    (
        5_001_490,
        "  input %x: f16[16, 4, 3]
  %r: f16[16, 8, 6] = resize(%x) mode=nearest coordinates=asymmetric
  %y: i32[8, 6] = arg_min(%r) last=false axis=0 keep_dims=false
  output %y
",
        &[&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -INF, NAN, 0.0, 0.0, 0.0, 0.0]],
    ),
    (
        6_025_563,
        "  input %x: f16[5, 2, 3, 2, 4]
  %p: f16[5, 2, 3, 2, 5] = pad_edge(%x) pads=[[0, 0], [0, 0], [0, 0], [0, 0], [0, 1]] mode=replicate
  %y: i32[2, 3, 2, 5] = arg_min(%p) last=false axis=0 keep_dims=false
  output %y
",
        &[&[0.0, 0.0, 0.0, -INF, 0.0, 0.0, 0.0, INF, 0.0, -INF, 0.0]],
    ),
    (
        6_007_358,
        "  input %a: i16[15, 4]
  input %b: i16[15, 4]
  %m: i16[15, 4] = mod(%a, %b)
  %p: i16[15, 5] = pad_edge(%m) pads=[[0, 0], [0, 1]] mode=replicate
  %y: i16[15, 5] = relu(%p)
  output %y
",
        &[&[1.0, 0.0, 0.0, 0.0], &[2.0, 0.0, 0.0, 0.0]],
    ),
    // Part of a row through the crop of the M1 is infinite from 4096 on, in the exact model: a run says so.
    (
        20_100_164,
        "  input %x: f16[39]
  const %i: i32[] = [-2]
  %y: f16[] = gather(%x, %i) axis=0
  output %y
",
        &[&[-10000.0]],
    ),
    (
        300_244_498,
        "  input %x: f16[5, 2, 40]
  %y: f16[5, 2, 7] = resize(%x) mode=nearest coordinates=half_pixel
  output %y
",
        &[&[-10000.0, 1.0, 2.0, 60000.0, INF]],
    ),
    // A norm's addend times the weights behind it was beyond fp16.
    (
        20_252_352,
        "  input %x: f16[18, 1, 1]
  const %m: f16[1] = [2048.0]
  const %v: f16[1] = [0.25]
  %n: f16[18, 1, 1] = batch_norm(%x, %m, %v) epsilon=1e-5
  const %w: f16[4, 1] = [0.0, 0.0, 2048.0, 0.0]
  %y: f16[18, 1, 4] = linear(%n, %w)
  output %y
",
        &[&[0.0, 2047.0, NAN, -INF]],
    ),
    // An addend that nearly cancels an exact input was rounded behind the product.
    (
        20_284_115,
        "  input %x: f16[3, 1, 1]
  const %b: f16[1, 1, 1] = [-2.1972656]
  %t: f16[3, 1, 1] = add(%x, %b)
  const %w: f16[1, 1] = [-3.984375]
  %y: f16[3, 1, 1] = linear(%t, %w)
  output %y
",
        &[&[-4.0, -4.0, 1.8720703]],
    ),
    // NaN that a maximum drops, and what follows it.
    (
        77_005_904,
        "  input %a: f16[2, 2]
  input %b: f16[2, 2]
  %m: f16[2, 2] = max(%a, %b)
  %y: f16[2, 1] = reduce_sum_square(%m) axes=[1] keep_dims=true
  output %y
",
        &[&[0.0, 0.0, -INF, 0.0], &[NAN, 0.0, 0.0, 0.0]],
    ),
    (
        300_182_922,
        "  input %x: f16[1, 4, 3, 3]
  %r: f16[1, 4, 6, 6] = resize(%x) mode=nearest coordinates=asymmetric
  %y: f16[1, 4, 6, 6] = softmax(%r) axis=3
  output %y
",
        &[&[NAN, -INF, 0.0, -INF, NAN, NAN, 0.0, 0.0, INF, -INF, 0.0]],
    ),
    // Integers beyond fp16 before a function of them.
    (
        300_171_617,
        "  input %a: i32[3, 4]
  input %b: i32[3, 4]
  %p: i32[3, 4] = mul(%a, %b)
  %f: f16[3, 4] = cast(%p)
  %y: f16[3, 4] = softmax(%f) axis=1
  output %y
",
        &[&[1000.0, 2.0, -1000.0], &[1000.0, 3.0]],
    ),
    // Small squares are rounded one by one.
    (
        300_031_994,
        "  input %x: f16[5, 8]
  %y: f16[5, 1] = reduce_l2(%x) axes=[1] keep_dims=true
  output %y
",
        &[&[0.0010004044]],
    ),
    // A number that wraps in the model is infinite in fp16; a comparison takes it before an output shows it.
    (
        302_026_258,
        "  input %x: u16[2, 3]
  input %e: u16[2, 3]
  input %z: u16[2, 3]
  %p: u16[2, 3] = pow(%x, %e)
  %y: bool[2, 3] = greater(%p, %z)
  output %y
",
        &[&[16.0, 2.0, 1000.0], &[5.0, 3.0, 100.0], &[7.0]],
    ),
    // An unsigned difference below zero is large in the model.
    (
        161,
        "  input %x: u16[2]
  input %z: u16[2]
  %y: u16[2] = sub(%x, %z)
  output %y
",
        &[&[3.0, 5.0], &[128.0, 4.0]],
    ),
    // A 16-bit integer with its sign read otherwise is refused, for the host.
    (
        1,
        "  input %x: u16[4]
  %y: i16[4] = cast(%x)
  output %y
",
        &[&[1.0, 32768.0, 40000.0]],
    ),
    // Means over blocks of integers were a pooling, which keeps the fraction.
    (
        400_040_715,
        "  input %x: i8[2, 4, 4, 4, 3]
  %y: i8[2, 4, 1, 4, 1] = reduce_mean(%x) axes=[2, 4] keep_dims=true
  output %y
",
        &[&[1.0, 0.0, 0.0, -7.0, 16.0, 0.0, 5.0]],
    ),
    // An infinity on the way times zero is no number, which a maximum or the place of a minimum hides.
    (
        400_014_693,
        "  input %x: i32[1, 12, 4]
  input %b: i32[1, 1, 4]
  %p: i32[1, 1, 4] = reduce_prod(%x) axes=[1] keep_dims=true
  %y: i32[1, 1, 4] = max(%p, %b)
  output %y
",
        &[&[1000.0, 1000.0, 1000.0, 1000.0, 1000.0, 1000.0, 0.0], &[-128.0]],
    ),
    (
        400_035_577,
        "  input %x: i32[1, 4, 4, 5, 1]
  %p: i32[1, 1, 4, 5, 1] = reduce_prod(%x) axes=[1] keep_dims=true
  %y: i32[1, 4, 5, 1] = arg_min(%p) last=false axis=0 keep_dims=false
  output %y
",
        &[&[1000.0, 1000.0, 1000.0, 1000.0, 1000.0, 1000.0, 0.0]],
    ),
    // What a resampling leaves out is multiplied by zero, and a comparison hides the result.
    (
        400_042_778,
        "  input %x: f16[2, 1]
  input %b: f16[1, 1]
  %r: f16[1, 1] = resize(%x) mode=nearest coordinates=half_pixel
  %y: bool[1, 1] = greater(%r, %b)
  output %y
",
        &[&[NAN, 0.0], &[-INF]],
    ),
    // So it is where the number is infinite in fp16 alone.
    (
        400_133_084,
        "  input %x: f16[2, 2, 3]
  input %b: f16[4, 2, 4]
  const %g: f16[3] = [0.0, 0.0, 60000.0]
  %n: f16[2, 2, 3] = layer_norm(%x, %g) axes=[2] epsilon=1e-5
  %p: f16[4, 2, 4] = pad_edge(%n) pads=[[1, 1], [0, 0], [1, 0]] mode=replicate
  %y: f16[4, 2, 4] = min(%p, %b)
  output %y
",
        &[&[0.0, 0.0, 1.0, 1.0, 0.0, 0.5], &[0.0]],
    ),
    // No integer is NaN: the evaluator has zero, fp16 keeps it.
    (
        400_262_922,
        "  input %x: f16[5, 2, 1]
  input %b: u8[6, 3, 1]
  %c: u8[5, 2, 1] = cast(%x)
  %p: u8[6, 3, 1] = pad_edge(%c) pads=[[1, 0], [1, 0], [0, 0]] mode=replicate
  %y: u8[6, 3, 1] = min(%p, %b)
  output %y
",
        &[&[0.0, INF, 0.0, -INF, -INF, 0.0, NAN, NAN, 0.0, 0.0], &[0.0, 1.0, 0.0]],
    ),
    // One clip after another became a fitted table, whose corner is a rounding off.
    (
        400_446_006,
        "  input %x: f16[1]
  const %i: i32[2] = [0, 0]
  const %u: f16[2] = [-0.9995117, 0.0]
  %y: f16[1] = scatter_along(%x, %i, %u) axis=0 mode=min
  output %y
",
        &[&[-0.999_511_7]],
    ),
    // Positions are exact: an addend to them that moves into a product's bias is rounded at the size of the weights.
    (
        500_099_149,
        "  input %x: f16[2, 5]
  %i: i32[1, 5] = arg_min(%x) last=true axis=0 keep_dims=true
  %f: f16[1, 5] = cast(%i)
  const %w: f16[5, 1] = [1.0, 65504.0, 0.0, 0.0, 0.0]
  %y: f16[1, 1] = matmul(%f, %w) transpose_x=false transpose_y=false
  output %y
",
        &[&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]],
    ),
    // A sum on the way to a place is beyond 2048, and a later update takes it back: a run warns.
    (
        700_069_892,
        "  input %x: i32[1]
  input %u: i32[3]
  const %i: i32[3] = [0, 0, 0]
  %y: i32[1] = scatter_along(%x, %i, %u) axis=0 mode=add
  output %y
",
        &[&[2047.0], &[2.0, 1.0, -500.0]],
    ),
    // So is a sum over one axis before that over the next.
    (
        700_561_488,
        "  input %x: i16[4, 2, 3, 4]
  %y: i16[4, 1, 1, 4] = reduce_sum(%x) axes=[1, 2] keep_dims=true
  output %y
",
        &[&[2047.0, 2.0, 1.0, 3.0, -500.0, 7.0, 0.0]],
    ),
    // A rounding of what becomes a narrow integer is one table, which rounds away from zero in the exact models.
    (
        700_203_074,
        "  input %x: f16[4]
  input %z: u8[4]
  %r: f16[4] = round(%x)
  %c: u8[4] = cast(%r)
  %y: u8[4] = add(%c, %z)
  output %y
",
        &[&[NAN, -INF, 0.5, 2.5], &[0.0, 0.0, 0.0, 1.0]],
    ),
    // The reciprocal of a subnormal number is infinite, and an exponential hides it.
    (
        700_416_824,
        "  input %x: f16[2]
  input %z: f16[2]
  %q: f16[2] = div(%x, %z)
  %y: f16[2] = exp2(%q)
  output %y
",
        &[&[5.960_464_5e-8, 32752.0], &[-5.960_464_5e-8, 2047.0]],
    ),
    // Reductions read each element once: these networks are small, and compared with fp32.
    (
        700_511_822,
        "  input %x: i16[4, 5, 5, 38, 1]
  input %e: i16[4, 5, 5, 38, 1]
  %p: i16[4, 5, 5, 38, 1] = pow(%x, %e)
  %y: i32[4, 5, 5, 38] = arg_min(%p) last=false axis=4 keep_dims=false
  output %y
",
        &[&[0.0, 16.0, -100.0, -2.0], &[-100.0, -100.0, 127.0, 100.0]],
    ),
    (
        700_596_467,
        "  input %x: i16[3, 2, 5, 39, 5]
  %i: i32[2, 5, 39, 5] = arg_min(%x) last=true axis=0 keep_dims=false
  const %c: i32[1, 1, 1, 5] = [16, 100, 0, 100, -1]
  %y: i32[2, 5, 39, 5] = mod(%i, %c)
  output %y
",
        &[&[-2.0, 3.0, -128.0, 1.0, 0.0, 0.0, 0.0]],
    ),
    (
        700_675_755,
        "  input %x: i32[27, 37, 3, 1, 6]
  input %b: i32[1, 37, 3, 1, 1]
  %p: i32[1, 37, 3, 1, 6] = reduce_prod(%x) axes=[0] keep_dims=true
  %y: i32[1, 37, 3, 1, 6] = max(%b, %p)
  output %y
",
        &[&[1000.0, 127.0, 1000.0, -1.0, 16.0, 0.0, 16.0], &[-128.0]],
    ),
    // A constant addend behind a product is part of its sum, which ends at 32768 in the exact models.
    (
        700_712_158,
        "  input %x: f16[3]
  const %w: f16[2, 3] = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
  %p: f16[2] = linear(%x, %w)
  const %c: f16[2] = [-32768.0, 0.0]
  %y: f16[2] = add(%p, %c)
  output %y
",
        &[&[0.0, 1.0, 2.0]],
    ),
    // Sums over one axis before that over the next.
    (
        800_045_533,
        "  input %x: i16[34, 5, 5]
  %y: i16[1, 5, 1] = reduce_sum(%x) axes=[0, 2] keep_dims=true
  output %y
",
        &[&[0.0, 0.0, 1000.0, 1000.0, 127.0, -128.0, -1000.0, -7.0, 1.0, 0.0, 0.0]],
    ),
    // A copy by the exact array keeps multiples of 2^-16, and a power makes a large difference of a small one.
    (
        800_037_885,
        "  input %x: f16[1, 4, 5, 3]
  input %e: f16[1, 6, 7, 7]
  %p: f16[1, 6, 7, 7] = pad_edge(%x) pads=[[0, 0], [0, 2], [0, 2], [2, 2]] mode=reflect
  %y: f16[1, 6, 7, 7] = pow(%p, %e)
  output %y
",
        &[&[5.960_464_5e-8, 1.0, 2.0], &[0.001, 1.0, 0.5, 0.001, 0.001]],
    ),
    // A table of subnormal values alone has their digits: a factor behind a function stays a product.
    (
        800_003_028,
        "  input %x: f16[4]
  %s: f16[4] = softsign(%x)
  const %c: f16[1] = [5.9604645e-8]
  %y: f16[4] = mul(%s, %c)
  output %y
",
        &[&[-2.0, 2.0, 100.0, 0.5]],
    ),
    (
        0,
        "  input %x: f16[4]
  %s: f16[4] = sigmoid(%x)
  const %c: f16[1] = [5.9604645e-8]
  %y: f16[4] = mul(%s, %c)
  output %y
",
        &[&[2.0, 1.0, 100.0, 0.5]],
    ),
    // The base 1 to exponents of which nothing is known, infinities and NaN among them.
    (
        900_058_327,
        "  input %x0: f16[3, 5]
  input %x1: f16[4, 7]
  %y0: f16[4, 7] = pad_edge(%x0) pads=[[1, 0], [2, 0]] mode=replicate
  %y1: f16[4, 7] = pow(%x1, %y0)
  output %y1
",
        &[&[0.0, -INF, INF, 2.0, NAN], &[1.0, 0.0, NAN, INF, -1.0]],
    ),
    (
        0,
        "  input %x: f16[36]
  input %e: f16[36]
  %y: f16[36] = pow(%x, %e)
  output %y
",
        &[
            &[1.0, -1.0, 0.0, INF, NAN, 2.0, 1.000_976_6, 0.999_511_7],
            &[INF, -INF, NAN, 0.0, 1.0, -1.0, 3.0, 65504.0, -65504.0],
        ],
    ),
    (
        910_025_469,
        "  input %x: f16[4]
  input %e: f16[1]
  %y: f16[4] = pow(%x, %e)
  output %y
",
        &[&[0.0, -0.0, 2.0, -1.0], &[-1.0]],
    ),
    // The addend that makes a position, times a factor, is no fp16 number.
    (
        910_216_363,
        "  input %x: f16[4, 2, 33, 31]
  %p: i32[4, 2, 1, 31] = arg_min(%x) last=false axis=2 keep_dims=true
  const %c: i32[1, 1, 1, 1] = [1000]
  %y: i32[4, 2, 1, 31] = mul(%p, %c)
  output %y
",
        &[&[3.0, 2.0, 1.5, 0.5, -1.0, 2.5, -2.0]],
    ),
    // The sign of a base came from a table that reads minus zero as zero.
    (
        910_043_225,
        "  input %x: f16[40]
  input %e: f16[40]
  %y: f16[40] = pow(%x, %e)
  output %y
",
        &[&[-0.0, 0.0, -INF, INF, -2.0, NAN, -5.960_464_5e-8, -65504.0], &[-1.0, -3.0, -2.0, 3.0, -0.5]],
    ),
    // Two addends whose sum fp16 rounds more than either stay apart.
    (
        920_287_743,
        "  input %x: f16[2]
  %m: f16[] = reduce_max(%x) axes=[0] keep_dims=false
  const %a: f16[] = [3.484375]
  %y: f16[] = sub(%m, %a)
  const %b: f16[] = [-3.9667969]
  %z: f16[] = add(%y, %b)
  output %z
",
        &[&[3.679_687_5, -4.0]],
    ),
    // A selected minus zero keeps its sign, which its reciprocal shows.
    (
        920_290_037,
        "  input %x: f16[8]
  input %c: bool[8]
  input %z: f16[8]
  input %e: f16[8]
  %y: f16[8] = select(%c, %z, %x)
  %p: f16[8] = pow(%y, %e)
  output %p
",
        &[&[1.0, -0.0, 2.0], &[1.0, 0.0], &[-0.0, 3.0, -0.0, 0.0], &[-1.0, -3.0]],
    ),
    // A slice that a product reads twice, of a sum that replaces its source in place, was computed twice by the fused plan.
    (
        930_235_959,
        "  input %x: f16[1, 2, 6]
  input %u: f16[1, 4, 6]
  const %i: i32[1, 4, 6] = [1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0]
  %y: f16[1, 2, 6] = scatter_along(%x, %i, %u) axis=1 mode=add
  %s: f16[1, 1, 1] = slice(%y) begin=[0, 1, 0] end=[1, 2, 1] stride=[1, 1, 1]
  %q: f16[1, 1, 1] = reduce_sum_square(%s) axes=[2] keep_dims=true
  output %q
",
        &[&[-2.0, 3.0, 5.0, 1.0, -7.0, 2.0, 1.0], &[1.0, 2.0, -3.0, 7.0, 5.0, -1.0, 3.0, 4.0, -2.0, 6.0, 8.0]],
    ),
    // A mean over two axes went through a product with zeros, which spread NaN and infinities to other rows.
    (
        930_511_901,
        "  input %x: f16[1, 5, 1, 2, 4]
  %y: f16[1, 5, 1, 2, 1] = reduce_mean(%x) axes=[2, 4] keep_dims=true
  output %y
",
        &[&[NAN, 0.0, 0.0, 0.0, 1.0, INF, 0.0, 0.0, INF, 0.0, 2.0, 0.0, 0.5]],
    ),
    // A norm's factor made weights of one column zero in fp16.
    (
        930_513_758,
        "  input %x: f16[3, 1, 4, 1]
  const %w: f16[4, 1] = [0.0, 0.0, 1.5, 6.097555e-5]
  %p: f16[3, 1, 4, 4] = linear(%x, %w)
  const %m: f16[1] = [0.0]
  const %v: f16[1] = [0.25]
  const %g: f16[1] = [6.097555e-5]
  %y: f16[3, 1, 4, 4] = batch_norm(%p, %m, %v, %g) epsilon=1e-5
  output %y
",
        &[&[0.0, 1.0, 2.0, -32768.0]],
    ),
    // Minus zero behind a padding by products and behind tables: a run tells the other infinity.
    (
        930_868_319,
        "  input %x: f16[5, 2, 3]
  input %e: f16[8, 4, 7]
  %p: f16[8, 4, 7] = pad_edge(%x) pads=[[2, 1], [1, 1], [2, 2]] mode=reflect
  %y: f16[8, 4, 7] = pow(%p, %e)
  output %y
",
        &[&[-0.0, 0.0, 1.0], &[-1.0, -3.0]],
    ),
    (
        930_905_898,
        "  input %x: f32[40]
  input %e: f32[40]
  %p: f32[40] = floor(%x)
  %y: f32[40] = pow(%p, %e)
  output %y
",
        &[&[-0.0, 0.5, 0.0, -0.5, 1.0], &[-1.0, -3.0, 2.0]],
    ),
    // Constant places that differ by row are a product, where infinity times zero is NaN: a run tells.
    (
        940_077_672,
        "  input %x: f16[3, 5]
  const %m: f16[5] = [0.0, 0.0, 0.0, 0.0, 0.0]
  const %v: f16[5] = [0.25, 0.25, 0.25, 0.25, 0.25]
  %n: f16[3, 5] = batch_norm(%x, %m, %v) epsilon=1e-5
  const %i: i32[3, 4] = [0, 1, 2, 3, 4, 0, 2, 1, 3, 3, 0, 1]
  %y: f16[3, 4] = gather_along(%n, %i) axis=1
  output %y
",
        &[&[0.0, 1.0, 65504.0, 2.0, -1.0, 3.0, 0.5]],
    ),
    // The tables of a sign give minus zero its sign.
    (
        950_442_228,
        "  input %x: f16[40]
  input %e: f16[40]
  %p: f16[40] = sign(%x)
  %y: f16[40] = pow(%p, %e)
  output %y
",
        &[&[-0.0, 0.0, 1.0, -1.0], &[-1.0, -3.0]],
    ),
    // An addend behind its factor was rounded by 2, and is 14.6 from the result.
    (
        950_360_782,
        "  input %x: f16[16, 1]
  const %c: f16[1, 1] = [1.0009766]
  %a: f16[16, 1] = sub(%x, %c)
  const %d: f16[1] = [-10000.0]
  %y: f16[16, 1] = mul(%a, %d)
  output %y
",
        &[&[0.9995117, 1.0, 2.5]],
    ),
    (
        950_246_592,
        "  const %c: f16[1, 1, 1] = [-0.0]
  input %x: f16[2, 1, 2]
  %y: f16[2, 1, 2] = pow(%c, %x)
  output %y
",
        &[&[0.0, -1.0, -3.0, 3.0]],
    ),
    // Bounds: a mean in an exact model rounds every term; a sum whose bound reaches beyond fp16 may be infinite; a part of a sum may be
    // the other infinity.
    (
        960_274_939,
        "  input %x: f16[1, 6, 4]
  %y: f16[1, 1, 4] = reduce_mean(%x) axes=[1] keep_dims=true
  output %y
",
        &[&[6.1035156e-5, 6.1035156e-5, -6.1035156e-5, 0.0]],
    ),
    (
        960_532_292,
        "  input %x: f16[1, 4, 2]
  input %u: f16[1, 1, 3]
  const %m: f16[4] = [0.0, 0.0, 0.0, -100.0]
  const %v: f16[4] = [0.25, 0.25, 0.25, 32768.0]
  const %g: f16[4] = [0.0, 0.0, 0.0, -100.0]
  %n: f16[1, 4, 2] = batch_norm(%x, %m, %v, %g) epsilon=1e-5
  const %w: f16[1, 2] = [0.0, 2048.0]
  %l: f16[1, 4, 1] = linear(%n, %w)
  %y: f16[1, 4, 3] = matmul(%l, %u) transpose_x=false transpose_y=false
  output %y
",
        &[&[-100.0, -100.0], &[-65504.0, 65504.0, 1.0]],
    ),
    (
        960_879_520,
        "  input %x: f32[1, 1, 4, 5, 5]
  input %u: f32[1, 1, 4, 5, 1]
  %c: i32[1, 1, 4, 5, 5] = cast(%x)
  %f: f32[1, 1, 4, 5, 5] = cast(%c)
  %y: f32[1, 1, 4, 5, 1] = matmul(%f, %u) transpose_x=false transpose_y=false
  output %y
",
        &[&[1.0, 2.0, 3.0, 2047.0, 1.0], &[-INF, -2.0, 1.0, 60000.0, -1.0]],
    ),
    // A whole addend that cancels, and a small one behind it: their sum is no fp16 number.
    (
        977_204_462,
        "  input %x: f16[8]
  input %u: f16[8]
  %m: f16[8] = max(%x, %u)
  const %a: f16[1] = [2050]
  %y: f16[8] = sub(%m, %a)
  const %b: f16[1] = [1.5]
  %z: f16[8] = add(%y, %b)
  output %z
",
        &[&[2050.0, 2048.0, 3.0, -7.0, 2052.0], &[0.0]],
    ),
    // The inverse of a small number that keeps a divisor from zero overflowed: zero divided by it was NaN.
    (
        0,
        "  input %x: f16[2, 3]
  input %u: f16[2, 3]
  const %e: f16[] = [1e-5]
  %d: f16[2, 3] = add(%u, %e)
  %y: f16[2, 3] = div(%x, %d)
  output %y
",
        &[&[0.0, 1.0, 2.0], &[0.0, 1.0, 3.0]],
    ),
    // A single element that the next layer reads too was staged in other banks than that layer expects.
    (
        16_005_255,
        "  input %x: f16[1]
  %r: f16[1] = reduce_max(%x) axes=[0] keep_dims=true
  const %c: f16[1] = [nan]
  %y: bool[1] = equal(%c, %r)
  output %y
",
        &[&[0.0]],
    ),
];

/// Seeds of networks that are refused, and then computed by the host.
const REFUSED: &[u64] = &[6_036_853, 1, 400_040_715, 950_246_592];

#[test]
fn what_random_networks_found_stays_mended() {
    for (seed, body, inputs) in FOUND {
        let net = text::parse(&format!("net \"case\" {{\n{body}}}\n"), &[]).expect("the text parses");
        let tensors = net.inputs.iter().zip(*inputs).map(|(&id, data)| {
            let ty = &net.value(id).ty;
            let data: Vec<f32> = data.iter().copied().cycle().take(ty.elements()).collect();
            Tensor { shape: ty.shape.clone(), data: Data::from_f32(ty.dtype, &data) }
        });
        let inputs = tensors.collect();
        let case = Case { net, inputs };
        match outcome(&case) {
            Outcome::Wrong(why) => panic!("seed {seed}: {why}\n{}", case.text()),
            Outcome::Refused(why) => assert!(REFUSED.contains(seed), "seed {seed}: {why}"),
            Outcome::None | Outcome::Right | Outcome::Known(_) => {}
        }
    }
}
