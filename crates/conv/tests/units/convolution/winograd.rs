use crate::samples::used;
use anemone_conv::winograd::{HEIGHT, INPUT_TILE, Job, KERNEL, OUTPUT_TILE, PLACES, is_profitable};
use anemone_conv::{Coefficients, Im2col, Kernels, convolve, convolve_direct, convolve_winograd};
use anemone_kernels::epilogue::{Activation, Epilogue};
use anemone_kernels::filter::Values;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut, dense, partition};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Workers, arches};
use half::f16;

/// Convolution of random numbers of both signs and many magnitudes.
struct Case {
    window: Window,
    ext: Extents,
    cin: usize,
    staging: Im2col,
    weights: Vec<f16>,
    x: Vec<f16>,
}

impl Case {
    fn of([cin, cout, h, w]: [usize; 4], p: [usize; 2]) -> Case {
        let draw = |i: usize| {
            let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            f16::from_f32(((mixed % 2001) as f32 / 1000.0 - 1.0) * 2f32.powi((mixed >> 40) as i32 % 6 - 3))
        };
        let ext = Extents { g: 1, c: cout, h: h + 2 * p[0] - 2, w: w + 2 * p[1] - 2 };
        let window = Window { k: [3; 2], s: [1; 2], p, from: [h, w], to: [ext.h, ext.w] };
        let staging = Im2col::new(window.clone(), cin, false, ext, rayon::current_num_threads()).expect("it is small");
        let (weights, x) = ((0..cout * cin * KERNEL).map(draw), (0..cin * h * w).map(|i| draw(i + 99991)));
        Case { window, ext, cin, staging, weights: weights.collect(), x: x.collect() }
    }

    fn kernels(&self) -> Kernels {
        let weights = Values::Halves(self.weights.clone());
        let groups = [Coefficients { weights, biases: Some(vec![0.0; self.ext.c]) }];
        Kernels::pack(&self.staging, false, self.ext.c, groups.into())
    }

    fn source(&self) -> TensorView<'_> {
        let [h, w] = self.window.from;
        TensorView { data: &self.x, strides: [0, h * w, w] }
    }

    /// Sum of an output, and a bound on its rounding error: for each channel the largest input of its tile times the sum of the magnitudes
    /// of the coefficients.
    fn sum(&self, [c, h, w]: [usize; 3]) -> [f64; 2] {
        let Window { p, from, .. } = &self.window;
        let at = |k: usize, h: usize, w: usize| {
            let inside =
                (h >= p[0] && w >= p[1]).then(|| [h - p[0], w - p[1]]).filter(|&[h, w]| h < from[0] && w < from[1]);
            inside.map_or(0.0, |[h, w]| self.x[(k * from[0] + h) * from[1] + w].to_f64())
        };
        let mut sums = [0.0; 2];
        for k in 0..self.cin {
            let weights = &self.weights[(c * self.cin + k) * KERNEL..][..KERNEL];
            sums[0] += (0..KERNEL).map(|i| weights[i].to_f64() * at(k, h + i / 3, w + i % 3)).sum::<f64>();
            let read = (0..PLACES).map(|i| {
                at(k, h / OUTPUT_TILE * OUTPUT_TILE + i / INPUT_TILE, w / OUTPUT_TILE * OUTPUT_TILE + i % INPUT_TILE)
                    .abs()
            });
            sums[1] += read.fold(0.0, f64::max) * weights.iter().map(|w| w.to_f64().abs()).sum::<f64>();
        }
        sums
    }
}

fn places(ext: Extents) -> impl Iterator<Item = [usize; 3]> {
    (0..ext.c).flat_map(move |c| (0..ext.h).flat_map(move |h| (0..ext.w).map(move |w| [c, h, w])))
}

/// The same bits on every instruction set and for any partition, in buffers that held NaN; close to the true sums within fp32
/// resolution.
#[test]
fn tiles_have_the_sums_of_their_taps() {
    let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
    let shapes = [[3, 5, 8, 8], [40, 30, 7, 9], [130, 24, 6, 33], [20, 13, 11, 70], [9, 12, 5, 4], [300, 17, 3, 3]];
    let cases = shapes.into_iter().flat_map(|shape| [[1, 1], [0, 1], [2, 0], [5, 4]].map(|p| Case::of(shape, p)));
    for case in cases {
        let ext = case.ext;
        let kernels = case.kernels();
        let run = |arch, rows, channels| {
            let mut data = vec![f16::NAN; ext.c * ext.plane()];
            used(arch).each(partition(&mut data, ext, dense(ext), rows, channels), false, |share, scratch| {
                let kernel = kernels.of(share).expect("there is one");
                let (window, from) = (&case.window, case.source());
                let (channels, columns, finish) = (case.cin, ext.w, &finish);
                arch.dispatch(Job { kernel, finish, window, channels, from, columns, share, scratch });
            });
            data
        };
        let whole = run(anemone_kernels::isa::arch(), ext.h, ext.c);
        for (place, found) in places(ext).zip(&whole) {
            let [sum, most] = case.sum(place);
            let rounding = (sum.abs() / 2048.0).max(2f64.powi(-25));
            let off = (found.to_f64() - sum).abs();
            assert!(off <= rounding + most * 2f64.powi(-22), "{place:?} of {:?}: {found} for {sum}", case.window);
        }
        for arch in arches() {
            for (rows, channels) in [(ext.h, ext.c), (2, HEIGHT), (4, 2 * HEIGHT)] {
                assert!(run(arch, rows, channels) == whole, "{:?}, {arch:?}, {rows}, {channels}", case.window);
            }
        }
    }
}

/// An infinity affects only the outputs that read it, and a NaN coefficient only its channel.
#[test]
fn non_finite_falls_back_to_direct() {
    let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
    let mut case = Case::of([64, 64, 14, 14], [1, 1]);
    assert!(is_profitable(&case.window, case.cin, case.ext));
    let run = |case: &Case| {
        let mut data = vec![f16::ZERO; case.ext.c * case.ext.plane()];
        let to = TensorViewMut { data: &mut data, strides: dense(case.ext), transposed: false };
        convolve(&Workers::new(), &case.staging, &case.kernels(), &finish, case.source(), to, case.ext);
        data
    };
    case.x[5 * 14 + 6] = f16::INFINITY;
    for ([_, h, w], found) in places(case.ext).zip(run(&case)) {
        let near = h.abs_diff(5) <= 1 && w.abs_diff(6) <= 1;
        assert_eq!(found.is_finite(), !near, "row {h}, column {w}");
    }
    case.x[5 * 14 + 6] = f16::ONE;
    case.weights[7 * 64 * KERNEL] = f16::NAN;
    for ([c, h, w], found) in places(case.ext).zip(run(&case)) {
        assert_eq!(found.is_nan(), c == 7, "channel {c}, row {h}, column {w}");
    }
}

/// Few results differ from the correctly rounded sum.
#[test]
fn sums_are_as_good_as_those_of_taps() {
    let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
    for shape in [[64, 48, 14, 14], [256, 48, 14, 14], [16, 48, 28, 28]] {
        let case = Case::of(shape, [1, 1]);
        let (ext, kernels, workers) = (case.ext, case.kernels(), Workers::new());
        let run = |by: fn(&Workers, &Im2col, &Kernels, &Epilogue, TensorView, TensorViewMut, Extents)| {
            let mut data = vec![f16::ZERO; ext.c * ext.plane()];
            let to = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
            by(&workers, &case.staging, &kernels, &finish, case.source(), to, ext);
            let wrong = places(ext).zip(&data).filter(|(place, x)| f16::from_f64(case.sum(*place)[0]) != **x);
            wrong.count()
        };
        let tiles = run(|w, s, k, f, from, to, ext| convolve_winograd(w, s, k, f, from, to, ext, false));
        let taps = run(|w, s, k, f, from, to, ext| convolve_direct(w, s, k, f, from, to, ext, false, false));
        assert!(tiles <= 3 * taps && 100 * tiles < ext.c * ext.plane(), "{shape:?}: {tiles}, {taps}");
    }
}
