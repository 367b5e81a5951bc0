//! Attention by heads, in the forms that models write it: of a value to itself or to another, with fewer heads of keys, channels or
//! tokens first, a scale, a mask.

use super::Drawing;
use anemone_net::*;

/// Extents of one attention.
struct Heads {
    count: usize,
    depth: usize,
}

impl Drawing<'_> {
    /// A constant of small numbers that one choice decides.
    fn weights(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        let seed = self.source.below(61);
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|i: usize| ((i * 37 + seed) % 61) as f32 / 64.0 - 0.46875).collect();
        self.constant(Tensor { shape: shape.to_vec(), data: Data::from_f32(dtype, &values) })
    }

    fn reshaped(&mut self, x: ValueId, shape: &[usize]) -> Option<ValueId> {
        let declared = TensorType { dtype: self.ty(x).dtype, shape: shape.to_vec() };
        self.push(OpKind::Reshape, &[x], Some(declared))
    }

    fn transposed(&mut self, x: ValueId, perm: &[usize]) -> Option<ValueId> {
        self.push(OpKind::Transpose { perm: perm.to_vec() }, &[x], None)
    }

    /// `[tokens, channels]` projected to heads: `[heads, tokens, depth]`, or `[heads, depth, tokens]`.
    fn projected(&mut self, x: ValueId, heads: &Heads, columns_first: bool) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let (tokens, channels, Heads { count, depth }) = (shape[0], shape[1], heads);
        let x = if channels == count * depth && self.source.below(2) == 0 {
            x
        } else {
            let w = self.weights(dtype, &[count * depth, channels]);
            self.push(OpKind::Linear, &[x, w], None)?
        };
        match self.source.below(3) {
            0 => {
                let x = self.reshaped(x, &[tokens, *count, *depth])?;
                self.transposed(x, if columns_first { &[1, 2, 0] } else { &[1, 0, 2] })
            }
            1 => {
                let x = self.reshaped(x, &[tokens, *depth, *count])?;
                self.transposed(x, if columns_first { &[2, 1, 0] } else { &[2, 0, 1] })
            }
            _ => {
                let x = self.transposed(x, &[1, 0])?;
                let x = self.reshaped(x, &[*count, *depth, tokens])?;
                if columns_first { Some(x) } else { self.transposed(x, &[0, 2, 1]) }
            }
        }
    }

    /// One head of keys or values for several of queries.
    fn repeated(&mut self, x: ValueId, times: usize) -> Option<ValueId> {
        if times == 1 {
            return Some(x);
        }
        let TensorType { dtype, shape } = self.ty(x);
        let x = self.reshaped(x, &[shape[0], 1, shape[1], shape[2]])?;
        let wide = vec![shape[0], times, shape[1], shape[2]];
        let x = self.push(OpKind::Broadcast, &[x], Some(TensorType { dtype, shape: wide }))?;
        self.reshaped(x, &[shape[0] * times, shape[1], shape[2]])
    }

    pub(super) fn attention(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let (&channels, before) = shape.split_last()?;
        let x = self.reshaped(x, &[before.iter().product(), channels])?;
        self.exact = false;
        let times = 1 + self.source.below(2);
        let few = Heads { count: 1 + self.source.below(4), depth: 1 + self.source.below(8) };
        let heads = Heads { count: few.count * times, depth: few.depth };
        let context = match self.source.below(3) {
            0 | 1 => x,
            _ => {
                let shape = [self.extent(), self.extent()];
                self.live(dtype, &shape)
            }
        };
        let by_columns = self.source.below(2) == 1;
        let queries = self.projected(x, &heads, false)?;
        let keys = self.projected(context, &few, by_columns)?;
        let keys = self.repeated(keys, times)?;
        let values = self.projected(context, &few, false)?;
        let values = self.repeated(values, times)?;
        let mut scores =
            self.push(OpKind::MatMul { transpose_x: false, transpose_y: !by_columns }, &[queries, keys], None)?;
        if self.source.below(2) == 1 {
            let scale = self.constant(Tensor { shape: Vec::new(), data: Data::from_f32(dtype, &[0.25]) });
            scores = self.push(OpKind::Binary(Binary::Mul), &[scores, scale], None)?;
        }
        if self.source.once_in(3) {
            let [_, rows, columns] = self.ty(scores).shape[..] else { return None };
            let mask = if self.source.below(2) == 1 {
                self.live(dtype, &[rows, columns])
            } else {
                self.weights(dtype, &[1, rows, columns])
            };
            scores = self.push(OpKind::Binary(Binary::Add), &[scores, mask], None)?;
        }
        let shares = self.push(OpKind::Softmax { axis: 2 }, &[scores], None)?;
        let mixed = self.push(OpKind::MatMul { transpose_x: false, transpose_y: false }, &[shares, values], None)?;
        let [count, rows, depth] = self.ty(mixed).shape[..] else { return None };
        let merged = self.transposed(mixed, &[1, 0, 2])?;
        let merged = self.reshaped(merged, &[rows, count * depth])?;
        if self.source.below(2) == 0 {
            return Some(merged);
        }
        let w = self.weights(dtype, &[channels, count * depth]);
        self.push(OpKind::Linear, &[merged, w], None)
    }
}
