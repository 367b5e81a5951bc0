use anemone_engine::testing::{Home, Move, resolved};
use anemone_kernels::copy::{CopyAxis, NanRule};

fn part(first_row: usize, from: usize, axes: &[(usize, usize, usize)]) -> Move {
    let axes: Vec<CopyAxis> = axes.iter().map(|&(count, to, from)| CopyAxis { count, to, from }).collect();
    Move::new(NanRule::Quiet, (Home::Tile, 3 * first_row), (Home::Bar(2), from), &axes).expect("a part")
}

/// Rows of three taps: four of them as pairs of lanes, and one behind them.
#[test]
fn rows_are_found_in_the_parts_that_have_them() {
    let pairs = part(0, 100, &[(2, 6, 50), (2, 3, 1), (3, 1, 2)]);
    let found = resolved(&[pairs.clone(), part(4, 300, &[(3, 1, 2)])], 5, 3).expect("rows");
    assert_eq!((found.rows.as_slice(), found.stride), ([100, 101, 150, 151, 300].as_slice(), 2));
    assert_eq!(found.range(), 100..305);
    // A missing row, a larger tap stride, or two different strides.
    assert_eq!(resolved(std::slice::from_ref(&pairs), 5, 3), None);
    assert_eq!(resolved(&[pairs, part(4, 300, &[(3, 1, 5)])], 5, 3), None);
    assert_eq!(resolved(&[part(0, 0, &[(2, 2, 9), (2, 1, 4)])], 1, 4), None);
}
