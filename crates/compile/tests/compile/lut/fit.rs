use anemone_compile::functions::FUNCTIONS;
use anemone_compile::lut::Table;

#[test]
fn smooth_and_broken_functions_are_fitted() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    type Case<'a> = (&'a str, &'a dyn Fn(f64) -> f64, f64);
    let cases: [Case; 5] = [
        ("sigmoid", &sigmoid, 1.7e-3),
        ("gelu", &|x| x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)) / 2.0, 3.4e-3),
        ("hard_swish", &|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0), 1.8e-3),
        ("relu", &|x| x.max(0.0), 1e-4),
        ("elu", &|x| if x < 0.0 { x.exp_m1() } else { x }, 5e-3),
    ];
    for (name, f, most) in cases {
        let (_, error) = Table::fitted(name, f, f64::INFINITY).expect(name);
        assert!(error <= most, "{name}: {error}");
    }
    assert!(Table::fitted("square", &|x| x * x, f64::INFINITY).is_none());
    assert!(Table::fitted("log", &f64::ln, f64::INFINITY).is_none());
    assert!(Table::fitted("sigmoid", &sigmoid, 1e-4).is_none());
}

/// Means over a plane, such as those before a classifier, average rounding errors but not the mean error of a table.
#[test]
fn the_error_of_hard_swish_has_no_mean() {
    let f = |x: f64| x * (x / 6.0 + 0.5).clamp(0.0, 1.0);
    let (table, error) = Table::fitted("hard_swish", &f, f64::INFINITY).expect("a table");
    let errors: Vec<f64> = (-250..250).map(|i| f64::from(i) / 100.0).map(|x| table.lookup().value(x) - f(x)).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean.abs() < error / 20.0 && error > 1e-3, "mean {mean} of {error}");
}

#[test]
fn clips_of_clips_are_clips() {
    let low = -0.999_511_718_75;
    assert_eq!(Table::clip_of(&|x| x.min(low).min(0.0)), Some(Table::clip(f32::NEG_INFINITY, low as f32)));
    assert_eq!(Table::clip_of(&|x| x.clamp(-1.0, 6.0).max(0.5)), Some(Table::clip(0.5, 6.0)));
    assert_eq!(Table::clip_of(&f64::abs), None);
    assert_eq!(Table::clip_of(&|x| 0.5 * x), None);
}

#[test]
fn values_are_those_of_the_functions() {
    for function in FUNCTIONS {
        let table = (function.table)();
        let [low, high] = function.domain;
        for i in 1..64 {
            let x = low + (high - low) * f64::from(i) / 64.0;
            let (got, exact) = (table.lookup().value(x), (function.exact)(x));
            assert!((got - exact).abs() <= 0.04 * exact.abs().max(1.0), "{} at {x}: {got} for {exact}", function.name);
        }
    }
}
