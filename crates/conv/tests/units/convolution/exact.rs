use super::some_windows;
use crate::samples::{FIXED, used};
use anemone_conv::exact::{Exact, Groups, Sets, convolve};
use anemone_conv::nchwc::{ExactAccumulator, Operand};
use anemone_conv::{FusedDepthwise, Im2col, Kernels, can_fuse_depthwise, convolve_nchwc};
use anemone_kernels::epilogue::{ExactEpilogue, ScaledClamp};
use anemone_kernels::exact::{Weights, all_rows};
use anemone_kernels::filter::Values;
use anemone_kernels::host::Rows;
use anemone_kernels::num::reference::dot;
use anemone_kernels::num::{self, elementwise};
use anemone_kernels::params::Rounding;
use anemone_kernels::simd;
use anemone_kernels::table::Table;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{BLOCK, TensorView, TensorViewMut, dense};
use anemone_kernels::window::Window;
use anemone_kernels::workers::arches;
use half::f16;
use pulp::{Simd, WithSimd};
use std::sync::Arc;

/// Stores a row of sums through a scale and a clamp.
struct Stored<'a>(ScaledClamp, &'a [f32], &'a mut [f16]);

impl WithSimd for Stored<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Stored(clamp, from, to) = self;
        simd::convert_rows(simd, clamp, from, to, Rows::one(from.len()));
    }
}

/// The map `clamp(x * scale)` as a table, by the reference's rounding.
fn scaled(scale: f32, low: f32, high: f32) -> ExactEpilogue {
    let value = |x: f16| {
        let x = f64::from(elementwise::admit_half(x)) + 0.0;
        let y = elementwise::round_result(&Rounding::AWAY, x * f64::from(scale));
        let y = if y.to_f32() > low { y } else { f16::from_f32(low) };
        if y.to_f32() < high { y } else { f16::from_f32(high) }
    };
    ExactEpilogue::of((0..=u16::MAX).map(|bits| value(f16::from_bits(bits))).collect(), scale, None)
}

/// A clamp of sums, which are neither NaN nor minus zero, equals the map over fp16 numbers.
#[test]
fn bounded_sums_are_those_of_the_stage() {
    let sums = num::every_f16().filter(|x| !x.is_nan() && (*x != 0.0 || x.is_sign_positive()));
    let sums: Vec<f32> = sums.collect();
    let six = f16::from_f32(6.0);
    let stages = [
        (ExactEpilogue::Admit, true),
        (ExactEpilogue::Relu, true),
        (ExactEpilogue::Clamp(f16::ZERO, six), true),
        (ExactEpilogue::Clamp(f16::ONE, six), true),
        (ExactEpilogue::Map(Arc::new(Table::of(vec![f16::ONE; 1 << 16], None))), false),
        (scaled(1.0 / 128.0, f32::NEG_INFINITY, f32::INFINITY), true),
        (scaled(1.0 / 4096.0, 0.0, 6.0), true),
        (scaled(0.299_804_7, 0.0, f32::INFINITY), true),
        (scaled(3.0, -1.5, 2.0), true),
        // Products may exceed the range of fp16.
        (scaled(256.0, 0.0, 6.0), false),
    ];
    for (exactly, bounded) in stages {
        assert_eq!(exactly.clamp().is_some(), bounded);
        let Some(clamp) = exactly.clamp() else { continue };
        let mut wanted: Vec<f16> = sums.iter().map(|&x| f16::from_f32(x)).collect();
        exactly.row(pulp::Scalar::new(), &mut wanted);
        for arch in arches() {
            let mut found = vec![f16::NAN; sums.len()];
            arch.dispatch(Stored(clamp, &sums, &mut found));
            let wrong = (0..sums.len()).find(|&i| found[i].to_bits() != wanted[i].to_bits());
            assert_eq!(wrong.map(|i| sums[i]), None, "{clamp:?}, {arch:?}");
        }
    }
}

/// Windows of every kind, in buffers that held garbage, compared with the reference.
#[test]
fn windows_have_the_sums_of_the_array() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0) * f16::from_f32(0.02);
    for (i, (window, [cin, cout], unicast)) in some_windows().enumerate() {
        let (channels, Window { k, s, p, from, to }) = (if unicast { 1 } else { cin }, window.clone());
        let taps = channels * k[0] * k[1];
        let ext = Extents { g: 1, c: cout, h: to[0], w: to[1] };
        let weights: Vec<f16> = (0..cout * taps).map(|n| draw(n + i)).collect();
        let of = |weights: &[f16]| Weights::of(&FIXED, weights.len() / taps, taps, &Values::Halves(weights.to_vec()));
        let sets = if unicast { weights.chunks(taps).map(of).collect() } else { vec![of(&weights)] };
        let strides = [0, from[0] * (from[1] + 1), from[1] + 1];
        let x: Vec<f16> = (0..cin * strides[1]).map(|n| draw(n) * f16::from_f32(40.0)).collect();
        let staging =
            Im2col::new(window.clone(), channels, unicast, ext, rayon::current_num_threads()).expect("it is small");
        let groups = Groups::Sets(&[(sets, None)]);
        let exact = Exact {
            mac: &FIXED,
            window: &window,
            channels,
            unicast,
            staging: &staging,
            groups,
            exactly: &ExactEpilogue::Admit,
        };
        let mut data = vec![f16::NAN; cout * to[0] * to[1]];
        let target = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
        convolve(&used(anemone_kernels::isa::arch()), &exact, TensorView { data: &x, strides }, target, ext);
        for (n, &found) in data.iter().enumerate() {
            let (c, h, w) = (n / (to[0] * to[1]), n / to[1] % to[0], n % to[1]);
            let terms: Vec<(f16, f16)> = (0..taps)
                .filter_map(|tap| {
                    let (channel, kh, kw) = (tap / (k[0] * k[1]), tap / k[1] % k[0], tap % k[1]);
                    let channel = if unicast { c } else { channel };
                    let h = (h * s[0] + kh).checked_sub(p[0]).filter(|&h| h < from[0])?;
                    let w = (w * s[1] + kw).checked_sub(p[1]).filter(|&w| w < from[1])?;
                    Some((weights[c * taps + tap], x[channel * strides[1] + h * strides[2] + w]))
                })
                .collect();
            assert_eq!(found, dot(&FIXED, &terms, 0.0), "{window:?}, {cin} to {cout}, {unicast}: {c}, {h}, {w}");
        }
    }
}

/// Random numbers with exponents in a range, among them zeros, and special values if `odd`.
fn some_numbers(n: usize, exponents: [i32; 2], odd: bool) -> Vec<f16> {
    let others = [f16::NAN, f16::INFINITY, f16::NEG_ZERO, f16::MIN_POSITIVE_SUBNORMAL, f16::MAX];
    let one = |i: usize| {
        let bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let of = |from: u32, n: u64| bits >> from & (n - 1);
        let exponent = exponents[0] + (of(16, 1 << 16) % (exponents[1] - exponents[0]) as u64) as i32;
        let x = f16::from_f32((1.0 + of(40, 1 << 10) as f32 / 1024.0) * (exponent as f32).exp2());
        match of(56, 32) {
            0..3 => f16::ZERO,
            3 if odd && of(8, 8) == 0 => others[i % others.len()],
            n if n % 2 == 0 => -x,
            _ => x,
        }
    };
    (0..n).map(one).collect()
}

/// The same coefficients as sets of rows and in blocks of channels.
fn both(staging: &Im2col, unicast: bool, weights: &[f16], biases: &Option<Vec<f32>>, taps: usize) -> (Sets, Kernels) {
    let sets = |weights: &[f16]| Weights::of(&FIXED, weights.len() / taps, taps, &Values::Halves(weights.to_vec()));
    let sets = || if unicast { weights.chunks(taps).map(sets).collect() } else { vec![sets(weights)] };
    let groups = std::iter::once((all_rows(sets()), biases.clone()));
    ((sets(), biases.clone()), Kernels::pack_exact(staging, groups.collect()))
}

/// The NCHWc16 kernels give the bits of the reference sums: alone, in fused pairs, and after them; in one run, in several, and for sums that
/// may reach the ceiling; with dropped products, infinities and NaN. Likewise GEMV, also before a table.
#[test]
fn channels_side_by_side_have_the_sums_of_the_array() {
    let six = f16::from_f32(6.0);
    let stages = [
        ExactEpilogue::Clamp(f16::ZERO, six),
        ExactEpilogue::Admit,
        ExactEpilogue::Relu,
        scaled(1.0 / 64.0, 0.0, 6.0),
        scaled(1.5, f32::NEG_INFINITY, f32::INFINITY),
    ];
    // Magnitudes, for GEMV alone.
    let table = ExactEpilogue::of((0..=u16::MAX).map(|bits| f16::from_bits(bits & 0x7bff)).collect(), 1.0, None);
    assert!(matches!(table, ExactEpilogue::Map(_)));
    // Exponents of source and coefficients.
    let ranges = [[[-12, 2], [-9, -3]], [[-2, 3], [-4, 0]], [[-14, 4], [-14, 1]], [[0, 4], [-1, 2]], [[4, 9], [2, 7]]];
    let mut reached = [0; 3];
    for (i, ([h, w], [cin, c], [k1, s1, p1], [k, s, p])) in [
        ([7, 7], [40, 61], [1, 1, 0], [3, 1, 1]),
        ([14, 14], [5, 32], [1, 1, 0], [3, 2, 1]),
        ([9, 17], [3, 32], [3, 2, 1], [3, 1, 1]),
        ([12, 13], [150, 48], [1, 1, 0], [5, 2, 2]),
        ([6, 30], [1, 96], [3, 3, 0], [5, 1, 2]),
        ([1, 1], [300, 130], [1, 1, 0], [3, 1, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        for (j, (exponents, odd)) in ranges.iter().flat_map(|range| [(range, false), (range, true)]).enumerate() {
            let ext = |c: usize, [h, w]: [usize; 2]| Extents { g: 1, c, h, w };
            let to = [h, w].map(|n: usize| (n + 2 * p).saturating_sub(k) / s + 1);
            let of = [h, w].map(|n: usize| (n - 1) * s1 + k1 - 2 * p1);
            let windows = [
                Window { k: [k1; 2], s: [s1; 2], p: [p1; 2], from: of, to: [h, w] },
                Window { k: [k; 2], s: [s; 2], p: [p; 2], from: [h, w], to },
                Window { k: [1; 2], s: [1; 2], p: [0; 2], from: to, to },
            ];
            let channels = [cin, 1, c];
            let exts = [ext(c, [h, w]), ext(c, to), ext(37, to)];
            let unicast = [false, true, false];
            let stagings = [0, 1, 2].map(|n| {
                Im2col::new(windows[n].clone(), channels[n], unicast[n], exts[n], rayon::current_num_threads())
                    .expect("it is small")
            });
            let coefficients = [0, 1, 2].map(|n| {
                let taps = channels[n] * windows[n].elements();
                let weights = some_numbers(exts[n].c * taps, exponents[1], odd);
                let biases = some_numbers(exts[n].c, [exponents[0][0], exponents[0][1]], odd);
                let biases = (j % 3 > 0).then(|| biases.iter().map(|x| x.to_f32()).collect());
                both(&stagings[n], unicast[n], &weights, &biases, taps)
            });
            let mapped = h * w == 1 && j % 2 == 1;
            let exactly = [0, 1, 2].map(|n| if mapped { &table } else { &stages[(i + j + n) % stages.len()] });
            let x = some_numbers(cin * of[0] * of[1], exponents[0], odd);
            let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let mut results = Vec::new();
            for arch in arches() {
                let workers = used(arch);
                let run = |n: usize, x: &[f16], blocks: bool| {
                    let (sets, kernels) = &coefficients[n];
                    let groups = match blocks {
                        true => Groups::Blocks(kernels),
                        false => Groups::Sets(std::slice::from_ref(sets)),
                    };
                    let exact = Exact {
                        mac: &FIXED,
                        window: &windows[n],
                        channels: channels[n],
                        unicast: unicast[n],
                        staging: &stagings[n],
                        groups,
                        exactly: exactly[n],
                    };
                    let from = ext(x.len() / windows[n].from.iter().product::<usize>(), windows[n].from);
                    let mut data = vec![f16::NAN; exts[n].elements().expect("few")];
                    let target = TensorViewMut { data: &mut data, strides: dense(exts[n]), transposed: false };
                    convolve(&workers, &exact, TensorView { data: x, strides: dense(from) }, target, exts[n]);
                    data
                };
                let case = format!("{h}x{w}, {cin} to {c}, {exponents:?}, odd {odd}, {arch:?}");
                let first = run(0, &x, false);
                assert_eq!(bits(&run(0, &x, true)), bits(&first), "{case}");
                if h * w == 1 {
                    continue;
                }
                let second = run(1, &first, false);
                assert_eq!(bits(&run(1, &first, true)), bits(&second), "{case}");
                let arrays = exactly.map(|e| ExactAccumulator { mac: &FIXED, clamp: e.clamp().expect("no table") });
                let pair = FusedDepthwise {
                    kernels: [&coefficients[0].1, &coefficients[1].1],
                    finish: [arrays[0], arrays[1]],
                    stagings: [&stagings[0], &stagings[1]],
                };
                assert!(can_fuse_depthwise(pair.stagings, [c; 2]));
                let source = TensorView { data: &x, strides: dense(ext(cin, of)) };
                let mut data = vec![f16::NAN; second.len()];
                let target = TensorViewMut { data: &mut data, strides: dense(exts[1]), transposed: false };
                pair.convolve(&workers, source, target, exts[1], false);
                assert_eq!(bits(&data), bits(&second), "{case}");
                results.push(data);
                if !c.is_multiple_of(BLOCK) {
                    continue;
                }
                let third = run(2, &second, false);
                let mut blocks = vec![f16::NAN; second.len()];
                let target = TensorViewMut { data: &mut blocks, strides: dense(exts[1]), transposed: false };
                pair.convolve(&workers, source, target, exts[1], true);
                let strides = dense(Extents { c: c / BLOCK, w: to[1] * BLOCK, ..exts[1] });
                let source = TensorView { data: &blocks, strides };
                let operand = Operand { source, factors: None, in_blocks: true, staging: &stagings[2] };
                let mut data = vec![f16::NAN; third.len()];
                let target = TensorViewMut { data: &mut data, strides: dense(exts[2]), transposed: false };
                convolve_nchwc(&workers, &coefficients[2].1, arrays[2], operand, None, target, exts[2]);
                assert_eq!(bits(&data), bits(&third), "{case}");
                results.push(data);
            }
            for x in results.iter().flatten().map(|x| x.to_f32().abs()) {
                reached[if x.is_infinite() { 2 } else { usize::from(x > 64.0) }] += 1;
            }
        }
    }
    assert!(reached.iter().all(|&count| count > 1000), "{reached:?}");
}
