use anemone_net::eval;
use anemone_net::graph::{DType, Data, Tensor};
use anemone_net::ops::{Binary, OpKind};
use anemone_net::testing::Builder;
use half::f16;

#[test]
fn constants_that_fp16_cannot_hold_are_not_folded() {
    let constant = |x: f32| Tensor { shape: vec![1], data: Data::from_f32(DType::F16, &[x]) };
    for (x, factor, folds) in [(-65504.0, 1.25, false), (2.0, 1.25, true), (f32::NEG_INFINITY, 1.25, true)] {
        let mut build = Builder::new("n");
        let c = build.constant("c", constant(x));
        let y = build.with(Binary::Mul, c, factor).expect("a product");
        assert_eq!(build.net.value(y).data.is_some(), folds, "{x}");
        if !folds {
            let c = &constant(f16::from_f32(factor).to_f32());
            let reached = eval::reaches(&OpKind::Binary(Binary::Mul), &[&constant(x), c], &c.ty());
            assert_eq!(reached, Some(81880.0));
        }
    }
}
