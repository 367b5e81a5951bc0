//! Evaluation of native layers from their definitions: one element of the result at a time where possible.

use super::{Kind, Native};
use crate::order::positions;
use half::f16;

/// An operand: its extents and elements.
pub(crate) struct Operand<'a> {
    /// `[N, C, H, W]`.
    pub shape: [usize; 4],
    /// Row-major elements.
    pub data: &'a [f32],
}

impl Operand<'_> {
    fn at(&self, [n, c, h, w]: [usize; 4]) -> f32 {
        let [_, cs, hs, ws] = self.shape;
        self.data[((n * cs + c) * hs + h) * ws + w]
    }

    /// Element with broadcasting: an axis of extent one repeats.
    fn repeated(&self, at: [usize; 4]) -> f32 {
        self.at(std::array::from_fn(|i| if self.shape[i] == 1 { 0 } else { at[i] }))
    }

    /// Element with padding; `None` outside.
    fn padded(&self, [n, c, h, w]: [usize; 4], top: usize, left: usize) -> Option<f32> {
        let (h, w) = (h.checked_sub(top)?, w.checked_sub(left)?);
        (h < self.shape[2] && w < self.shape[3]).then(|| self.at([n, c, h, w]))
    }

    /// Elements along an axis through a position.
    fn along(&self, axis: usize, place: [usize; 4]) -> Vec<f32> {
        let mut at = place;
        (0..self.shape[axis])
            .map(|i| {
                at[axis] = i;
                self.at(at)
            })
            .collect()
    }
}

/// Every position of a shape, last axis fastest.
fn places(shape: [usize; 4]) -> impl Iterator<Item = [usize; 4]> {
    let [n, c, h, w] = shape;
    (0..n * c * h * w).map(move |i| [i / (c * h * w), i / (h * w) % c, i / w % h, i % w])
}

fn half(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

/// The result's elements. Extents are those of [`super::result`].
pub(crate) fn eval(native: &Native, inputs: &[Operand], result: [usize; 4]) -> Vec<f32> {
    let x = &inputs[0];
    let size = |key: &str| native.size(key);
    let (fx, fy) = (size("FactorX").max(1), size("FactorY").max(1));
    let each = |f: &dyn Fn([usize; 4]) -> f32| places(result).map(f).collect::<Vec<f32>>();
    match native.kind {
        Kind::Sdpa => attention(native, inputs, result),
        Kind::Sort | Kind::TopK => sort(native, x, result),
        Kind::ArgMinMax | Kind::GlobalArgMinMax => extreme(native, x, result),
        Kind::PixelShuffle => each(&|[n, c, h, w]| x.at([n, (c * fy + h % fy) * fx + w % fx, h / fy, w / fx])),
        Kind::PixelUnshuffle => each(&|[n, c, h, w]| {
            let (image, i, j) = (c / (fx * fy), c / fx % fy, c % fx);
            x.at([n, image, h * fy + i, w * fx + j])
        }),
        Kind::ChannelToSpace => each(&|[n, c, h, w]| x.at([n, (h % fy * fx + w % fx) * result[1] + c, h / fy, w / fx])),
        Kind::SpaceToChannel => each(&|[n, c, h, w]| {
            let (block, image) = (c / x.shape[1], c % x.shape[1]);
            x.at([n, image, h * fy + block / fx, w * fx + block % fx])
        }),
        Kind::SpaceToBatch => each(&|[n, c, h, w]| {
            let block = n % (fx * fy);
            x.at([n / (fx * fy), c, h * fy + block / fx, w * fx + block % fx])
        }),
        Kind::BatchToSpace => each(&|[n, c, h, w]| x.at([(n * fy + h % fy) * fx + w % fx, c, h / fy, w / fx])),
        Kind::MinMaxNorm => {
            let (axis, epsilon) = (native.axis("Dimension"), native.real("Epsilon"));
            each(&|at| {
                let line = x.along(axis, at);
                let (least, most) = line.iter().fold((f32::MAX, f32::MIN), |(l, m), &v| (l.min(v), m.max(v)));
                (x.at(at) - least) / (most - least + epsilon)
            })
        }
        Kind::Lrn => {
            let (window, alpha) = (size("KernelChannel"), native.real("Alpha"));
            each(&|[n, c, h, w]| {
                let squares: f32 = (0..window).map(|k| x.at([n, k, h, w]).powi(2)).sum();
                let divisor = (native.real("K") + alpha / window as f32 * squares).powf(native.real("Beta"));
                if c < window { x.at([n, c, h, w]) / divisor } else { x.at([n, c, h, w]) }
            })
        }
        Kind::DynamicGoc if native.flag("BiasOnly") => each(&|at| x.at(at) + inputs[1].repeated([0, at[1], 0, 0])),
        Kind::DynamicGoc => each(&|at| {
            let channel = [0, at[1], 0, 0];
            x.at(at) * inputs[1].repeated(channel) + inputs[2].repeated(channel)
        }),
        Kind::CrossCorrelation => {
            let (height, width) = (size("TemplateHeight"), size("TemplateWidth"));
            each(&|[n, _, h, w]| {
                let taps = (0..height * width).map(|k| {
                    let at = [n, 0, h + k / width, w + k % width];
                    x.padded(at, size("PadTop"), size("PadLeft")).unwrap_or(0.0) * inputs[1].at([0, 0, 0, k])
                });
                taps.sum()
            })
        }
        Kind::CrossProduct => each(&|[n, c, _, _]| {
            let (i, j) = ((c + 1) % 3, (c + 2) % 3);
            let (a, b) = (|k| x.at([n, k, 0, 0]), |k| inputs[1].at([n, k, 0, 0]));
            a(i) * b(j) - a(j) * b(i)
        }),
        Kind::FurthestPointSampling => {
            let chosen = furthest(x, result[3]);
            each(&|[_, c, _, w]| x.at([0, c, 0, chosen[w]]))
        }
        Kind::RadiusSearch => {
            let radius = native.real("Radius");
            each(&|[_, _, h, w]| f32::from(u8::from(distance(&inputs[1], h, x, w).sqrt() <= radius)))
        }
        Kind::CostVolume => each(&|[n, d, h, w]| {
            let channels = 0..x.shape[1];
            channels.map(|c| (x.at([n, c, h, w]) - inputs[1].at([n, c, h, w + d])).abs()).sum()
        }),
        Kind::DynamicSlice => window(native, inputs, result),
        Kind::Tile => each(&|at| x.at(std::array::from_fn(|i| at[i] % x.shape[i]))),
        Kind::Flatten if native.word("FlattenType") == "NHWC" => {
            let [_, c, _, ws] = x.shape;
            each(&|[n, _, _, w]| x.at([n, w % c, w / c / ws, w / c % ws]))
        }
        Kind::Unflatten if native.word("Mode") == "NHWC" => {
            let [_, channels, _, columns] = result;
            let flat = |[_, c, h, w]: [usize; 4]| (h * columns + w) * channels + c;
            let elements = x.data.len() / x.shape[0];
            each(&|at| x.data[at[0] * elements + flat(at)])
        }
        Kind::Flatten | Kind::Unflatten | Kind::Dropout => x.data.to_vec(),
        Kind::MatrixMult => {
            let (lhs, rhs) = (native.flag("TransposeLhs"), native.flag("TransposeRhs"));
            let inner = x.shape[if lhs { 1 } else { 3 }];
            let left = |n, c, h, k| x.at(if lhs { [n, k, h, c] } else { [n, c, h, k] });
            let right = |n, k, h, w| inputs[1].at(if rhs { [n, w, h, k] } else { [n, k, h, w] });
            each(&|[n, c, h, w]| (0..inner).map(|k| left(n, c, h, k) * right(n, k, h, w)).sum())
        }
        Kind::LayerNorm => {
            let [n, c, h, w] = x.shape;
            let groups = size("NumGroups").max(1);
            let grouped = Operand { shape: [n * groups, c / groups, h, w], data: x.data };
            normalized(&grouped, native.list("Dimension"), native.real("Epsilon"), true)
        }
        Kind::InstanceNorm => normalized(x, &[2, 3], native.real("Epsilon"), true),
        Kind::L2Norm => normalized(x, native.list("Dimension"), native.real("Epsilon"), false),
        Kind::Pad => each(&|at| pad(native, x, at)),
        Kind::Gather => {
            let axis = native.list("GatherNDAxes").first().map_or(0, |&a| a as usize);
            each(&|at| {
                let mut index = [0; 4];
                index[axis] = at[axis];
                let mut from = at;
                // Indices beyond the axis read its last element.
                from[axis] = (inputs[1].at(index).max(0.0) as usize).min(x.shape[axis] - 1);
                x.at(from)
            })
        }
        Kind::Resize | Kind::ResizeAs => {
            let scale = |from: usize, to: usize, at: usize| {
                if native.flag("AlignCorners") {
                    at as f32 * (from - 1) as f32 / to.saturating_sub(1).max(1) as f32
                } else {
                    ((at as f32 + 0.5) * from as f32 / to as f32 - 0.5).clamp(0.0, (from - 1) as f32)
                }
            };
            each(&|[n, c, h, w]| {
                let place = [scale(x.shape[2], result[2], h), scale(x.shape[3], result[3], w)];
                sample(native, x, [n, c], place, true)
            })
        }
        Kind::CropResize => each(&|[n, c, h, w]| {
            let edge = |k| inputs[1].at([0, k, 0, n]);
            let step = |from: f32, to: f32, i: usize, count: usize| {
                if count == 1 { (from + to) / 2.0 } else { from + (to - from) * i as f32 / (count - 1) as f32 }
            };
            let place = [step(edge(0), edge(2), h, result[2]), step(edge(1), edge(3), w, result[3])];
            sample(native, x, [0, c], place, false)
        }),
        Kind::Resample => each(&|[n, c, h, w]| {
            let warp = &inputs[1];
            let row = if warp.shape[1] == 2 { warp.at([n, 1, h, w]) } else { h as f32 };
            sample(native, x, [n, c], [row, warp.at([n, 0, h, w])], false)
        }),
        Kind::AffineTransform => each(&|[n, c, h, w]| {
            let m = |k| inputs[1].at([0, 0, 0, k]);
            let line = |k| m(k) * w as f32 + m(k + 1) * h as f32 + m(k + 2);
            sample(native, x, [n, c], [line(3), line(0)], false)
        }),
        Kind::RingBufferWriter => {
            let (axis, offset) = (native.axis("Dimension"), size("Offset"));
            each(&|at| {
                let mut from = at;
                from[axis] = (at[axis] + x.shape[axis] - offset) % x.shape[axis];
                if from[axis] < inputs[1].shape[axis] { inputs[1].at(from) } else { x.at(at) }
            })
        }
        Kind::RingBufferReader => {
            let (axis, offset) = (native.axis("Dimension"), size("Offset"));
            each(&|at| {
                let mut from = at;
                from[axis] = (at[axis] + offset) % x.shape[axis];
                x.at(from)
            })
        }
        Kind::Shape => x.shape.iter().map(|&d| d as f32).collect(),
    }
}

/// Attention, one head and position at a time. If the maximum is not subtracted, exponentials and their sum are rounded to
/// half precision, as the engine rounds every result.
fn attention(native: &Native, inputs: &[Operand], result: [usize; 4]) -> Vec<f32> {
    let [q, k, v, scale] = [&inputs[0], &inputs[1], &inputs[2], &inputs[3]];
    let (positions, features) = (k.shape[1], q.shape[3]);
    let mut out = vec![0.0; result.iter().product()];
    for [n, c, h, _] in places([result[0], result[1], result[2], 1]) {
        let score = |p: usize| {
            let dot: f32 = (0..features).map(|f| q.at([n, c, h, f]) * k.at([n, p, h, f])).sum();
            dot * scale.data[0] + inputs.get(4).map_or(0.0, |mask| mask.repeated([n, c, h, p]))
        };
        let scores: Vec<f32> = (0..positions).map(score).collect();
        let most = scores.iter().copied().fold(f32::MIN, f32::max);
        let (weights, total): (Vec<f32>, f32) = if native.flag("SubtractMax") {
            let weights: Vec<f32> = scores.iter().map(|s| (s - most).exp()).collect();
            let total = weights.iter().sum();
            (weights, total)
        } else {
            let weights: Vec<f32> = scores.iter().map(|s| half(s.exp())).collect();
            let total = half(weights.iter().sum());
            (weights, total)
        };
        for f in 0..result[3] {
            let sum: f32 = weights.iter().enumerate().map(|(p, w)| w / total * v.at([n, p, h, f])).sum();
            out[((n * result[1] + c) * result[2] + h) * result[3] + f] = sum;
        }
    }
    out
}

fn sort(native: &Native, x: &Operand, result: [usize; 4]) -> Vec<f32> {
    let (along, vector) = (native.axis("SortDimension"), native.axis("VectorDimension"));
    let lane = native.list("SortIndices").first().map_or(0, |&i| i as usize);
    let descending = native.word("Direction") == "Descending" || native.word("Type") == "Max";
    let element = |at: [usize; 4]| {
        let mut key = at;
        key[vector] = lane;
        let keys = x.along(along, key);
        let ascending = |a: usize, b: usize| keys[a].total_cmp(&keys[b]);
        let order = positions(keys.len(), &|a, b| if descending { ascending(b, a) } else { ascending(a, b) });
        let mut from = at;
        from[along] = order[at[along]];
        if native.flag("Indices") { order[at[along]] as f32 } else { x.at(from) }
    };
    places(result).map(element).collect()
}

fn extreme(native: &Native, x: &Operand, result: [usize; 4]) -> Vec<f32> {
    let mode = native.word("Mode");
    let greatest = mode.ends_with("Max") || native.word("Type") == "Max";
    let first = |values: &mut dyn Iterator<Item = Option<f32>>| {
        let mut best: Option<(usize, f32)> = None;
        for (i, value) in values.enumerate() {
            let Some(value) = value else { continue };
            if best.is_none_or(|(_, b)| if greatest { value > b } else { value < b }) {
                best = Some((i, value));
            }
        }
        best.map_or(0.0, |(i, _)| i as f32)
    };
    let element = |at: [usize; 4]| {
        if mode.starts_with("Spatial") {
            let (width, [n, c, h, w]) = (native.size("KernelWidth"), at);
            let window = native.size("KernelHeight") * width;
            let place = |k: usize| [n, c, h + k / width, w + k % width];
            let mut values = (0..window).map(|k| x.padded(place(k), native.size("PadTop"), native.size("PadLeft")));
            return first(&mut values);
        }
        let axis = if mode.is_empty() { native.axis("Dimension") } else { 1 };
        first(&mut x.along(axis, at).into_iter().map(Some))
    };
    places(result).map(element).collect()
}

/// Square of the distance between two points.
fn distance(a: &Operand, i: usize, b: &Operand, j: usize) -> f32 {
    (0..3).map(|c| (a.at([0, c, 0, i]) - b.at([0, c, 0, j])).powi(2)).sum()
}

fn furthest(points: &Operand, count: usize) -> Vec<usize> {
    let mut chosen = vec![0];
    while chosen.len() < count {
        let nearest = |i: usize| chosen.iter().map(|&j| distance(points, i, points, j)).fold(f32::MAX, f32::min);
        let mut best = (0, f32::MIN);
        for i in 0..points.shape[3] {
            let far = nearest(i);
            if far > best.1 {
                best = (i, far);
            }
        }
        chosen.push(best.0);
    }
    chosen
}

fn window(native: &Native, inputs: &[Operand], result: [usize; 4]) -> Vec<f32> {
    let x = &inputs[0];
    let mut start = [0i64; 4];
    if let Some(starts) = inputs.get(1) {
        for (&axis, &value) in native.list("DynamicSliceAxisOrder").iter().zip(starts.data) {
            // Positions farther out are equivalent.
            start[axis as usize] = value.clamp(-1e9, 1e9) as i64;
        }
    }
    let border = native.list("PaddingInfo").chunks(2).filter(|p| p[1] == 1).map(|p| p[0] as usize).collect::<Vec<_>>();
    let element = |at: [usize; 4]| {
        let mut from = [0; 4];
        for axis in 0..4 {
            let (place, last) = (start[axis] + at[axis] as i64, x.shape[axis] as i64 - 1);
            if !(0..=last).contains(&place) && !border.contains(&axis) {
                return native.real("BackgroundValue");
            }
            from[axis] = place.clamp(0, last) as usize;
        }
        x.at(from)
    };
    places(result).map(element).collect()
}

/// Subtracts the mean and divides by the deviation, or divides by the norm only.
fn normalized(x: &Operand, axes: &[i64], epsilon: f32, centred: bool) -> Vec<f32> {
    let shared =
        |at: [usize; 4]| std::array::from_fn::<usize, 4, _>(|i| if axes.contains(&(i as i64)) { 0 } else { at[i] });
    let mut sums = vec![(0.0f64, 0.0f64, 0u32); x.data.len()];
    let index = |[n, c, h, w]: [usize; 4]| ((n * x.shape[1] + c) * x.shape[2] + h) * x.shape[3] + w;
    for at in places(x.shape) {
        let (value, sum) = (f64::from(x.at(at)), &mut sums[index(shared(at))]);
        *sum = (sum.0 + value, sum.1 + value * value, sum.2 + 1);
    }
    let element = |at: [usize; 4]| {
        let (sum, squares, count) = sums[index(shared(at))];
        let (mean, value) = (sum / f64::from(count), f64::from(x.at(at)));
        let result = if centred {
            (value - mean) / (squares / f64::from(count) - mean * mean + f64::from(epsilon)).max(0.0).sqrt()
        } else {
            value / (squares + f64::from(epsilon)).sqrt()
        };
        result as f32
    };
    places(x.shape).map(element).collect()
}

fn pad(native: &Native, x: &Operand, [n, c, h, w]: [usize; 4]) -> f32 {
    let place = |at: usize, before: &str, extent: usize| {
        let (at, last) = (at as i64 - native.size(before) as i64, extent as i64 - 1);
        match native.word("PaddingMode") {
            _ if (0..=last).contains(&at) => Some(at as usize),
            "Replication" => Some(at.clamp(0, last) as usize),
            "Reflective" => Some(if at < 0 { -at } else { 2 * last - at } as usize),
            _ => None,
        }
    };
    match (place(h, "PadTop", x.shape[2]), place(w, "PadLeft", x.shape[3])) {
        (Some(h), Some(w)) => x.at([n, c, h, w]),
        _ => native.real("PaddingValue"),
    }
}

/// Interpolated element at a fractional row and column.
fn sample(native: &Native, x: &Operand, [n, c]: [usize; 2], [row, column]: [f32; 2], inside: bool) -> f32 {
    let element = |h: f32, w: f32| {
        let (rows, columns) = ((x.shape[2] - 1) as f32, (x.shape[3] - 1) as f32);
        let within = (0.0..=rows).contains(&h) && (0.0..=columns).contains(&w);
        if !within && !inside && native.word("PaddingMode") == "Background" {
            return native.real("BackgroundValue");
        }
        x.at([n, c, h.clamp(0.0, rows) as usize, w.clamp(0.0, columns) as usize])
    };
    if native.word("SamplingMethod") == "NearestNeighbor" {
        return element((row + 0.5).floor(), (column + 0.5).floor());
    }
    let (h, w) = (row.floor(), column.floor());
    let (dh, dw) = (row - h, column - w);
    // Elements of weight zero are not read: they may be outside.
    let weighed = |weight: f32, h: f32, w: f32| if weight == 0.0 { 0.0 } else { weight * element(h, w) };
    weighed((1.0 - dh) * (1.0 - dw), h, w)
        + weighed((1.0 - dh) * dw, h, w + 1.0)
        + weighed(dh * (1.0 - dw), h + 1.0, w)
        + weighed(dh * dw, h + 1.0, w + 1.0)
}
