//! Round trips, and texts that do not parse.

use crate::read::{Disk, models, netplists};
use anemone_net::check::check;
use anemone_net::graph::{DType, Net, TensorType};
use anemone_net::ops::{Binary, GeluMode, OpKind, ReduceKind, Unary};
use anemone_net::read::{Options, read_netplist, read_package};
use anemone_net::testing::Builder;
use anemone_net::text::{parse, print};
use anemone_net::{Error, TextFault};
use proptest::prelude::*;

const SAMPLE: &str = r#"net "main" {
  input %x: f16[1, 2, 4, 4] surface=[64, 256, 1]
  const %w: f16[1, 2, 1, 1] = [1.0, -0.5]
  %conv: f16[1, 1, 4, 4] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
  %"odd name\"": f16[1, 1, 4, 4] = clip(%conv) min=-inf max=6.0 name="unit"
  %pool: f16[1, 1, 2, 2] = avg_pool(%"odd name\"") kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]] ceil_mode=false exclude_padding=true
  const %t: i32[2] = [-1, 7]
  const %f: bool[1] = [true]
  %n: f16[1] = reduce_sum(%conv) axes=[1, 2, 3] keep_dims=false
  output %pool
  output %conv
  output %n
  counted %conv %n axis=2
}
"#;

#[test]
fn sample_round_trips() {
    let net = parse(SAMPLE, &[]).unwrap();
    check(&net).unwrap();
    let (text, blobs) = print(&net);
    assert!(blobs.is_empty());
    // Constants that nothing uses are not printed.
    let used: Vec<&str> = SAMPLE.lines().filter(|l| !l.contains("%t:") && !l.contains("%f:")).collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), used);
    assert_eq!(print(&parse(&text, &blobs).unwrap()).0, text);
}

/// A network of drawn operations on `[n, c, h, w]`, with a drawn constant.
fn drawn(name: &str, shape: &[usize], bits: &[u32], steps: &[(usize, f32, f32, usize)]) -> Net {
    let mut build = Builder::new(name);
    let mut x = build.input("x", TensorType::new(DType::F16, shape)).expect("an input");
    let data: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).map(|v| if v.is_nan() { 1.0 } else { v }).collect();
    let constant = build.floats([data.len(), 1, 1, 1, 1], &data, x);
    for &(kind, a, b, axis) in steps {
        let dims = build.shape(x);
        let axis = axis % dims.len();
        x = match kind {
            0 => build.unary(Unary::Clip { min: a, max: b }, x),
            1 => build.unary(Unary::ScaledTanh { alpha: a, beta: b }, x),
            2 => build.transpose(x, &(0..dims.len()).rev().collect::<Vec<_>>()),
            3 => build.reduce(ReduceKind::LogSumExp, x, &[axis], true),
            4 => build.softmax(x, axis),
            5 => {
                let mut pads = vec![(0, 0); dims.len()];
                pads[axis] = (1, axis);
                build.op("padded", OpKind::Pad { pads, value: a }, &[x])
            }
            _ => build.unary(Unary::Gelu(GeluMode::Tanh), x),
        }
        .expect("types fit");
    }
    let y = build.binary(Binary::Mul, x, constant).expect("types fit");
    build.output(y, "y").expect("an output");
    build.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Cases that failed once stand in `proptest-regressions` and run first.
    #[test]
    fn any_network_is_read_as_it_is_printed(
        name in "\\PC{0,12}",
        shape in prop::collection::vec(1usize..4, 1..5),
        bits in prop::collection::vec(any::<u32>(), 1..9),
        steps in prop::collection::vec((0usize..7, -1e30f32..1e30, -1e-30f32..1e-30, 0usize..4), 0..6),
    ) {
        let net = drawn(&name, &shape, &bits, &steps);
        let (text, blobs) = print(&net);
        let again = parse(&text, &blobs).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert!(check(&again).is_ok(), "{}", text);
        prop_assert_eq!(print(&again), (text, blobs));
        prop_assert_eq!(&again.name, &net.name);
        for (a, b) in again.ops.iter().zip(&net.ops) {
            prop_assert_eq!((&a.name, &a.kind), (&b.name, &b.kind));
        }
    }
}

#[test]
fn real_nets_round_trip() {
    let packages = models()
        .into_iter()
        .filter_map(|dir| read_package(&Disk(dir.join("model.mlpackage")), &Options::default()).ok());
    let lists = netplists().into_iter().filter_map(|path| {
        read_netplist(&std::fs::read(&path).unwrap(), &Disk(path.parent().unwrap().to_path_buf()), &Options::default())
            .ok()
    });
    for (net, _) in packages.chain(lists) {
        let (text, blobs) = print(&net);
        let again = parse(&text, &blobs).unwrap_or_else(|e| panic!("{e}\n{text}"));
        check(&again).unwrap();
        assert_eq!(print(&again), (text, blobs));
        assert_eq!(again.ops.len(), net.ops.len());
        for (a, b) in again.ops.iter().zip(&net.ops) {
            assert_eq!((&a.name, &a.kind), (&b.name, &b.kind));
        }
    }
}

#[test]
fn faults_have_their_place() {
    let fault = |text: &str| match parse(text, &[]) {
        Err(Error::Text { line, column, what }) => (line, column, what),
        other => panic!("{other:?}"),
    };
    let (line, column, what) = fault("net \"a\" {\n  %y: f32[1] = relu(%x)\n}");
    assert_eq!((line, column, what), (2, 21, TextFault::UnknownValue { value: "x".to_string() }));
    let (line, _, what) = fault("net \"a\" {\n\n  input %x: f32[1]\n  %y: f32[1] = rely(%x)\n}");
    assert_eq!((line, what), (4, TextFault::UnknownOp { name: "rely".to_string() }));
    let (_, _, what) = fault("net \"a\" { const %x: f32[2] = [1.0] }");
    assert_eq!(what, TextFault::ElementCount { found: 1, expected: 2 });
    let (_, _, what) = fault("net \"a\" { const %x: f32[2] = blob 3 }");
    assert_eq!(what, TextFault::UnknownBlob { index: 3, count: 0 });
    let (_, _, what) = fault("net \"a\" { const %x: u8[1] = [256] }");
    assert!(matches!(what, TextFault::Unexpected { .. }), "{what}");
    let (_, _, what) = fault("net \"a\" { input %x: f32[1] %y: f32[1] = relu(%x) axis=1 }");
    assert_eq!(what, TextFault::UnknownAttribute { op: "relu".to_string(), name: "axis".to_string() });
}

#[test]
fn damaged_text_does_not_panic() {
    for end in 0..SAMPLE.len() {
        let _ = parse(&SAMPLE[..end], &[]);
        let mut bytes = SAMPLE.as_bytes().to_vec();
        bytes[end] = b"[]{}(),:=%\"\\#0a "[end % 16];
        let _ = parse(&String::from_utf8(bytes).unwrap(), &[]);
    }
}
