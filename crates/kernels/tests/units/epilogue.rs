use anemone_kernels::epilogue::{Activation, Epilogue, Staged};
use anemone_kernels::host::Rows;
use anemone_kernels::simd::{self, LaneMap};
use anemone_kernels::table::Table;
use anemone_kernels::workers::arches;
use half::f16;
use pulp::{Simd, WithSimd};
use std::sync::Arc;

struct Ways<'a>(Epilogue<'a>, f32);

/// Applies stages to a row.
struct Apply<'a>(&'a mut [f32]);

impl<S: Simd> Staged<S> for Apply<'_> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl LaneMap<S>) {
        simd::prepare(simd, stages, self.0);
    }
}

impl WithSimd for Ways<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Ways(finish, bias) = self;
        let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 6.0, 65520.0, -1e-9, 0.375];
        let sums: Vec<f32> = special.into_iter().chain((0..40).map(|i| (i as f32 - 20.0) / 3.0)).collect();
        for n in 0..sums.len() {
            let (rows, [mut found, mut wanted]) = (Rows::one(n), [vec![f16::ONE; n], vec![f16::ONE; n]]);
            finish.all(simd, bias, &mut sums.clone(), &mut found, rows);
            let mut staged = sums.clone();
            finish.stages(bias, &mut staged);
            finish.rows(simd, false, &staged, &mut wanted, rows);
            let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&wanted), "{bias} {n}");
            // Sums of kernels are never minus zero.
            let mut special: Vec<f32> = sums[..n].iter().map(|x| x + 0.0).collect();
            let mut wanted = special.clone();
            finish.stages(0.0, &mut wanted);
            finish.with_after(simd, Apply(&mut special));
            assert_eq!(
                special.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
                wanted.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
                "{n}"
            );
        }
    }
}

/// The vector stages equal the scalar ones, special values included.
#[test]
fn stages_at_once_are_the_stages_one_by_one() {
    let table = (0..=u16::MAX).map(|i| f16::from_bits(i ^ 0x55)).collect();
    let activations = [
        Activation::None,
        Activation::Relu,
        Activation::Clamp(0.0, 6.0),
        Activation::Clamp(-1.5, 2.0),
        Activation::Table(Arc::new(Table::of(table, None))),
    ];
    for (activation, arch) in activations.iter().flat_map(|a| arches().into_iter().map(move |arch| (a, arch))) {
        for (bias, scale) in [(0.0, 1.0), (-0.25, 1.0), (0.5, -3.0), (0.0, 0.375), (0.0, -3.0)] {
            for channel in [0.0, 0.75] {
                arch.dispatch(Ways(Epilogue { bias, scale, activation }, channel));
            }
        }
    }
}
