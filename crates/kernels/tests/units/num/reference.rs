use crate::samples::FIXED;
use anemone_kernels::num::reference::{dot, round_result};
use anemone_kernels::params::{AccumulatorSpec, Ties};
use half::f16;

#[test]
fn results_round_to_the_ties_of_the_model() {
    let even = AccumulatorSpec { ties: Ties::Even, ..FIXED };
    for (sum, away, to_even) in [(2049.0, 2050.0, 2048.0), (2051.0, 2052.0, 2052.0), (-2049.0, -2050.0, -2048.0)] {
        let sum = (sum * 65536.0) as i64;
        assert_eq!(round_result(&FIXED, sum), f16::from_f64(away));
        assert_eq!(round_result(&even, sum), f16::from_f64(to_even));
    }
    // The largest sum below the ceiling rounds up to it, as measured on hardware: 16384 + 16376 gives 32768.
    assert_eq!(round_result(&FIXED, (1 << 31) - 1), f16::from_f64(32768.0));
    assert_eq!(round_result(&FIXED, 1), f16::from_bits(0x0100));
}

#[test]
fn a_bias_is_rounded_and_may_overflow() {
    let one = [(f16::ONE, f16::ZERO)];
    assert_eq!(dot(&FIXED, &one, 0.5 / 65536.0), f16::from_bits(0x0100));
    assert_eq!(dot(&FIXED, &one, -0.49 / 65536.0), f16::ZERO);
    assert_eq!(dot(&FIXED, &one, 32768.0), f16::INFINITY);
    assert_eq!(dot(&FIXED, &one, f64::MIN), f16::NEG_INFINITY);
    assert_eq!(dot(&FIXED, &one, f64::NAN), f16::ZERO);
}
