use anemone_engine::testing::{Interleaved, interleaved_axes};

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
