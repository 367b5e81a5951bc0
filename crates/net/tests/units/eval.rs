//! Every operation against values computed by hand or by its definition in naive loops.

mod linear;

use anemone_net::Error;
use anemone_net::eval::*;
use anemone_net::graph::Value;
use anemone_net::graph::{DType, Data, Tensor, TensorType};
use anemone_net::ops::{Binary, Coordinates, EdgeMode, GeluMode, OpKind, PoolKind, ReduceKind, ResizeMode, Unary};

fn run(kind: OpKind, inputs: &[Tensor], declared: Option<TensorType>) -> Tensor {
    fold(&kind, &inputs.iter().collect::<Vec<_>>(), declared.as_ref()).unwrap()
}

fn floats(kind: OpKind, inputs: &[Tensor]) -> Vec<f32> {
    run(kind, inputs, None).data.to_f32()
}

fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{found:?} is not {expected:?}");
    }
}

/// Numbers without pattern, the same every time.
fn noise(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let count = shape.iter().product::<usize>();
    Tensor::f32(shape, (0..count).map(|_| next()).collect())
}

fn at(t: &Tensor, index: &[isize]) -> f32 {
    let mut offset = 0;
    for (&i, &d) in index.iter().zip(&t.shape) {
        if i < 0 || i >= d as isize {
            return 0.0;
        }
        offset = offset * d + i as usize;
    }
    t.data.to_f32()[offset]
}

/// Cross-correlation in seven loops.
fn naive_conv(
    x: &Tensor,
    w: &Tensor,
    b: &[f32],
    s: [usize; 2],
    p: [usize; 2],
    d: [usize; 2],
    groups: usize,
    to: &[usize],
) -> Vec<f32> {
    let mut out = Vec::new();
    let (gin, gout) = (w.shape[1], w.shape[0] / groups);
    for n in 0..to[0] {
        for (co, bias) in b.iter().enumerate() {
            for oy in 0..to[2] {
                for ox in 0..to[3] {
                    let mut sum = *bias;
                    for ci in 0..gin {
                        for ky in 0..w.shape[2] {
                            for kx in 0..w.shape[3] {
                                let y = (oy * s[0] + ky * d[0]) as isize - p[0] as isize;
                                let x_ = (ox * s[1] + kx * d[1]) as isize - p[1] as isize;
                                let c = (co / gout * gin + ci) as isize;
                                sum += at(x, &[n as isize, c, y, x_])
                                    * at(w, &[co as isize, ci as isize, ky as isize, kx as isize]);
                            }
                        }
                    }
                    out.push(sum);
                }
            }
        }
    }
    out
}

#[test]
fn conv_equals_its_definition() {
    // (Cin, Cout, groups, kernel, strides, pads before and after, dilations)
    let cases = [
        (3, 4, 1, [3, 3], [1, 1], [(1, 1), (1, 1)], [1, 1]),
        (3, 4, 1, [1, 1], [1, 1], [(0, 0), (0, 0)], [1, 1]),
        (4, 6, 2, [3, 2], [2, 1], [(0, 2), (3, 1)], [1, 2]),
        (4, 8, 4, [3, 3], [2, 2], [(2, 0), (1, 4)], [2, 1]),
        (2, 2, 2, [5, 5], [3, 2], [(2, 2), (2, 2)], [1, 1]),
        (2, 3, 1, [1, 1], [2, 3], [(1, 1), (0, 0)], [1, 1]),
    ];
    for (cin, cout, groups, kernel, strides, pads, dilations) in cases {
        let x = noise(&[2, cin, 7, 9], 1);
        let w = noise(&[cout, cin / groups, kernel[0], kernel[1]], 2);
        let b = noise(&[cout], 3);
        let kind =
            OpKind::Conv { strides: strides.to_vec(), pads: pads.to_vec(), dilations: dilations.to_vec(), groups };
        let found = run(kind, &[x.clone(), w.clone(), b.clone()], None);
        let before = [pads[0].0, pads[1].0];
        let expected = naive_conv(&x, &w, &b.data.to_f32(), strides, before, dilations, groups, &found.shape);
        close(&found.data.to_f32(), &expected);
    }
}

#[test]
fn conv_in_one_and_three_dimensions() {
    let one = OpKind::Conv { strides: vec![2], pads: vec![(1, 0)], dilations: vec![1], groups: 1 };
    let x = Tensor::f32([1, 1, 4], vec![1.0, 2.0, 3.0, 4.0]);
    close(&floats(one, &[x, Tensor::f32([1, 1, 2], vec![10.0, 1.0])]), &[1.0, 23.0]);
    let three = OpKind::Conv { strides: vec![1; 3], pads: vec![(0, 0); 3], dilations: vec![1; 3], groups: 1 };
    let x = Tensor::f32([1, 1, 2, 2, 2], (1..=8).map(|v| v as f32).collect());
    close(&floats(three, &[x.clone(), x]), &[204.0]);
}

#[test]
fn conv_transpose_scatters() {
    let kind = |strides: usize, pads, output_pads| OpKind::ConvTranspose {
        strides: vec![strides],
        pads: vec![pads],
        output_pads: vec![output_pads],
        dilations: vec![1],
        groups: 1,
    };
    let x = Tensor::f32([1, 1, 3], vec![1.0, 2.0, 3.0]);
    let w = Tensor::f32([1, 1, 2], vec![10.0, 1.0]);
    close(&floats(kind(1, (0, 0), 0), &[x.clone(), w.clone()]), &[10.0, 21.0, 32.0, 3.0]);
    close(&floats(kind(2, (1, 0), 1), &[x.clone(), w.clone()]), &[1.0, 20.0, 2.0, 30.0, 3.0, 0.0]);
    // Two groups with two outputs each, and a bias.
    let kind = OpKind::ConvTranspose {
        strides: vec![1],
        pads: vec![(0, 0)],
        output_pads: vec![0],
        dilations: vec![1],
        groups: 2,
    };
    let x = Tensor::f32([1, 2, 1], vec![2.0, 3.0]);
    let w = Tensor::f32([2, 2, 1], vec![1.0, 10.0, 100.0, 1000.0]);
    let b = Tensor::f32([4], vec![0.5; 4]);
    close(&floats(kind, &[x, w, b]), &[2.5, 20.5, 300.5, 3000.5]);
}

#[test]
fn products() {
    let kind = OpKind::MatMul { transpose_x: false, transpose_y: false };
    let x = Tensor::f32([2, 1, 2], vec![1.0, 2.0, 3.0, 4.0]);
    let y = Tensor::f32([2, 2], vec![1.0, 10.0, 100.0, 1000.0]);
    close(&floats(kind, &[x, y.clone()]), &[201.0, 2010.0, 403.0, 4030.0]);
    let transposed = OpKind::MatMul { transpose_x: true, transpose_y: true };
    let x = Tensor::f32([2, 1], vec![1.0, 2.0]);
    close(&floats(transposed, &[x, y.clone()]), &[21.0, 2100.0]);
    let x = Tensor::f32([2], vec![1.0, 2.0]);
    close(&floats(OpKind::Linear, &[x, y, Tensor::f32([2], vec![0.5, -0.5])]), &[21.5, 2099.5]);
    let integers = Tensor { shape: vec![1, 2], data: Data::U8(vec![200, 100]) };
    let sum = OpKind::MatMul { transpose_x: false, transpose_y: true };
    assert_eq!(run(sum, &[integers.clone(), integers], None).data, Data::U8(vec![255]));
}

#[test]
fn unary_functions() {
    let x = [-2.5f32, -0.5, 0.0, 0.5, 2.5];
    let apply = |unary: Unary| floats(OpKind::Unary(unary), &[Tensor::f32([5], x.to_vec())]);
    let same = |unary: Unary, f: fn(f64) -> f64| close(&apply(unary), &x.map(|v| f(v.into()) as f32));
    same(Unary::Identity, |x| x);
    same(Unary::Relu, |x| x.max(0.0));
    same(Unary::LeakyRelu { alpha: 0.25 }, |x| if x < 0.0 { x / 4.0 } else { x });
    same(Unary::Elu { alpha: 2.0 }, |x| if x < 0.0 { 2.0 * (x.exp() - 1.0) } else { x });
    same(Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
    same(Unary::SigmoidHard { alpha: 0.2, beta: 0.5 }, |x| (0.2 * x + 0.5).clamp(0.0, 1.0));
    same(Unary::Tanh, f64::tanh);
    same(Unary::ScaledTanh { alpha: 3.0, beta: 0.5 }, |x| 3.0 * (x / 2.0).tanh());
    same(Unary::Silu, |x| x / (1.0 + (-x).exp()));
    same(Unary::Softplus, |x| (1.0 + x.exp()).ln());
    same(Unary::Softsign, |x| x / (1.0 + x.abs()));
    same(Unary::Exp, f64::exp);
    same(Unary::Exp2, f64::exp2);
    same(Unary::Abs, f64::abs);
    same(Unary::Neg, |x| -x);
    same(Unary::Square, |x| x * x);
    same(Unary::Sign, |x| if x == 0.0 { 0.0 } else { x.signum() });
    same(Unary::Ceil, f64::ceil);
    same(Unary::Floor, f64::floor);
    same(Unary::Round, f64::round_ties_even);
    same(Unary::Clip { min: -1.0, max: 2.0 }, |x| x.clamp(-1.0, 2.0));
    same(Unary::Threshold { alpha: -1.0 }, |x| x.max(-1.0));
    same(Unary::Sin, f64::sin);
    same(Unary::Cos, f64::cos);
    same(Unary::Tan, f64::tan);
    same(Unary::Atan, f64::atan);
    same(Unary::Sinh, f64::sinh);
    same(Unary::Cosh, f64::cosh);
    // Values of tables.
    close(&apply(Unary::Erf)[3..4], &[0.520_499_9]);
    close(&apply(Unary::Gelu(GeluMode::Exact))[3..4], &[0.345_731_2]);
    close(&apply(Unary::Gelu(GeluMode::Tanh))[3..4], &[0.345_714]);
    close(&apply(Unary::Gelu(GeluMode::Sigmoid))[3..4], &[0.350_388_38]);
    close(&apply(Unary::Relu6), &[0.0, 0.0, 0.0, 0.5, 2.5]);
    let positive = |unary: Unary| floats(OpKind::Unary(unary), &[Tensor::f32([1], vec![0.25])])[0];
    close(&[positive(Unary::Sqrt), positive(Unary::Log2)], &[0.5, -2.0]);
    close(&[positive(Unary::Rsqrt { epsilon: 0.0 }), positive(Unary::Inverse { epsilon: 0.25 })], &[2.0, 2.0]);
    close(&[positive(Unary::Log { epsilon: 0.75 }), positive(Unary::Asin)], &[0.0, 0.252_680_25]);
    close(&[positive(Unary::Acos), positive(Unary::Atanh)], &[1.318_116, 0.255_412_8]);
    assert!(floats(OpKind::Unary(Unary::Relu), &[Tensor::f32([1], vec![f32::NAN])])[0].is_nan());
    let bytes = Tensor { shape: vec![2], data: Data::I8(vec![-128, 16]) };
    assert_eq!(run(OpKind::Unary(Unary::Square), &[bytes], None).data, Data::I8(vec![0, 0]));
}

#[test]
fn a_quotient_below_a_whole_number_is_floored() {
    let mut rounds_up = 0;
    for (b, n) in [0.1f32, 0.3, 0.7, 1.1, 3.3].into_iter().flat_map(|b| (1..500).map(move |n| (b, n as f32))) {
        let product = f64::from(b) * f64::from(n);
        let a = if f64::from(product as f32) < product { product as f32 } else { (product as f32).next_down() };
        let operands = [a, b].map(|x| Tensor::f32([1], vec![x]));
        assert_eq!(floats(OpKind::Binary(Binary::FloorDiv), &operands), [n - 1.0], "{a:?} by {b:?}");
        rounds_up += usize::from((a / b).floor() == n);
    }
    assert!(rounds_up > 0);
}

#[test]
fn binary_functions() {
    let apply = |binary, x: f32, y: f32| {
        floats(OpKind::Binary(binary), &[Tensor::f32([1], vec![x]), Tensor::f32([1], vec![y])])[0]
    };
    let table = [
        (Binary::Add, 5.0),
        (Binary::Sub, -9.0),
        (Binary::Mul, -14.0),
        (Binary::Div, -2.0 / 7.0),
        (Binary::Max, 7.0),
        (Binary::Min, -2.0),
        (Binary::Pow, -128.0),
        (Binary::FloorDiv, -1.0),
        (Binary::Mod, 5.0),
        (Binary::Equal, 0.0),
        (Binary::NotEqual, 1.0),
        (Binary::Less, 1.0),
        (Binary::LessEqual, 1.0),
        (Binary::Greater, 0.0),
        (Binary::GreaterEqual, 0.0),
    ];
    for (binary, expected) in table {
        close(&[apply(binary, -2.0, 7.0)], &[expected]);
        let integer = |v| Tensor::i32([1], vec![v]);
        let found = run(OpKind::Binary(binary), &[integer(-2), integer(7)], None).data.to_i32();
        assert_eq!(found, [expected as i32], "{binary:?}");
    }
    // Bits of two's complement; places beyond the element leave nothing but the sign.
    let bits = |binary, data: [Data; 2]| {
        let [x, y] = data.map(|data| Tensor { shape: vec![data.len()], data });
        run(OpKind::Binary(binary), &[x, y], None).data.to_i32()
    };
    let whole = |v: &[i32]| Data::I32(v.to_vec());
    assert_eq!(bits(Binary::BitAnd, [whole(&[12, -1]), whole(&[10, 7])]), [8, 7]);
    assert_eq!(bits(Binary::BitOr, [whole(&[12, -8]), whole(&[10, 7])]), [14, -1]);
    assert_eq!(bits(Binary::BitXor, [whole(&[12, -1]), whole(&[10, 7])]), [6, -8]);
    assert_eq!(bits(Binary::ShiftLeft, [whole(&[1, 1, 5, 5]), whole(&[31, 3, 32, -1])]), [i32::MIN, 8, 0, 0]);
    assert_eq!(bits(Binary::ShiftRight, [whole(&[-8, 8, -8, 8]), whole(&[1, 3, 32, -1])]), [-4, 1, -1, 0]);
    assert_eq!(bits(Binary::ShiftLeft, [Data::U8(vec![129]), Data::U8(vec![1])]), [2]);
    assert_eq!(bits(Binary::ShiftLeft, [Data::I8(vec![64]), Data::I8(vec![1])]), [-128]);
    let zero = run(OpKind::Binary(Binary::Div), &[Tensor::i32([1], vec![5]), Tensor::i32([1], vec![0])], None);
    assert_eq!(zero.data, Data::I32(vec![0]));
    // Integers of 32 bits wrap, in products, powers, sums and running sums.
    let (most, three) = (Tensor::i32([1], vec![i32::MAX]), Tensor::i32([1], vec![3]));
    assert_eq!(
        run(OpKind::Binary(Binary::Mul), &[most.clone(), three.clone()], None).data,
        Data::I32(vec![2_147_483_645])
    );
    assert_eq!(run(OpKind::Binary(Binary::Pow), &[most, three], None).data, Data::I32(vec![i32::MAX]));
    let large = Tensor::i32([2], vec![i32::MAX, 16_777_217]);
    let sum = OpKind::Reduce { kind: ReduceKind::Sum, axes: vec![0], keep_dims: false };
    assert_eq!(run(sum, std::slice::from_ref(&large), None).data, Data::I32(vec![i32::MIN + 16_777_216]));
    let running = Tensor::i32([2, 2], vec![1, 0, 1, 1]);
    let sums = run(OpKind::Combine, &[large, running], None);
    assert_eq!(sums.data, Data::I32(vec![i32::MAX, i32::MIN + 16_777_216]));
    // A weight of zero reads nothing.
    let (x, w) =
        (Tensor::f32([3], vec![1.0, f32::INFINITY, 2.0]), Tensor::f32([2, 3], vec![1.0, 0.0, 0.5, 1.0, 1.0, 0.0]));
    assert_eq!(run(OpKind::Combine, &[x, w], None).data, Data::F32(vec![2.0, f32::INFINITY]));
    let row = Tensor::f32([3], vec![1.0, 2.0, 3.0]);
    let column = Tensor::f32([2, 1], vec![10.0, 20.0]);
    close(&floats(OpKind::Binary(Binary::Add), &[column, row]), &[11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
}

#[test]
fn select_and_cast() {
    let condition = Tensor { shape: vec![2], data: Data::Bool(vec![true, false]) };
    let (x, y) = (Tensor::f32([2], vec![1.0, 2.0]), Tensor::f32([1], vec![9.0]));
    close(&floats(OpKind::Select, &[condition, x, y]), &[1.0, 9.0]);
    let x = Tensor::f32([3], vec![-1.7, 0.0, 300.0]);
    let cast = |dtype| run(OpKind::Cast, std::slice::from_ref(&x), Some(TensorType::new(dtype, [3]))).data;
    assert_eq!(cast(DType::I32), Data::I32(vec![-1, 0, 300]));
    assert_eq!(cast(DType::U8), Data::U8(vec![0, 0, 255]));
    assert_eq!(cast(DType::Bool), Data::Bool(vec![true, false, true]));
}

#[test]
fn pooling() {
    let x = Tensor::f32([1, 1, 2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let pool = |kind, pads: (usize, usize), ceil_mode| OpKind::Pool {
        kind,
        kernel: vec![2, 2],
        strides: vec![2, 2],
        pads: vec![pads, pads],
        ceil_mode,
    };
    let run = |kind| floats(kind, std::slice::from_ref(&x));
    close(&run(pool(PoolKind::Max, (0, 0), false)), &[5.0]);
    close(&run(pool(PoolKind::Max, (0, 0), true)), &[5.0, 6.0]);
    let average = |exclude_padding| PoolKind::Average { exclude_padding };
    // The last window has two elements and nothing else inside the (unpadded) input.
    close(&run(pool(average(false), (0, 0), true)), &[3.0, 4.5]);
    close(&run(pool(average(false), (1, 1), false)), &[0.25, 1.25, 1.0, 2.75]);
    close(&run(pool(average(true), (1, 1), false)), &[1.0, 2.5, 4.0, 5.5]);
    close(&run(pool(PoolKind::L2, (0, 0), false)), &[46.0f32.sqrt()]);
    let negative = Tensor::f32([1, 1, 1, 1], vec![-3.0]);
    close(&floats(pool(PoolKind::Max, (1, 0), false), &[negative]), &[-3.0]);
}

#[test]
fn reductions() {
    let x = Tensor::f32([2, 3], vec![1.0, -2.0, 3.0, 4.0, 5.0, -6.0]);
    let reduce = |kind, axes: &[usize]| {
        floats(OpKind::Reduce { kind, axes: axes.into(), keep_dims: false }, std::slice::from_ref(&x))
    };
    close(&reduce(ReduceKind::Sum, &[1]), &[2.0, 3.0]);
    close(&reduce(ReduceKind::Sum, &[0]), &[5.0, 3.0, -3.0]);
    close(&reduce(ReduceKind::Sum, &[]), &[1.0, -2.0, 3.0, 4.0, 5.0, -6.0]);
    close(&reduce(ReduceKind::Mean, &[0, 1]), &[5.0 / 6.0]);
    close(&reduce(ReduceKind::Max, &[1]), &[3.0, 5.0]);
    close(&reduce(ReduceKind::Min, &[1]), &[-2.0, -6.0]);
    close(&reduce(ReduceKind::Prod, &[1]), &[-6.0, -120.0]);
    close(&reduce(ReduceKind::SumSquare, &[1]), &[14.0, 77.0]);
    close(&reduce(ReduceKind::L1, &[1]), &[6.0, 15.0]);
    close(&reduce(ReduceKind::L2, &[1]), &[14.0f32.sqrt(), 77.0f32.sqrt()]);
    close(&reduce(ReduceKind::LogSum, &[1]), &[2.0f32.ln(), 3.0f32.ln()]);
    let sum = |v: [f32; 3]| v.map(f32::exp).iter().sum::<f32>().ln();
    close(&reduce(ReduceKind::LogSumExp, &[1]), &[sum([1.0, -2.0, 3.0]), sum([4.0, 5.0, -6.0])]);
}

#[test]
fn softmax_and_norms() {
    let x = Tensor::f32([2, 2], vec![0.0, 1000.0, 3.0f32.ln(), 1000.0]);
    close(&floats(OpKind::Softmax { axis: 0 }, std::slice::from_ref(&x)), &[0.25, 0.5, 0.75, 0.5]);
    close(&floats(OpKind::Softmax { axis: 1 }, std::slice::from_ref(&x))[..2], &[0.0, 1.0]);
    let x = Tensor::f32([1, 2, 2], vec![1.0, 3.0, 10.0, 30.0]);
    let channel = |a, b| Tensor::f32([2], vec![a, b]);
    let batch = OpKind::BatchNorm { epsilon: 0.0 };
    let inputs = [x.clone(), channel(1.0, 10.0), channel(4.0, 100.0), channel(2.0, 1.0), channel(0.5, 0.0)];
    close(&floats(batch, &inputs), &[0.5, 2.5, 0.0, 2.0]);
    let instance = OpKind::InstanceNorm { epsilon: 0.0 };
    close(&floats(instance, &[x.clone(), channel(1.0, 2.0), channel(0.0, 5.0)]), &[-1.0, 1.0, 3.0, 7.0]);
    let layer = |axes: &[usize]| OpKind::LayerNorm { axes: axes.into(), epsilon: 0.0 };
    close(&floats(layer(&[2]), &[x.clone(), channel(1.0, 2.0)]), &[-1.0, 2.0, -1.0, 2.0]);
    // Columns (1, 10) and (3, 30).
    close(&floats(layer(&[1]), &[x, channel(1.0, 1.0), channel(0.0, 7.0)]), &[-1.0, -1.0, 8.0, 8.0]);
}

#[test]
fn movement() {
    let x = Tensor::i32([2, 3], vec![1, 2, 3, 4, 5, 6]);
    let integers = |kind: OpKind, inputs: &[Tensor], to: Option<[usize; 2]>| {
        run(kind, inputs, to.map(|shape| TensorType::new(DType::I32, shape))).data.to_i32()
    };
    let one = std::slice::from_ref(&x);
    assert_eq!(integers(OpKind::Transpose { perm: vec![1, 0] }, one, None), [1, 4, 2, 5, 3, 6]);
    assert_eq!(integers(OpKind::Reshape, one, Some([3, 2])), [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        integers(OpKind::Concat { axis: 1 }, &[x.clone(), Tensor::i32([2, 1], vec![7, 8])], None),
        [1, 2, 3, 7, 4, 5, 6, 8]
    );
    let slice = OpKind::Slice { begin: vec![0, 0], end: vec![2, 3], stride: vec![1, 2] };
    assert_eq!(integers(slice, one, None), [1, 3, 4, 6]);
    let far = OpKind::Slice { begin: vec![1, 2], end: vec![2, 3], stride: vec![1 << 30, 1 << 30] };
    assert_eq!(integers(far, one, None), [6]);
    assert_eq!(integers(OpKind::Broadcast, &[Tensor::i32([3], vec![1, 2, 3])], Some([2, 3])), [1, 2, 3, 1, 2, 3]);
    let indices = Tensor::i32([2], vec![-1, 0]);
    assert_eq!(integers(OpKind::Gather { axis: 1 }, &[x.clone(), indices.clone()], None), [3, 1, 6, 4]);
    assert_eq!(integers(OpKind::Gather { axis: 0 }, &[x.clone(), indices], None), [4, 5, 6, 1, 2, 3]);
    let outside = fold(&OpKind::Gather { axis: 0 }, &[&x, &Tensor::i32([1], vec![2])], None);
    assert!(matches!(outside, Err(Error::Index { found: 2, extent: 2, .. })));
    let pad = OpKind::Pad { pads: vec![(0, 1), (1, 0)], value: 9.0 };
    assert_eq!(integers(pad, one, None), [9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9]);
    let edge = |mode| OpKind::PadEdge { pads: vec![(0, 0), (2, 1)], mode };
    assert_eq!(integers(edge(EdgeMode::Reflect), one, None), [3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5]);
    assert_eq!(integers(edge(EdgeMode::Replicate), one, None), [1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6]);
}

#[test]
fn resampling() {
    let x = Tensor::f32([1, 2], vec![0.0, 1.0]);
    let resize = |mode, coordinates, to: usize| {
        let declared = TensorType::new(DType::F32, [1, to]);
        run(OpKind::Resize { mode, coordinates }, std::slice::from_ref(&x), Some(declared)).data.to_f32()
    };
    // The worked examples of the Core ML operation reference.
    close(&resize(ResizeMode::Linear, Coordinates::HalfPixel, 5), &[0.0, 0.1, 0.5, 0.9, 1.0]);
    close(&resize(ResizeMode::Linear, Coordinates::AlignCorners, 5), &[0.0, 0.25, 0.5, 0.75, 1.0]);
    close(&resize(ResizeMode::Linear, Coordinates::Asymmetric, 4), &[0.0, 0.5, 1.0, 1.0]);
    close(&resize(ResizeMode::Nearest, Coordinates::Asymmetric, 4), &[0.0, 0.0, 1.0, 1.0]);
    close(&resize(ResizeMode::Nearest, Coordinates::HalfPixel, 3), &[0.0, 1.0, 1.0]);
    let plane = Tensor::f32([2, 2], vec![1.0, 2.0, 3.0, 4.0]);
    let kind = OpKind::Resize { mode: ResizeMode::Nearest, coordinates: Coordinates::Asymmetric };
    let declared = Some(TensorType::new(DType::F32, [4, 2]));
    close(&run(kind, &[plane], declared).data.to_f32(), &[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
}

#[test]
fn nets_run_in_order_and_show_their_values() {
    let mut net = anemone_net::text::parse(
        "net \"main\" { input %x: f16[2] const %c: f16[1] = [10.0] %a: f16[2] = add(%x, %c) \
         %b: f16[2] = mul(%a, %x) output %b output %x output %c }",
        &[],
    )
    .unwrap();
    let mut seen = Vec::new();
    let input = Tensor::f32([2], vec![1.0, 2.0]);
    let outputs =
        eval_traced(&net, std::slice::from_ref(&input), &mut |name, t| seen.push((name.to_string(), t.data.to_f32())))
            .unwrap();
    assert_eq!(outputs[0], Tensor::f32([2], vec![11.0, 24.0]));
    assert_eq!(outputs[1], input);
    assert_eq!(outputs[2], Tensor::f32([1], vec![10.0]));
    let names: Vec<&str> = seen.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["x", "a", "b"]);
    assert_eq!(seen[1].1, [11.0, 12.0]);
    assert!(matches!(eval(&net, &[]), Err(Error::InputCount { found: 0, expected: 1 })));
    assert!(matches!(eval(&net, &[Tensor::f32([3], vec![0.0; 3])]), Err(Error::InputType { .. })));
    let value = Value { name: "x".into(), ty: TensorType::new(DType::F32, []), data: None, surface: None };
    net.add_value(value);
    assert!(matches!(eval(&net, &[input]), Err(Error::NameTwice { .. })));
}

#[test]
fn integers_wrap_truncate_and_divide_as_the_standards_have_it() {
    let bytes = |values: &[u8]| Tensor { shape: vec![values.len()], data: Data::U8(values.to_vec()) };
    let difference = run(OpKind::Binary(Binary::Sub), &[bytes(&[3, 200]), bytes(&[6, 100])], None);
    assert_eq!(difference.data, Data::U8(vec![253, 100]));
    let signed = Tensor { shape: vec![2], data: Data::I8(vec![-2, 5]) };
    let unsigned = TensorType { dtype: DType::U8, shape: vec![2] };
    assert_eq!(run(OpKind::Cast, &[signed], Some(unsigned)).data, Data::U8(vec![254, 5]));
    let pairs = Tensor::i32([2, 2], vec![-3, 0, 5, 2]);
    let mean = OpKind::Reduce { kind: ReduceKind::Mean, axes: vec![1], keep_dims: false };
    assert_eq!(run(mean, std::slice::from_ref(&pairs), None).data, Data::I32(vec![-1, 3]));
    let length = OpKind::Reduce { kind: ReduceKind::L2, axes: vec![1], keep_dims: false };
    assert_eq!(run(length, &[Tensor::i32([1, 2], vec![5, 2])], None).data, Data::I32(vec![5]));
}

#[test]
fn what_is_not_a_number_is_passed_on_and_signs_of_zero_are_kept() {
    let (nan, one) = (Tensor::f32([1], vec![f32::NAN]), Tensor::f32([1], vec![1.0]));
    for f in [Binary::Max, Binary::Min] {
        assert!(floats(OpKind::Binary(f), &[nan.clone(), one.clone()])[0].is_nan());
        assert!(floats(OpKind::Binary(f), &[one.clone(), nan.clone()])[0].is_nan());
    }
    let zero = Tensor::f32([1], vec![-0.0]);
    assert_eq!(floats(OpKind::Unary(Unary::Inverse { epsilon: 0.0 }), &[zero]), [f32::NEG_INFINITY]);
    let x = Tensor::f32([1, 1, 1, 2], vec![2.0, f32::INFINITY]);
    let twice = OpKind::Resize { mode: ResizeMode::Linear, coordinates: Coordinates::Asymmetric };
    let declared = TensorType { dtype: DType::F32, shape: vec![1, 1, 1, 4] };
    assert_eq!(run(twice, &[x], Some(declared)).data.to_f32()[0], 2.0);
}

#[test]
fn what_is_no_number_sorts_behind_all_numbers() {
    // Enough elements for a sort that relies on a total order.
    let keys: Vec<f32> = (0..64).map(|i| if i % 3 == 1 { f32::NAN } else { (i * 37 % 64) as f32 }).collect();
    let x = Tensor::f32([64], keys.clone());
    for descending in [false, true] {
        let order = run(OpKind::ArgSort { axis: 0, descending }, std::slice::from_ref(&x), None).data.to_i32();
        let mut sorted: Vec<f32> = order.iter().map(|&i| keys[i as usize]).collect();
        if descending {
            sorted.reverse();
        }
        let numbers = sorted.iter().take_while(|k| !k.is_nan()).count();
        assert!(sorted[..numbers].is_sorted() && sorted[numbers..].iter().all(|k| k.is_nan()), "{sorted:?}");
    }
}

#[test]
fn boxes_that_overlap_better_ones_are_suppressed() {
    // Two boxes that share 3/5 of their union, one apart, and one of too low a score.
    let boxes = Tensor::f32(
        [1, 4, 4],
        [[1.0, 1.0, 2.0, 2.0], [1.5, 1.0, 2.0, 2.0], [9.0, 9.0, 2.0, 2.0], [20.0, 1.0, 2.0, 2.0]].concat(),
    );
    let scores = Tensor::f32([1, 4, 2], [[0.6, 0.1], [0.2, 0.9], [0.7, 0.3], [0.1, 0.1]].concat());
    let kept = |overlap: f32, score_threshold: f32, most: usize, per_class: bool| {
        let kind = OpKind::Suppress { overlap, score_threshold, most, per_class };
        run(kind, &[boxes.clone(), scores.clone()], None).data.to_i32()
    };
    assert_eq!(kept(0.5, 0.2, 5, false), [1, 2, -1, -1, -1]);
    assert_eq!(kept(0.7, 0.2, 5, false), [1, 2, 0, -1, -1]);
    assert_eq!(kept(0.5, 0.0, 2, false), [1, 2]);
    // Their classes differ.
    assert_eq!(kept(0.5, 0.2, 4, true), [1, 2, 0, -1]);
    // The best box stays even if no score is high enough.
    assert_eq!(kept(0.5, 1.0, 2, false), [1, -1]);
}
