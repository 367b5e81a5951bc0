use anemone_check::Layer;
use anemone_check::legal::{Route, check};
use anemone_facts::chips::{self, Chip};

#[test]
fn a_limit_of_zero_is_told_as_a_missing_layer() {
    let layer = Layer::new("Transpose", "t").bottom(&[1, 4, 8, 8], "fp16").top(&[1, 4, 8, 8], "fp16");
    let of = |chip: &Chip| check(&layer, chip, Route::Direct).refusals;
    let lacking: Vec<_> = chips::CHIPS.iter().filter(|c| c.hal.max_transpose_height == Some(0)).collect();
    assert!(!lacking.is_empty());
    for chip in lacking {
        let refusals = of(chip);
        assert!(refusals.iter().any(|r| r.message.contains("is not supported") && r.limit == "none"), "{refusals:?}");
        assert!(refusals.iter().all(|r| !r.message.contains("at least 1")), "{refusals:?}");
    }
}
