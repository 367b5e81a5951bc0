//! Whole products on devices, by their published error norms.
//!
//! A public benchmark ran seeded random products on many machines and published the relative error of each. The error is
//! the engine's own: it changes in the eighth digit when one rule changes, and it is the same on the M1, M1 Max, M2 Max,
//! M4, M5 and M6. Here the same inputs go through the models. See `docs/numerics.md`, section `mac`.

use anemone_engine::numerics::accumulator;
use anemone_facts::numerics as facts;
use anemone_kernels::exact::{Columns, Weights, product};
use anemone_kernels::num::elementwise::round_result;
use anemone_kernels::params::{AccumulatorSpec, Rounding, Ties};
use half::f16;
use half::slice::HalfFloatSliceExt;

static FIXED: AccumulatorSpec = accumulator(&facts::FIXED);
static TILED: AccumulatorSpec = accumulator(&facts::TILED);

/// Sums of squares differ in the last digits by their order of summation, on the devices' hosts as well.
const DIGITS: f64 = 1e-12;
/// What changing one rule does to the norm, at least.
const ONE_RULE: f64 = 1e-9;

/// One rule changed each.
fn variants() -> [(&'static str, AccumulatorSpec); 4] {
    [
        ("results to even", AccumulatorSpec { ties: Ties::Even, ..FIXED }),
        ("no product dropped", AccumulatorSpec { least_exponent_sum: -100, ..FIXED }),
        ("one more product dropped", AccumulatorSpec { least_exponent_sum: -15, ..FIXED }),
        ("tiles of four", TILED),
    ]
}

fn agrees(name: &str, found: f64, published: f64) {
    println!("{name}: {found:e}, published {published:e}");
    assert!((found - published).abs() < DIGITS * published, "{name}: {found:e} is not {published:e}");
}

/// 256 rows of an N x N product, elements of variance 1/N.
fn matrix_product(n: usize, mac: &AccumulatorSpec, random: &(Vec<f32>, Vec<f32>)) -> f64 {
    const ROWS: usize = 256;
    let (x, w) = random;
    let x = &x[..ROWS * n];
    // The operands' rows are the weights' here: the model is symmetric in them.
    let columns = transposed(n, n, &rounded(w));
    let mut found = vec![0.0; ROWS * n];
    product(&Weights::pack(mac, ROWS, n, &rounded(x)), &Columns::pack(mac, n, n, &columns), &[], &mut found);
    let (w, x) = (transposed(n, n, w), x);
    let mut norm = Norm::default();
    for (x, found) in x.chunks(n).zip(found.chunks(n)) {
        let mut exact = vec![0.0f64; n];
        for (&x, w) in x.iter().zip(w.chunks(n)) {
            exact.iter_mut().zip(w).for_each(|(y, &w)| *y += f64::from(x) * f64::from(w));
        }
        norm.add(found, &exact);
    }
    norm.relative()
}

#[test]
fn matrix_products_have_the_devices_error() {
    for (n, published) in [(512, 0.0025780039702379184), (1024, 0.005528352999597524)] {
        let mut random = Normal::seeded(0);
        let root = (n as f32).sqrt();
        let mut draw = || (0..n * n).map(|_| random.next() as f32 / root).collect::<Vec<f32>>();
        let random = (draw(), draw());
        agrees(&format!("{n} x {n}"), matrix_product(n, &FIXED, &random), published);
        if n == 512 {
            // Tiles of four round nothing here, as their sums stay small; the model fails by its other rules.
            for (name, mac) in variants() {
                let found = matrix_product(n, &mac, &random);
                println!("512 x 512, {name}: {found:e}");
                assert!((found / published - 1.0).abs() > ONE_RULE, "{name}: the norm cannot tell");
            }
        }
    }
}

/// The first image of a 3x3 convolution, padding 1, elements of variance 1 and 2 / (9 C).
fn convolution(mac: &AccumulatorSpec, channels: usize, x: &[f32], w: &[f64]) -> f64 {
    const SIDE: usize = 64;
    let taps = channels * 9;
    let mut columns = vec![0.0f32; taps * SIDE * SIDE];
    for (tap, column) in columns.chunks_mut(SIDE * SIDE).enumerate() {
        let (c, kh, kw) = (tap / 9, tap / 3 % 3, tap % 3);
        for (i, to) in column.iter_mut().enumerate() {
            let (h, v) = (i / SIDE + kh, i % SIDE + kw);
            if (1..=SIDE).contains(&h) && (1..=SIDE).contains(&v) {
                *to = x[(c * SIDE + h - 1) * SIDE + v - 1];
            }
        }
    }
    // Converted once: by way of fp32 a few weights would round twice.
    let narrow: Vec<f32> = w.iter().map(|&w| round_result(&Rounding::EVEN, w).to_f32()).collect();
    let mut found = vec![0.0; channels * SIDE * SIDE];
    let packed =
        (Weights::pack(mac, channels, taps, &narrow), Columns::pack(mac, taps, SIDE * SIDE, &rounded(&columns)));
    product(&packed.0, &packed.1, &[], &mut found);
    let mut norm = Norm::default();
    for (w, found) in w.chunks(taps).zip(found.chunks(SIDE * SIDE)) {
        let mut exact = vec![0.0f64; SIDE * SIDE];
        for (&w, column) in w.iter().zip(columns.chunks(SIDE * SIDE)) {
            exact.iter_mut().zip(column).for_each(|(y, &x)| *y += w * f64::from(x));
        }
        norm.add(found, &exact);
    }
    norm.relative()
}

#[test]
fn convolutions_have_the_devices_error() {
    // Images in a batch, and the norm: M1, M1 Max and M2 Max; M4.
    for (batch, published) in [(8, 0.0003671660721200675), (16, 0.00036713452579315676)] {
        let channels = 64;
        let mut random = Normal::seeded(1);
        let x: Vec<f32> = (0..batch * channels * 64 * 64).map(|_| random.next() as f32).collect();
        let scale = (2.0 / (channels * 9) as f64).sqrt();
        let w: Vec<f64> = (0..channels * channels * 9).map(|_| f64::from(random.next() as f32) * scale).collect();
        agrees(&format!("convolution, batch of {batch}"), convolution(&FIXED, channels, &x, &w), published);
        if batch == 8 {
            let flushed = AccumulatorSpec { flush_subnormals: true, ..FIXED };
            for (name, mac) in variants().into_iter().chain([("subnormal operands flushed", flushed)]) {
                let found = convolution(&mac, channels, &x, &w);
                println!("convolution, {name}: {found:e}");
                assert!((found / published - 1.0).abs() > ONE_RULE, "{name}: the norm cannot tell");
            }
        }
    }
}

fn rounded(x: &[f32]) -> Vec<f32> {
    let mut half = vec![f16::ZERO; x.len()];
    half.convert_from_f32_slice(x);
    half.iter().map(|x| x.to_f32()).collect()
}

fn transposed(rows: usize, columns: usize, x: &[f32]) -> Vec<f32> {
    (0..rows * columns).map(|i| x[i % rows * columns + i / rows]).collect()
}

/// Norms of error and reference.
#[derive(Default)]
struct Norm {
    error: f64,
    reference: f64,
}

impl Norm {
    fn add(&mut self, found: &[f32], exact: &[f64]) {
        self.error += found.iter().zip(exact).map(|(&f, e)| (f64::from(f) - e).powi(2)).sum::<f64>();
        self.reference += exact.iter().map(|e| e * e).sum::<f64>();
    }

    fn relative(&self) -> f64 {
        (self.error / self.reference).sqrt()
    }
}

/// The benchmark's generator: PCG XSL-RR 128/64 seeded through a pool of four words, normal numbers by ziggurat.
struct Normal {
    state: u128,
    increment: u128,
    /// Edges of the layers, outermost last; layer 0 is the base with the tail.
    edge: [f64; LAYERS],
    /// Density at the edges.
    density: [f64; LAYERS],
}

const LAYERS: usize = 256;
/// Where the tail begins.
const TAIL: f64 = 3.654_152_885_361_009;
/// Area of a layer.
const AREA: f64 = 0.004_928_673_233_974_655;
const TWO_52: f64 = (1u64 << 52) as f64;

impl Normal {
    fn seeded(seed: u32) -> Normal {
        let mut constant = 0x43b0_d7e5u32;
        let mut hash = |mut x: u32| {
            x ^= constant;
            constant = constant.wrapping_mul(0x931e_8875);
            x = x.wrapping_mul(constant);
            x ^ x >> 16
        };
        let mut pool = [seed, 0, 0, 0].map(&mut hash);
        for from in 0..4 {
            for to in (0..4).filter(|&to| to != from) {
                let mixed = pool[to].wrapping_mul(0xca01_f9dd).wrapping_sub(hash(pool[from]).wrapping_mul(0x4973_f715));
                pool[to] = mixed ^ mixed >> 16;
            }
        }
        let mut constant = 0x8b51_f9ddu32;
        let words: [u128; 8] = std::array::from_fn(|i| {
            let mut x = pool[i % 4] ^ constant;
            constant = constant.wrapping_mul(0x58f3_8ded);
            x = x.wrapping_mul(constant);
            u128::from(x ^ x >> 16)
        });
        let word = |i: usize| words[2 * i] | words[2 * i + 1] << 32;
        let increment = (word(2) << 64 | word(3)) << 1 | 1;
        let (mut edge, mut density) = ([0.0; LAYERS], [1.0; LAYERS]);
        let of = |x: f64| (-0.5 * x * x).exp();
        edge[LAYERS - 1] = TAIL;
        for i in (2..LAYERS).rev() {
            edge[i - 1] = (-2.0 * (AREA / edge[i] + of(edge[i])).ln()).sqrt();
        }
        for i in 1..LAYERS {
            density[i] = of(edge[i]);
        }
        edge[0] = AREA / of(TAIL);
        let mut new = Normal { state: 0, increment, edge, density };
        new.step();
        new.state = new.state.wrapping_add(word(0) << 64 | word(1));
        new.step();
        new
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(self.increment);
    }

    fn bits(&mut self) -> u64 {
        self.step();
        ((self.state >> 64) as u64 ^ self.state as u64).rotate_right((self.state >> 122) as u32)
    }

    fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> f64 {
        loop {
            let bits = self.bits();
            let (layer, magnitude) = ((bits & 0xff) as usize, bits >> 9 & ((1 << 52) - 1));
            let x = magnitude as f64 * (self.edge[layer] / TWO_52);
            let x = if bits >> 8 & 1 == 1 { -x } else { x };
            let inside = match layer {
                0 => TAIL / self.edge[0],
                1 => 0.0,
                _ => self.edge[layer - 1] / self.edge[layer],
            };
            if magnitude < (inside * TWO_52) as u64 {
                return x;
            }
            if layer == 0 {
                loop {
                    let (beyond, y) = (-(-self.uniform()).ln_1p() / TAIL, -(-self.uniform()).ln_1p());
                    if y + y > beyond * beyond {
                        return if magnitude >> 8 & 1 == 1 { -(TAIL + beyond) } else { TAIL + beyond };
                    }
                }
            }
            let drop = self.density[layer - 1] - self.density[layer];
            if drop * self.uniform() + self.density[layer] < (-0.5 * x * x).exp() {
                return x;
            }
        }
    }
}
