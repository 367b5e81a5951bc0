//! The epilogue of a layer: the operations on its result before it is stored, in the slots of the book's listing 22.3.
//!
//! Every unit has registers of its own for its epilogue; [`Epilogue::of`] reads them as slots and [`Epilogue::into_kind`]
//! writes slots back, if the rows of [`anemone_facts::epilogue`] give the unit these slots. Fusion works on slots alone.

use super::*;
use anemone_facts::chips::CHIPS;
use anemone_facts::epilogue::{Holds, slot};
use half::f16;

/// An addend.
#[derive(Clone, Debug, PartialEq)]
pub enum Offset {
    /// The same for all elements.
    Scalar(f32),
    /// One for each output channel of each group.
    Channels(Arc<Vec<f32>>),
}

impl Offset {
    /// No addend.
    pub const ZERO: Offset = Offset::Scalar(0.0);

    /// Returns true for [`Offset::ZERO`], the scalar addend zero.
    pub fn is_zero(&self) -> bool {
        *self == Offset::ZERO
    }

    /// Applies a function to each addend.
    fn map(&self, f: impl Fn(f32) -> f32) -> Offset {
        match self {
            Offset::Scalar(x) => Offset::Scalar(f(*x)),
            Offset::Channels(all) => Offset::Channels(Arc::new(all.iter().map(|&x| f(x)).collect())),
        }
    }

    /// The addends.
    fn all(&self) -> &[f32] {
        match self {
            Offset::Scalar(x) => std::slice::from_ref(x),
            Offset::Channels(all) => all,
        }
    }

    /// Returns true if all addends are zero or subnormal in fp16, where they lose digits, and not all are zero.
    fn is_subnormal(&self) -> bool {
        let largest = self.all().iter().fold(0f32, |most, x| most.max(x.abs()));
        largest > 0.0 && largest < f16::MIN_POSITIVE.to_f32()
    }
}

/// `post(gain * x + offset)`, the slots of a layer's epilogue. The texture slot and requantization occur in no M1 task; the
/// broadcast slot is [`Layer::broadcast`], the pre-activation [`Layer::second_relu`], the transpose [`Layer::transpose`].
#[derive(Clone, Debug, PartialEq)]
pub struct Epilogue {
    /// Factor of the gain-offset control.
    pub gain: f32,
    /// Its addend, after the factor.
    pub offset: Offset,
    /// Post-activation.
    pub post: Nonlinear,
}

/// Largest error of rounding a number of this magnitude to fp16, if it is normal there.
fn half_step(magnitude: f32) -> f32 {
    f32::from_bits(magnitude.to_bits() & f32::INFINITY.to_bits()) / 2048.0
}

impl Epilogue {
    /// The identity.
    pub const UNIT: Epilogue = Epilogue { gain: 1.0, offset: Offset::ZERO, post: Nonlinear::None };

    /// The epilogue from a layer's registers; `None` for units without one, or if the registers hold more than slots.
    pub fn of(kind: &Kind) -> Option<Epilogue> {
        let (gain, offset, post) = match kind {
            Kind::Conv { bias, post_scale, nonlinear, .. } => {
                let offset = bias.clone().map_or(Offset::ZERO, Offset::Channels);
                (*post_scale, offset.map(|b| b * post_scale), nonlinear.clone())
            }
            Kind::Neuron { add, post_scale, nonlinear } => {
                (*post_scale, Offset::Scalar(add * post_scale), nonlinear.clone())
            }
            Kind::Product { post_scale, .. } => (*post_scale, Offset::ZERO, Nonlinear::None),
            Kind::SumChannels { nonlinear } => (1.0, Offset::ZERO, nonlinear.clone()),
            Kind::Planar { affine, relu, .. } | Kind::Pool { affine, relu, .. } => {
                let post = if *relu { Nonlinear::Relu } else { Nonlinear::None };
                (affine.final_scale * affine.scale, Offset::Scalar(affine.bias), post)
            }
            Kind::Reduce { affine, reciprocal: false, .. } => {
                (affine.final_scale * affine.scale, Offset::Scalar(affine.bias), Nonlinear::None)
            }
            Kind::Reduce { .. }
            | Kind::MaxChannels
            | Kind::MulChannels { .. }
            | Kind::ChannelAffine { .. }
            | Kind::Deviation { .. }
            | Kind::InverseRms { .. }
            | Kind::Own(_) => {
                return None;
            }
        };
        Some(Epilogue { gain, offset, post })
    }

    /// The epilogue of a layer that only applies one: a step that can be fused into the layer before it.
    pub fn step(kind: &Kind) -> Option<Epilogue> {
        match kind {
            Kind::Neuron { .. } => Epilogue::of(kind),
            Kind::Pool { window: Window::UNIT, op: PoolOp::Sum, abs: false, affine, .. } => {
                let own = Epilogue::of(kind)?;
                Some(Epilogue { gain: own.gain * affine.pre_scale, ..own })
            }
            // The neural engine's tables have a slope on either side of zero.
            Kind::Pool { window: Window::UNIT, op: PoolOp::Sum, abs: true, affine: Affine::UNIT, relu: false } => {
                Some(Epilogue { post: Nonlinear::Table(Arc::new(Table::magnitude())), ..Epilogue::UNIT })
            }
            _ => None,
        }
    }

    /// Returns true if there is no post-activation.
    pub fn is_affine(&self) -> bool {
        self.post == Nonlinear::None
    }

    /// This epilogue followed by another, as one; `None` if the slots cannot express it, or addends would lose digits.
    pub fn then(&self, next: &Epilogue) -> Option<Epilogue> {
        let Offset::Scalar(offset) = next.offset else { return None };
        if !self.offset.is_subnormal() && self.offset.map(|x| x * next.gain + offset).is_subnormal() {
            return None;
        }
        // Whole numbers, such as positions, cancel against their addend without an error.
        let whole = |x: f32| x.fract() == 0.0;
        let inexact = |x: f32| f16::from_f32(x).to_f32() != x;
        let loses = |&x: &f32| x != 0.0 && whole(x) && inexact(x * next.gain + offset);
        if whole(self.gain) && whole(next.gain) && whole(offset) && self.offset.all().iter().any(loses) {
            return None;
        }
        if let (Offset::Scalar(own), 1.0) = (&self.offset, next.gain)
            && *own != 0.0
        {
            let (sum, larger, smaller) = (own + offset, own.abs().max(offset.abs()), own.abs().min(offset.abs()));
            let error = (f16::from_f32(sum).to_f32() - sum).abs();
            // The sum of two addends of one sign can be beyond the next power of two, where fp16 rounds it more than either. And a whole
            // number may cancel, after which an eighth of the smaller addend is more than fp16 loses.
            if error > half_step(larger) || (whole(*own) && error > smaller / 8.0) {
                return None;
            }
        }
        let affine = |post: &Nonlinear| Epilogue {
            gain: self.gain * next.gain,
            offset: self.offset.map(|x| x * next.gain + offset),
            post: post.clone(),
        };
        let with = |post: Nonlinear| Some(Epilogue { post, ..self.clone() });
        let table = |table: Option<Table>| table.map(|t| Nonlinear::Table(Arc::new(t)));
        match (&self.post, &next.post) {
            (Nonlinear::None, post) => Some(affine(post)),
            // A positive factor commutes with a ReLU.
            (Nonlinear::Relu, Nonlinear::None | Nonlinear::Relu) if offset == 0.0 && next.gain > 0.0 => {
                Some(affine(&Nonlinear::Relu))
            }
            (Nonlinear::Relu, Nonlinear::Table(after)) if offset == 0.0 && next.gain > 0.0 => {
                Some(affine(&table(after.after_relu())?))
            }
            (Nonlinear::Relu, Nonlinear::None) => with(table(Table::ramp_from(next.gain, offset))?),
            (Nonlinear::Table(before), Nonlinear::None) => with(table(before.scaled(next.gain, offset))?),
            (Nonlinear::Table(before), Nonlinear::Relu) if offset == 0.0 && next.gain == 1.0 => {
                with(table(before.before_relu())?)
            }
            _ => None,
        }
    }

    /// The layer with this epilogue in place of its own; `None` if its unit's registers cannot hold it. For a table, a copy or affine task
    /// of the planar engine becomes one of the neural engine.
    pub fn into_kind(self, layer: &Layer) -> Option<Kind> {
        let outputs = if layer.transpose { layer.result.width } else { layer.result.channels() };
        let kind = match &self.post {
            Nonlinear::Table(_) => window_sums(layer),
            _ => None,
        };
        self.in_registers(kind.as_ref().unwrap_or(&layer.kind), outputs * layer.result.groups())
    }

    fn in_registers(self, kind: &Kind, outputs: usize) -> Option<Kind> {
        if !self.gain.is_finite() || self.gain == 0.0 || !self.holds(kind) {
            return None;
        }
        let exact = f16::from_f32(self.gain).to_f32() == self.gain;
        let scalar = match &self.offset {
            Offset::Scalar(x) if x.abs() <= f16::MAX.to_f32() => Some(*x),
            _ => None,
        };
        match kind.clone() {
            Kind::Conv { window, connect, weights, nonlinear: _, .. } => {
                let bias = match self.offset {
                    Offset::Scalar(0.0) => None,
                    Offset::Scalar(x) => Some(Arc::new(vec![x; outputs])),
                    Offset::Channels(all) => Some(all),
                };
                // The rounding remainder of the factor in fp16 goes into the coefficients.
                // An addend for all channels is applied after biases and before the factor, so that the whole factor goes there.
                let post_scale = if self.post.addend() == 0.0 { f16::from_f32(self.gain).to_f32() } else { 1.0 };
                if post_scale == 0.0 || post_scale.is_infinite() {
                    return None;
                }
                let weights =
                    if self.gain == post_scale { weights } else { Arc::new(weights.scaled(self.gain / post_scale)?) };
                let bias = bias.map(|b| Arc::new(b.iter().map(|x| x / post_scale).collect::<Vec<f32>>()));
                let fits = |b: &Arc<Vec<f32>>| b.iter().all(|x| x.abs() <= f16::MAX.to_f32());
                let held = bias.as_ref().is_none_or(fits);
                held.then_some(Kind::Conv { window, connect, weights, bias, post_scale, nonlinear: self.post })
            }
            Kind::Neuron { .. } => {
                let add = scalar? / self.gain;
                let free = self.post.addend() == 0.0 || add == 0.0 && self.gain == 1.0;
                let held = exact && free && add.abs() <= f16::MAX.to_f32();
                held.then_some(Kind::Neuron { add, post_scale: self.gain, nonlinear: self.post })
            }
            Kind::Product { lanes, .. } => {
                let held = exact && self.offset.is_zero() && self.post == Nonlinear::None;
                held.then_some(Kind::Product { lanes, post_scale: self.gain })
            }
            Kind::SumChannels { .. } => {
                let held = self.gain == 1.0 && self.offset.is_zero() && self.post.addend() == 0.0;
                held.then_some(Kind::SumChannels { nonlinear: self.post })
            }
            Kind::Pool { window: Window::UNIT, op: PoolOp::Sum, abs: false, affine, .. }
                if matches!(self.post, Nonlinear::Table(_)) =>
            {
                let pre = affine.pre_scale;
                let neuron = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None };
                Epilogue { gain: self.gain * pre, ..self }.in_registers(&neuron, outputs)
            }
            // The planar engine adds after its factor, the neural one before it.
            Kind::Pool { window: Window::UNIT, op: PoolOp::Sum, abs: false, affine, .. }
                if affine.pre_scale == 1.0 && self.adds_before_factor() =>
            {
                let neuron = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None };
                self.in_registers(&neuron, outputs)
            }
            Kind::Planar { .. } | Kind::Pool { .. } | Kind::Reduce { .. } if self.adds_before_factor() => None,
            Kind::Planar { op, affine, .. } => {
                Some(Kind::Planar { op, affine: self.affine(affine, scalar?), relu: self.post == Nonlinear::Relu })
            }
            Kind::Pool { op, window, abs, affine, .. } => {
                let affine = self.affine(affine, scalar?);
                Some(Kind::Pool { op, window, abs, affine, relu: self.post == Nonlinear::Relu })
            }
            Kind::Reduce { op, abs, affine, reciprocal: false } if self.post == Nonlinear::None => {
                Some(Kind::Reduce { op, abs, affine: self.affine(affine, scalar?), reciprocal: false })
            }
            _ => None,
        }
    }

    /// Returns true if fp16 rounds the offset, but neither the factor nor the addend before it: `(x - 1.001) * 1000`. Where `x` is near the
    /// addend, the rounding would be most of the result.
    fn adds_before_factor(&self) -> bool {
        let rounding = |x: f32| (f16::from_f32(x).to_f32() - x).abs();
        let Offset::Scalar(offset) = self.offset else { return false };
        let first = offset / self.gain;
        // The quotient has fp32's rounding of the product and of itself.
        let exact = rounding(first) <= 2.0 * f32::EPSILON * first.abs() && first.abs() <= f16::MAX.to_f32();
        self.gain != 1.0 && rounding(offset) > 2.0 * f32::EPSILON * offset.abs() && rounding(self.gain) == 0.0 && exact
    }

    /// Factors and addend of the planar engine.
    fn affine(&self, before: Affine, bias: f32) -> Affine {
        Affine { pre_scale: before.pre_scale, final_scale: self.gain, scale: 1.0, bias }
    }

    /// Returns true if the unit that runs `kind` has every slot that this epilogue fills, by the rows of `facts::epilogue`.
    fn holds(&self, kind: &Kind) -> bool {
        let has = |name: &str| {
            slot(name).map_or(Holds::Nothing, |slot| match kind {
                Kind::Conv { .. } | Kind::Product { .. } => slot.convolution,
                Kind::Neuron { .. } | Kind::SumChannels { .. } | Kind::MaxChannels => slot.neural,
                // Becomes a task of the neural engine.
                Kind::Pool { window: Window::UNIT, op: PoolOp::Sum, abs: false, .. } => slot.neural,
                _ => slot.planar,
            })
        };
        let offset = match (&self.offset, has("offset")) {
            (offset, Holds::Nothing) => offset.is_zero(),
            (Offset::Channels(_), held) => held == Holds::Channels,
            (Offset::Scalar(_), _) => true,
        };
        let post = match &self.post {
            Nonlinear::None => true,
            Nonlinear::Relu => has("post-activation") != Holds::Nothing,
            Nonlinear::Table(_) => has("post-activation") == Holds::Table,
        };
        offset && post
    }
}

/// Most columns of a kernel on chips whose programs are made; windows of the planar engine may be wider.
fn kernel_columns() -> u64 {
    let made = CHIPS.iter().filter(|chip| chip.layout.is_some());
    made.filter_map(|chip| chip.hal.max_kernel_width_fp16).min().unwrap_or(1)
}

/// The neural engine's form of sums over windows of each channel; `None` for other layers, and for several groups, whose coefficients
/// differ.
fn window_sums(layer: &Layer) -> Option<Kind> {
    let Kind::Pool { op: PoolOp::Sum, window, abs: false, affine, relu: false } = &layer.kind else { return None };
    let wide = window.kernel.iter().any(|&k| k as u64 > kernel_columns());
    if *window == Window::UNIT || wide || affine.pre_scale != 1.0 || layer.result.groups() > 1 || layer.transpose {
        return None;
    }
    let coefficients = layer.result.channels() * window.kernel.iter().product::<usize>();
    Some(Kind::Conv {
        window: *window,
        connect: Connect::Unicast { per_output: 1 },
        weights: Arc::new(vec![1.0; coefficients].into()),
        bias: None,
        post_scale: 1.0,
        nonlinear: Nonlinear::None,
    })
}
