//! Convolution kernels compared with plain loops.

mod depthwise;
mod exact;
mod winograd;

use crate::samples::used;
use anemone_conv::nchwc::{Operand, ResidualAdd};
use anemone_conv::testing::PACKED_CAPACITY;
use anemone_conv::{
    BatchMember, Coefficients, FusedDepthwise, Im2col, Kernels, RepackCache, can_fuse_depthwise, convolve,
    convolve_direct, convolve_nchwc, convolve_pointwise, convolve_rows, convolve_winograd, takes_rows,
};
use anemone_kernels::epilogue::{Activation, Epilogue};
use anemone_kernels::filter::{CoefficientRow, Values};
use anemone_kernels::gemm::rows::RowMatrix;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{BLOCK, Strides, TensorView, TensorViewMut, dense, reach};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Workers, arches};
use half::f16;
use std::ops::Range;

/// Random windows of every kind, with input and output channels, and true for a depthwise one.
fn some_windows() -> impl Iterator<Item = (Window, [usize; 2], bool)> {
    let mix = |x: u64| (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..400).map(move |i| {
        let pick = |n: u64, of: usize| 1 + (mix(mix((i << 8 | n) + 1)) >> 33) as usize % of;
        let (k, s) = match i % 4 {
            // Common sizes.
            0 => ([[3, 5][i as usize / 4 % 2]; 2], [pick(3, 2); 2]),
            _ => ([pick(1, 5), pick(2, 5)], [pick(3, 3), pick(4, 3)]),
        };
        let p = [pick(5, k[0]) - 1, pick(6, k[1]) - 1];
        // A few rows are longer than a block.
        let from = if i % 50 == 7 { [2, 1400] } else { [pick(7, 9), pick(8, 40)] };
        let reached = |a: usize| from[a] + p[a] + pick(9 + a as u64, k[a]) - 1;
        let to = std::array::from_fn(|a| reached(a).saturating_sub(k[a]) / s[a] + 1);
        let (cin, cout, unicast) = (pick(11, 40), if from[1] > 40 { 3 } else { pick(12, 70) }, i % 3 == 0);
        (Window { k, s, p, from, to }, if unicast { [cin; 2] } else { [cin, cout] }, unicast)
    })
}

/// Every GEMM kernel gives the same bits, transposed or not, for any layout of rows.
#[test]
fn the_ways_to_one_product_agree() {
    let finish = Epilogue { bias: 0.5, scale: 0.75, activation: &Activation::Relu };
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    for (g, cin, cout, h, w) in [(1, 300, 130, 1, 70), (2, 20, 7, 5, 7), (1, 600, 64, 16, 16), (1, 805, 500, 1, 196)] {
        let (input, ext) = (Extents { g, c: cin, h, w }, Extents { g, c: cout, h, w });
        let k = [1, 1];
        let window = Window { k, s: k, p: [0, 0], from: [h, w], to: [h, w] };
        let staging = Im2col::new(window, cin, false, ext, rayon::current_num_threads()).expect("it is small");
        let kernels = |channels: Range<usize>| {
            let weights = |g| channels.clone().flat_map(|c| c * cin..(c + 1) * cin).map(|i| draw(i + g)).collect();
            let biases: Vec<f32> = channels.clone().map(|c| c as f32 / 64.0).collect();
            let groups =
                (0..g).map(|g| Coefficients { weights: Values::Halves(weights(g)), biases: Some(biases.clone()) });
            Kernels::pack(&staging, false, channels.len(), groups.collect())
        };
        let (all, first, rest) = (kernels(0..cout), kernels(0..cout / 3), kernels(cout / 3..cout));
        // Rows with gaps, and channels nested in rows; dense planes.
        for strides in [[h * cin * (w + 3), w + 3, cin * (w + 3)], dense(input)] {
            let x: Vec<f16> = (0..reach(input, strides)).map(draw).collect();
            let from = TensorView { data: &x, strides };
            let workers = Workers::new();
            let run = |members: &[&Kernels], stored: Extents, strides: Strides, transposed: bool| {
                let mut data = vec![f16::NAN; reach(stored, strides)];
                let to = TensorViewMut { data: &mut data, strides, transposed };
                let members: Vec<BatchMember> = members.iter().map(|kernels| BatchMember { kernels, finish }).collect();
                match members.is_empty() {
                    true => convolve_direct(&workers, &staging, &all, &finish, from, to, ext, false, true),
                    false => convolve_pointwise(&workers, &members, from, None, to, ext),
                }
                data
            };
            let wanted = run(&[], ext, dense(ext), false);
            assert!(wanted.iter().all(|x| !x.is_nan()));
            assert_eq!(run(&[&all], ext, dense(ext), false), wanted);
            let turned = ext.transposed();
            // Rows within columns, and columns within rows.
            for [group, column, row] in [dense(turned), [h * w * cout, cout, w * cout]] {
                let transposed = run(&[], turned, [group, column, row], true);
                for members in [&[&all][..], &[&first, &rest]] {
                    assert_eq!(run(members, turned, [group, column, row], true), transposed);
                }
                for (i, &x) in wanted.iter().enumerate() {
                    let (w, h, c, g) = (i % ext.w, i / ext.w % ext.h, i / ext.plane() % ext.c, i / ext.plane() / ext.c);
                    assert_eq!(transposed[g * group + w * column + h * row + c], x);
                }
            }
        }
    }
}

/// Rows of coefficients in memory give the bits of packed ones, contiguous or strided, on every instruction set.
#[test]
fn rows_in_memory_multiply_like_packed_ones() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    let finish = Epilogue { bias: 0.5, scale: 0.75, activation: &Activation::Relu };
    let k = [1, 1];
    let mut taken = 0;
    for (g, taps, c, w) in [(1, 300, 130, 70), (5, 33, 49, 49), (2, 40, 7, 200), (1, 1500, 25, 64), (3, 16, 6, 1030)] {
        let (input, ext) = (Extents { g, c: taps, h: 1, w }, Extents { g, c, h: 1, w });
        let window = Window { k, s: k, p: [0, 0], from: [1, w], to: [1, w] };
        let staging = Im2col::new(window, taps, false, ext, rayon::current_num_threads()).expect("it is small");
        let source: Vec<f16> = (0..reach(input, dense(input))).map(|i| draw(i + 5)).collect();
        let from = TensorView { data: &source, strides: dense(input) };
        for (stride, row) in [(1, taps + 2), (c + 3, 1)] {
            let group = 40 + (taps - 1) * stride + (c - 1) * row;
            let first = 17;
            let data: Vec<f16> = (0..g * group).map(draw).collect();
            let starts: Vec<usize> = (0..g * c).map(|i| first + i / c * group + i % c * row).collect();
            let groups = starts.chunks(c).map(|starts| {
                let rows = starts.iter().map(|start| CoefficientRow { data: &data[start - first..], stride });
                (rows.collect(), None)
            });
            let groups: Vec<_> = groups.collect();
            for (arch, transposed) in arches().into_iter().flat_map(|arch| [(arch, false), (arch, true)]) {
                let mut workers = Workers::new();
                workers.arch = arch;
                let stored = if transposed { ext.transposed() } else { ext };
                let run = |by: &dyn Fn(TensorViewMut)| {
                    let mut data = vec![f16::NAN; reach(stored, dense(stored))];
                    by(TensorViewMut { data: &mut data, strides: dense(stored), transposed });
                    data
                };
                assert!(takes_rows(&staging, transposed, ext));
                let rows = RowMatrix { data: &data, starts: &starts, first, stride, taps, channels: c };
                let found = run(&|to| convolve_rows(&workers, rows, &finish, from, to, ext));
                let kernels = Kernels::pack_rows(&staging, transposed, c, groups.clone());
                let wanted = run(&|to| convolve(&workers, &staging, &kernels, &finish, from, to, ext));
                assert!(wanted.iter().any(|x| x.to_f32() > 0.0) && wanted.iter().all(|x| !x.is_nan()));
                assert_eq!(found, wanted, "{g} {taps} {c} {w} {stride} {transposed}");
                taken += 1;
            }
        }
    }
    assert!(taken >= 20);
}

/// Panels of zero coefficients, which products skip, give the bits of a product that reads each coefficient, also beside infinities.
#[test]
fn panels_of_zeros_multiply_infinities() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    let finish = Epilogue { bias: 0.0, scale: 0.75, activation: &Activation::None };
    let (taps, c, w) = (1500, 130, 200);
    let (input, ext) = (Extents { g: 1, c: taps, h: 1, w }, Extents { g: 1, c, h: 1, w });
    let window = Window { k: [1; 2], s: [1; 2], p: [0, 0], from: [1, w], to: [1, w] };
    let staging = Im2col::new(window, taps, false, ext, rayon::current_num_threads()).expect("it is small");
    for (zeros, infinite) in [(0..130, None), (20..90, None), (20..130, Some(3)), (0..64, Some(taps * w - 5))] {
        let mut source: Vec<f16> = (0..taps * w).map(|i| draw(i + 5)).collect();
        infinite.into_iter().for_each(|at: usize| source[at] = f16::INFINITY);
        let from = TensorView { data: &source, strides: dense(input) };
        let weight = |i: usize| if zeros.contains(&(i / taps)) { f16::ZERO } else { draw(i) };
        let data: Vec<f16> = (0..c * taps).map(weight).collect();
        let starts: Vec<usize> = (0..c).map(|c| c * taps).collect();
        for arch in arches() {
            let mut workers = Workers::new();
            workers.arch = arch;
            let run = |by: &dyn Fn(TensorViewMut)| {
                let mut data = vec![f16::ONE; c * w];
                by(TensorViewMut { data: &mut data, strides: dense(ext), transposed: false });
                data.iter().map(|x| if x.is_nan() { f16::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<u16>>()
            };
            let rows = RowMatrix { data: &data, starts: &starts, first: 0, stride: 1, taps, channels: c };
            let wanted = run(&|to| convolve_rows(&workers, rows, &finish, from, to, ext));
            let groups = [Coefficients { weights: Values::Halves(data.clone()), biases: None }];
            let kernels = Kernels::pack(&staging, false, c, groups.into());
            let members = [BatchMember { kernels: &kernels, finish }];
            let found = run(&|to| convolve_pointwise(&workers, &members, from, None, to, ext));
            assert_eq!(found, wanted, "{zeros:?} {infinite:?} {arch:?}");
            let nan = if infinite.is_some() { zeros.len() } else { 0 };
            assert_eq!(found.iter().filter(|x| **x == f16::NAN.to_bits()).count(), nan, "{zeros:?}");
        }
    }
}

/// Windows of every kind, direct and unfolded, on every instruction set: sums in the order of the taps. Winograd's sums are close to
/// them.
#[test]
fn windows_take_their_taps_in_order() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
    let mut squares = 0;
    for (i, (window, [cin, cout], unicast)) in some_windows().enumerate() {
        let Window { k, s, p, from, to } = window.clone();
        let ext = Extents { g: 1, c: cout, h: to[0], w: to[1] };
        let of_output = if unicast { 1 } else { cin };
        let staging =
            Im2col::new(window.clone(), of_output, unicast, ext, rayon::current_num_threads()).expect("it is small");
        let taps = of_output * k[0] * k[1];
        let weights: Vec<f16> = (0..cout * taps).map(|n| draw(n + i)).collect();
        let groups = [Coefficients { weights: Values::Halves(weights.clone()), biases: None }];
        let kernels = Kernels::pack(&staging, false, cout, groups.into());
        let strides = [0, from[0] * (from[1] + 1), from[1] + 1];
        let x: Vec<f16> = (0..cin * strides[1]).map(draw).collect();
        let mut wanted = Vec::new();
        for (c, h, w) in (0..cout).flat_map(|c| (0..to[0]).flat_map(move |h| (0..to[1]).map(move |w| (c, h, w)))) {
            let sum = (0..taps).fold(0.0f32, |sum, tap| {
                let (channel, kh, kw) = (tap / (k[0] * k[1]), tap / k[1] % k[0], tap % k[1]);
                let channel = if unicast { c } else { channel };
                let (h, w) = ((h * s[0] + kh).checked_sub(p[0]), (w * s[1] + kw).checked_sub(p[1]));
                let (Some(h), Some(w)) = (h.filter(|&h| h < from[0]), w.filter(|&w| w < from[1])) else {
                    return sum;
                };
                let x = x[channel * strides[1] + h * strides[2] + w];
                weights[c * taps + tap].to_f32().mul_add(x.to_f32(), sum)
            });
            wanted.push(f16::from_f32(sum));
        }
        for arch in arches() {
            let workers = used(arch);
            for small in if unicast { &[false][..] } else { &[false, true] } {
                let mut data = vec![f16::NAN; wanted.len()];
                let to = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
                let from = TensorView { data: &x, strides };
                match unicast {
                    true => convolve(&workers, &staging, &kernels, &finish, from, to, ext),
                    false => convolve_direct(&workers, &staging, &kernels, &finish, from, to, ext, *small, true),
                }
                let wrong = (0..data.len()).find(|&n| data[n] != wanted[n]);
                assert_eq!(wrong, None, "{:?}, {cin} to {cout}, {arch:?}, small {small}", staging.window);
            }
            if staging.window.k != [3; 2] || staging.window.s != [1; 2] || unicast {
                continue;
            }
            // Another order of additions.
            let mut data = vec![f16::NAN; wanted.len()];
            let to = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
            convolve_winograd(&workers, &staging, &kernels, &finish, TensorView { data: &x, strides }, to, ext, true);
            squares += 1;
            for (found, wanted) in data.iter().zip(&wanted) {
                let off = (found.to_f32() - wanted.to_f32()).abs();
                let most = wanted.to_f32().abs() / 1024.0 + taps as f32 / (1 << 21) as f32;
                assert!(off <= most, "{:?}, {cin} to {cout}, {arch:?}: {found} for {wanted}", staging.window);
            }
        }
    }
    assert!(squares > 20);
}

/// Window positions of zeros are skipped, unless an element of the source is not finite: zero times infinity is NaN.
#[test]
fn zeros_of_a_window_meet_infinities() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
    for (k, step, [cin, cout], unicast) in [(5, 2, [5, 21], false), (7, 3, [21; 2], true)] {
        let (n, pad, taken) = (12, k / 2, if unicast { 1 } else { cin });
        let ext = Extents { g: 1, c: cout, h: n, w: n };
        let window = Window { k: [k; 2], s: [1; 2], p: [pad; 2], from: [n; 2], to: [n; 2] };
        let staging = Im2col::new(window, taken, unicast, ext, 2).expect("it is small");
        let dilated = |i: usize| (i / k).is_multiple_of(step) && (i % k).is_multiple_of(step);
        let weight = |i: usize| if dilated(i % (k * k)) { draw(i) } else { f16::ZERO };
        let weights: Vec<f16> = (0..cout * taken * k * k).map(weight).collect();
        let groups = vec![Coefficients { weights: Values::Halves(weights.clone()), biases: None }];
        let kernels = Kernels::pack(&staging, false, cout, groups);
        assert!(kernels.kept.is_some());
        for odd in [f16::ONE, f16::INFINITY, f16::NAN] {
            let mut x: Vec<f16> = (0..cin * n * n).map(|i| draw(i + 7)).collect();
            x[2 * n * n + 4 * n + 6] = odd;
            let workers = Workers::new();
            let mut found = vec![f16::ONE; cout * n * n];
            let to = TensorViewMut { data: &mut found, strides: dense(ext), transposed: false };
            let from = TensorView { data: &x, strides: dense(Extents { c: cin, ..ext }) };
            convolve(&workers, &staging, &kernels, &finish, from, to, ext);
            for (at, found) in found.iter().enumerate() {
                let (c, h, w) = (at / (n * n), at / n % n, at % n);
                let sum = (0..taken * k * k).fold(0.0f32, |sum, tap| {
                    let (kh, kw) = (h + tap / k % k, w + tap % k);
                    let inside = (pad..n + pad).contains(&kh) && (pad..n + pad).contains(&kw);
                    let channel = if unicast { c } else { tap / (k * k) };
                    let read = if inside { x[channel * n * n + (kh - pad) * n + kw - pad].to_f32() } else { 0.0 };
                    weights[c * taken * k * k + tap].to_f32().mul_add(read, sum)
                });
                let wanted = f16::from_f32(sum);
                assert!(*found == wanted || found.is_nan() && wanted.is_nan(), "{odd} {at}: {found} for {wanted}");
            }
            assert_eq!(found.iter().any(|x| x.is_nan()), odd != f16::ONE);
        }
    }
}

/// A fused pair gives the bits of its two tasks executed one after the other: through clamps, in fp16, with infinities and NaN, for any
/// partition. Likewise a GEMM on a result left in NCHWc16.
#[test]
fn pairs_have_the_bits_of_two_tasks() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    let odd = [f16::NAN, f16::INFINITY, f16::NEG_INFINITY, f16::NEG_ZERO, f16::MIN_POSITIVE_SUBNORMAL, f16::MAX];
    let activations = [
        Activation::None,
        Activation::Relu,
        Activation::Clamp(0.0, 6.0),
        Activation::Clamp(-0.5, 0.75),
        Activation::Clamp(-0.0, 2.0),
    ];
    let (mut tried, mut cuts, mut products, mut sums) = (0, 0, 0, 0);
    // First convolution: result, channels, kernel, stride, padding.
    for (i, ([h, w], [cin, c], [k1, s1, p1])) in [
        ([7, 7], [40, 61], [1, 1, 0]),
        ([14, 14], [5, 24], [1, 1, 0]),
        ([9, 40], [3, 13], [1, 1, 0]),
        ([16, 33], [390, 48], [1, 1, 0]),
        ([5, 1], [2, 14], [1, 1, 0]),
        ([64, 112], [64, 16], [1, 1, 0]),
        ([15, 14], [33, 80], [1, 1, 0]),
        ([9, 17], [3, 32], [3, 2, 1]),
        ([20, 12], [2, 13], [5, 1, 2]),
        ([6, 30], [1, 48], [3, 3, 0]),
        ([3, 1100], [1, 16], [3, 1, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        let of = [h, w].map(|n: usize| (n - 1) * s1 + k1 - 2 * p1);
        for (k, s, p) in [(3, 1, 1), (3, 2, 1), (3, 2, 0), (5, 1, 2), (5, 2, 2), (3, 1, 0)] {
            let to = [h, w].map(|n: usize| (n + 2 * p).checked_sub(k).map_or(0, |n| n / s + 1));
            if to.contains(&0) {
                continue;
            }
            let ext = |[h, w]: [usize; 2]| Extents { g: 1, c, h, w };
            let before = Window { k: [k1; 2], s: [s1; 2], p: [p1; 2], from: of, to: [h, w] };
            let window = Window { k: [k; 2], s: [s; 2], p: [p; 2], from: [h, w], to };
            let first =
                Im2col::new(before, cin, false, ext([h, w]), rayon::current_num_threads()).expect("it is small");
            let second = Im2col::new(window, 1, true, ext(to), rayon::current_num_threads()).expect("it is small");
            cuts += usize::from(h * w * cin * k1 * k1 > 2 * PACKED_CAPACITY);
            let kernels = |staging: &Im2col, taps: usize, biases: bool| {
                let weights = Values::Halves((0..c * taps).map(|n| draw(n + i)).collect());
                let biases = biases.then(|| (0..c).map(|n| draw(n).to_f32()).collect());
                Kernels::pack(staging, false, c, vec![Coefficients { weights, biases }])
            };
            let kernels = [kernels(&first, cin * k1 * k1, i % 2 == 0), kernels(&second, k * k, i % 2 == 1)];
            let blocks = kernels.clone().map(|mut kernels| {
                kernels.repack_nchwc16(&mut RepackCache::default());
                kernels
            });
            assert!(can_fuse_depthwise([&first, &second], [c; 2]));
            let mut x: Vec<f16> = (0..cin * of[0] * (of[1] + 1)).map(draw).collect();
            if s == 1 {
                x.iter_mut().step_by(97).zip(odd).for_each(|(x, odd)| *x = odd);
            }
            let from = TensorView { data: &x, strides: [0, of[0] * (of[1] + 1), of[1] + 1] };
            let finish = |n: usize, bias| Epilogue { bias, scale: 1.0 + bias, activation: &activations[n % 5] };
            let finish = [finish(tried, 0.0), finish(tried + 2, if p == 0 { 0.5 } else { 0.0 })];
            for arch in arches() {
                let workers = used(arch);
                let between = Extents { g: 1, c, h, w };
                let mut data = vec![f16::ONE; c * h * w];
                let target = TensorViewMut { data: &mut data, strides: dense(between), transposed: false };
                convolve(&workers, &first, &kernels[0], &finish[0], from, target, between);
                let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let mut alone = vec![f16::ONE; c * h * w];
                let target = TensorViewMut { data: &mut alone, strides: dense(between), transposed: false };
                convolve(&workers, &first, &blocks[0], &finish[0], from, target, between);
                assert!(bits(&alone) == bits(&data), "{h}x{w}, {cin} to {c}, {k1} {s1} {p1}, {arch:?}");
                let source = TensorView { data: &data, strides: dense(between) };
                let mut wanted = vec![f16::ONE; c * to[0] * to[1]];
                let mut found = wanted.clone();
                // Channels of rows, or rows of channels.
                let strides = if i % 2 == 0 { dense(ext(to)) } else { [0, to[1], c * to[1]] };
                let target = TensorViewMut { data: &mut wanted, strides, transposed: false };
                convolve(&workers, &second, &kernels[1], &finish[1], source, target, ext(to));
                let target = TensorViewMut { data: &mut found, strides, transposed: false };
                let stagings = [&first, &second];
                let pair = FusedDepthwise { kernels: blocks.each_ref(), finish, stagings };
                pair.convolve(&workers, from, target, ext(to), false);
                assert!(bits(&found) == bits(&wanted), "{h}x{w}, {cin} to {c}, {k} {s} {p}, {arch:?}");
                if !c.is_multiple_of(BLOCK) {
                    continue;
                }
                let ext = |c: usize| Extents { g: 1, c, h: to[0], w: to[1] };
                let window = Window { k: [1; 2], s: [1; 2], p: [0; 2], from: to, to };
                let third = Im2col::new(window, c, false, ext(37), rayon::current_num_threads()).expect("it is small");
                let groups = [Coefficients {
                    weights: Values::Halves((0..37 * c).map(|n| draw(n + i)).collect()),
                    biases: Some((0..37).map(|n| draw(n).to_f32()).collect()),
                }];
                let mut product = Kernels::pack(&third, false, 37, groups.into());
                let mut products_of = [vec![f16::ONE; 37 * to[0] * to[1]], vec![f16::ONE; 37 * to[0] * to[1]]];
                let [wanted_product, found_product] = &mut products_of;
                let from_wanted = TensorView { data: &wanted, strides };
                let target = TensorViewMut { data: wanted_product, strides: dense(ext(37)), transposed: false };
                convolve(&workers, &third, &product, &finish[0], from_wanted, target, ext(37));
                product.repack_nchwc16(&mut RepackCache::default());
                let mut blocks = vec![f16::ONE; c * to[0] * to[1]];
                let target = TensorViewMut { data: &mut blocks, strides: dense(ext(c)), transposed: false };
                pair.convolve(&workers, from, target, ext(c), true);
                let strides = dense(Extents { c: c / BLOCK, w: to[1] * BLOCK, ..ext(c) });
                let source = TensorView { data: &blocks, strides };
                let operand = Operand { source, factors: None, in_blocks: true, staging: &third };
                let target = TensorViewMut { data: found_product, strides: dense(ext(37)), transposed: false };
                convolve_nchwc(&workers, &product, finish[0], operand, None, target, ext(37));
                assert!(bits(found_product) == bits(wanted_product), "{h}x{w}, {c} to 37, {k} {s} {p}, {arch:?}");
                products += 1;
                if !workers.converts() {
                    continue;
                }
                // The residual addition, out of place and in place, with rows of another tensor between the rows.
                let (row, plane) = (to[1] + 1, to[0] * (to[1] + 1));
                let strides = if i % 2 == 0 { [0, plane, row] } else { [0, row, 37 * row] };
                let other: Vec<f16> = (0..37 * plane).map(|n| draw(n + 5)).collect();
                let mut wanted_sum = other.clone();
                for (n, product) in wanted_product.iter().enumerate() {
                    let at = n / to[1] / to[0] * strides[1] + n / to[1] % to[0] * strides[2] + n % to[1];
                    wanted_sum[at] = anemone_kernels::num::round(product.to_f32() + other[at].to_f32());
                }
                let known = |x: &[f16]| x.iter().map(|x| (!x.is_nan()).then(|| x.to_bits())).collect::<Vec<_>>();
                for (source, is_first) in [(Some(TensorView { data: &other, strides }), false), (None, true)] {
                    let mut data = other.clone();
                    let target = TensorViewMut { data: &mut data, strides, transposed: false };
                    let residual = Some(ResidualAdd { source, is_first });
                    convolve_nchwc(&workers, &product, finish[0], operand, residual, target, ext(37));
                    assert!(known(&data) == known(&wanted_sum), "{h}x{w}, {c} to 37, {k} {s} {p}, {is_first}");
                }
                sums += 1;
            }
            tried += 1;
        }
    }
    assert!(tried > 25 && cuts > 0 && products > 5, "{tried} {cuts} {products}");
    assert!(sums > 5 || !Workers::new().converts(), "{sums}");
}

/// GEMM with few columns, whose tail is computed one by one, on every instruction set.
#[test]
fn columns_alone_have_the_sums_of_columns_together() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
    for (cin, cout, w) in [
        (300, 100, 1),
        (1280, 330, 1),
        (5, 9, 1),
        (40, 61, 49),
        (7, 13, 17),
        (600, 48, 66),
        (900, 130, 68),
        (3, 5, 2),
        (33, 80, 13),
        (9, 31, 3),
    ] {
        let (input, ext) = (Extents { g: 1, c: cin, h: 1, w }, Extents { g: 1, c: cout, h: 1, w });
        let window = Window { k: [1, 1], s: [1, 1], p: [0, 0], from: [1, w], to: [1, w] };
        let staging = Im2col::new(window, cin, false, ext, rayon::current_num_threads()).expect("it is small");
        let weights: Vec<f16> = (0..cout * cin).map(draw).collect();
        let biases: Vec<f32> = (0..cout).map(|c| draw(c).to_f32()).collect();
        let kernels = |transposed: bool| {
            let (weights, biases) = (Values::Halves(weights.clone()), Some(biases.clone()));
            let groups = [Coefficients { weights, biases }];
            Kernels::pack(&staging, transposed, cout, groups.into())
        };
        let x: Vec<f16> = (0..cin * w).map(|i| draw(i + 5)).collect();
        let sum = |c: usize, o: usize| {
            let product = |k: usize| (weights[c * cin + k].to_f32(), x[k * w + o].to_f32());
            let sum = (0..cin).map(product).fold(0.0f32, |sum, (weight, x)| weight.mul_add(x, sum));
            sum + biases[c]
        };
        for arch in arches() {
            let workers = used(arch);
            for transposed in [false, true] {
                let stored = if transposed { ext.transposed() } else { ext };
                let mut data = vec![f16::NAN; cout * w];
                let to = TensorViewMut { data: &mut data, strides: dense(stored), transposed };
                convolve(
                    &workers,
                    &staging,
                    &kernels(transposed),
                    &finish,
                    TensorView { data: &x, strides: dense(input) },
                    to,
                    ext,
                );
                for (i, &found) in data.iter().enumerate() {
                    let (c, o) = if transposed { (i % cout, i / cout) } else { (i / w, i % w) };
                    assert_eq!(found, f16::from_f32(sum(c, o)), "{cin} {cout} {w}, {arch:?}, {transposed}, {c}, {o}");
                }
            }
        }
    }
}
