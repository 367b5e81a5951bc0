use anemone_net::testing::{matrix, matrix_mut, product_on};

#[test]
fn bits_of_a_product_do_not_depend_on_its_threads() {
    let number = |i: usize| (i * 7919 % 1013) as f32 / 97.0 - 5.0;
    for (m, k, n) in [(130, 300, 70), (37, 40, 259), (64, 9, 64), (200, 270, 1)] {
        let [a, b, c] = [m * k, k * n, m * n].map(|len| (0..len).map(number).collect::<Vec<f32>>());
        let sums = |threads: usize, beta: f32| {
            let mut c = c.clone();
            product_on(threads, matrix(&a, m, k, k), matrix(&b, k, n, n), beta, matrix_mut(&mut c, m, n, n));
            c.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
        };
        for (beta, threads) in [0.0, 1.0].into_iter().flat_map(|beta| [2, 3, 5, 8].map(|threads| (beta, threads))) {
            assert_eq!(sums(threads, beta), sums(1, beta), "{m} by {k} by {n}, {threads} threads");
        }
    }
}
