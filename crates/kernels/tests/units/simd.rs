use anemone_kernels::host::Rows;
use anemone_kernels::num;
use anemone_kernels::simd::{
    LONGEST, Relation, arches, larger, places, round_rows, smaller, widen_pairs, widen_rows, widen_short_rows,
};
use half::f16;
use pulp::{Simd, WithSimd};

struct BinaryRows(Rows);

impl WithSimd for BinaryRows {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let BinaryRows(rows) = self;
        let halves: Vec<f16> = (0..4096u16).map(|i| f16::from_bits(i.wrapping_mul(2477))).collect();
        let wide: Vec<f32> = halves.iter().map(|x| x.to_f32() * 1.0001).collect();
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let half_bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();

        let (mut found, mut wanted) = (vec![7.0; 2048], vec![7.0; 2048]);
        widen_rows(simd, &halves, &mut found, rows);
        num::widen_rows(&halves, &mut wanted, rows);
        assert_eq!(bits(&found), bits(&wanted), "{rows:?}");

        let (mut found, mut wanted) = (vec![f16::ONE; 2048], vec![f16::ONE; 2048]);
        round_rows(simd, &wide, &mut found, rows);
        num::round_rows(&wide, &mut wanted, rows);
        assert_eq!(half_bits(&found), half_bits(&wanted), "{rows:?}");

        if rows.columns <= LONGEST && rows.count > 0 {
            let (mut found, mut wanted) = (vec![7.0; 2048], vec![7.0; 2048]);
            widen_short_rows(simd, &halves, &mut found, rows);
            num::widen_rows(&halves, &mut wanted, rows);
            for row in 0..rows.count {
                // The last row may overlap the beginning of the next one.
                let at = row * rows.to_stride..row * rows.to_stride + rows.columns.min(rows.to_stride);
                assert_eq!(bits(&found[at.clone()]), bits(&wanted[at]), "{rows:?}");
            }
        }

        let (n, mut even, mut odd) = (rows.columns, vec![7.0; 100], vec![7.0; 100]);
        widen_pairs(simd, &halves[..n], &mut even, &mut odd);
        for i in 0..100 {
            let at = |i: usize| if i < n { halves[i].to_f32() } else { 7.0 };
            assert_eq!([even[i], odd[i]].map(f32::to_bits), [at(2 * i), at(2 * i + 1)].map(f32::to_bits), "{n} {i}");
        }
    }
}

struct Limits(Vec<f32>);

impl WithSimd for Limits {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Limits(numbers) = self;
        for (&x, &or) in numbers.iter().flat_map(|x| numbers.iter().map(move |or| (x, or))) {
            let first = |v: S::f32s| bytemuck::bytes_of(&v).first_chunk().map_or(0, |b| u32::from_ne_bytes(*b));
            let (x_vector, or_vector) = (simd.splat_f32s(x), simd.splat_f32s(or));
            let wanted = [if x > or { x } else { or }, if x < or { x } else { or }].map(f32::to_bits);
            assert_eq!([first(larger(simd, x_vector, or_vector)), first(smaller(simd, x_vector, or_vector))], wanted);
        }
    }
}

/// With zeros of both signs, infinities and NaN, on every instruction set.
#[test]
fn the_second_number_stands_where_neither_is_larger() {
    for arch in arches() {
        arch.dispatch(Limits(vec![0.0, -0.0, 1.5, -2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]));
    }
}

struct Places<'a>(&'a [u32], Relation, &'a [u32], &'a mut [u32]);

impl WithSimd for Places<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let Places(a, is, b, to) = self;
        places(simd, a, is, b, to)
    }
}

/// Rows of any length in which no, all or some positions match.
#[test]
fn places_are_those_of_numbers_one_by_one() {
    for n in 0..70u32 {
        for every in [1, 2, 3, 17, 100] {
            let a: Vec<u32> = (0..n).map(|i| i.wrapping_mul(0x9e37_79b9) | 1 << 31).collect();
            let b: Vec<u32> = (0..n).map(|i| if (i + n) % every == 0 { 3 << 30 } else { !a[i as usize] }).collect();
            let wanted: Vec<u32> = (0..n).filter(|i| (i + n) % every == 0).collect();
            let apart: Vec<u32> = (0..n).filter(|i| (i + n) % every != 0).collect();
            let above: Vec<u32> = a.iter().zip(0..n).map(|(a, i)| a.saturating_add((i + n) % every)).collect();
            let below: Vec<u32> = (0..n).filter(|i| a[*i as usize] < above[*i as usize]).collect();
            for arch in arches() {
                let relations = [
                    (Relation::Meets, &b, &wanted),
                    (Relation::IsApart, &b, &apart),
                    (Relation::IsBelow, &above, &below),
                ];
                for (is, b, wanted) in relations {
                    let mut found = vec![7; n as usize + LONGEST];
                    let count = arch.dispatch(Places(&a, is, b, &mut found));
                    assert_eq!(&found[..count], wanted, "{n} {every} {arch:?}");
                }
            }
        }
    }
}

/// Rows of any length and stride; elements outside of the rows are not changed.
#[test]
fn rows_convert_as_they_do_by_a_call() {
    for arch in arches() {
        for columns in 0..70 {
            arch.dispatch(BinaryRows(Rows { count: 5, columns, from_stride: 3 * columns + 1, to_stride: columns + 2 }));
        }
    }
}
