use anemone::check::verdict::percent;

#[test]
fn percentages_are_rounded_and_never_claim_all_or_nothing() {
    let cases =
        [(44, 46, "95.7 %"), (32, 33, "97.0 %"), (31, 33, "93.9 %"), (9999, 10000, "99.9 %"), (1, 5000, "0.1 %")];
    for (part, whole, text) in cases {
        assert_eq!(percent(part, whole), text);
    }
    assert_eq!([percent(3, 3), percent(0, 3), percent(0, 0)], ["100 %", "0 %", "-"]);
}
