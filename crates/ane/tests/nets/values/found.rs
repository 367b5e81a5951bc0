//! Defects found by random networks (`differential.rs`), each as the smallest case of its kind.

use super::*;

fn bytes(dtype: DType, shape: &[usize], data: &[f32]) -> Operand {
    operand(dtype, shape, data)
}

/// 8-bit integers wrap, and saturate where floats become them.
pub fn narrow() -> Vec<Case> {
    let signed = [-128.0, 127.0, 5.0, -7.0, 100.0, -100.0, 0.0, 1.0, -1.0, 64.0, 11.0];
    let unsigned = [255.0, 0.0, 1.0, 254.0, 128.0, 16.0, 15.0, 17.0, 200.0, 3.0, 99.0];
    let mut all = Vec::new();
    for (dtype, data) in [(DType::I8, signed), (DType::U8, unsigned)] {
        // Every pair of numbers meets.
        let (x, y) = (bytes(dtype, &[11, 1], &data), bytes(dtype, &[1, 11], &data));
        let declared = |case: Case| Case { result: Some(vec![11, 11]), ..case }.typed(dtype);
        for f in [Binary::Add, Binary::Sub, Binary::Mul] {
            all.push(declared(case(f.name(), OpKind::Binary(f), &[x.clone(), y.clone()])));
        }
        for f in [Unary::Neg, Unary::Abs, Unary::Square] {
            all.push(case(f.name(), OpKind::Unary(f), std::slice::from_ref(&x)).typed(dtype));
        }
        for exponent in [1.0, 2.0, 3.0, 7.0] {
            let name = Box::leak(format!("{} to the {exponent}", dtype.name()).into_boxed_str());
            let operands = [x.clone(), bytes(dtype, &[1], &[exponent])];
            all.push(case(name, pow(), &operands).typed(dtype).at_constant_places());
        }
        for kind in [ReduceKind::Sum, ReduceKind::SumSquare, ReduceKind::L1] {
            let kind = OpKind::Reduce { kind, axes: vec![1], keep_dims: true };
            all.push(case(dtype.name(), kind, &[bytes(dtype, &[11, 3], &data)]).typed(dtype));
        }
        let beyond = floats(&[9], &[-1000.0, 1000.0, 127.5, -128.5, 255.5, 256.0, -0.5, 300.0, -300.0]);
        all.push(case("saturating cast", OpKind::Cast, &[beyond]).typed(dtype));
        let wide = whole(&[7], &[200.0, 300.0, -200.0, 256.0, -129.0, 2047.0, -1.0]);
        all.push(case("wrapping cast", OpKind::Cast, &[wide]).typed(dtype));
        let kind = OpKind::ScatterAlong { axis: 0, mode: ScatterMode::Add };
        let operands = [
            bytes(dtype, &[3, 4], &data),
            whole(&[2, 4], &[0.0, 1.0, 2.0, 0.0, 0.0, 1.0, -1.0, 2.0]),
            bytes(dtype, &[2, 4], &data),
        ];
        all.push(case("sums at places", kind, &operands).typed(dtype).at_constant_places());
    }
    all
}

/// Numbers at the ends of what steps on the way hold.
pub fn ends() -> Vec<Case> {
    let mean = |axes: &[usize]| OpKind::Reduce { kind: ReduceKind::Mean, axes: axes.to_vec(), keep_dims: true };
    let high = [32768.0, 0.0, 32752.0, 1.0, 20000.0, -5.0];
    let exponents = whole(&[2, 1], &[100.0, -3.0]);
    vec![
        // Seeds 4840 and 9664: a sum that overflows before it is a mean.
        case("mean of large numbers", mean(&[0, 1]), &[floats(&[3, 2, 1, 2], &high)]).share(2e-3).fast(),
        case("mean of large numbers and columns", mean(&[0, 2]), &[floats(&[3, 2, 4], &high)]).share(2e-3).fast(),
        // Seeds 1904 and 9584: whole powers through tables.
        case("integers to large exponents", pow(), &[whole(&[2, 3], &[1.0, -1.0, 1.0]), exponents]),
        // Logarithms and roots without a value.
        case("roots of negative numbers", OpKind::Unary(Unary::Sqrt), &[floats(&[3], &[-1.0, 4.0, -INF])])
            .table()
            .fast(),
        case("inverse roots", OpKind::Unary(Unary::Rsqrt { epsilon: 0.0 }), &[floats(&[3], &[-1.0, 4.0, -INF])])
            .table()
            .fast(),
        case("logarithms", OpKind::Unary(Unary::Log { epsilon: 0.0 }), &[floats(&[3], &[-1.0, 4.0, -INF])])
            .table()
            .fast(),
        case("arc sines of large numbers", OpKind::Unary(Unary::Asin), &[floats(&[4], &[300.0, -2.0, 0.5, 65504.0])])
            .table()
            .fast(),
        case("atanh of large numbers", OpKind::Unary(Unary::Atanh), &[floats(&[4], &[300.0, -2.0, 0.5, 1.5])])
            .table()
            .fast(),
        // Angles of many turns, and hyperbolic functions at the end of fp16.
        case(
            "sines of many turns",
            OpKind::Unary(Unary::Sin),
            &[floats(&[5], &[355.0, -1000.0, 28.28125, 2047.0, 500.5])],
        )
        .table(),
        case(
            "cosines of many turns",
            OpKind::Unary(Unary::Cos),
            &[floats(&[5], &[355.0, -1000.0, 17.2, 2047.0, 500.5])],
        )
        .table(),
        case("sinh near its end", OpKind::Unary(Unary::Sinh), &[floats(&[3], &[11.5, -11.7, 11.09])]).share(1.1e-2),
        case("cosh near its end", OpKind::Unary(Unary::Cosh), &[floats(&[3], &[11.5, -11.7, 11.09])]).share(1.1e-2),
    ]
}
