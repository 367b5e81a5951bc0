use anemone_compile::functions::*;
use half::f16;

#[test]
fn a_bump_meets_its_knots() {
    let (_, bump, domain) = OTHERS[0];
    let knots = knots(bump, domain, 33);
    let chain = chain(&knots).expect("it fits");
    assert!(chain.units() <= 3 * 33);
    for (x, y) in knots {
        assert_eq!(chain.value(f16::from_f64(x)), f16::from_f64(y), "at {x}");
    }
    // Beyond the last knot every unit of its side acts, and the rounding of large sums shows.
    for way in [-1.0, 1.0] {
        let (far, last) = (chain.value(f16::from_f32(way * 100.0)), chain.value(f16::from_f32(way * 4.0)));
        assert!((far.to_f32() - last.to_f32()).abs() < 2e-5, "{far} {last}");
    }
}

#[test]
fn any_knots_are_met_and_lines_between_them_kept() {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    for case in 0..50 {
        let scale = [1.0, 100.0, 0.01, 4.0][case % 4];
        let all: Vec<(f64, f64)> = match case {
            0 => knots(|x| (-x * x).exp(), [-4.0, 4.0], 33),
            _ => (0..33).map(|i| (f64::from(i) / 4.0 - 4.0, f16::from_f64(random() * scale).to_f64())).collect(),
        };
        let chain = chain(&all).expect("it fits");
        let missed = all.iter().filter(|(x, y)| chain.value(f16::from_f64(*x)) != f16::from_f64(*y)).count();
        assert_eq!(missed, 0, "case {case}");
        let rounded: Vec<(f64, f64)> = all.iter().map(|&(x, y)| (x, f16::from_f64(y).to_f64())).collect();
        let greatest = rounded.iter().map(|k| k.1.abs()).fold(0.0, f64::max);
        for bits in (0..0x4400).step_by(7).flat_map(|b| [b, b | 0x8000]) {
            let x = f16::from_bits(bits);
            let at = ((x.to_f64() + 4.0) * 4.0).floor().clamp(0.0, 31.0) as usize;
            let ((x0, y0), (x1, y1)) = (rounded[at], rounded[at + 1]);
            let line = y0 + (y1 - y0) * (x.to_f64() - x0) / (x1 - x0);
            // Rounding of the value, and of sums in fp32 beside the greatest.
            let allowed = line.abs() * 2f64.powi(-11) + greatest * 2f64.powi(-15) + 2f64.powi(-24);
            let off = (chain.value(x).to_f64() - line).abs();
            assert!(off <= allowed, "case {case} at {x}: {off} of {allowed}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert_eq!(chain(&[(0.0, 0.0)]), Err(ChainError::Count { found: 1 }));
    assert!(matches!(chain(&[(1.0, 0.0), (1.0, 2.0)]), Err(ChainError::Order { at: 1, .. })));
    assert!(matches!(chain(&[(0.0, 0.0), (1.0, 1e6)]), Err(ChainError::Range { at: 1, .. })));
    assert!(matches!(chain(&[(0.0, 0.0), (1e-4, 6e4)]), Err(ChainError::Range { at: 1, .. })));
    assert!(matches!(chain(&[(0.0, f64::NAN), (1.0, 0.0)]), Err(ChainError::Range { at: 0, .. })));
}
