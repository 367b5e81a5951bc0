use anemone_engine::testing::OTHER_GENERATIONS;
use anemone_engine::{executes, treatment};
use anemone_facts::chips::CHIPS;

#[test]
fn every_field_of_an_executed_generation_is_treated() {
    let executed = CHIPS.iter().filter_map(|c| c.layout).filter(|l| executes(l));
    for row in executed.flat_map(|l| l.rows) {
        assert_ne!(treatment(row.field), OTHER_GENERATIONS, "{:?} needs a line of its own", row.field);
    }
}
