use anemone_compile::testing::Region;

fn region(shape: [usize; 2], targets: &[usize]) -> Option<(Vec<usize>, Vec<usize>, Vec<usize>)> {
    Region::of(&shape, targets).map(|r| (r.shape, r.begin, r.end))
}

#[test]
fn places_of_slices_are_known_in_their_order() {
    // Rows of 4: columns 1 and 2 of rows 0 and 1; columns 1 and 3; the same in another order; twice one place; all.
    assert_eq!(region([3, 4], &[1, 2, 5, 6]), Some((vec![3, 4], vec![0, 1], vec![2, 3])));
    assert_eq!(region([3, 4], &[1, 3, 5, 7]), Some((vec![3, 2, 2], vec![0, 0, 1], vec![2, 2, 2])));
    assert_eq!(region([3, 4], &[5, 6, 1, 2]), None);
    assert_eq!(region([3, 4], &[1, 1]), None);
    assert_eq!(region([3, 4], &[1, 2, 5]), None);
    assert_eq!(region([1, 4], &[0, 1, 2, 3]), Some((vec![1, 4], vec![0, 0], vec![1, 4])));
    // Steps that do not divide the axis.
    assert_eq!(region([1, 5], &[0, 2, 4]), None);
}
