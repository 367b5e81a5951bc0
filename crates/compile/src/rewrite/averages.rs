//! Replacement of means over windows by depthwise convolutions. Ours: the planar engine reads an element for each of its windows, the arrays of the
//! neural engine multiply thousands at once. [`super::convolved`] does so where constants for each channel follow.

use super::convolved::{LEAST_PLANE, mean};
use super::magnitudes::magnitudes;
use super::windows::Limits;
use super::{Builder, Names, insert_before};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::chips::{CHIPS, Chip};
use anemone_facts::cost::{self, Rates};
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, PoolKind, Tensor, Value};
use half::f16;

/// Least usual size of the elements: products are rounded to 2^-16, and weights of a mean of 25 elements are 1/32, so that elements of this size
/// have a last digit of 2^-11 of their size.
const LEAST_USUAL: f32 = 1.0 / 16.0;

/// Least share of the modelled time of the mean that the convolution saves.
const LEAST_SAVED: f64 = 0.25;

const ELEMENT_BYTES: f64 = 2.0;

/// Replaces means over whole windows by convolutions of each channel with equal weights and a gain, where the modelled time is shorter and the
/// elements are not small beside the resolution of the arrays. The weights add up to between 1/2 and 1, so that no sum overflows unless the mean
/// exceeds 2^15, and the product of weight and gain is as close to the mean's factor as two fp16 numbers can be. Where padding is not counted,
/// a plane of factors follows, as behind the mean.
pub fn convolve_means(net: &mut Net, chip: &'static Chip, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let limits = Limits::of(chip);
    let found: Vec<usize> = (0..net.ops.len()).filter(|&at| is_faster(net, at, chip, &limits)).collect();
    if found.is_empty() {
        return Ok(());
    }
    let known = magnitudes(net);
    let mut names = Names::default();
    let mut added = Vec::new();
    for at in found {
        let Op { kind: OpKind::Pool { kernel, strides, pads, .. }, inputs, outputs, name, .. } = &net.ops[at] else {
            continue;
        };
        let (x, out, name) = (inputs[0], outputs[0], name.clone());
        let usual = known[x.0 as usize].least;
        if usual < LEAST_USUAL {
            reasons.say(|| {
                format!("{name}: elements are usually {usual:.1e}, beside which the arrays' resolution is coarse")
            });
            continue;
        }
        let (taps, channels) = (kernel.iter().product::<usize>(), net.value(x).ty.shape[1]);
        let (weight, gain) = factors(taps);
        let shares = shares(net, at);
        let extents = [[channels, 1].as_slice(), kernel].concat();
        let (strides, pads, dilations) = (strides.clone(), pads.clone(), vec![1; kernel.len()]);
        reasons.say(|| format!("{name}: a mean of {taps} elements is a convolution of each channel, in less time"));
        let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name };
        let half = |data: Vec<f32>| Data::from_f32(DType::F16, &data);
        let weights =
            builder.constant_of("weight", Tensor { shape: extents, data: half(vec![weight; channels * taps]) });
        let gain = builder.constant_of("gain", Tensor { shape: vec![], data: half(vec![gain]) });
        let ty = builder.net.value(out).ty.clone();
        let sum = builder.fresh("sum");
        let sum = builder.net.add_value(Value { name: sum, ty, data: None, surface: None });
        builder.push(OpKind::Conv { strides, pads, dilations, groups: channels }, &[x, weights], sum);
        let mut factors = [sum, gain];
        if let Some((extents, shares)) = shares {
            let ty = builder.net.value(out).ty.clone();
            let whole = builder.fresh("whole");
            let whole = builder.net.add_value(Value { name: whole, ty, data: None, surface: None });
            builder.push(OpKind::Binary(Binary::Mul), &factors, whole);
            let shares = builder.constant_of("shares", Tensor { shape: extents, data: half(shares) });
            factors = [whole, shares];
        }
        added.extend(builder.ops.into_iter().map(|op| (at, op)));
        (net.ops[at].kind, net.ops[at].inputs) = (OpKind::Binary(Binary::Mul), factors.to_vec());
    }
    insert_before(net, added);
    Ok(())
}

/// The weight and the gain of a mean: fp16 numbers with the product closest to `1 / taps`. The sum of the weights is between 1/2 and 1.
fn factors(taps: usize) -> (f32, f32) {
    let wanted = 1.0 / taps as f64;
    let gain = |weight: f64| f16::from_f64(wanted / weight);
    let error = |weight: f64| (weight * gain(weight).to_f64() / wanted - 1.0).abs();
    // Weights from the greatest on, so that a power of two has the gain 1.
    let greatest = f16::from_f64(wanted).to_bits();
    let all = (0..1u16 << 10).map(|below| f16::from_bits(greatest - below).to_f64()).filter(|&w| w <= wanted);
    let best = all.min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap_or(wanted);
    (best as f32, gain(best).to_f32())
}

/// Elements of a whole window over those that the mean of each place divides by, where padding is excluded, with the extents of a plane;
/// `None` where all are equal.
fn shares(net: &Net, at: usize) -> Option<(Vec<usize>, Vec<f32>)> {
    let op = &net.ops[at];
    let OpKind::Pool { kind: PoolKind::Average { exclude_padding: true }, kernel, strides, pads, .. } = &op.kind else {
        return None;
    };
    let [from, to] = [op.inputs[0], op.outputs[0]].map(|id| &net.value(id).ty.shape[2..]);
    let along = |axis: usize| {
        let share = |place: usize| {
            let (start, before) = (place * strides[axis], pads[axis].0);
            let count = (start + kernel[axis]).min(before + from[axis]).saturating_sub(start.max(before)).max(1);
            kernel[axis] as f32 / count as f32
        };
        (0..to[axis]).map(share).collect::<Vec<f32>>()
    };
    let all = (0..to.len()).fold(vec![1.0], |all: Vec<f32>, axis| {
        let own = along(axis);
        all.iter().flat_map(|a| own.iter().map(move |b| a * b)).collect()
    });
    all.iter().any(|&share| share != 1.0).then(|| ([[1, 1].as_slice(), to].concat(), all))
}

/// Returns true for a mean of one batch that the neural engine computes in less of the modelled time than the planar engine.
fn is_faster(net: &Net, at: usize, chip: &Chip, limits: &Limits) -> bool {
    let Some((out, _)) = mean(net, at, limits) else { return false };
    let op = &net.ops[at];
    let OpKind::Pool { kernel, .. } = &op.kind else { return false };
    let (from, to) = (&net.value(op.inputs[0]).ty, &net.value(out).ty);
    let plane: usize = to.shape[2..].iter().product();
    if from.shape[0] != 1 || plane < LEAST_PLANE || !from.dtype.is_float() || !to.dtype.is_float() {
        return false;
    }
    let measured = |chip: &Chip| cost::rates(chip.target).zip(chip.hal.f_max_hz);
    let Some((rates, hz)) = measured(chip).or_else(|| measured(&CHIPS[0])) else { return false };
    let count = |shape: &[usize]| shape.iter().product::<usize>() as f64;
    let taps = kernel.iter().product::<usize>() as f64;
    let [planar, array] = times([count(&from.shape), count(&to.shape)], taps, from.shape[1] as f64, rates, hz as f64);
    planar - array > LEAST_SAVED * planar
}

/// Nanoseconds of both engines: of elements and windows, or of products and coefficients, but at least those of the results through memory.
fn times([sources, results]: [f64; 2], taps: f64, channels: f64, rates: &Rates, hz: f64) -> [f64; 2] {
    let moved = (sources + results) * ELEMENT_BYTES / rates.activation_bytes_per_ns;
    let planar = sources.max(results) * taps / rates.planar_per_ns;
    let products = results * taps / cost::MACS_PER_CYCLE as f64 / hz * 1e9;
    let coefficients = channels * taps * ELEMENT_BYTES / rates.weight_bytes_per_ns;
    [planar.max(moved), products.max(coefficients).max(moved)]
}
