//! Detection: suppression of boxes that overlap boxes with better scores.

use super::{Buffer, View};
use crate::order::positions;

/// Limits of a suppression.
pub(super) struct Limits {
    /// Largest intersection over union of two boxes that are kept.
    pub overlap: f32,
    /// Least score of a box that is kept.
    pub score: f32,
    /// Largest number of boxes that are kept.
    pub most: usize,
    /// True if boxes suppress only those of their own class.
    pub per_class: bool,
}

/// The sides of a box.
struct Sides {
    low: [f64; 2],
    high: [f64; 2],
    area: f64,
}

impl Sides {
    fn of(centred: &[f32]) -> Sides {
        let [x, y, width, height] = [0, 1, 2, 3].map(|i| f64::from(centred[i]));
        Sides {
            low: [x - width / 2.0, y - height / 2.0],
            high: [x + width / 2.0, y + height / 2.0],
            area: width * height,
        }
    }

    /// Intersection over union of two boxes; zero if the union is empty.
    fn shared(&self, other: &Sides) -> f64 {
        let side = |axis: usize| (self.high[axis].min(other.high[axis]) - self.low[axis].max(other.low[axis])).max(0.0);
        let common = side(0) * side(1);
        let union = self.area + other.area - common;
        if union > 0.0 { common / union } else { 0.0 }
    }
}

/// Positions of the kept boxes of each image, best first, padded with -1.
pub(super) fn suppress(boxes: View, scores: View, limits: &Limits) -> Buffer {
    let (boxes_data, scores_data) = (boxes.floats(), scores.floats());
    let (count, classes) = (boxes.shape()[1], scores.shape()[2]);
    let mut out = Vec::with_capacity(boxes.shape()[0] * limits.most);
    for (boxes, scores) in boxes_data.chunks_exact(count * 4).zip(scores_data.chunks_exact(count * classes)) {
        // The first of equal classes is the class of a box.
        let best = |row: &[f32]| {
            row.iter().enumerate().fold(
                (0, f32::NEG_INFINITY),
                |best, (class, &score)| {
                    if score > best.1 { (class, score) } else { best }
                },
            )
        };
        let best: Vec<(usize, f32)> = scores.chunks_exact(classes).map(best).collect();
        let sides: Vec<Sides> = boxes.chunks_exact(4).map(Sides::of).collect();
        let order = positions(count, &|a, b| best[b].1.total_cmp(&best[a].1));
        let mut kept: Vec<usize> = Vec::new();
        for &at in order.iter().filter(|&&at| best[at].1 >= limits.score) {
            if kept.len() == limits.most {
                break;
            }
            let rivals = kept.iter().filter(|&&other| !limits.per_class || best[other].0 == best[at].0);
            if rivals.clone().all(|&other| sides[other].shared(&sides[at]) <= f64::from(limits.overlap)) {
                kept.push(at);
            }
        }
        if kept.is_empty() {
            kept.extend(order.first().filter(|_| limits.most > 0));
        }
        out.extend(kept.iter().map(|&at| at as i32).chain(std::iter::repeat(-1)).take(limits.most));
    }
    Buffer::Integer(out)
}
