//! Operations at the values where arithmetic goes wrong first: infinities, NaN, zeros, large constants, negative bases. Each
//! case runs in every model, with all operands computed at run time, and with each of them constant.
//!
//! Results are compared with the evaluator element by element. The device's models have no NaN: they read it as plus
//! infinity, and so do the expectations for them.

use crate::common;
mod found;

use anemone_compile::{Options, compile};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_facts::tolerance;
use anemone_net::*;
use common::Score;
use common::suite::execute;
use std::sync::Arc;

/// Before and after, by axis.
type Pads = &'static [(usize, usize)];

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

#[derive(Clone)]
struct Operand {
    dtype: DType,
    shape: Vec<usize>,
    data: Vec<f32>,
}

fn operand(dtype: DType, shape: &[usize], data: &[f32]) -> Operand {
    let count = shape.iter().product();
    Operand { dtype, shape: shape.to_vec(), data: data.iter().copied().cycle().take(count).collect() }
}

fn floats(shape: &[usize], data: &[f32]) -> Operand {
    operand(DType::F16, shape, data)
}

fn truths(shape: &[usize], data: &[u8]) -> Operand {
    operand(DType::Bool, shape, &data.iter().map(|&t| f32::from(t)).collect::<Vec<_>>())
}

fn whole(shape: &[usize], data: &[f32]) -> Operand {
    operand(DType::I32, shape, data)
}

fn tensor(o: &Operand) -> Tensor {
    let data = match o.dtype {
        DType::Bool => Data::Bool(o.data.iter().map(|&x| x != 0.0).collect()),
        DType::U8 => Data::U8(o.data.iter().map(|&x| x as u8).collect()),
        DType::I8 => Data::I8(o.data.iter().map(|&x| x as i8).collect()),
        DType::I32 => Data::I32(o.data.iter().map(|&x| x as i32).collect()),
        _ => Data::F16(o.data.iter().map(|&x| half::f16::from_f32(x)).collect()),
    };
    Tensor { shape: o.shape.clone(), data }
}

struct Case {
    name: &'static str,
    kind: OpKind,
    operands: Vec<Operand>,
    /// Admitted error, as a share of each element.
    share: f32,
    /// True if `share` is that of the largest element instead.
    of_largest: bool,
    result: Option<Vec<usize>>,
    /// Element type of the result, where it does not follow.
    dtype: DType,
    constant_places: bool,
    /// In `fast` alone: the device's models have another number, or none.
    fast: bool,
}

fn case(name: &'static str, kind: OpKind, operands: &[Operand]) -> Case {
    Case {
        name,
        kind,
        operands: operands.to_vec(),
        share: 0.0,
        of_largest: false,
        result: None,
        dtype: DType::F16,
        constant_places: false,
        fast: false,
    }
}

impl Case {
    /// The second operand is a constant in all ways.
    fn at_constant_places(self) -> Case {
        Case { constant_places: true, ..self }
    }

    fn fast(self) -> Case {
        Case { fast: true, ..self }
    }

    fn typed(self, dtype: DType) -> Case {
        Case { dtype, ..self }
    }

    fn table(self) -> Case {
        Case { of_largest: true, ..self.share(tolerance::TABLE.share) }
    }

    fn rounded(self) -> Case {
        Case { of_largest: true, ..self.share(tolerance::ROUNDING.share) }
    }

    fn share(mut self, share: f32) -> Case {
        self.share = share;
        self
    }

    fn net(&self, live: u32) -> Net {
        let mut net = Net { name: "case".into(), ..Net::default() };
        let mut ids = Vec::new();
        for (i, o) in self.operands.iter().enumerate() {
            let ty = TensorType { dtype: o.dtype, shape: o.shape.clone() };
            let data = (live >> i & 1 == 0).then(|| Arc::new(tensor(o)));
            let id = net.add_value(Value { name: format!("x{i}"), ty, data, surface: None });
            ids.push(id);
            if live >> i & 1 == 1 {
                net.inputs.push(id);
            }
        }
        let shape = self.result.as_ref().unwrap_or(&self.operands[0].shape).clone();
        let declared =
            (self.result.is_some() || self.kind == OpKind::Cast).then_some(TensorType { dtype: self.dtype, shape });
        let types: Vec<&TensorType> = ids.iter().map(|&id| &net.value(id).ty).collect();
        let ty = infer::infer(&self.kind, &types, declared.as_ref()).expect("types fit").remove(0);
        let out = net.add_value(Value { name: "y".into(), ty, data: None, surface: None });
        net.ops.push(Op { name: "y".into(), kind: self.kind.clone(), inputs: ids, outputs: vec![out] });
        net.outputs.push(out);
        net
    }

    /// In all models, with the operands live that `live` has a bit for.
    fn check(&self, live: u32) -> Result<String, String> {
        let net = self.net(live);
        let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).map_err(|e| e.to_string())?;
        let given: Vec<Vec<f32>> =
            (0..).zip(&self.operands).filter(|(i, _)| live >> i & 1 == 1).map(|(_, o)| o.data.clone()).collect();
        for model in Model::ALL.into_iter().filter(|&model| !self.fast || model == Model::Fast) {
            let device = model != Model::Fast;
            // Operand as a device reads it.
            let read = |o: &Operand| {
                let data = o.data.iter().map(|&x| if device && x.is_nan() { INF } else { x }).collect();
                Operand { data, ..o.clone() }
            };
            let all: Vec<Operand> = self.operands.iter().map(read).collect();
            let plain = Case { operands: all.clone(), kind: self.kind.clone(), result: self.result.clone(), ..*self };
            let net = plain.net(live);
            let tensors: Vec<Tensor> =
                (0..).zip(&all).filter(|(i, _)| live >> i & 1 == 1).map(|(_, o)| tensor(o)).collect();
            let wanted = eval::eval(&net, &tensors).map_err(|e| e.to_string())?[0].data.to_f32();
            let got = execute(&program, &given, model)?;
            let largest = wanted.iter().filter(|x| x.is_finite()).fold(0f32, |most, x| most.max(x.abs()));
            for (i, (&got, &wanted)) in got.iter().zip(&wanted).enumerate() {
                let wanted = if device && wanted.is_nan() { INF } else { wanted };
                let wanted = half::f16::from_f32(wanted).to_f32();
                let size = if self.of_largest { largest } else { wanted.abs().max(2f32.powi(-14)) };
                let near = (got - wanted).abs() <= self.share * size;
                if !(near || got == wanted || got.is_nan() && wanted.is_nan()) {
                    return Err(format!("{}, live {live:b}: element {i} is {got} for {wanted}", model.name()));
                }
            }
        }
        Ok(String::new())
    }
}

fn pow() -> OpKind {
    OpKind::Binary(Binary::Pow)
}

fn choices() -> Vec<Case> {
    let special = [1.5, -2.25, INF, -INF, NAN, 0.0, 65504.0, -65504.0, 3.0];
    let other = [-INF, 7.0, INF, NAN, 0.5, -INF, INF, 1.0, NAN, -3.0, 0.25];
    let mask = [1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0];
    let shape = [2, 3, 5, 13];
    let mut all = vec![
        case(
            "select of anything",
            OpKind::Select,
            &[truths(&shape, &mask), floats(&shape, &special), floats(&shape, &other)],
        ),
        case(
            "select by a mask of rows",
            OpKind::Select,
            &[truths(&[5, 1], &mask), floats(&shape, &special), floats(&[13], &other)],
        ),
        case(
            "select by a wide mask",
            OpKind::Select,
            &[truths(&[1, 1, 5, 13], &mask), floats(&[2, 3, 1, 13], &special), floats(&shape, &other)],
        ),
        case(
            "select of two numbers",
            OpKind::Select,
            &[truths(&[3, 5], &mask), floats(&[1], &[0.5]), floats(&[4, 3, 5], &[-INF])],
        ),
    ];
    for number in [-INF, INF, 0.0, -1.0, 100.0, -65504.0, NAN] {
        let name = Box::leak(format!("select or {number}").into_boxed_str());
        let operands = [truths(&[1, 1, 5, 13], &mask), floats(&shape, &special), floats(&[1], &[number])];
        all.push(case(name, OpKind::Select, &operands));
        let [c, x, y] = operands;
        all.push(case(name, OpKind::Select, &[c, y, x]));
    }
    all
}

fn paddings() -> Vec<Case> {
    let special = [1.5, -2.25, INF, 0.001, -INF, 0.0, 65504.0, -40000.0, 3.0, 0.3333, 1e-5];
    let mut all = Vec::new();
    for value in [-1e4, 100.0, 1000.0, INF, -INF, 1.5, -65504.0] {
        let shapes: [(&[usize], Pads); 9] = [
            (&[2, 3, 5, 6], &[(0, 0), (0, 0), (1, 2), (3, 0)]),
            (&[2, 3, 5, 6], &[(1, 0), (0, 2), (0, 0), (0, 0)]),
            (&[2, 3, 5, 6], &[(1, 2), (2, 1), (1, 1), (1, 2)]),
            (&[1, 3, 5, 32], &[(0, 0), (0, 0), (0, 0), (32, 7)]),
            (&[7], &[(2, 3)]),
            (&[3, 40], &[(1, 0), (0, 5)]),
            (&[3, 40], &[(0, 0), (1, 0)]),
            (&[2, 2, 3, 4, 5], &[(0, 1), (1, 0), (0, 0), (2, 0), (0, 3)]),
            (&[1, 1, 1, 1], &[(0, 0), (0, 0), (0, 0), (1, 1)]),
        ];
        for (shape, pads) in shapes {
            let name = Box::leak(format!("pad {shape:?} by {value}").into_boxed_str());
            all.push(case(name, OpKind::Pad { pads: pads.to_vec(), value }, &[floats(shape, &special)]));
        }
    }
    let finite = [1.5, -2.25, 0.5, 3.0, 0.25];
    let axes: [(&[usize], Pads); 3] = [
        (&[2, 3, 5, 6], &[(1, 0), (0, 2), (0, 0), (0, 0)]),
        (&[2, 2, 3, 4, 5], &[(0, 1), (1, 0), (0, 0), (2, 0), (0, 3)]),
        (&[1, 2, 5, 6], &[(0, 0), (0, 0), (20, 20), (0, 0)]),
    ];
    for (shape, pads) in axes {
        let name = Box::leak(format!("pad {shape:?} by zero").into_boxed_str());
        all.push(case(name, OpKind::Pad { pads: pads.to_vec(), value: 0.0 }, &[floats(shape, &finite)]));
    }
    all
}

fn powers() -> Vec<Case> {
    let bases = [-3.0, 2.0, -0.5, 0.0, 1.0, -1.0, 5.0, -2.0, INF, -INF, NAN, 0.25, 1.5];
    let shape = [2, 3, 13];
    let mut all = Vec::new();
    for exponent in [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, -1.0, -2.0, -3.0, 0.5, -0.5, 1.5, -2.5, 2.75, 13.0] {
        let name = Box::leak(format!("to the {exponent}").into_boxed_str());
        // Tables round twice; what they round is multiplied by the exponent.
        all.push(case(name, pow(), &[floats(&shape, &bases), floats(&[1], &[exponent])]).share(0.02));
        all.push(case(name, pow(), &[floats(&shape, &bases), floats(&shape, &[exponent])]).share(0.02));
        all.push(case(name, pow(), &[floats(&[3, 1], &bases), floats(&[3, 4], &[exponent])]).share(0.02));
    }
    let mixed = [0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -2.0, 4.0, 2.5];
    all.push(case("mixed exponents", pow(), &[floats(&shape, &bases), floats(&shape, &mixed)]).share(0.02));
    all.push(
        case("mixed whole", pow(), &[floats(&shape, &bases), floats(&[13], &[2.0, 0.0, 3.0, 1.0, 6.0])]).share(0.02),
    );
    for base in [2.0, 0.5, 1.0, 10.0, -2.0, 0.0] {
        let name = Box::leak(format!("powers of {base}").into_boxed_str());
        all.push(case(name, pow(), &[floats(&[1], &[base]), floats(&shape, &mixed)]).share(0.02));
    }
    all
}

fn integer_powers() -> Vec<Case> {
    let bases = [-3.0, 2.0, 0.0, 1.0, -1.0, 5.0, -2.0, 7.0, 11.0];
    let mut all = vec![
        case("integers", pow(), &[whole(&[3, 9], &bases), whole(&[3, 9], &[3.0, 2.0, 0.0, 1.0])]),
        case("integers to one", pow(), &[whole(&[3, 9], &bases), whole(&[3, 1], &[3.0, 2.0, 0.0])]),
        case("small integers", pow(), &[whole(&[4], &[1.0, -1.0, 0.0, 2.0]), whole(&[4], &[100.0, 101.0, 99.0, 11.0])]),
    ];
    for exponent in [0.0, 1.0, 2.0, 3.0] {
        let name = Box::leak(format!("integers to the {exponent}").into_boxed_str());
        all.push(case(name, pow(), &[whole(&[3, 9], &bases), whole(&[1], &[exponent])]));
    }
    all
}

fn norms() -> Vec<Case> {
    let x = [1.5, -2.25, 0.5, 3.0, 0.25, -1.0, 2.0, 0.75, -0.5, 1.25, 4.0];
    let per_channel = [0.5, 2.0, -1.0, 1.5, 0.25, 3.0];
    let mut all = Vec::new();
    for shape in [&[1usize, 6, 7, 8][..], &[2, 6, 6, 6], &[2, 3, 40], &[1, 40, 3, 3], &[1, 4, 2, 3, 5]] {
        let (name, c) = (Box::leak(format!("instance norm {shape:?}").into_boxed_str()), shape[1]);
        let params = [floats(shape, &x), floats(&[c], &per_channel), floats(&[c], &x)];
        all.push(case(name, OpKind::InstanceNorm { epsilon: 1e-5 }, &params).table());
    }
    for (shape, axes) in
        [(&[2usize, 6, 7][..], &[2usize][..]), (&[2, 6, 7], &[1]), (&[1, 4, 5, 6], &[1]), (&[1, 4, 5, 6], &[2, 3])]
    {
        let name = Box::leak(format!("layer norm {shape:?} {axes:?}").into_boxed_str());
        let own: Vec<usize> = axes.iter().map(|&a| shape[a]).collect();
        let params = [floats(shape, &x), floats(&own, &per_channel), floats(&own, &x)];
        all.push(case(name, OpKind::LayerNorm { axes: axes.to_vec(), epsilon: 1e-5 }, &params).table());
    }
    for shape in [&[1usize, 6, 5, 5][..], &[2, 3, 3], &[4, 6]] {
        let (name, c) = (Box::leak(format!("batch norm {shape:?}").into_boxed_str()), shape[1]);
        let variance = floats(&[c], &[0.5, 2.0, 1.0]);
        let params = [floats(shape, &x), floats(&[c], &x), variance, floats(&[c], &per_channel), floats(&[c], &x)];
        all.push(case(name, OpKind::BatchNorm { epsilon: 1e-5 }, &params).table());
    }
    all
}

fn comparisons() -> Vec<Case> {
    let values = [1.5, INF, -INF, NAN, 0.0, -0.0, 65504.0, -65504.0, 5.9604645e-8, 2049.0, -3.0];
    let others = [1.5, INF, INF, 0.0, -INF, -INF, NAN, NAN, 0.0, 65504.0, 1.5, 5.9604645e-8, -3.0];
    let shape = [11, 13];
    let mut all = Vec::new();
    for f in [Binary::Equal, Binary::NotEqual, Binary::Less, Binary::LessEqual, Binary::Greater, Binary::GreaterEqual] {
        let kind = OpKind::Binary(f);
        all.push(case(f.name(), kind.clone(), &[floats(&shape, &values), floats(&shape, &others)]));
        for number in [0.0, INF, -INF, 1.5] {
            let name = Box::leak(format!("{} {number}", f.name()).into_boxed_str());
            all.push(case(name, kind.clone(), &[floats(&shape, &values), floats(&[1], &[number])]));
        }
        let integers =
            [whole(&[9], &[-3.0, 2.0, 0.0, 2047.0, -1.0, 5.0, -2.0, 2.0, 7.0]), whole(&[2, 1], &[2.0, -1.0])];
        all.push(case(f.name(), kind, &integers));
    }
    all
}

fn integer_division() -> Vec<Case> {
    let dividends = [-3.0, 3.0, 7.0, -7.0, 0.0, 2047.0, -2048.0, 100.0, 99.0, 1023.0, -1.0, 1999.0, 5.0];
    let divisors = [2.0, -2.0, 3.0, 1.0, 2047.0, 7.0, -9.0, 10.0, 100.0, 33.0, -1.0];
    let (x, y) = (whole(&[11, 13], &dividends), whole(&[11, 13], &divisors));
    let mut all = Vec::new();
    for f in [Binary::Div, Binary::FloorDiv, Binary::Mod] {
        all.push(case(f.name(), OpKind::Binary(f), &[x.clone(), y.clone()]));
        for divisor in [1.0, 2.0, 3.0, -7.0, 10.0, 255.0, 2048.0] {
            let name = Box::leak(format!("{} {divisor}", f.name()).into_boxed_str());
            all.push(case(name, OpKind::Binary(f), &[x.clone(), whole(&[1], &[divisor])]));
        }
        let every: Vec<f32> = (-2048..=2048).map(|x| x as f32).collect();
        for divisor in [3.0, 7.0, 80.0, 683.0, 1025.0, 2047.0] {
            let name = Box::leak(format!("{} {divisor} of every number", f.name()).into_boxed_str());
            all.push(case(name, OpKind::Binary(f), &[whole(&[17, 241], &every), whole(&[1], &[divisor])]));
        }
        let bytes = |data: &[f32]| operand(DType::U8, &[7, 5], data);
        let operands = [bytes(&[255.0, 0.0, 7.0, 128.0, 254.0, 1.0]), bytes(&[1.0, 2.0, 255.0, 16.0, 3.0, 7.0, 254.0])];
        all.push(case(f.name(), OpKind::Binary(f), &operands));
    }
    all
}

fn functions() -> Vec<Case> {
    let values = [1.5, INF, -INF, 0.0, 3.0, -2.9, 65504.0, 0.25, -7.5, 20.0, -63.0, 300.0, 2.0, -4.0];
    let x = floats(&[4, 14], &values);
    let angles = floats(&[3, 11], &[0.0, 1.5, -1.5, 3.0, -3.1, 6.3, -5.0, 4.6, 0.25, 2.5, -0.7]);
    let ratios = floats(&[3, 11], &[0.0, 0.5, -0.5, 0.25, -0.9, 0.95, -0.1, 0.7, 0.01, -0.8, 0.3]);
    let of = |name, f, x: &Operand| case(name, OpKind::Unary(f), std::slice::from_ref(x)).table();
    let unary = |name, f| case(name, OpKind::Unary(f), std::slice::from_ref(&x));
    vec![
        unary("atan", Unary::Atan).table(),
        of("sine", Unary::Sin, &angles),
        of("cosine", Unary::Cos, &angles),
        of("sinh", Unary::Sinh, &angles),
        of("cosh", Unary::Cosh, &angles),
        of("tangent", Unary::Tan, &ratios),
        of("asin", Unary::Asin, &ratios),
        of("acos", Unary::Acos, &ratios),
        of("atanh", Unary::Atanh, &ratios),
        unary("clip with crossed bounds", Unary::Clip { min: 2.0, max: 1.0 }),
        unary("clip", Unary::Clip { min: -1.0, max: 2.5 }),
        unary("round", Unary::Round),
        case(
            "clip of integers",
            OpKind::Unary(Unary::Clip { min: -0.5, max: 2.5 }),
            &[whole(&[5], &[-1.0, 0.0, 1.0, 3.0])],
        ),
        case(
            "threshold of integers",
            OpKind::Unary(Unary::Threshold { alpha: 0.5 }),
            &[whole(&[5], &[-1.0, 0.0, 2.0])],
        ),
        case(
            "mean of bytes",
            OpKind::Reduce { kind: ReduceKind::Mean, axes: vec![1], keep_dims: true },
            &[operand(DType::I8, &[3, 8], &[-1.0, 0.0, 2.0, 5.0, 1.0, 1.0, 127.0, 127.0, 126.0, 127.0, 127.0, -128.0])],
        )
        .typed(DType::I8),
        case("cast to a truth value", OpKind::Cast, &[floats(&[11], &[0.0, -0.0, NAN, INF, 5.9604645e-8, -2.0])])
            .typed(DType::Bool),
    ]
}

fn places() -> Vec<Case> {
    let x = [1.5, INF, -INF, 0.0, 3.0, -2.9, 65504.0, 0.25, -7.5, 20.0, -63.0, 300.0, 2.0, -4.0, 1e-5, 9.0, 0.5];
    let mut all = Vec::new();
    let gathers: [(&[usize], usize, &[usize]); 6] = [
        (&[2, 7, 5], 1, &[4]),
        (&[2, 7, 5], 2, &[3]),
        (&[6, 3], 0, &[2, 2]),
        (&[3, 6], 1, &[2, 3]),
        (&[2, 3, 6, 4], 2, &[]),
        (&[9], 0, &[5]),
    ];
    for (shape, axis, own) in gathers {
        let name = Box::leak(format!("gather {shape:?} along {axis} at {own:?}").into_boxed_str());
        all.push(case(name, OpKind::Gather { axis }, &[floats(shape, &x), whole(own, &[1.0, 0.0, -1.0, 2.0, 1.0])]));
    }
    for (shape, axis) in [(&[3usize, 4, 5][..], 1usize), (&[3, 4, 5], 2), (&[5, 3], 0), (&[2, 2, 3, 4], 3)] {
        let name = Box::leak(format!("gather along {axis} of {shape:?}").into_boxed_str());
        let mut own = shape.to_vec();
        own[axis] = 2;
        let operands = [floats(shape, &x), whole(&own, &[1.0, 0.0, -1.0, 2.0, 1.0, 2.0, -2.0])];
        all.push(case(name, OpKind::GatherAlong { axis }, &operands));
    }
    let scatters = [ScatterMode::Update, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min];
    let finite = [1.5, 0.0, 3.0, -2.5, 0.25, -7.5, 20.0, -63.0, 300.0, 2.0, -4.0, 9.0, 0.5];
    for mode in scatters {
        let operands = [
            floats(&[3, 4, 5], &finite),
            whole(&[3, 2, 5], &[1.0, 0.0, -1.0, 2.0, 1.0, 2.0, -2.0]),
            floats(&[3, 2, 5], &[-1.5, 2.0, 0.5, 4.0]),
        ];
        all.push(case("scatter along 1", OpKind::ScatterAlong { axis: 1, mode }, &operands).at_constant_places());
        let operands =
            [floats(&[4, 3, 5], &finite), whole(&[3, 1], &[1.0, 0.0, 1.0]), floats(&[3, 3, 5], &[-1.5, 2.0, 0.5, 4.0])];
        all.push(case("scatter rows", OpKind::ScatterNd { mode }, &operands).at_constant_places());
        // Columns 1 and 2 of both rows, then 1 and 3: a slice, and one of steps.
        for (name, places) in [
            ("scatter slice", [0.0, 1.0, 0.0, 2.0, 1.0, 1.0, 1.0, 2.0]),
            ("scatter steps", [0.0, 1.0, 0.0, 3.0, 1.0, 1.0, 1.0, 3.0]),
        ] {
            let operands =
                [floats(&[3, 4, 2], &finite), whole(&[2, 2, 2], &places), floats(&[2, 2, 2], &[-1.5, 2.0, 0.5, 4.0])];
            all.push(case(name, OpKind::ScatterNd { mode }, &operands).at_constant_places());
        }
    }
    let operands = [floats(&[2, 3, 4], &x), whole(&[2, 2, 1], &[0.0, 1.0, 2.0, -1.0])];
    all.push(case("gather blocks", OpKind::GatherNd { batch_dims: 1 }, &operands).at_constant_places());
    let ties = [1.5, INF, -INF, 0.0, INF, -2.9, 0.25, 3.0, -INF, 3.0, 0.25, 1.5, 2.0];
    for (shape, axis) in [(&[3usize, 7][..], 1usize), (&[3, 7], 0), (&[2, 3, 5, 4], 2), (&[2, 6, 3, 4], 1), (&[11], 0)]
    {
        for (greatest, last) in [(true, false), (true, true), (false, false), (false, true)] {
            let name = Box::leak(format!("place along {axis} of {shape:?} {greatest} {last}").into_boxed_str());
            let kind = OpKind::ArgReduce { greatest, last, axis, keep_dims: axis % 2 == 1 };
            all.push(case(name, kind, &[floats(shape, &ties)]));
        }
    }
    let factors = [1.5, -0.5, 2.0, 1.0, -1.25, 0.75];
    for (shape, axes) in
        [(&[3usize, 7][..], &[1usize][..]), (&[3, 7], &[0]), (&[2, 3, 5], &[0, 2]), (&[2, 2, 3, 2], &[1, 2, 3])]
    {
        let name = Box::leak(format!("product along {axes:?} of {shape:?}").into_boxed_str());
        let kind = OpKind::Reduce { kind: ReduceKind::Prod, axes: axes.to_vec(), keep_dims: axes.len() == 1 };
        all.push(case(name, kind, &[floats(shape, &factors)]).share(0.005));
    }
    all
}

/// Layers whose parameters are computed.
fn layers() -> Vec<Case> {
    let x = [1.5, -0.25, 0.5, 1.0, 0.75, -2.0, 0.125, -1.0, 0.375];
    let w = [0.5, -0.25, 1.0, 0.0, -0.75, 0.125, 0.3];
    let conv = |strides: &[usize], pads: &[(usize, usize)], dilations: &[usize], groups| OpKind::Conv {
        strides: strides.to_vec(),
        pads: pads.to_vec(),
        dilations: dilations.to_vec(),
        groups,
    };
    let four = |name, kind, shape: &[usize], kernel: &[usize]| {
        case(name, kind, &[floats(shape, &x), floats(kernel, &w), floats(&kernel[..1], &x)]).rounded()
    };
    vec![
        four("conv", conv(&[1, 1], &[(1, 1); 2], &[1, 1], 1), &[2, 3, 6, 7], &[5, 3, 3, 3]),
        four("conv of stride 2", conv(&[2, 2], &[(0, 1), (1, 0)], &[1, 1], 1), &[1, 3, 6, 7], &[4, 3, 2, 3]),
        four("conv in groups", conv(&[1, 2], &[(1, 1); 2], &[2, 1], 2), &[1, 4, 6, 7], &[6, 2, 3, 3]),
        four("conv 1x1", conv(&[1, 1], &[(0, 0); 2], &[1, 1], 1), &[1, 8, 3, 5], &[4, 8, 1, 1]),
        four("conv along one axis", conv(&[1], &[(2, 2)], &[1], 1), &[2, 3, 20], &[4, 3, 5]),
        case("linear", OpKind::Linear, &[floats(&[3, 9], &x), floats(&[5, 9], &w), floats(&[5], &x)]).rounded(),
        case("linear of batches", OpKind::Linear, &[floats(&[2, 3, 9], &x), floats(&[5, 9], &w)]).rounded(),
    ]
}

/// Every case with all operands live, and with all but one constant.
fn run(cases: Vec<Case>) {
    let mut score = Score::default();
    for case in cases {
        let all = (1 << case.operands.len()) - 1;
        let mut ways = vec![all];
        ways.extend((0..case.operands.len()).map(|i| 1 << i).filter(|&live| live != all));
        if case.constant_places {
            ways = vec![0b1, 0b101];
            ways.retain(|live| live & !all == 0);
        }
        let outcome = ways.into_iter().try_for_each(|live| case.check(live).map(|_| ()));
        score.case(case.name, outcome.map(|()| String::new()));
    }
    score.close();
}

#[test]
fn choices_are_exact() {
    run(choices());
}

#[test]
fn padding_is_exact() {
    run(paddings());
}

#[test]
fn powers_have_their_sign() {
    run(powers());
}

#[test]
fn integer_powers_are_integers() {
    run(integer_powers());
}

#[test]
fn positions_are_found() {
    run(places());
}

#[test]
fn layers_take_computed_parameters() {
    run(layers());
}

#[test]
fn comparisons_take_infinities() {
    run(comparisons());
}

#[test]
fn integer_division_is_exact() {
    run(integer_division());
}

#[test]
fn functions_at_their_ends() {
    run(functions());
}

/// An output that is a constant, which another operation reads.
#[test]
fn constants_are_outputs() {
    let text = "net \"n\" {\n  input %x: f16[3, 5]\n  const %c: f16[5] = [1.0, -2.0, 0.5, 3.0, 4.0]\n  %y: f16[3, 5] = mul(%x, %c)\n  \
                output %c\n  output %y\n}\n";
    let net = text::parse(text, &[]).expect("the net parses");
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    let x = anemone::Array { shape: vec![3, 5], data: vec![2.0; 15] };
    let run = anemone::execute(&program, &[("x".into(), x)], Default::default()).expect("it runs");
    let of = |name: &str| &run.outputs.iter().find(|(n, _)| n == name).expect("the output").1.data;
    assert_eq!(of("c"), &[1.0, -2.0, 0.5, 3.0, 4.0]);
    assert_eq!(of("y")[5..10], [2.0, -4.0, 1.0, 6.0, 8.0]);
}

#[test]
fn narrow_integers_wrap() {
    run(found::narrow());
}

#[test]
fn steps_hold_their_ends() {
    run(found::ends());
}

#[test]
fn norms_take_live_parameters() {
    run(norms());
}
