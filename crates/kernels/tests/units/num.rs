mod elementwise;
mod reference;
mod wide;

use anemone_kernels::num::{LEAST_ROW, clamp_row, copy_row, round, round_row, widen_row};
use half::f16;

#[test]
fn rows_are_clamped_as_single_numbers_are() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let mut clamped = all.clone();
    let mut copied = all.clone();
    copy_row(&all, &mut copied);
    for (low, high) in [(0.0, 6.0), (0.0, f32::INFINITY), (0.5, 1.0)] {
        clamp_row(&all, round(low), round(high), &mut clamped);
        for ((x, y), copied) in all.iter().zip(&clamped).zip(&copied) {
            let wide = x.to_f32();
            assert_eq!(copied.to_bits(), round(wide).to_bits());
            let wanted = match () {
                () if wide.is_nan() => wide,
                () if wide <= low => low,
                () => wide.min(high),
            };
            assert_eq!(y.to_bits(), round(wanted).to_bits(), "{wide}");
        }
    }
}

#[test]
fn rows_convert_as_single_numbers_do() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let mut wide = vec![0.0; all.len()];
    // With the host's conversion instructions, and without.
    for columns in [all.len(), LEAST_ROW + 5, LEAST_ROW - 1] {
        wide.fill(f32::NAN);
        all.chunks(columns).zip(wide.chunks_mut(columns)).for_each(|(from, to)| widen_row(from, to));
        for (&x, &y) in all.iter().zip(&wide) {
            assert_eq!(x.to_f32().to_bits(), y.to_bits(), "{:#06x}", x.to_bits());
        }
    }
    // Every fp16 number, every halfway point, and their neighbours.
    let near = |x: f32| [x, x.next_up(), x.next_down()];
    let mut points: Vec<f32> = wide
        .windows(2)
        .filter(|w| w[0].is_finite())
        .flat_map(|w| near(w[0]).into_iter().chain(near(if w[1].is_finite() { (w[0] + w[1]) / 2.0 } else { 65520.0 })))
        .collect();
    points.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, -1e-45, 1e9]);
    // In stretches of normal numbers only, and in mixed ones.
    let usual: Vec<f32> = points.iter().copied().filter(|x| (6.2e-5..65519.0).contains(&x.abs())).collect();
    for points in [points, usual.clone(), usual.iter().flat_map(|&x| [x, 0.0, -0.0]).collect()] {
        for columns in [points.len(), LEAST_ROW + 5, LEAST_ROW - 1] {
            let mut rounded = vec![f16::NAN; points.len()];
            points.chunks(columns).zip(rounded.chunks_mut(columns)).for_each(|(from, to)| round_row(from, to));
            for (&x, &y) in points.iter().zip(&rounded) {
                assert_eq!(f16::from_f32(x).to_bits(), y.to_bits(), "{x:e}");
            }
        }
    }
    let mixed: Vec<f16> = all.iter().flat_map(|&x| [x, f16::NEG_ZERO]).collect();
    let mut wide = vec![0.0; mixed.len()];
    widen_row(&mixed, &mut wide);
    assert!(mixed.iter().zip(&wide).all(|(x, y)| x.to_f32().to_bits() == y.to_bits()));
}
