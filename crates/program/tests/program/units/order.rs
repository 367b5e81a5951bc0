use anemone_program::order;

/// Against the standard library, with equal keys, whose elements keep their order.
#[test]
fn lists_are_sorted_as_the_standard_library_sorts_them() {
    let mut state = 1u64;
    for length in (0..8).flat_map(|length| [length; 50]).chain([100, 1000]) {
        let mut items: Vec<(u64, usize)> = Vec::new();
        for at in 0..length {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            items.push(((state >> 33) % 5, at));
        }
        let (mut own, mut of_std) = (items.clone(), items);
        order::by_key(&mut own, |(key, _)| *key);
        of_std.sort_by_key(|(key, _)| *key);
        assert_eq!(own, of_std);
    }
}
