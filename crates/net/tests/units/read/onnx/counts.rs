use anemone_net::testing::COUNTS;

#[test]
fn every_operator_has_one_row() {
    let mut names: Vec<&str> = COUNTS.iter().flat_map(|row| row.2.split(' ')).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count > 190 && COUNTS.iter().all(|&(least, most, _)| least <= most));
}
