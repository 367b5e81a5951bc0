use anemone_kernels::num::elementwise::{canonicalize, round_result, settle_row};
use anemone_kernels::params::{Rounding, Ties};
use half::f16;

/// Pairs of operands around every tie: an odd number of half units in the last place, and a little more or less.
#[test]
fn rows_settle_as_single_numbers_do() {
    let numbers: Vec<f16> =
        (0..0x7c00).step_by(97).chain([1, 0x3ff, 0x400, 0x7bff, 0x7c00]).map(f16::from_bits).collect();
    for planar in [&Rounding::AWAY, &Rounding { ties: Ties::Even }] {
        for &a in &numbers {
            let others: Vec<f16> = numbers.iter().flat_map(|&b| [b, -b]).chain([f16::NAN]).collect();
            for product in [false, true] {
                let wide = |x: f16| canonicalize(x.to_f32());
                let formed = |b: f16| if product { wide(a) * wide(b) } else { wide(a) + wide(b) };
                let exact = |b: f16| {
                    let (a, b) = (f64::from(wide(a)), f64::from(wide(b)));
                    if product { a * b } else { a + b }
                };
                let mut row: Vec<f32> = others.iter().map(|&b| formed(b)).collect();
                let mut found = vec![f16::ZERO; row.len()];
                settle_row(planar, &mut row, &mut found);
                for (&b, y) in others.iter().zip(found) {
                    let wanted = round_result(planar, exact(b) + 0.0);
                    assert_eq!(y.to_bits(), wanted.to_bits(), "{a} and {b}");
                }
            }
        }
    }
}

#[test]
fn every_number_and_every_halfway_point_settles() {
    let even = Rounding { ties: Ties::Even };
    for bits in 0..0x7c00u16 {
        let (a, b) = (f16::from_bits(bits), f16::from_bits(bits + 1));
        let above = if b.is_infinite() { 65536.0 } else { b.to_f64() };
        let half = (a.to_f64() + above) / 2.0;
        assert_eq!(round_result(&Rounding::AWAY, a.to_f64()), a);
        assert_eq!(round_result(&Rounding::AWAY, half), b, "{half}");
        assert_eq!(round_result(&Rounding::AWAY, -half), -b, "{half}");
        assert_eq!(round_result(&Rounding::AWAY, half.next_down()), a, "{half}");
        assert_eq!(round_result(&Rounding::AWAY, half.next_up()), b, "{half}");
        assert_eq!(round_result(&even, half), if bits % 2 == 0 { a } else { b });
    }
}
