use super::super::mac::{self, settle};
use super::kernel::settle_away;
use super::*;
use anemone_facts::numerics::{FIXED, TILED, TILED_SUM};
use half::f16;

/// Draws with every exponent equally often, so that ties, drops and overflows are common.
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

/// Compares all sums with the reference; how many were infinite.
fn compare(mac: &Mac, seed: u64, rows: usize, taps: usize, columns: usize, fields: u64) -> usize {
    let mut draw = Draw(seed);
    let w: Vec<f16> = (0..rows * taps).map(|_| draw.number(fields)).collect();
    let x: Vec<f16> = (0..taps * columns).map(|_| draw.number(fields)).collect();
    let bias: Vec<f32> = (0..rows).map(|_| draw.number(20).to_f32()).collect();
    let mut out = vec![f32::NAN; rows * columns];
    let packed = (Weights::pack(mac, rows, taps, &widen(&w)), Columns::pack(mac, taps, columns, &widen(&x)));
    product(&packed.0, &packed.1, &bias, &mut out);
    for (i, &out) in out.iter().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let terms: Vec<(f16, f16)> = (0..taps).map(|k| (w[row * taps + k], x[k * columns + column])).collect();
        let expected = mac::dot(mac, &terms, f64::from(bias[row]));
        let same = expected.to_f32() == out;
        assert!(same, "{} seed {seed} row {row} column {column}: {expected} expected, {out} found", mac.name);
    }
    out.iter().filter(|x| x.is_infinite()).count()
}

#[test]
fn packed_sums_equal_the_reference() {
    for mac in [&FIXED, &TILED, &TILED_SUM] {
        let mut infinite = 0;
        for (i, &(rows, taps, columns)) in
            [(1, 1, 1), (4, 9, 64), (5, 27, 65), (3, 64, 7), (9, 33, 130), (2, 0, 3), (8, 5, 200)].iter().enumerate()
        {
            // Small numbers take the quick path, all numbers overflow, exponent 31 is special.
            for fields in [12, 15, 17, 19, 24, 31, 32] {
                for seed in 1..6 {
                    infinite += compare(mac, seed * 1000 + i as u64, rows, taps, columns, fields);
                }
            }
        }
        assert!(infinite > 100, "{}: {infinite} sums overflowed", mac.name);
    }
}

#[test]
fn every_product_of_small_numbers_rounds_as_the_reference() {
    // All significands at the exponents where ties, drops and the last digit meet.
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
            assert_eq!(mac::dot(&FIXED, &[(w, x)], 0.0).to_f32(), out, "{w} * {x}");
        }
    }
}

#[test]
fn sums_settle_as_the_reference() {
    for shift in 0..31 {
        for near in -3..=3 {
            for base in [1i64 << shift, 3 << shift, 2049 << shift >> 1, 4099 << shift >> 1] {
                let Ok(sum) = i32::try_from(base + near) else { continue };
                assert_eq!(settle_away(sum), settle(&FIXED, i64::from(sum)).to_f32(), "{sum}");
                assert_eq!(settle_away(-sum), settle(&FIXED, -i64::from(sum)).to_f32(), "-{sum}");
            }
        }
    }
}
