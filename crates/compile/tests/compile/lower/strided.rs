use anemone_compile::testing::{BufferId, Strided, View, dense_axes};

fn dense(shape: &[usize]) -> Strided {
    let (lead, _) = dense_axes(shape);
    Strided::from(&View { buffer: BufferId(0), offset_bytes: 0, lead, width: shape[shape.len() - 1] })
}

#[test]
fn windows_of_rows_are_a_view() {
    // [8, 8, 32] as windows of 4 by 4: nothing moves within a row.
    let windows = dense(&[8, 8, 32]).reshaped(&[2, 4, 2, 4, 32]).expect("atoms divide").permuted(&[0, 2, 1, 3, 4]);
    let view = windows.view().expect("rows stay whole");
    assert_eq!(view.shape(), [2, 2, 4, 4, 32]);
    assert!(windows.reshaped(&[4, 16, 32]).expect("atoms divide").view().is_none());
}

#[test]
fn a_reshape_there_and_back_is_the_view_again() {
    let there = dense(&[6, 40]).reshaped(&[6, 5, 8]).expect("atoms divide");
    assert!(there.view().is_none());
    assert_eq!(there.reshaped(&[6, 40]).and_then(|s| s.view()), dense(&[6, 40]).view());
    assert!(dense(&[2, 40]).permuted(&[1, 0]).reshaped(&[16, 5]).is_none());
}
