mod decode;

use crate::samples::FIXED;
use anemone_kernels::exact::{Columns, HEIGHT, SingleRow, WIDTH, Weights, decode, least, product, product_with};
use anemone_kernels::isa;
use anemone_kernels::num::reference::{self, round_result};
use anemone_kernels::params::{AccumulatorSpec, Specials, Ties, Tile};
use anemone_kernels::simd::arches;
use anemone_kernels::testing::settle_away;
use half::f16;

/// With a first stage and infinities; subnormal operands are flushed.
pub static TILED: AccumulatorSpec = AccumulatorSpec {
    tile: Some(Tile { lanes: 4, significand_bits: 12 }),
    ties: Ties::Even,
    specials: Specials::Infinities,
    flush_subnormals: true,
    ..FIXED
};

/// [`TILED`] without a ceiling.
pub static TILED_SUM: AccumulatorSpec = AccumulatorSpec { ceiling_log2: None, ..TILED };

/// Random numbers with uniformly distributed exponents, so that ties, drops and overflows are common.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Exponent fields below `fields`; short fractions half of the time.
    fn number(&mut self, fields: u64) -> f16 {
        let bits = self.bits();
        let fraction = bits >> 20 & if bits & 1 == 0 { 0x3ff } else { 0x380 };
        let field = (bits >> 40) % fields;
        // Widening to fp32 makes every NaN quiet.
        let fraction = if field == 31 && fraction != 0 { fraction | 0x200 } else { fraction };
        f16::from_bits((bits >> 3 & 0x8000 | field << 10 | fraction) as u16)
    }
}

fn widen(x: &[f16]) -> Vec<f32> {
    x.iter().map(|x| x.to_f32()).collect()
}

/// Compares all sums with the reference. Returns the number of infinite ones.
fn compare(mac: &AccumulatorSpec, seed: u64, rows: usize, taps: usize, columns: usize, fields: u64) -> usize {
    let mut draw = Draw(seed);
    let w: Vec<f16> = (0..rows * taps).map(|_| draw.number(fields)).collect();
    let x: Vec<f16> = (0..taps * columns).map(|_| draw.number(fields)).collect();
    let bias: Vec<f32> = (0..rows).map(|_| draw.number(20).to_f32()).collect();
    let expected: Vec<f32> = (0..rows * columns)
        .map(|i| {
            let (row, column) = (i / columns, i % columns);
            let terms: Vec<(f16, f16)> = (0..taps).map(|k| (w[row * taps + k], x[k * columns + column])).collect();
            reference::dot(mac, &terms, f64::from(bias[row])).to_f32()
        })
        .collect();
    let packed = (Weights::pack(mac, rows, taps, &widen(&w)), Columns::pack(mac, taps, columns, &widen(&x)));
    for arch in arches() {
        let mut out = vec![f32::NAN; rows * columns];
        product_with(arch, &packed.0, &packed.1, &bias, &mut out);
        for (i, (out, expected)) in out.iter().zip(&expected).enumerate() {
            let (row, column) = (i / columns, i % columns);
            assert!(
                expected == out,
                "{mac:?}, {arch:?}, seed {seed}, row {row}, column {column}: {expected} expected, {out} found"
            );
        }
    }
    expected.iter().filter(|x| x.is_infinite()).count()
}

#[test]
fn packed_sums_equal_the_reference() {
    for mac in [&FIXED, &TILED, &TILED_SUM] {
        let mut infinite = 0;
        for (i, &(rows, taps, columns)) in [
            (1, 1, 1),
            (4, 9, 64),
            (5, 27, 65),
            (3, 64, 7),
            (9, 33, 130),
            (2, 0, 3),
            (8, 5, 200),
            (31, 40, 1),
            (19, 9, 17),
        ]
        .iter()
        .enumerate()
        {
            // Small numbers fit one run, large ones overflow, and exponent 31 is special.
            for fields in [12, 15, 17, 19, 24, 31, 32] {
                for seed in 1..6 {
                    infinite += compare(mac, seed * 1000 + i as u64, rows, taps, columns, fields);
                }
            }
        }
        assert!(infinite > 100, "{mac:?}: {infinite} sums overflowed");
    }
}

#[test]
fn every_product_of_small_numbers_rounds_as_the_reference() {
    // Exponents at which ties, drops and the last bit coincide.
    let fractions: Vec<u16> = (0..0x400).step_by(3).chain([0x200, 0x300, 0x3ff]).collect();
    let x: Vec<f16> = fractions.iter().map(|f| f16::from_bits(f | 5 << 10)).collect();
    for field in 0..13u16 {
        let w: Vec<f16> = fractions.iter().map(|f| f16::from_bits(f | field << 10 | 0x8000)).collect();
        let (weights, columns) =
            (Weights::pack(&FIXED, w.len(), 1, &widen(&w)), Columns::pack(&FIXED, 1, x.len(), &widen(&x)));
        let mut out = vec![0.0; w.len() * x.len()];
        product(&weights, &columns, &[], &mut out);
        for (i, &out) in out.iter().enumerate() {
            let (w, x) = (w[i / x.len()], x[i % x.len()]);
            assert_eq!(reference::dot(&FIXED, &[(w, x)], 0.0).to_f32(), out, "{w} * {x}");
        }
    }
}

#[test]
fn products_of_several_tasks_and_passes_equal_the_reference() {
    // More rows and columns than a macro tile, and more taps than a pass.
    for (rows, taps, columns) in [(130, 20, 33), (3, 12, 530), (9, 1030, 35)] {
        // Longer sums draw smaller numbers, so that few overflow.
        for fields in [11, 15, if taps > 100 { 16 } else { 20 }] {
            compare(&FIXED, 7 + fields, rows, taps, columns, fields);
        }
    }
}

/// Panels of every number of columns, in sums of several runs: no tail column is computed in a vector as well.
#[test]
fn every_number_of_columns_has_the_sums_of_the_reference() {
    for columns in 1..=2 * WIDTH {
        compare(&FIXED, 3, HEIGHT, 200, columns, 16);
    }
}

#[test]
fn sums_that_turn_below_the_ceiling_stay_finite() {
    // Up in steps of two, and down again. The maximum is reached in short runs of small products.
    let tops = [16382usize, 16383, 16384, 16385];
    let taps = 2 * 16400;
    for sign in [1.0, -1.0f32] {
        let x: Vec<f32> = (0..taps)
            .flat_map(|tap| {
                tops.map(|top| {
                    if tap < top {
                        2.0 * sign
                    } else if tap < 2 * top {
                        -2.0 * sign
                    } else {
                        0.0
                    }
                })
            })
            .collect();
        let weights = Weights::pack(&FIXED, 1, taps, &vec![1.0; taps]);
        let columns = Columns::pack(&FIXED, taps, tops.len(), &x);
        for arch in arches() {
            let mut out = [f32::NAN; 4];
            product_with(arch, &weights, &columns, &[sign], &mut out);
            // 32765 and 32767 on the way; 32769 and more are infinite.
            assert_eq!(out, [sign, sign, sign * f32::INFINITY, sign * f32::INFINITY], "{arch:?}");
        }
    }
}

#[test]
fn sums_settle_as_the_reference() {
    for shift in 0..31 {
        for near in -3..=3 {
            for base in [1i64 << shift, 3 << shift, 2049 << shift >> 1, 4099 << shift >> 1] {
                let Ok(sum) = i32::try_from(base + near) else { continue };
                assert_eq!(settle_away(sum), round_result(&FIXED, i64::from(sum)).to_f32(), "{sum}");
                assert_eq!(settle_away(-sum), round_result(&FIXED, -i64::from(sum)).to_f32(), "-{sum}");
            }
        }
    }
}

#[test]
fn a_row_alone_has_the_sums_of_the_array() {
    let mut state = 7u32;
    let mut draw = |low: u16, high: u16| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let bits = low + (state >> 8) as u16 % (high - low);
        f16::from_bits(bits | (state >> 31 << 15) as u16)
    };
    // Exponents from subnormal numbers up, so that products are dropped, tied and large; with a source that is readable in whole vectors, and
    // without. The last range needs several runs, the others one.
    let ranges = [(0, 0x2000), (0x0001, 0x4400), (0x2800, 0x4400), (0x4000, 0x44c0)];
    for ((low, high), slack) in ranges.into_iter().flat_map(|range| [(range, 0), (range, 128)]) {
        let (taps, outputs) = (9, 45);
        let w: Vec<f16> = (0..taps).map(|_| draw(low, high)).collect();
        let x: Vec<f16> = (0..taps + outputs + slack).map(|_| draw(low, high)).collect();
        let wide = |all: &[f16]| all.iter().map(|x| x.to_f32()).collect::<Vec<f32>>();
        let weights = Weights::pack(&FIXED, 1, taps, &wide(&w));
        let mut source = wide(&x);
        let largest = decode(&FIXED, &mut source);
        let offsets: Vec<u32> = (0..taps as u32).collect();
        let mut out = vec![0.0; outputs];
        let (mut wide, mut row) = (vec![], vec![]);
        let row = weights.row(pulp::Scalar::new(), &mut wide, &mut row);
        let (source, offsets) = (&source[..], &offsets[..]);
        let row =
            SingleRow { mac: &FIXED, row, bias: 0.3, source, offsets, least: least(source), largest, out: &mut out };
        assert!(isa::arch().dispatch(row));
        for (o, found) in out.iter().enumerate() {
            let terms: Vec<_> = w.iter().copied().zip(x[o..].iter().copied()).collect();
            let wanted = reference::dot(&FIXED, &terms, f64::from(0.3f32));
            assert_eq!(found.to_bits(), wanted.to_f32().to_bits(), "output {o} from {low:#x}");
        }
    }
    let weights = Weights::pack(&FIXED, 1, 1, &[200.0]);
    let out = &mut [0.0];
    let (mut wide, mut row) = (vec![], vec![]);
    let row = weights.row(pulp::Scalar::new(), &mut wide, &mut row);
    let row =
        SingleRow { mac: &FIXED, row, bias: 0.0, source: &[200.0], offsets: &[0], least: 200.0, largest: 200.0, out };
    assert!(!isa::arch().dispatch(row));
}
