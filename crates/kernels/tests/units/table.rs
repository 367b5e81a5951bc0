use anemone_kernels::isa;
use anemone_kernels::params::Curve;
use anemone_kernels::simd;
use anemone_kernels::table::Table;
use anemone_kernels::workers::arches;
use half::f16;
use pulp::{Simd, WithSimd};

fn curve() -> Curve {
    Curve {
        knots: std::array::from_fn(|i| f16::from_f32((i as f32 - 9.0) / 7.0).to_f32()),
        knots_per_unit: 4.0,
        origin: 16.0,
        is_exponential: false,
        tails: [[0.25, -0.5], [1.0, 0.125]],
        limits: [-100.0, f32::INFINITY],
        constants: [-3.0, f32::INFINITY],
        is_odd: false,
        is_zero_below_zero: false,
    }
}

/// The curve evaluated in fp64, rounded to fp16.
fn value(of: &Curve, x: f16) -> f16 {
    let wide = f64::from(x.to_f32());
    let t = wide * f64::from(of.knots_per_unit) + f64::from(of.origin);
    let line = |[slope, intercept]: [f32; 2]| f64::from(slope) * wide + f64::from(intercept);
    let y = match t {
        _ if x.is_nan() => wide,
        _ if wide <= f64::from(of.limits[0]) => f64::from(of.constants[0]),
        _ if wide >= f64::from(of.limits[1]) => f64::from(of.constants[1]),
        t if t < 0.0 => line(of.tails[0]),
        t if t > 32.0 => line(of.tails[1]),
        t => {
            let i = (t as usize).min(31);
            let (a, b) = (f64::from(of.knots[i]), f64::from(of.knots[i + 1]));
            a + (b - a) * (t - i as f64)
        }
    };
    f16::from_f32(y as f32)
}

/// Rows of any length, with values that are computed, looked up, or not sampled from the curve.
#[test]
fn rows_have_the_values_of_the_table() {
    let curve = curve();
    let exact: Vec<f16> = (0..=u16::MAX).map(|bits| value(&curve, f16::from_bits(bits))).collect();
    let mut other = exact.clone();
    other[0x4321] = f16::ONE;
    for (values, computed) in [(exact, true), (other, false)] {
        let table = Table::of(values.clone(), Some(&curve));
        let longest = isa::name() == "v4";
        assert_eq!(table.is_computed(), computed && longest);
        for (arch, n) in arches().into_iter().flat_map(|arch| (0..70).map(move |n| (arch, n))) {
            arch.dispatch(Rows { table: &table, values: &values, n });
        }
    }
}

struct Rows<'a> {
    table: &'a Table,
    values: &'a [f16],
    n: usize,
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let from: Vec<f16> = (0..self.n).map(|i| f16::from_bits((i * 7919 + 0x4321) as u16)).collect();
        let (mut row, mut to) = (from.clone(), vec![f16::ZERO; self.n]);
        self.table.row(simd, &mut row);
        let wanted = |x: f16| self.values[usize::from(x.to_bits())].to_bits();
        assert!(row.iter().zip(&from).all(|(y, x)| y.to_bits() == wanted(*x)));
        for [bias, scale] in [[0.0, 1.0], [0.5, -2.0]] {
            let before = |x: f16| f16::from_f32((x.to_f32() + bias) * scale);
            let done = self.table.copy(simd, &from, [bias, scale], &mut to);
            assert_eq!(done, self.table.is_computed() && simd::has_formulas(simd) || bias == 0.0);
            assert!(!done || to.iter().zip(&from).all(|(y, x)| y.to_bits() == wanted(before(*x))));
        }
    }
}
