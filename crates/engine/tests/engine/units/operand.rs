use anemone_engine::testing::{Home, MemRef};

fn memory(base: u64, axes: &[(u64, u64)], row: u64) -> MemRef {
    MemRef::new(Home::Bar(1), base, axes, row)
}

#[test]
fn rows_without_gaps_are_joined() {
    let joined = memory(8, &[(4, 64), (8, 8), (1, 3)], 8);
    assert_eq!((joined.axes.len(), joined.row_bytes, joined.end()), (0, 256, 264));
    let apart = memory(0, &[(4, 64), (3, 16)], 2);
    assert_eq!((apart.axes.len(), apart.bytes(), apart.end()), (2, 24, 226));
    assert!(apart.is_nested() && !memory(0, &[(4, 8), (4, 4)], 2).is_nested());
    assert_eq!(apart.rows().take(4).collect::<Vec<_>>(), [0, 16, 32, 64]);
}

/// Every pair of small boxes, compared byte by byte: no overlap is missed.
#[test]
fn boxes_with_common_bytes_overlap() {
    let bytes = |of: &MemRef| {
        let rows: Vec<u64> = of.rows().collect();
        rows.into_iter().flat_map(|row| row..row + of.row_bytes).collect::<std::collections::HashSet<_>>()
    };
    let mut boxes = Vec::new();
    for base in [0, 2, 6, 17, 40] {
        for (n, s) in [(1, 0), (3, 16), (2, 32), (5, 6)] {
            for (m, t) in [(1, 0), (2, 4), (3, 2)] {
                boxes.push(memory(base, &[(n, s), (m, t)], 2));
            }
        }
    }
    let mut apart = 0;
    for a in &boxes {
        for b in &boxes {
            let common = !bytes(a).is_disjoint(&bytes(b));
            assert!(!common || a.overlaps(b), "{a} and {b}");
            apart += usize::from(!a.overlaps(b) && a.base_bytes < b.end() && b.base_bytes < a.end());
        }
    }
    assert!(apart > 0, "columns of a matrix are told apart");
}
