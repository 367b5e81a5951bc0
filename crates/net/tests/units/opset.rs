use anemone_net::opset::{ROWS, row, why_not};

#[test]
fn rows_are_in_order_and_well_formed() {
    assert!(ROWS.windows(2).all(|w| w[0].name < w[1].name));
    assert!(ROWS.len() >= 165);
    for row in ROWS {
        assert!((15..=18).contains(&row.since) && !row.result.is_empty(), "{}", row.name);
        assert!(row.inputs().all(|a| a.default.is_none() || a.optional), "{}", row.name);
    }
    let conv = row("conv").unwrap();
    let groups = conv.inputs().find(|a| a.name == "groups").unwrap();
    assert_eq!((groups.optional, groups.default), (true, Some("1")));
    assert!(why_not("softmaxx").contains("`softmax`"));
}
