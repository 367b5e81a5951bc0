use anemone::execute::RoundingCost;
use anemone::testing::{RoundingSource, Tolerance};

/// A text detector's map: fp16 alone costs 0.057 at its worst place, and a quarter of the range is no tolerance.
#[test]
fn probabilities_have_a_tolerance_of_their_own() {
    let map: Vec<f32> = (0..1000).map(|i| i as f32 / 999.0).collect();
    let cost = Some(RoundingSource::Network(RoundingCost { max: 0.057, rms: 0.0005 }));
    let tolerance = Tolerance::by_default(&map, cost);
    assert!(tolerance.atol < 0.09 && tolerance.atol >= 0.057, "{}", tolerance.atol);
    assert_eq!(tolerance.rms, Some(0.002f32.max(0.002 * (map.iter().map(|x| x * x).sum::<f32>() / 1000.0).sqrt())));
    let scores: Vec<f32> = map.iter().map(|x| 8.0 * x - 4.0).collect();
    assert_eq!(Tolerance::by_default(&scores, cost).atol, 4.0 * 0.057);
    let classes = Tolerance::by_default(&map, Some(RoundingSource::Network(RoundingCost { max: 0.001, rms: 0.0001 })));
    assert!(classes.atol <= 0.01, "{}", classes.atol);
}
