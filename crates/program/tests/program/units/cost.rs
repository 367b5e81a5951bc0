use anemone_facts::chips::CHIPS;
use anemone_facts::cost::rates;
use anemone_facts::driver::limits as stages;
use anemone_program::cost::{Cost, SMALL_ENGINE_NS};

#[test]
fn a_program_without_tasks_costs_the_way_there_and_back() {
    let cost = Cost {
        bind_ns: stages::BIND_NS,
        copy_ns: 0,
        build_ns: stages::BUILD_NS,
        kick_ns: stages::KICK_NS,
        firmware_ns: stages::ROUND_TRIP_NS - SMALL_ENGINE_NS,
        engine_ns: SMALL_ENGINE_NS,
        complete_ns: stages::COMPLETE_NS,
        rates: rates(CHIPS[0].target).expect("the M1 is measured"),
    };
    // The chapter's small graph: 183.5 us in all, 158.5 us inside the selector.
    assert_eq!((cost.total_ns(), cost.inside_ns(), cost.round_trip_ns()), (183_500, 158_500, 130_000));
    let (least, most) = cost.band_ns();
    assert!(least < cost.total_ns() && cost.total_ns() < most);
    let twice = Cost::sum([cost, cost]).expect("two");
    assert_eq!(twice.total_ns(), 2 * cost.total_ns());
    assert_eq!(Cost::sum([]), None);
    assert!(cost.to_string().starts_with("184 us a run on the M1"), "{cost}");
}
