use anemone_facts::kernel::zero_skip::order;

#[test]
fn elements_go_by_phase() {
    assert_eq!(order([1, 1], [2, 2]), [Some(0), None, None, None]);
    let of_3x3 = order([3, 3], [2, 2]);
    assert_eq!(of_3x3.iter().flatten().copied().collect::<Vec<_>>(), [0, 2, 6, 8, 1, 7, 3, 5, 4]);
    assert_eq!(of_3x3.len(), 16);
    assert_eq!(of_3x3[4..8], [Some(1), None, Some(7), None]);
    assert_eq!(order([2, 3], [1, 1]), [0, 1, 2, 3, 4, 5].map(Some));
}
