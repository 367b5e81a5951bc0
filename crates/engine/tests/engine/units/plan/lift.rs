use anemone_engine::testing::{Home, Interleaved, MapOperand, by_stride, interleaved_axes};
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::nested;

/// Every channel is read and written at its interleaved position.
#[test]
fn axes_of_interleaved_channels_reach_every_channel() {
    let place = |of: Interleaved, i: usize| i / of.by * of.stride + i % of.by;
    for (to_by, from_by) in [(1, 1), (8, 1), (1, 4), (8, 2), (2, 8), (4, 4)] {
        let [to, from] = [(to_by, 100), (from_by, 1000)].map(|(by, stride)| Interleaved { by, stride });
        let axes = interleaved_axes(16, to, from).expect("one divides the other");
        let mut places = vec![(0, 0)];
        for axis in axes {
            let steps = |&(t, f): &(usize, usize)| (0..axis.count).map(move |i| (t + i * axis.to, f + i * axis.from));
            places = places.iter().flat_map(steps).collect();
        }
        let wanted: Vec<(usize, usize)> = (0..16).map(|i| (place(to, i), place(from, i))).collect();
        assert_eq!(places, wanted, "{to_by} {from_by}");
    }
    let [of_two, of_three] = [2, 3].map(|by| Interleaved { by, stride: 50 });
    assert!(interleaved_axes(12, of_two, of_three).is_none());
    assert!(interleaved_axes(7, of_two, Interleaved { by: 1, stride: 7 }).is_none());
}

/// Groups between the rows of others are partitioned by another order of the axes, which has the same elements.
#[test]
fn axes_in_the_order_of_their_strides_are_nested() {
    let places = |ext: Extents, [g, c, h]: [usize; 3]| {
        let axes = [(ext.g, g), (ext.c, c), (ext.h, h)];
        let mut places = vec![0];
        for (count, stride) in axes {
            places = places.iter().flat_map(|at| (0..count).map(move |i| at + i * stride)).collect();
        }
        places.sort();
        places
    };
    let ext = Extents { g: 16, c: 7, h: 5, w: 24 };
    for strides in [[32, 16 * 32, 7 * 16 * 32], [32, 5 * 16 * 32, 16 * 32], [5 * 32, 5 * 16 * 32, 32]] {
        let axes = OperandAxes { strides, one_column: false };
        let (sorted, of) = by_stride(ext, MapOperand { home: Home::Tile, base: 3, axes });
        assert!(!nested(ext, strides) && nested(sorted, of.axes.strides), "{strides:?}");
        assert_eq!((places(sorted, of.axes.strides), of.base), (places(ext, strides), 3));
    }
}
