use anemone_kernels::line::Line;
use anemone_kernels::num::elementwise::round_result;
use anemone_kernels::num::wide::{Exact, Wide};
use anemone_kernels::params::{Rounding, Ties};
use half::f16;

/// Smallest normal and largest finite number of fp16.
const LEAST: f64 = 1.0 / (1 << 14) as f64;
const LARGEST: f64 = 65504.0;

/// Every fp16 number, every halfway point, and their neighbours, in rows of normal numbers and in mixed ones.
#[test]
fn rows_settle_as_single_numbers_do() {
    let positive = (0..0x7c00u16).flat_map(|bits| {
        let (a, b) = (f16::from_bits(bits).to_f64(), f16::from_bits(bits + 1).to_f64());
        let half = (a + if b.is_infinite() { 65536.0 } else { b }) / 2.0;
        [a, half, half.next_up(), half.next_down()]
    });
    let points: Vec<f64> = positive.flat_map(|x| [x, -x]).collect();
    let usual: Vec<f64> =
        points.iter().copied().filter(|x| *x == 0.0 || (LEAST..=LARGEST).contains(&x.abs())).collect();
    let beyond: Vec<f64> = points.iter().copied().chain([65536.0, 1e9, f64::INFINITY, -1e300, 1e-300]).collect();
    for ties in [Ties::Away, Ties::Even] {
        let planar = Rounding { ties };
        for points in [&usual, &beyond] {
            let row: Vec<Exact> = points.iter().map(|&x| Exact::wide(x)).collect();
            let mut found = vec![f16::ZERO; row.len()];
            Exact::settle_line(Some(&planar), &row, &mut found);
            for (&x, y) in points.iter().zip(found) {
                assert_eq!(y.to_bits(), round_result(&planar, x).to_bits(), "{x:e}");
            }
        }
    }
}
