//! Elementwise operations of one and two operands.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::lut::{Knots, Table};
use anemone_net::{Binary, DType, GeluMode, Unary, ValueId};
use std::f32::consts::{FRAC_1_PI, LN_2, LOG2_E, PI, TAU};
use std::sync::Arc;

/// Distance of the fp16 numbers from 1 to 2, 2^-10.
const LAST_PLACE_OF_ONE: f32 = 1.0 / 1024.0;

impl Lowerer<'_> {
    /// A planar task with one source.
    pub(super) fn planar_one(&mut self, from: &View, to: &View, affine: Affine, abs: bool) -> Result<()> {
        let kind = Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs, affine, relu: false };
        self.elementwise(kind, from, to)
    }

    /// A planar task with two sources; axes of extent 1 are repeated.
    pub(super) fn planar_two(&mut self, op: PlanarOp, affine: Affine, a: &View, b: &View, to: &View) -> Result<()> {
        for piece in self.strips(&[a, b, to]) {
            self.planar_strip(op, affine, &piece[0], &piece[1], &piece[2])?;
        }
        Ok(())
    }

    fn planar_strip(&mut self, op: PlanarOp, affine: Affine, a: &View, b: &View, to: &View) -> Result<()> {
        let (a, mut b) = (aligned(a, to.lead.len()), aligned(b, to.lead.len()));
        let from_memory = self.graph.buffer(b.buffer).role != Role::Scratch;
        if self.options.conventions().repeated_operands_staged && from_memory && b.elements() < to.elements() {
            // A repeated operand is brought into tile memory once.
            let staged = self.scratch("operand", &b.shape());
            self.copy(&b, &staged)?;
            b = staged;
        }
        // Repeated leading axes have stride 0, so that views of equal extents can be cut together; a whole repeated
        // axis of the task then shows as stride 0 and becomes a flag.
        let (wide_a, wide_b) = (repeated(&a, to), repeated(&b, to));
        for parts in self.blocks(&[&wide_a, &wide_b, to])? {
            let flag = |v: View4, width: usize| {
                let on = |i: usize| v.axes[i].extent > 1 && v.axes[i].stride_bytes == 0;
                let flags = [on(1), on(2), width == 1 && v.width > 1];
                let mut narrow = v;
                for (i, flagged) in [(1, flags[0]), (2, flags[1])] {
                    if flagged {
                        narrow.axes[i].extent = 1;
                    }
                }
                if flags[2] {
                    narrow.width = 1;
                }
                (narrow, flags)
            };
            let ((a4, fa), (b4, fb)) = (flag(parts[0], a.width), flag(parts[1], b.width));
            let kind = Kind::Planar { op, affine, relu: false };
            self.push(kind, vec![a4, b4], vec![fa, fb], parts[2], false);
        }
        Ok(())
    }

    pub(super) fn table(&mut self, table: Table, add: f32, post_scale: f32, from: &View, to: &View) -> Result<()> {
        let nonlinear = Nonlinear::Table(Arc::new(table));
        self.elementwise(Kind::Neuron { add, post_scale, nonlinear }, from, to)
    }

    /// A table into scratch.
    pub(super) fn tabled(
        &mut self,
        suffix: &str,
        table: Table,
        add: f32,
        post_scale: f32,
        from: &View,
    ) -> Result<View> {
        let to = self.scratch(suffix, &from.shape());
        self.table(table, add, post_scale, from, &to)?;
        Ok(to)
    }

    pub(super) fn affined(&mut self, suffix: &str, affine: Affine, abs: bool, from: &View) -> Result<View> {
        let to = self.scratch(suffix, &from.shape());
        self.planar_one(from, &to, affine, abs)?;
        Ok(to)
    }

    pub(super) fn unary(&mut self, f: Unary, x: ValueId, out: ValueId) -> Result<()> {
        let f = if self.net.value(out).ty.dtype.is_integer() { of_integers(f) } else { f };
        let table = self.one_table(f);
        let steps = self.options.conventions().tables_of_two_steps;
        self.knots = if steps && !self.net.inputs.contains(&x) { Knots::Between } else { Knots::On };
        // Of a program's own input Apple's words, whose table has zero for the logarithm of infinity.
        let input = self.net.inputs.contains(&x) && !self.options.conventions().functions_fitted;
        let own = |lowerer: &mut Self, from: &View, to: &View| match table {
            Some(table) => lowerer.table(table(), 0.0, 1.0, from, to),
            None if input && matches!(f, Unary::Log { .. }) => {
                let Unary::Log { epsilon } = f else { return Ok(()) };
                lowerer.natural_logarithm(Table::log2(), epsilon, from, to)
            }
            None => lowerer.unary_into(f, from, to),
        };
        if let Some((from, to)) = self.turned_pair(x, out) {
            return own(self, &from, &to);
        }
        let (from, to) = (self.view(x)?, self.result(out));
        own(self, &from, &to)
    }

    /// The single table that Apple's compilers have for a function. Our own conventions lower steps, to which tables are fitted
    /// afterwards (`fuse/functions.rs`).
    fn one_table(&self, f: Unary) -> Option<fn() -> Table> {
        let conventions = self.options.conventions();
        match f {
            _ if conventions.functions_fitted => None,
            Unary::Sigmoid => Some(Table::sigmoid_plain),
            Unary::Silu if conventions.tables_of_two_steps => Some(Table::silu),
            Unary::Gelu(GeluMode::Exact | GeluMode::Tanh) if conventions.tables_of_two_steps => Some(Table::gelu),
            _ => None,
        }
    }

    /// The function of a view, written to a view of the same extents.
    pub(super) fn unary_into(&mut self, f: Unary, from: &View, to: &View) -> Result<()> {
        let scaled = |scale: f32| Affine { scale, ..Affine::UNIT };
        let biased = |bias: f32| Affine { bias, ..Affine::UNIT };
        match f {
            Unary::Identity => self.copy(from, to),
            Unary::Relu => {
                let kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::Relu };
                self.elementwise(kind, from, to)
            }
            Unary::Relu6 => self.table(Table::clamp("relu6", [0.0, 6.0, 0.0, 6.0], 1.0), 0.0, 1.0, from, to),
            Unary::Clip { min, max } if min == 0.0 && max == f32::INFINITY => self.unary_into(Unary::Relu, from, to),
            // The upper bound wins over a lower bound above it.
            Unary::Clip { min, max } => self.table(Table::clip(min.min(max), max), 0.0, 1.0, from, to),
            Unary::RoundClip { min, max } => self.table(Table::rounded(min, max), 0.0, 1.0, from, to),
            Unary::Threshold { alpha } => self.table(Table::clip(alpha, f32::INFINITY), 0.0, 1.0, from, to),
            Unary::LeakyRelu { alpha } => self.table(Table::leaky_relu(alpha), 0.0, 1.0, from, to),
            Unary::Sign => self.table(Table::sign(), 0.0, 1.0, from, to),
            Unary::Tanh => self.table(Table::tanh(self.knots), 0.0, 1.0, from, to),
            Unary::Erf => self.table(Table::erf(self.knots), 0.0, 1.0, from, to),
            Unary::Exp2 => self.table(Table::exp2(), 0.0, 1.0, from, to),
            Unary::Exp => self.table(Table::exp2(), 0.0, LOG2_E, from, to),
            Unary::Log2 => self.table(self.logarithm(), 0.0, 1.0, from, to),
            Unary::Sqrt => self.table(Table::sqrt(), 0.0, 1.0, from, to),
            Unary::Rsqrt { epsilon } => self.table(Table::rsqrt(), epsilon, 1.0, from, to),
            Unary::Inverse { epsilon } => self.table(Table::reciprocal(), epsilon, 1.0, from, to),
            Unary::Abs => self.planar_one(from, to, Affine::UNIT, true),
            Unary::Neg => self.planar_one(from, to, Affine { pre_scale: -1.0, ..Affine::UNIT }, false),
            Unary::Square => self.planar_two(PlanarOp::Mul, Affine::UNIT, from, from, to),
            Unary::Sigmoid => {
                let half = self.tabled("half", Table::sigmoid_half(self.knots), 0.0, 1.0, from)?;
                self.planar_one(&half, to, biased(0.5), false)
            }
            Unary::SigmoidHard { alpha, beta } => {
                let line = self.affined("line", Affine { scale: alpha, bias: beta, ..Affine::UNIT }, false, from)?;
                self.table(Table::clip(0.0, 1.0), 0.0, 1.0, &line, to)
            }
            Unary::ScaledTanh { alpha, beta } => {
                let tanh = self.tabled("tanh", Table::tanh(self.knots), 0.0, beta, from)?;
                self.planar_one(&tanh, to, scaled(alpha), false)
            }
            Unary::Silu => self.gated(Table::sigmoid_half(self.knots), 1.0, from, to),
            Unary::Gelu(GeluMode::Sigmoid) => self.gated(Table::sigmoid_half(self.knots), 1.702, from, to),
            // The tanh form differs from the exact one by less than the table does.
            Unary::Gelu(GeluMode::Exact | GeluMode::Tanh) => self.gated(Table::gauss_half(self.knots), 1.0, from, to),
            Unary::Log { epsilon } => self.natural_logarithm(self.logarithm(), epsilon, from, to),
            Unary::Elu { alpha } => {
                let low = self.tabled("low", Table::clip(f32::NEG_INFINITY, 0.0), 0.0, 1.0, from)?;
                let exp = self.tabled("exp", Table::exp2(), 0.0, LOG2_E, &low)?;
                let left = self.affined("left", Affine { scale: alpha, bias: -alpha, ..Affine::UNIT }, false, &exp)?;
                let right = self.scratch("right", &from.shape());
                self.unary_into(Unary::Relu, from, &right)?;
                self.planar_two(PlanarOp::Add, Affine::UNIT, &left, &right, to)
            }
            Unary::Softplus => {
                // relu(x) + ln(1 + e^-|x|): no overflow.
                let negative = self.affined("negative", Affine { scale: -1.0, ..Affine::UNIT }, true, from)?;
                let exp = self.tabled("exp", Table::exp2(), 0.0, LOG2_E, &negative)?;
                let log2 = self.tabled("log2", self.logarithm(), 1.0, 1.0, &exp)?;
                let log = self.affined("log", scaled(LN_2), false, &log2)?;
                let right = self.scratch("right", &from.shape());
                self.unary_into(Unary::Relu, from, &right)?;
                self.planar_two(PlanarOp::Add, Affine::UNIT, &log, &right, to)
            }
            Unary::Softsign => {
                let denominator = self.affined("denominator", biased(1.0), true, from)?;
                let inverse = self.tabled("inverse", Table::reciprocal(), 0.0, 1.0, &denominator)?;
                self.planar_two(PlanarOp::Mul, Affine::UNIT, from, &inverse, to)
            }
            Unary::Atan if self.options.conventions().tables_of_two_steps => {
                let mut sum = self.tabled("part", Table::atan_part(0), 0.0, 1.0, from)?;
                for part in 1..Table::ATAN_PARTS {
                    let next = self.tabled("part", Table::atan_part(part), 0.0, 1.0, from)?;
                    let last = part + 1 == Table::ATAN_PARTS;
                    let target = if last { to.clone() } else { self.scratch("sum", &from.shape()) };
                    self.planar_two(PlanarOp::Add, Affine::UNIT, &sum, &next, &target)?;
                    sum = target;
                }
                Ok(())
            }
            Unary::Atan => {
                let low = self.tabled("low", Table::atan(0), 0.0, 1.0, from)?;
                let high = self.tabled("high", Table::atan(1), 0.0, 1.0, from)?;
                self.planar_two(PlanarOp::Add, Affine::UNIT, &low, &high, to)
            }
            Unary::Ceil => self.ceil(1.0, from, to),
            Unary::Floor => self.ceil(-1.0, from, to),
            Unary::Round => {
                // To nearest even, whatever way the planar engine itself rounds: above one half goes up, and one half goes
                // up where the whole part is odd, for which a last place is added to the fraction.
                let size = self.affined("size", Affine::UNIT, true, from)?;
                let whole = self.tabled("whole", Table::truncate(), 0.0, 1.0, &size)?;
                let half = self.affined("half", scaled(0.5), false, &whole)?;
                let even = self.tabled("even", Table::truncate(), 0.0, 1.0, &half)?;
                let [fraction, odd, raised, sum] =
                    ["fraction", "odd", "raised", "sum"].map(|name| self.scratch(name, &from.shape()));
                self.planar_two(PlanarOp::Sub, Affine::UNIT, &size, &whole, &fraction)?;
                self.planar_two(PlanarOp::Sub, Affine::UNIT, &half, &even, &odd)?;
                let last_place = Affine { pre_scale: LAST_PLACE_OF_ONE, ..Affine::UNIT };
                // Infinities have no fraction: the ReLU makes zero of NaN.
                self.rectified(PlanarOp::Add, last_place, &odd, &fraction, &raised)?;
                let up = self.tabled("up", Table::positive(), -0.5, 1.0, &raised)?;
                self.planar_two(PlanarOp::Add, Affine::UNIT, &whole, &up, &sum)?;
                let sign = self.tabled("sign", Table::sign(), 0.0, 1.0, from)?;
                self.planar_two(PlanarOp::Mul, Affine::UNIT, &sum, &sign, to)
            }
            Unary::Sin => self.sine(0.0, from, to),
            Unary::Cos => self.sine(0.5, from, to),
            Unary::Tan | Unary::Asin | Unary::Acos | Unary::Sinh | Unary::Cosh | Unary::Atanh => {
                Err(self.unsupported(format!("{} has no table", f.name()), "compute it on the host"))
            }
        }
    }

    /// The sine of an argument and so many half turns more. Whole turns are taken off: their number is `trunc(2t) - trunc(t)`
    /// of the argument `t` in turns, which rounds to the nearest one. A turn is two fp16 numbers, of which the first times a small
    /// number of turns is exact.
    fn sine(&mut self, half_turns: f32, from: &View, to: &View) -> Result<()> {
        const TURN: f32 = 6.281_25;
        let shape = from.shape();
        let angle = half_turns * PI;
        let twice = self.tabled("twice", Table::truncate(), angle, FRAC_1_PI, from)?;
        let once = self.tabled("once", Table::truncate(), angle, FRAC_1_PI / 2.0, from)?;
        let [turns, near, rest] = ["turns", "near", "rest"].map(|name| self.scratch(name, &shape));
        self.planar_two(PlanarOp::Sub, Affine::UNIT, &twice, &once, &turns)?;
        self.planar_two(PlanarOp::Add, Affine { pre_scale: -TURN, ..Affine::UNIT }, &turns, from, &near)?;
        let last = Affine { pre_scale: TURN - TAU, final_scale: FRAC_1_PI, bias: half_turns, ..Affine::UNIT };
        self.planar_two(PlanarOp::Add, last, &turns, &near, &rest)?;
        // Turns of hundreds are counted to a half: what is left can be beyond a half turn.
        let beyond = self.tabled("beyond", Table::truncate(), 0.0, 1.0, &rest)?;
        let within = self.scratch("within", &shape);
        self.planar_two(PlanarOp::Add, Affine { pre_scale: -2.0, ..Affine::UNIT }, &beyond, &rest, &within)?;
        self.table(Table::sine_of_half_turns(), 0.0, 1.0, &within, to)
    }

    /// The base-2 logarithm's table: Apple's of 4.2.1, or with a value at infinity.
    fn logarithm(&self) -> Table {
        if self.options.conventions().tables_of_two_steps { Table::log2_of_all() } else { Table::log2() }
    }

    fn natural_logarithm(&mut self, log2: Table, epsilon: f32, from: &View, to: &View) -> Result<()> {
        let log2 = self.tabled("log2", log2, epsilon, 1.0, from)?;
        self.planar_one(&log2, to, Affine { scale: LN_2, ..Affine::UNIT }, false)
    }

    /// `x * (table(x * post_scale) + 1/2)`.
    fn gated(&mut self, table: Table, post_scale: f32, from: &View, to: &View) -> Result<()> {
        let half = self.tabled("half", table, 0.0, post_scale, from)?;
        let gate = self.affined("gate", Affine { bias: 0.5, ..Affine::UNIT }, false, &half)?;
        self.planar_two(PlanarOp::Mul, Affine::UNIT, from, &gate, to)
    }

    /// Truncation plus one where a positive fraction is left; of `-x` and negated for the floor.
    fn ceil(&mut self, sign: f32, from: &View, to: &View) -> Result<()> {
        let fraction = self.tabled("fraction", Table::fraction(), 0.0, sign, from)?;
        let positive = self.tabled("positive", Table::positive(), 0.0, 1.0, &fraction)?;
        let whole = self.tabled("whole", Table::truncate(), 0.0, sign, from)?;
        self.planar_two(PlanarOp::Add, Affine { scale: sign, ..Affine::UNIT }, &whole, &positive, to)
    }

    pub(super) fn binary(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        let integer = self.net.value(out).ty.dtype.is_integer();
        match f {
            Binary::Pow => return self.power(x, y, out),
            Binary::Div | Binary::FloorDiv | Binary::Mod if integer => return self.integer_division(f, x, y, out),
            f if f.is_of_bits() => {
                return Err(self.unsupported(
                    format!("{} of integers: fp16 has no bits of them", f.name()),
                    "compute it on the host",
                ));
            }
            _ => {}
        }
        if let Some(c) = self.scalar(y)
            && self.scalar_right(f, x, c, out)?
        {
            return Ok(());
        }
        if let Some(c) = self.scalar(x)
            && self.scalar_left(f, c, y, out)?
        {
            return Ok(());
        }
        if self.options.conventions().constants_per_channel
            && (self.channel_affine(f, x, y, out)? || self.channel_bound(f, x, y, out)?)
        {
            return Ok(());
        }
        let (a, b) = (self.view(x)?, self.view(y)?);
        let to = self.result(out);
        let op = match f {
            Binary::Add => PlanarOp::Add,
            Binary::Sub => PlanarOp::Sub,
            Binary::Mul => PlanarOp::Mul,
            Binary::Max => PlanarOp::Max,
            Binary::Min => PlanarOp::Min,
            Binary::Div if self.options.conventions().divisors_transposed && self.turned_inverse(&a, &b, &to) => {
                return Ok(());
            }
            Binary::Div => {
                let known = self.inverses.get(&y).filter(|v| v.shape() == b.shape()).cloned();
                let inverse = match known {
                    Some(inverse) => inverse,
                    None => self.tabled("inverse", Table::reciprocal(), 0.0, 1.0, &b)?,
                };
                self.inverses.insert(y, inverse.clone());
                return self.planar_two(PlanarOp::Mul, Affine::UNIT, &a, &inverse, &to);
            }
            Binary::Pow
            | Binary::FloorDiv
            | Binary::Mod
            | Binary::BitAnd
            | Binary::BitOr
            | Binary::BitXor
            | Binary::ShiftLeft
            | Binary::ShiftRight => {
                return Err(self.unsupported(format!("{} of floats", f.name()), "compute it on the host"));
            }
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual => return self.comparison(f, [x, y], &to),
        };
        self.planar_two(op, Affine::UNIT, &a, &b, &to)
    }

    /// Adds or multiplies a constant per channel: addends and factors go into tile memory, the planar engine applies
    /// them (the gain-offset control of the book, chapter 22).
    fn channel_affine(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<bool> {
        let (x, constant) = match (f, self.constant(x), self.constant(y)) {
            (Binary::Add | Binary::Sub | Binary::Mul, None, Some(c)) => (x, c.clone()),
            (Binary::Add | Binary::Mul, Some(c), None) => (y, c.clone()),
            _ => return Ok(false),
        };
        let shape = self.shape(x);
        let Some(axis) = shape.len().checked_sub(3) else { return Ok(false) };
        let own = constant.shape.len();
        let channels = shape[axis];
        let per_channel = (0..own).all(|i| constant.shape[i] == if i + 3 == own { channels } else { 1 });
        if channels == 1 || own < 3 || !per_channel || shape != self.shape(out) {
            return Ok(false);
        }
        let values = constant.data.to_f32();
        let ones = vec![1.0; channels];
        let pairs = match f {
            Binary::Add => [values, ones],
            Binary::Sub => [values.iter().map(|v| -v).collect(), ones],
            _ => [vec![0.0; channels], values],
        };
        let name = format!("{}.affine", self.op);
        let table = self.constant_view(&name, &[2, channels], &pairs.concat());
        let staged = self.scratch("affine", &[2, channels]);
        self.copy(&table, &staged)?;
        let (from, to) = (self.view(x)?, self.result(out));
        let Some(second) = staged.nchw() else { return Ok(false) };
        for strip in self.strips(&[&from, &to]) {
            // The channels stay an axis of their own: only the batch is unrolled.
            let (Some(from), Some(to)) = (strip[0].nchw(), strip[1].nchw()) else {
                return Err(self.unsupported("more than four axes", "reshape first"));
            };
            for n in 0..from.groups() {
                let at = |v: View4| View4 {
                    offset_bytes: v.offset_bytes + n as u64 * v.axes[0].stride_bytes,
                    axes: [Axis { extent: 1, stride_bytes: 0 }, v.axes[1], v.axes[2]],
                    ..v
                };
                self.push(
                    Kind::ChannelAffine { subtract: false },
                    vec![at(from), second],
                    vec![[false; 3]; 2],
                    at(to),
                    false,
                );
                self.source_turned(1);
            }
        }
        Ok(true)
    }

    /// The greater or smaller of a column of channels and as many constants: those go into tile memory as a row, which
    /// the planar engine turns.
    fn channel_bound(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<bool> {
        let op = match f {
            Binary::Max => PlanarOp::Max,
            Binary::Min => PlanarOp::Min,
            _ => return Ok(false),
        };
        let (x, constant) = match (self.constant(x), self.constant(y)) {
            (None, Some(c)) => (x, c.clone()),
            (Some(c), None) => (y, c.clone()),
            _ => return Ok(false),
        };
        let (shape, own) = (self.shape(x), &constant.shape);
        let channels = shape.iter().product::<usize>();
        let column = shape.len() >= 3 && shape[shape.len() - 3] == channels && channels > 1;
        if !column || shape != self.shape(out) || own.iter().product::<usize>() != channels {
            return Ok(false);
        }
        let (from, to) = (self.view(x)?, self.result(out));
        let (Some(from), Some(to)) = (from.nchw(), to.nchw()) else { return Ok(false) };
        let name = format!("{}.bound", self.op);
        let row = self.constant_view(&name, &[1, channels], &constant.data.to_f32());
        let staged = self.scratch("bound", &[1, channels]);
        self.copy(&row, &staged)?;
        let Some(second) = staged.nchw() else { return Ok(false) };
        let kind = Kind::Planar { op, affine: Affine::UNIT, relu: false };
        self.push(kind, vec![from, second], vec![[false; 3]; 2], to, false);
        self.source_turned(1);
        Ok(true)
    }

    /// A source of the last layer stands with its channels and columns exchanged.
    pub(super) fn source_turned(&mut self, source: usize) {
        if let Some(layer) = self.graph.layers.last_mut() {
            layer.turned[source] = true;
        }
    }

    /// `a / b` where `b` is a single column of channels: its reciprocals are made as a row, which the product turns back.
    fn turned_inverse(&mut self, a: &View, b: &View, to: &View) -> bool {
        let (Some(a4), Some(b4), Some(to4)) = (a.nchw(), b.nchw(), to.nchw()) else { return false };
        let column = b4.groups() == 1 && b4.channels() > 1 && b4.height() == 1 && b4.width == 1;
        let same = |v: &View4| (v.axes.map(|x| x.extent), v.width) == (b4.axes.map(|x| x.extent), b4.width);
        if !column || !same(&a4) || !same(&to4) {
            return false;
        }
        let row = self.scratch("inverse", &[1, b4.channels()]);
        let Some(row) = row.nchw() else { return false };
        let nonlinear = Nonlinear::Table(Arc::new(Table::reciprocal()));
        self.push(Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear }, vec![b4], vec![[false; 3]], row, true);
        let kind = Kind::Planar { op: PlanarOp::Mul, affine: Affine::UNIT, relu: false };
        self.push(kind, vec![a4, row], vec![[false; 3]; 2], to4, false);
        self.source_turned(1);
        true
    }

    /// A conversion that is more than a change of type: floats lose their fraction on the way to an integer.
    pub(super) fn cast(&mut self, x: ValueId, out: ValueId) -> Result<()> {
        let (source, target) = (self.net.value(x).ty.dtype, self.net.value(out).ty.dtype);
        if target == DType::Bool {
            let to = self.result(out);
            return self.differs_from_zero(x, &to);
        }
        let (from, to) = (self.view(x)?, self.result(out));
        if source.is_float() && !target.is_float() {
            return self.table(Table::truncate(), 0.0, 1.0, &from, &to);
        }
        self.copy(&from, &to)
    }

    /// Repeats axes: both sources of a maximum are the operand.
    pub(super) fn broadcast(&mut self, x: ValueId, out: ValueId) -> Result<()> {
        let (from, to) = (self.view(x)?, self.result(out));
        self.planar_two(PlanarOp::Max, Affine::UNIT, &from, &from, &to)
    }

    /// A constant whose elements are all the same finite number.
    fn scalar(&self, id: ValueId) -> Option<f32> {
        let data = self.constant(id)?.data.to_f32();
        let (&first, rest) = data.split_first()?;
        // 9.509 stages a row of numbers without looking at them.
        let row = self.net.value(id).ty.shape.last().is_some_and(|&n| n > 1);
        let one = !self.options.conventions().rows_are_no_scalars || !row;
        (one && first.is_finite() && rest.iter().all(|&x| x == first)).then_some(first)
    }

    /// Returns true if an operand has the result's extents, leading axes of one element aside: it is not broadcast.
    pub(super) fn covers(&self, operand: ValueId, out: ValueId) -> bool {
        let strip = |shape: Vec<usize>| shape.into_iter().skip_while(|&n| n == 1).collect::<Vec<_>>();
        strip(self.shape(operand)) == strip(self.shape(out))
    }

    /// `f(x, c)` in one task, where there is one.
    fn scalar_right(&mut self, f: Binary, x: ValueId, c: f32, out: ValueId) -> Result<bool> {
        let unit = Affine::UNIT;
        let affine = match f {
            _ if !self.covers(x, out) => return Ok(false),
            Binary::Add => Affine { bias: c, ..unit },
            Binary::Sub => Affine { bias: -c, ..unit },
            Binary::Mul => Affine { final_scale: c, ..unit },
            Binary::Div if c != 0.0 => Affine { final_scale: 1.0 / c, ..unit },
            Binary::Max | Binary::Min => return self.scalar_function(f, x, c, out),
            _ => return Ok(false),
        };
        let (from, to) = (self.view(x)?, self.result(out));
        self.planar_one(&aligned(&from, to.lead.len()), &to, affine, false)?;
        Ok(true)
    }

    fn scalar_function(&mut self, f: Binary, x: ValueId, c: f32, out: ValueId) -> Result<bool> {
        let unary = match f {
            Binary::Max => Unary::Clip { min: c, max: f32::INFINITY },
            Binary::Min => Unary::Clip { min: f32::NEG_INFINITY, max: c },
            _ => return Ok(false),
        };
        let (from, to) = (self.view(x)?, self.result(out));
        self.unary_into(unary, &aligned(&from, to.lead.len()), &to)?;
        Ok(true)
    }

    /// `f(c, y)` in one task, where there is one.
    fn scalar_left(&mut self, f: Binary, c: f32, y: ValueId, out: ValueId) -> Result<bool> {
        match f {
            Binary::Add | Binary::Mul | Binary::Max | Binary::Min => self.scalar_right(f, y, c, out),
            Binary::Sub if self.covers(y, out) => {
                let (from, to) = (self.view(y)?, self.result(out));
                let affine = Affine { pre_scale: -1.0, bias: c, ..Affine::UNIT };
                self.planar_one(&aligned(&from, to.lead.len()), &to, affine, false)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// A function whose bounds are whole, as integers have them.
fn of_integers(f: Unary) -> Unary {
    match f {
        Unary::Clip { min, max } => Unary::Clip { min: min.ceil(), max: max.floor() },
        Unary::Threshold { alpha } => Unary::Threshold { alpha: alpha.ceil() },
        _ => f,
    }
}

/// Leading axes of extent 1 in front, up to `rank` of them.
pub(super) fn aligned(view: &View, rank: usize) -> View {
    let mut view = view.clone();
    while view.lead.len() < rank {
        view.lead.insert(0, Axis { extent: 1, stride_bytes: 0 });
    }
    while view.lead.len() > rank && view.lead[0].extent == 1 {
        view.lead.remove(0);
    }
    view
}

/// The view with the extents of `to`: axes of extent 1 repeat with stride 0. The width is taken over as it is.
fn repeated(view: &View, to: &View) -> View {
    let lead = view
        .lead
        .iter()
        .zip(&to.lead)
        .map(|(a, t)| if a.extent == t.extent { *a } else { Axis { extent: t.extent, stride_bytes: 0 } })
        .collect();
    View { lead, width: to.width, ..view.clone() }
}
