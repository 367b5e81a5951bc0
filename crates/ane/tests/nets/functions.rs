//! Every function of one number over every fp16 number: compiled, executed by `fast` and `exact`, compared with the
//! evaluator. What is admitted is a row of `compile::accuracy`, and no row admits much more than is needed.

use crate::common;

use anemone_compile::accuracy as errors;
use anemone_compile::{Options, compile};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::*;
use common::Score;
use common::suite::execute;
use half::f16;
use std::collections::BTreeMap;

/// All 2^16 numbers as a tensor.
const SHAPE: [usize; 3] = [64, 32, 32];

fn functions() -> Vec<Unary> {
    use Unary::*;
    vec![
        Identity,
        Relu,
        Relu6,
        LeakyRelu { alpha: 0.01 },
        Elu { alpha: 1.0 },
        Sigmoid,
        SigmoidHard { alpha: 0.2, beta: 0.5 },
        Tanh,
        ScaledTanh { alpha: 1.5, beta: 0.5 },
        Gelu(GeluMode::Exact),
        Gelu(GeluMode::Tanh),
        Gelu(GeluMode::Sigmoid),
        Silu,
        Softplus,
        Softsign,
        Erf,
        Exp,
        Exp2,
        Log { epsilon: 0.0 },
        Log2,
        Sqrt,
        Rsqrt { epsilon: 0.0 },
        Inverse { epsilon: 0.0 },
        Abs,
        Neg,
        Square,
        Sign,
        Ceil,
        Floor,
        Round,
        Clip { min: -1.5, max: 3.0 },
        Threshold { alpha: 0.25 },
        Sin,
        Cos,
        Tan,
        Asin,
        Acos,
        Atan,
        Sinh,
        Cosh,
        Atanh,
    ]
}

fn net(f: Unary) -> Net {
    let mut net = Net { name: "function".into(), ..Net::default() };
    let ty = TensorType { dtype: DType::F16, shape: SHAPE.to_vec() };
    let value = |name: &str| Value { name: name.into(), ty: ty.clone(), data: None, surface: None };
    let (x, y) = (net.add_value(value("x")), net.add_value(value("y")));
    net.inputs.push(x);
    net.outputs.push(y);
    net.ops.push(Op { name: "y".into(), kind: OpKind::Unary(f), inputs: vec![x], outputs: vec![y] });
    net
}

/// The largest error of a function, and what differs in kind.
#[derive(Default)]
struct Found {
    /// Largest error in units in the last place of the expected value, with its argument.
    ulps: (f32, f32),
    /// Largest error in absolute terms, with its argument.
    absolute: (f32, f32),
    /// Largest share of the admitted error that is needed.
    share: f32,
    /// Flags of the row's exceptions that are met.
    met: Vec<bool>,
    /// Arguments whose result is beyond what the row admits, or of another kind.
    beyond: Vec<String>,
}

fn unit(x: f32) -> f32 {
    let exponent = x.abs().max(f32::from(f16::MIN_POSITIVE)).log2().floor();
    (exponent - 10.0).exp2()
}

fn compare(x: &[f32], wanted: &[f32], got: &[f32], row: &errors::Bound, exact: bool) -> Found {
    let mut found = Found { met: vec![false; row.outside.len()], ..Found::default() };
    for ((&x, &w), &g) in x.iter().zip(wanted).zip(got) {
        let admitted = row.admits(x, w, g, exact);
        if !admitted {
            found.beyond.push(format!("{x:?}: {g} for {w}"));
        }
        if let Some(at) = row.outside.iter().position(|o| o.0 <= x && x <= o.1) {
            found.met[at] |= !errors::Bound { outside: &[], ..*row }.admits(x, w, g, exact);
            continue;
        }
        if w.is_finite() && g.is_finite() && w.abs() < errors::OVERFLOW {
            let error = (w - g).abs();
            found.share = found.share.max(error / (row.relative * w.abs() + row.absolute).max(f32::MIN_POSITIVE));
            if error / unit(w) > found.ulps.0 {
                found.ulps = (error / unit(w), x);
            }
            if error > found.absolute.0 {
                found.absolute = (error, x);
            }
        }
    }
    found
}

#[test]
fn functions_are_within_their_bounds() {
    let mut score = Score::default();
    let x: Vec<f32> = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32()).collect();
    let operand = Tensor { shape: SHAPE.to_vec(), data: Data::F32(x.clone()) };
    // For each row: the largest share of the admitted error, the exceptions that are met, and the largest error in units.
    let mut rows: BTreeMap<&str, (f32, Vec<bool>, f32)> = BTreeMap::new();
    for f in functions() {
        let net = net(f);
        let name = format!("{f:?}");
        let program = match compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()) {
            Ok(program) => program,
            Err(e) => {
                score.skip(&name, &e.to_string());
                continue;
            }
        };
        let wanted = eval::eval(&net, std::slice::from_ref(&operand)).expect("the function is evaluated").remove(0);
        let wanted = wanted.data.to_f32();
        let row = errors::bound(f.name());
        let (share, met, units) = rows.entry(f.name()).or_insert((0.0, vec![false; row.outside.len()], 0.0));
        for model in [Model::Fast, Model::Fixed] {
            let outcome = execute(&program, std::slice::from_ref(&x), model).and_then(|got| {
                let found = compare(&x, &wanted, &got, row, model != Model::Fast);
                *share = share.max(found.share);
                *units = units.max(found.ulps.0);
                met.iter_mut().zip(&found.met).for_each(|(m, f)| *m |= f);
                let (u, a, n) = (found.ulps, found.absolute, found.beyond.len());
                let note = format!("largest error {:.1} ulp at {}, {:.2e} at {}", u.0, u.1, a.0, a.1);
                if n == 0 {
                    return Ok(note);
                }
                let step = n.div_ceil(12);
                let some: Vec<&str> = found.beyond.iter().step_by(step).map(String::as_str).collect();
                Err(format!("{note}; {n} beyond the row: {}", some.join(", ")))
            });
            score.case(&format!("{name} {}", model.name()), outcome);
        }
    }
    for (name, (share, met, units)) in rows {
        // A row that admits much more than is needed, or an exception that no result needs, is out of date.
        let row = errors::bound(name);
        let idle = met.iter().position(|m| !m).map(|at| row.outside[at]);
        let told = match (row.relative + row.absolute == 0.0 || share >= 0.5 || row.operation.is_empty(), idle) {
            (false, _) => Err(format!("only {share:.2} of what its row admits is needed")),
            (_, Some(idle)) => Err(format!("no result needs {idle:?}")),
            _ => Ok(format!("{share:.2} of what is admitted")),
        };
        score.case(&format!("{name} row"), told);
        if !row.operation.is_empty() && row.relative + row.absolute > 0.0 && name != "square" {
            let stated = (units - row.worst.0).abs() <= 0.06 + 0.01 * units;
            let told = format!("{units:.1} units in the last place, {:.1} stated", row.worst.0);
            score.case(&format!("{name} worst"), if stated { Ok(told) } else { Err(told) });
        }
    }
    score.close();
}
