//! Exact products against the same product in fp32 (faer), in turn, so that a drift of the machine hits both sides.

use anemone_engine::number::packed::{Columns, Weights, product};
use anemone_facts::numerics::FIXED;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use half::f16;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn draw(n: usize, scale: f32) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| f16::from_f32(((0..12).map(|_| uniform()).sum::<f32>() - 6.0) * scale).to_f32()).collect()
}

fn timed(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

fn main() {
    println!(
        "rows x taps x columns, scales, threads: fp32 GMAC/s; fp32 time over exact time: sums alone, with packing"
    );
    let only: Option<usize> = std::env::var("ONLY").ok().and_then(|v| v.parse().ok());
    for [m, k, n] in [[512, 512, 512], [2048, 2048, 2048], [64, 576, 4096]] {
        if only.is_some_and(|o| o != m) {
            continue;
        }
        let scales: usize = std::env::var("SCALES").ok().and_then(|v| v.parse().ok()).unwrap_or(9);
        for (sw, sx) in
            [(1.0 / (k as f32).sqrt(), 1.0), (0.02, 0.3), (0.05, 50.0), (0.5, 500.0)].into_iter().take(scales)
        {
            let (w, x) = (draw(m * k, sw), draw(k * n, sx));
            let (mut direct, mut exact) = (vec![0.0f32; m * n], vec![0.0f32; m * n]);
            let weights = Weights::pack(&FIXED, m, k, &w);
            let columns = Columns::pack(&FIXED, k, n, &x);
            for threads in [1, 2] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
                let rounds = if m == 2048 { 5 } else { 31 };
                let mut times = [vec![], vec![], vec![]];
                for _ in 0..rounds {
                    pool.install(|| {
                        let (a, b) = (MatRef::from_row_major_slice(&w, m, k), MatRef::from_row_major_slice(&x, k, n));
                        let to = MatMut::from_row_major_slice_mut(&mut direct, m, n);
                        let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
                        times[0].push(timed(|| matmul(to, Accum::Replace, a, b, 1.0, par)));
                        times[1].push(timed(|| product(&weights, &columns, &[], &mut exact)));
                        times[2].push(timed(|| {
                            let (weights, columns) = (Weights::pack(&FIXED, m, k, &w), Columns::pack(&FIXED, k, n, &x));
                            product(&weights, &columns, &[], &mut exact)
                        }));
                    });
                    black_box((&direct, &exact));
                }
                let [direct, exact, packed] = times.map(|t| t.iter().min().map_or(0.0, Duration::as_secs_f64));
                println!(
                    "{m} x {k} x {n}, {sw:.3} and {sx}, {threads}: {:.1}; {:.2}, {:.2}",
                    (m * k * n) as f64 / direct / 1e9,
                    direct / exact,
                    direct / packed
                );
            }
        }
    }
}
