use crate::samples::used;
use anemone_kernels::copy::{CopyAxis, NanRule, normalized, strided};
use anemone_kernels::testing::{Piece, copy, cut, each};
use anemone_kernels::workers::arches;
use half::f16;

/// Boxes of two to four axes in every source order, with and without gaps.
#[test]
fn boxes_are_copied_element_by_element() {
    let extents: [&[usize]; 6] = [&[5], &[3, 70], &[40, 33], &[2, 9, 17], &[3, 4, 2, 11], &[64, 96]];
    let mut orders = vec![vec![]];
    for n in 0..4 {
        orders =
            orders.iter().flat_map(|o: &Vec<usize>| (0..=n).map(move |i| [&o[..i], &[n], &o[i..]].concat())).collect();
    }
    for arch in arches() {
        for (extents, (inner, gap)) in extents.iter().flat_map(|e| [(1, 0), (1, 3), (4, 0), (7, 5)].map(|g| (e, g))) {
            for order in &orders {
                let strides = |order: Vec<usize>, inner: usize, gap: usize| {
                    let (mut strides, mut next) = (vec![0; extents.len()], inner);
                    for axis in order {
                        strides[axis] = next;
                        next = next * extents[axis] + gap;
                    }
                    (strides, next)
                };
                let inward: Vec<usize> = (0..extents.len()).rev().collect();
                let (to, size) = strides(inward, inner, gap);
                let (from, read) = strides(order.iter().copied().filter(|&a| a < extents.len()).collect(), 1, gap / 2);
                let source: Vec<f16> = (0..read).map(|i| f16::from_bits((i * 37) as u16 & 0x7bff)).collect();
                let all = extents.iter().zip(to.iter().zip(&from));
                let axes: Vec<CopyAxis> = all.map(|(&count, (&to, &from))| CopyAxis { count, to, from }).collect();
                let (mut found, mut wanted) = (vec![f16::ONE; size], vec![f16::ONE; size]);
                each(&axes, |t, f| wanted[t] = source[f]);
                strided(&used(arch), NanRule::Quiet, &source, &mut found, &normalized(&axes));
                assert_eq!(found, wanted, "{axes:?}");
            }
        }
    }
}

/// The parts of a copy write every element of the result once, and nothing outside of it.
#[test]
fn parts_of_a_copy_cover_it() {
    let axes = [
        CopyAxis { count: 3, to: 400, from: 1 },
        CopyAxis { count: 50, to: 8, from: 3 },
        CopyAxis { count: 4, to: 1, from: 150 },
    ];
    let source: Vec<f16> = (0..600).map(|i| f16::from_bits(i as u16)).collect();
    for parts in 1..20 {
        let (mut found, mut wanted) = (vec![f16::ONE; 1200], vec![f16::ONE; 1200]);
        each(&axes, |t, f| wanted[t] = source[f]);
        let mut pieces = Vec::new();
        cut(Piece { from: &source, to: &mut found, axes: axes.to_vec() }, 0, parts, &mut pieces);
        for piece in &mut pieces {
            copy(piece.from, piece.to, &piece.axes, NanRule::quiet);
        }
        assert_eq!(found, wanted, "{parts} parts");
    }
}

#[test]
fn neighbours_that_go_on_alike_are_one_axis() {
    let axis = |count, to, from| CopyAxis { count, to, from };
    assert_eq!(
        normalized(&[axis(4, 1, 1), axis(3, 4, 4), axis(1, 9, 9), axis(2, 16, 12)]),
        [axis(2, 16, 12), axis(12, 1, 1)]
    );
}
