use anemone_engine::testing::{Home, LiveBytes, MemRef};

/// Compared with sets of single bytes.
#[test]
fn bytes_are_removed_one_by_one() {
    let boxes: Vec<MemRef> = [0, 3, 10, 17]
        .into_iter()
        .flat_map(|base| [(1, 0), (3, 16), (4, 6), (2, 40)].map(|axis| MemRef::new(Home::Tile, base, &[axis], 5)))
        .collect();
    let bytes = |of: &MemRef| of.rows().flat_map(|row| row..row + of.row_bytes).collect::<Vec<_>>();
    for whole in &boxes {
        for gone in &boxes {
            let mut live = LiveBytes::of(whole).expect("few rows");
            live.remove(gone);
            let left: Vec<u64> = bytes(whole).into_iter().filter(|byte| !bytes(gone).contains(byte)).collect();
            assert_eq!(live.is_empty(), left.is_empty(), "{whole} without {gone}");
            for read in &boxes {
                let wanted = bytes(read).iter().any(|byte| left.contains(byte));
                assert_eq!(live.meets(read), wanted, "{whole} without {gone}, {read}");
            }
        }
    }
}
