//! Discrete Fourier transforms as products with sine and cosine matrices. The last axis has real parts, or real and
//! imaginary parts.

use super::node::Node;
use crate::error::Error;
use crate::graph::{Tensor, ValueId};
use crate::ops::{Binary, OpKind};
use std::f64::consts::TAU;

/// Most elements of a matrix.
const MATRIX_ELEMENTS: usize = 1 << 24;

/// Direction of a transform, with the form of its operand and result.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Forward,
    /// Forward, first half of the result only.
    ForwardHalf,
    Inverse,
    /// Inverse, from the first half of a spectrum to real numbers.
    InverseHalf,
}

impl Way {
    /// Elements of a result, and parts of each.
    fn result(self, length: usize) -> [usize; 2] {
        match self {
            Way::Forward | Way::Inverse => [length, 2],
            Way::ForwardHalf => [length / 2 + 1, 2],
            Way::InverseHalf => [length, 1],
        }
    }
}

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "DFT" => dft(n),
        "STFT" => stft(n),
        "MelWeightMatrix" => mel_weights(n),
        _ => Ok(false),
    }
}

fn first(n: &Node, index: usize, what: &str) -> Result<Option<i64>, Error> {
    Ok(n.integers(index, what)?.and_then(|v| v.first().copied()))
}

/// Mel filter bank: triangles over the bins of a spectrum, equally spaced on the mel scale; all parameters are constant.
fn mel_weights(n: &mut Node) -> Result<bool, Error> {
    let whole = |n: &Node, index: usize, what: &str| -> Result<usize, Error> {
        let value = first(n, index, what)?.ok_or_else(|| n.missing(what))?;
        n.size(what, value)
    };
    let bins = whole(n, 0, "num_mel_bins")?;
    let (length, rate) = (whole(n, 1, "dft_length")?, whole(n, 2, "sample_rate")?);
    let edge = |n: &Node, index: usize, what: &str| -> Result<f64, Error> {
        let value = n.constant(index, what)?.and_then(|t| t.data.to_f32().first().copied());
        value.map(f64::from).ok_or_else(|| n.missing(what))
    };
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (low, high) = (mel(edge(n, 3, "lower_edge_hertz")?), mel(edge(n, 4, "upper_edge_hertz")?));
    let rows = length / 2 + 1;
    if rate == 0 || rows.saturating_mul(bins) > MATRIX_ELEMENTS {
        return Err(n.unsupported(format!("{bins} bins of a transform of {length} at {rate} samples a second")));
    }
    let step = (high - low) / (bins + 2) as f64;
    let bin = |i: usize| {
        let hertz = 700.0 * (10f64.powf((i as f64 * step + low) / 2595.0) - 1.0);
        (((length + 1) as f64 * hertz) / rate as f64).floor().max(0.0) as usize
    };
    let mut weights = vec![0f32; rows * bins];
    for i in 0..bins {
        let (lower, centre, upper) = (bin(i), bin(i + 1), bin(i + 2));
        if upper.max(centre) > rows {
            return Err(n.unsupported("a band beyond half of the sample rate"));
        }
        let mut set = |row: usize, weight: f64| {
            if let Some(place) = weights.get_mut(row * bins + i) {
                *place = weight as f32;
            }
        };
        if centre == lower {
            set(centre, 1.0);
        }
        for row in lower..=centre {
            if centre > lower {
                set(row, (row - lower) as f64 / (centre - lower) as f64);
            }
        }
        for row in centre..upper {
            set(row, (upper - row) as f64 / (upper - centre) as f64);
        }
    }
    let id = n.build().constant("mel", Tensor::f32([rows, bins], weights));
    n.done(id)
}

fn dft(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let axis = if n.opset() < 20 { n.int("axis", 1) } else { first(n, 2, "axis")?.unwrap_or(-2) };
    let axis = n.axis(axis, shape.len())?;
    if axis + 1 == shape.len() {
        return Err(n.unsupported("the axis of real and imaginary parts cannot be transformed"));
    }
    let way = match (n.flag("inverse", false), n.flag("onesided", false)) {
        (false, false) => Way::Forward,
        (false, true) => Way::ForwardHalf,
        (true, false) => Way::Inverse,
        (true, true) => Way::InverseHalf,
    };
    let length = match first(n, 1, "dft_length")? {
        Some(length) => n.size("dft_length", length)?,
        None if way == Way::InverseHalf => 2 * shape[axis].saturating_sub(1),
        None => shape[axis],
    };
    let id = transform(n, x, axis, length, way)?;
    n.done(id)
}

/// Short-time transform: frames of the signal, each multiplied by the window and transformed. Of a real signal with a constant window, one
/// convolution: its kernels are the window times the rows of the matrix.
fn stft(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let (batch, extent, parts) = match *n.shape(x).as_slice() {
        [batch, extent] => (batch, extent, 1),
        [batch, extent, parts] => (batch, extent, parts),
        _ => return Err(n.unsupported("a signal not of rank 2 or 3")),
    };
    let step = first(n, 1, "frame_step")?.ok_or_else(|| n.missing("frame_step"))?;
    let step = n.size("frame_step", step)?;
    let window = n.input(2);
    let length = match (first(n, 3, "frame_length")?, window) {
        (Some(length), _) => n.size("frame_length", length)?,
        (None, Some(window)) => n.shape(window).first().copied().unwrap_or(0),
        (None, None) => extent,
    };
    let way = if n.flag("onesided", true) { Way::ForwardHalf } else { Way::Forward };
    let factors = match window {
        None => Some(vec![1.0; length]),
        Some(id) => n.t.build.data(id).map(|window| window.data.to_f32()).filter(|window| window.len() == length),
    };
    if let Some(factors) = factors.filter(|_| parts == 1 && step > 0 && (1..=extent).contains(&length)) {
        let matrix = matrix(n, [length, 1], length, way)?;
        let outputs = matrix.len() / length;
        let kernel: Vec<f32> = (0..outputs)
            .flat_map(|o| (0..length).map(move |t| (o, t)))
            .map(|(o, t)| factors[t] * matrix[t * outputs + o])
            .collect();
        let row = n.build().reshape(x, [batch, 1, extent])?;
        let kernel = n.build().floats([outputs, 1, length], &kernel, row);
        let conv = OpKind::Conv { strides: vec![step], pads: vec![(0, 0)], dilations: vec![1], groups: 1 };
        let spectrum = n.build().op("spectrum", conv, &[row, kernel])?;
        let frames = n.build().transpose(spectrum, &[0, 2, 1])?;
        let id = n.build().reshape(frames, [batch, (extent - length) / step + 1, outputs / 2, 2])?;
        return n.done(id);
    }
    let x = n.build().reshape(x, [batch, extent, parts])?;
    let mut frames = n.build().sliding_windows(x, 1, length, step)?;
    if let Some(window) = window {
        let window = n.build().reshape(window, [length, 1])?;
        frames = n.build().binary(Binary::Mul, frames, window)?;
    }
    let id = transform(n, frames, 2, length, way)?;
    n.done(id)
}

/// The matrix that transforms `length` elements, of which `extent` are given: a row for each part of those, a column for each part of the result.
fn matrix(n: &Node, [extent, parts]: [usize; 2], length: usize, way: Way) -> Result<Vec<f32>, Error> {
    if !(1..=2).contains(&parts) || length == 0 {
        return Err(n.unsupported(format!("{parts} parts of a number, {length} elements to transform")));
    }
    let [to, to_parts] = way.result(length);
    let size = [extent, parts, to, to_parts].iter().fold(1usize, |all, &n| all.saturating_mul(n));
    if size > MATRIX_ELEMENTS {
        let reason =
            format!("a matrix of {size} elements; the limit is {MATRIX_ELEMENTS}. Transform fewer elements at once");
        return Err(n.unsupported(reason));
    }
    let used = if way == Way::InverseHalf { length / 2 + 1 } else { length };
    let inverse = matches!(way, Way::Inverse | Way::InverseHalf);
    let mut matrix = vec![0f32; size];
    for from in 0..extent.min(used) {
        // The other half of a spectrum mirrors the bins between its first element and its middle.
        let mirrored = way == Way::InverseHalf && from != 0 && 2 * from != length;
        let weight = if mirrored { 2.0 } else { 1.0 } * if inverse { 1.0 / length as f64 } else { 1.0 };
        for at in 0..to {
            let angle = TAU * ((from * at % length) as f64) / length as f64;
            let (sin, cos) = (if inverse { -angle } else { angle }).sin_cos();
            // (re + j im) (cos - j sin)
            let entries = [[cos, -sin], [sin, cos]];
            for (part, row) in entries.iter().enumerate().take(parts) {
                for (to_part, &entry) in row.iter().enumerate().take(to_parts) {
                    matrix[((from * parts + part) * to + at) * to_parts + to_part] = (weight * entry) as f32;
                }
            }
        }
    }
    Ok(matrix)
}

/// Transforms `length` elements of an axis, padded with zeros.
fn transform(n: &mut Node, x: ValueId, axis: usize, length: usize, way: Way) -> Result<ValueId, Error> {
    let shape = n.shape(x);
    let rank = shape.len();
    let (extent, parts) = (shape[axis], shape[rank - 1]);
    let matrix = matrix(n, [extent, parts], length, way)?;
    let [to, to_parts] = way.result(length);
    // The axis becomes the last but one, all others become rows.
    let others: Vec<usize> = (0..rank - 1).filter(|&a| a != axis).collect();
    let perm = [others.as_slice(), &[axis, rank - 1]].concat();
    let moved = n.build().transpose(x, &perm)?;
    let rows: usize = others.iter().map(|&a| shape[a]).product();
    let flat = n.build().reshape(moved, [rows, extent * parts])?;
    let matrix = n.build().floats([extent * parts, to * to_parts], &matrix, x);
    let product = n.build().matmul(flat, matrix, false)?;
    let mut whole: Vec<usize> = others.iter().map(|&a| shape[a]).collect();
    whole.extend([to, to_parts]);
    let spread = n.build().reshape(product, whole)?;
    let mut back = vec![0; rank];
    perm.iter().enumerate().for_each(|(i, &p)| back[p] = i);
    n.build().transpose(spread, &back)
}
