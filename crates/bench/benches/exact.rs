//! Exact products against the same product in fp32 (faer), in turn, so that a drift of the machine hits both sides.
//!
//! The first scales are those of layers, where every fast way applies. The others make products too large for fp32
//! sums, and then sums that may reach the ceiling.

use anemone_engine::kernels::exact::{Columns, Weights, product};
use anemone_engine::kernels::params::AccumulatorSpec;
use anemone_engine::numerics::accumulator;
use anemone_facts::numerics as facts;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use half::f16;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Numbers of this standard deviation, close to a normal distribution.
fn draw(n: usize, deviation: f32) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| f16::from_f32(((0..12).map(|_| uniform()).sum::<f32>() - 6.0) * deviation).to_f32()).collect()
}

fn timed(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

static FIXED: AccumulatorSpec = accumulator(&facts::FIXED);

/// Shortest times: fp32, exact on packed operands, exact with packing of both.
fn times([m, k, n]: [usize; 3], deviations: [f32; 2], threads: usize, rounds: usize) -> [f64; 3] {
    let (w, x) = (draw(m * k, deviations[0]), draw(k * n, deviations[1]));
    let (mut direct, mut exact) = (vec![0.0f32; m * n], vec![0.0f32; m * n]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
    let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    let packed = pool.install(|| (Weights::pack(&FIXED, m, k, &w), Columns::pack(&FIXED, k, n, &x)));
    let mut times = [Duration::MAX; 3];
    for _ in 0..rounds {
        let round = pool.install(|| {
            let (a, b) = (MatRef::from_row_major_slice(&w, m, k), MatRef::from_row_major_slice(&x, k, n));
            let to = MatMut::from_row_major_slice_mut(&mut direct, m, n);
            [
                timed(|| matmul(to, Accum::Replace, a, b, 1.0, par)),
                timed(|| product(&packed.0, &packed.1, &[], &mut exact)),
                timed(|| {
                    let (weights, columns) = (Weights::pack(&FIXED, m, k, &w), Columns::pack(&FIXED, k, n, &x));
                    product(&weights, &columns, &[], &mut exact);
                }),
            ]
        });
        black_box((&direct, &exact));
        times.iter_mut().zip(round).for_each(|(least, t)| *least = t.min(*least));
    }
    times.map(|t| t.as_secs_f64())
}

fn main() {
    println!("rows x taps x columns, deviations of both sides, threads: fp32 GMAC/s; share of it, exact; with packing");
    for dims @ [m, k, n] in [[512, 512, 512], [2048, 2048, 2048], [64, 576, 4096]] {
        let rounds = if m == 2048 { 5 } else { 50 };
        for deviations in [[(k as f32).sqrt().recip(), 1.0], [0.02, 0.3], [0.05, 50.0], [0.5, 500.0]] {
            for threads in [1, 2] {
                let [direct, exact, packed] = times(dims, deviations, threads, rounds);
                let rate = (m * k * n) as f64 / direct / 1e9;
                let [w, x] = deviations;
                let shares = [direct / exact, direct / packed];
                println!("{m} x {k} x {n}, {w:.3} {x}, {threads}: {rate:.1}; {:.2}; {:.2}", shares[0], shares[1]);
            }
        }
    }
}
