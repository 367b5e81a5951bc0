use anemone::places::need_broker;

#[test]
fn systems_without_the_broker_are_refused_with_the_reason() {
    assert!(need_broker("linux").is_ok());
    for system in ["macos", "windows"] {
        let told = need_broker(system).expect_err("no broker").to_string();
        assert!(told.contains(&format!("there is no broker on {system}: ")), "{told}");
        assert!(!told.contains("refused: "), "{told}");
    }
}
