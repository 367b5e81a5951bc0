use anemone_facts::chips::CHIPS;
use anemone_facts::hal;
use anemone_facts::weights::GATES;

#[test]
fn rows_are_in_the_order_of_the_forms_and_name_their_hal_rows() {
    let hal = &CHIPS[0].hal;
    for (i, gate) in GATES.iter().enumerate() {
        assert_eq!(gate.form as usize, i);
        let row = hal::HAL_ROWS.iter().find(|row| row.name == gate.row).expect("a HAL row");
        assert_eq!((row.get)(hal), (gate.get)(hal), "{}", gate.row);
    }
}

#[test]
fn generations_open_one_form_after_another() {
    // The book's chapter 7: palettes and sparse weights from the A13 on, int8 from the A14, blocks from the A15.
    let open = |target: &str| {
        let chip = CHIPS.iter().find(|c| c.target == target).expect("a target");
        GATES.each_ref().map(|gate| gate.open(&chip.hal))
    };
    assert_eq!(open("h13"), [true, true, false, false].map(Some));
    assert_eq!(open("h14"), [true, true, true, false].map(Some));
    assert_eq!(open("h15"), [true; 4].map(Some));
}
