//! Norms, resampling, transposed and computed convolutions, and elements at positions.

use super::Drawing;
use anemone_net::*;

impl Drawing<'_> {
    /// A parameter of a layer, live or constant, of positive numbers where so asked.
    fn parameter(&mut self, dtype: DType, shape: &[usize], positive: bool) -> ValueId {
        let mut tensor = self.tensor(dtype, shape);
        if positive {
            let values: Vec<f32> = tensor.data.to_f32().iter().map(|x| x.abs() + 0.25).collect();
            tensor.data = Data::from_f32(dtype, &values);
        }
        if self.source.below(3) == 2 { self.live_tensor(tensor) } else { self.constant(tensor) }
    }

    pub(super) fn norm(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let (rank, epsilon) = (shape.len(), self.source.pick(&[1e-5, 1e-3, 0.1]));
        self.exact = false;
        let affine = self.source.below(3);
        match self.source.below(3) {
            0 => {
                let axes: Vec<usize> = match self.source.below(2) {
                    0 => (rank - 1 - self.source.below(rank)..rank).collect(),
                    _ => vec![self.source.below(rank)],
                };
                let own: Vec<usize> = axes.iter().map(|&a| shape[a]).collect();
                let mut operands = vec![x];
                (0..affine).for_each(|_| operands.push(self.parameter(dtype, &own, false)));
                self.push(OpKind::LayerNorm { axes, epsilon }, &operands, None)
            }
            1 if rank >= 3 => {
                let mut operands = vec![x];
                (0..affine).for_each(|_| operands.push(self.parameter(dtype, &shape[1..2], false)));
                self.push(OpKind::InstanceNorm { epsilon }, &operands, None)
            }
            _ if rank >= 2 => {
                let channels = &shape[1..2];
                let mut operands =
                    vec![x, self.parameter(dtype, channels, false), self.parameter(dtype, channels, true)];
                (0..affine).for_each(|_| operands.push(self.parameter(dtype, channels, false)));
                self.push(OpKind::BatchNorm { epsilon }, &operands, None)
            }
            _ => None,
        }
    }

    pub(super) fn resampled(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let rank = shape.len();
        if self.source.below(2) == 0 {
            let coordinates =
                self.source.pick(&[Coordinates::Asymmetric, Coordinates::HalfPixel, Coordinates::AlignCorners]);
            let mode = self.source.pick(&[ResizeMode::Nearest, ResizeMode::Linear]);
            let mut to = shape.clone();
            for n in to.iter_mut().skip(rank.saturating_sub(2)) {
                *n = match self.source.below(4) {
                    0 => *n * 2,
                    1 => *n,
                    2 => (*n).div_ceil(2),
                    _ => 1 + self.source.below(9),
                };
            }
            self.exact &= mode == ResizeMode::Nearest;
            return self.push(OpKind::Resize { mode, coordinates }, &[x], Some(TensorType { dtype, shape: to }));
        }
        self.exact = false;
        let spatial = rank.checked_sub(2).filter(|n| (1..=3).contains(n))?;
        let groups = if shape[1].is_multiple_of(2) { 1 + self.source.below(2) } else { 1 };
        let list = |drawing: &mut Self, most: usize| (0..spatial).map(|_| 1 + drawing.source.below(most)).collect();
        let (kernel, strides, dilations): (Vec<usize>, Vec<usize>, Vec<usize>) =
            (list(self, 4), list(self, 3), list(self, 2));
        let pads: Vec<(usize, usize)> = kernel.iter().map(|&k| (self.source.below(k), self.source.below(k))).collect();
        let output_pads = strides.iter().map(|&s| self.source.below(s)).collect();
        let out = self.extent();
        let w = self.tensor(dtype, &[&[shape[1], out], kernel.as_slice()].concat());
        let mut operands = vec![x, self.constant(w)];
        if self.source.below(2) == 1 {
            let bias = self.tensor(dtype, &[out * groups]);
            operands.push(self.constant(bias));
        }
        self.push(OpKind::ConvTranspose { strides, pads, output_pads, dilations, groups }, &operands, None)
    }

    /// Positions along an axis, live or constant; some count from the end.
    fn positions(&mut self, shape: &[usize], extent: usize, constant: bool) -> ValueId {
        let count: usize = shape.iter().product();
        let place = |i: usize| if i < extent { i as i32 } else { extent as i32 - 1 - i as i32 };
        let places = (0..count).map(|_| place(self.source.below(2 * extent))).collect();
        let tensor = Tensor { shape: shape.to_vec(), data: Data::I32(places) };
        if constant || self.source.below(2) == 1 { self.constant(tensor) } else { self.live_tensor(tensor) }
    }

    pub(super) fn at_places(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let axis = self.source.below(shape.len());
        let mut own = shape.clone();
        own[axis] = 1 + self.source.below(4);
        match self.source.below(4) {
            0 => {
                let many = self.source.pick(&[&[][..], &[3], &[2, 2]]);
                let places = self.positions(many, shape[axis], false);
                self.push(OpKind::Gather { axis }, &[x, places], None)
            }
            1 => {
                let places = self.positions(&own, shape[axis], false);
                self.push(OpKind::GatherAlong { axis }, &[x, places], None)
            }
            2 => {
                let modes = [ScatterMode::Update, ScatterMode::Add, ScatterMode::Max, ScatterMode::Min];
                let mode = self.source.pick(&modes);
                self.exact &= mode != ScatterMode::Add || !dtype.is_float();
                let (places, updates) = (self.positions(&own, shape[axis], true), self.operand(dtype, &own));
                self.push(OpKind::ScatterAlong { axis, mode }, &[x, places, updates], None)
            }
            _ if !self.exact || dtype == DType::Bool => None,
            _ => {
                let [greatest, last, keep_dims] = [0; 3].map(|_| self.source.below(2) == 1);
                self.push(OpKind::ArgReduce { greatest, last, axis, keep_dims }, &[x], None)
            }
        }
    }

    /// A convolution with dilations, groups, a bias, and perhaps a computed kernel.
    pub(super) fn convolved(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let spatial = shape.len().checked_sub(2).filter(|n| (1..=3).contains(n))?;
        self.exact = false;
        let groups = if shape[1].is_multiple_of(2) { 1 + self.source.below(2) } else { 1 };
        let kernel: Vec<usize> = (0..spatial).map(|i| 1 + self.source.below(shape[2 + i].min(4))).collect();
        let strides = (0..spatial).map(|_| 1 + self.source.below(3)).collect();
        let dilations = (0..spatial).map(|_| 1 + self.source.below(2)).collect();
        let pads = kernel.iter().map(|&k| (self.source.below(k), self.source.below(k))).collect();
        let out = self.extent() * groups;
        let w = self.operand(dtype, &[&[out, shape[1] / groups], kernel.as_slice()].concat());
        let mut operands = vec![x, w];
        if self.source.below(2) == 1 {
            operands.push(self.operand(dtype, &[out]));
        }
        self.push(OpKind::Conv { strides, pads, dilations, groups }, &operands, None)
    }
}
