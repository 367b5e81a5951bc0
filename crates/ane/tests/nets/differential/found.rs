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
];

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
            Outcome::Refused(why) => assert_eq!(*seed, 6_036_853, "seed {seed}: {why}"),
            Outcome::None | Outcome::Right | Outcome::Known(_) => {}
        }
    }
}
