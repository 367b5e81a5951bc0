use crate::exact::TILED_SUM;
use anemone_kernels::num::wide::{Exact, Wide};
use anemone_kernels::params::Rounding;

fn exact(x: f32) -> Exact {
    Exact::canonicalize(x)
}

#[test]
fn forms_without_a_value_are_plus_zero() {
    let inf = exact(f32::INFINITY);
    let minus = exact(f32::NEG_INFINITY);
    let found = [
        inf.add(minus),
        inf.mul(exact(0.0)),
        exact(-1.0).rsqrt(),
        Exact::sum([inf, minus].into_iter(), None),
        exact(-0.0).add(exact(0.0)),
    ];
    assert!(found.iter().all(|x| x.round_result(&Rounding::AWAY).to_bits() == 0), "{found:?}");
}

#[test]
fn nan_is_plus_infinity_and_a_divided_zero_has_no_sign() {
    let found = [exact(f32::NAN), exact(f32::NAN).max(exact(1.0)), exact(-0.0).reciprocal(), exact(-0.0).rsqrt()];
    assert!(found.iter().all(|x| x.get() == f64::INFINITY), "{found:?}");
}

#[test]
fn a_sum_beyond_24_bits_is_rounded_once() {
    // 2048 + 1 + 2^-24 is above a tie; rounded to fp32 it would be the tie itself.
    let x = exact(2048.0).add(exact(1.0)).add(exact(2f32.powi(-24)));
    assert_eq!(x.round_result(&Rounding::EVEN), 2050.0);
    let sum =
        |x: f32, n: usize, rules| Exact::sum(std::iter::repeat_n(exact(x), n), rules).round_result(&Rounding::EVEN);
    assert_eq!(sum(1.0, 16000, None), 16000.0);
    assert_eq!(sum(1.0, 16000, Some(&TILED_SUM)), 16000.0);
    assert_eq!(sum(60000.0, 1, Some(&TILED_SUM)), 60000.0);
}
