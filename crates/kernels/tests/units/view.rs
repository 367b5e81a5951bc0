use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{
    Part, TensorView, dense, nested, partition, partition_columns, reach, transpose, transpose_blocks,
};
use half::f16;

/// Every element of every row belongs to exactly one tile, whichever of rows and channels has the larger stride.
#[test]
fn parts_widen_alike_wherever_their_rows_lie() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    for columns in 1..40 {
        for stride in [columns, columns + 2, 2 * columns + 70] {
            let data: Vec<f16> = (0..2 * 6 * stride).map(draw).collect();
            let source =
                TensorView { data: &data[..data.len() - (stride - columns)], strides: [0, 6 * stride, stride] };
            for part in [Part { rows: 1..6, columns: 0..columns }, Part { rows: 2..3, columns: columns / 2..columns }] {
                let mut found = vec![f32::NAN; part.outputs()];
                source.widen(pulp::Scalar::new(), 0, 1, &part, &mut found);
                // From every element on.
                for first in 0..found.len().min(90) {
                    let mut some = vec![f32::NAN; (found.len() - first).min(3 * columns)];
                    source.widen_from(pulp::Scalar::new(), 0, 1, &part, first, &mut some);
                    assert_eq!(some, found[first..][..some.len()], "{columns} {stride} {first}");
                }
                let rows = part.rows.clone().flat_map(|h| part.columns.clone().map(move |w| (6 + h) * stride + w));
                assert_eq!(found, rows.map(|i| draw(i).to_f32()).collect::<Vec<_>>(), "{columns} {stride}");
            }
        }
    }
}

#[test]
fn blocks_are_turned_to_channels() {
    let block: Vec<f16> = (0..24 * 16).map(|i| f16::from_f32(i as f32)).collect();
    let mut transposed = vec![f16::NAN; 16 * 40];
    transpose_blocks(&block, 40, &mut transposed);
    for (i, x) in transposed.iter().enumerate() {
        let (channel, output) = (i / 40, i % 40);
        assert!(if output < 24 { *x == block[output * 16 + channel] } else { x.is_nan() });
    }
}

#[test]
fn shares_of_columns_cover_a_result() {
    let ext = Extents { g: 2, c: 5, h: 1, w: 9 };
    let strides = [100, 11, 0];
    let mut data = vec![f16::ZERO; reach(ext, strides)];
    for mut share in partition_columns(&mut data, ext, strides, &[0, 4, 5]) {
        for c in 0..share.channels() {
            let (g, columns) = (share.group, share.columns.clone());
            for (w, to) in columns.clone().zip(share.row(c, 0, columns.len())) {
                *to = f16::from_f32((1 + w + 9 * (c + 5 * g)) as f32);
            }
        }
    }
    let source = TensorView { data: &data, strides };
    let all = (0..2).flat_map(|g| (0..5).flat_map(move |c| source.row(g, c, 0, 9)));
    assert_eq!(all.map(|x| x.to_f32()).collect::<Vec<_>>(), (1..=90).map(|n| n as f32).collect::<Vec<_>>());
}

#[test]
fn shares_cover_a_result_in_either_order() {
    let ext = Extents { g: 2, c: 5, h: 4, w: 3 };
    for strides in [[100, 16, 4], [100, 4, 24]] {
        assert!(nested(ext, strides));
        let mut data = vec![f16::ZERO; reach(ext, strides)];
        for mut share in partition(&mut data, ext, strides, 3, 2) {
            for c in 0..share.channels() {
                for r in 0..share.rows {
                    let (g, channel, row) = (share.group, share.first_channel + c, share.first_row + r);
                    for (w, to) in share.row(c, r, ext.w).iter_mut().enumerate() {
                        let number = 1 + w + 3 * (row + 4 * (channel + 5 * g));
                        assert_eq!(*to, f16::ZERO);
                        *to = f16::from_f32(number as f32);
                    }
                }
            }
        }
        let source = TensorView { data: &data, strides };
        let all = (0..2).flat_map(|g| (0..5).flat_map(move |c| (0..4).map(move |h| (g, c, h))));
        let found: Vec<f32> = all.flat_map(|(g, c, h)| source.row(g, c, h, ext.w)).map(|x| x.to_f32()).collect();
        assert_eq!(found, (1..=120).map(|n| n as f32).collect::<Vec<_>>());
    }
    assert!(!nested(ext, [100, 4, 4]));
    for empty in [Extents { c: 0, ..ext }, Extents { h: 0, ..ext }, Extents { w: 0, ..ext }, Extents { g: 0, ..ext }] {
        assert!(partition(&mut [], empty, dense(empty), 0, 0).is_empty());
    }
}

/// Matrices of every size around that of a block and of a square, with every element changed once.
#[test]
fn matrices_are_transposed_in_blocks() {
    let sizes = [1, 7, 8, 9, 31, 32, 33, 49, 64, 100];
    for (across, contiguous) in sizes.into_iter().flat_map(|across| sizes.map(|contiguous| (across, contiguous))) {
        let stride = contiguous + 5;
        let from: Vec<f16> = (0..across * stride).map(|i| f16::from_bits(i as u16)).collect();
        let mut to = vec![f16::ZERO; contiguous * across];
        let next = |x: f16| f16::from_bits(x.to_bits() + 1);
        transpose(&from, stride, [contiguous, across], next, |line, first, piece, count| {
            to[line * across + first..][..count].copy_from_slice(&piece[..count]);
        });
        for (i, x) in to.iter().enumerate() {
            assert_eq!(usize::from(x.to_bits()), i % across * stride + i / across + 1, "{across} {contiguous}");
        }
    }
}
