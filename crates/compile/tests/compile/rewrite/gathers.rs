use super::{becomes, decompose};
use anemone_compile::testing::{Piece, pieces, separate};

#[test]
fn places_are_few_pieces() {
    let piece = |first, step, count, repeat| Piece { first, step, count, repeat, backwards: false };
    assert_eq!(pieces(&[0, 1, 2, 5, 6]), [piece(0, 1, 3, 1), piece(5, 1, 2, 1)]);
    assert_eq!(pieces(&[0, 0, 1, 1, 2, 2]), [piece(0, 1, 3, 2)]);
    assert_eq!(pieces(&[1, 3, 5, 7]), [piece(1, 2, 4, 1)]);
    assert_eq!(pieces(&[0, 4, 3]), [piece(0, 1, 1, 1), piece(4, 1, 1, 1), piece(3, 1, 1, 1)]);
    assert_eq!(pieces(&[2, 2, 2]), [piece(2, 1, 1, 3)]);
    assert_eq!(pieces(&[6, 5, 4, 3, 2, 7]), [Piece { backwards: true, ..piece(2, 1, 5, 1) }, piece(7, 1, 1, 1)]);
    assert_eq!(
        pieces(&[0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]),
        [piece(0, 1, 1, 2), piece(1, 1, 2, 4), piece(3, 1, 1, 2)]
    );
}

#[test]
fn outer_products_of_places_are_told_apart() {
    // Rows 0 and 2, columns 1, 1 and 3.
    let grid: Vec<i32> = [0, 2].iter().flat_map(|&r| [1, 1, 3].map(|c| [r, c])).flatten().collect();
    assert_eq!(separate(&[2, 3, 2], &grid), Some(vec![vec![0, 2], vec![1, 1, 3]]));
    let diagonal = [0, 0, 1, 1];
    assert_eq!(separate(&[2, 2], &diagonal), None);
}

#[test]
fn repeated_places_are_a_broadcast() {
    becomes(
        decompose,
        r#"net "n" {
  input %x: f16[2, 3]
  const %i: i32[6] = [0, 0, 1, 1, 2, 2]
  %y: f16[2, 6] = gather(%x, %i) axis=1
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[2, 3]
  const %i: i32[6] = [0, 0, 1, 1, 2, 2]
  %y.apart: f16[2, 3, 1] = reshape(%x) name="y"
  %y.repeated: f16[2, 3, 2] = broadcast(%y.apart) name="y"
  %y.side_by_side: f16[2, 6] = reshape(%y.repeated) name="y"
  %y: f16[2, 6] = reshape(%y.side_by_side)
  output %y
}
"#,
    );
}
