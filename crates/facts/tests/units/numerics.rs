use anemone_facts::numerics::{FIXED, Model, TILED, TILED_SUM, generation};

#[test]
fn models_are_found_by_name_and_names_differ() {
    for model in Model::ALL {
        assert_eq!(Model::by_name(model.name()), Some(model));
    }
    assert_eq!(Model::by_name("exact"), None);
}

#[test]
fn generations_are_found_with_their_suffix() {
    assert_eq!(generation("h16g").map(|g| g.generation), Some("h16"));
    assert_eq!(generation("h13").and_then(|g| g.crop_gain_log2), Some(4));
    assert!(generation("h1").is_none() && generation("m1").is_none());
}

#[test]
fn accumulators_fit_their_integers() {
    for mac in [FIXED, TILED, TILED_SUM] {
        // Two operands below 2^17 in units of 2^-fraction_bits, and 2^12 terms more than any task has.
        assert!(34 + mac.fraction_bits < 64 - 12, "{}", mac.name);
        assert!(mac.ceiling_log2.is_none_or(|c| c + mac.fraction_bits <= 31), "{}", mac.name);
    }
}
