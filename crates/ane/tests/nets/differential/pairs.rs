//! Every pair of elementwise steps, one after the other, on numbers at limits: what one function takes with it into the table of
//! another shows here, where chains drawn at random seldom put the two together.

use super::draw::{BEYOND, Case, SPECIAL};
use super::{Outcome, outcome};
use anemone_net::*;
use half::f16;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An elementwise step with a single operand.
#[derive(Clone, Debug)]
enum Step {
    Function(Unary),
    /// An operation with a scalar constant as its second operand.
    With(Binary, f32),
}

fn steps() -> Vec<Step> {
    use Binary::*;
    use Unary::*;
    const INF: f32 = f32::INFINITY;
    let functions = [
        Relu,
        Relu6,
        LeakyRelu { alpha: 0.25 },
        Elu { alpha: 1.0 },
        Abs,
        Neg,
        Square,
        Sign,
        Ceil,
        Floor,
        Round,
        Clip { min: 0.0, max: INF },
        Clip { min: -INF, max: 0.0 },
        Clip { min: -1.5, max: 3.0 },
        Clip { min: 1.0, max: 6.0 },
        Threshold { alpha: 0.25 },
        Sqrt,
        Rsqrt { epsilon: 0.0 },
        Log { epsilon: 0.0 },
        Log2,
        Inverse { epsilon: 0.0 },
        Exp,
        Exp2,
        Sigmoid,
        SigmoidHard { alpha: 0.2, beta: 0.5 },
        Tanh,
        ScaledTanh { alpha: 1.5, beta: 0.5 },
        Silu,
        Softplus,
        Softsign,
        Erf,
        Gelu(GeluMode::Exact),
        Gelu(GeluMode::Tanh),
        Sin,
        Atan,
    ];
    let constants =
        [(Mul, -1.0), (Mul, 2.0), (Mul, 0.0), (Add, 1.0), (Add, -0.5), (Sub, 3.0), (Max, 0.0), (Max, 1.0), (Min, 0.0)];
    let constants = constants.map(|(op, c)| Step::With(op, c));
    functions.map(Step::Function).into_iter().chain(constants).collect()
}

/// Steps whose results are exact: the reciprocal of an inexact number near zero has no bound.
fn exact(step: &Step) -> bool {
    use Unary::*;
    match step {
        Step::With(..) => true,
        Step::Function(f) => {
            matches!(f, Relu | Relu6 | Abs | Neg | Sign | Ceil | Floor | Round | Clip { .. } | Threshold { .. })
        }
    }
}

fn case(steps: &[&Step]) -> Case {
    let mut data: Vec<f32> = SPECIAL.iter().chain(&BEYOND).map(|&x| f16::from_f32(x).to_f32()).collect();
    data.extend((-12..=12).map(|i| i as f32 * 0.75));
    let ty = TensorType { dtype: DType::F16, shape: vec![1, data.len()] };
    let mut net = Net { name: "case".into(), ..Net::default() };
    let value = |name: String, data| Value { name, ty: ty.clone(), data, surface: None };
    let mut x = net.add_value(value("x0".into(), None));
    net.inputs.push(x);
    for (at, step) in steps.iter().enumerate() {
        let out = net.add_value(value(format!("y{at}"), None));
        let (kind, inputs) = match step {
            Step::Function(f) => (OpKind::Unary(*f), vec![x]),
            Step::With(op, c) => {
                let tensor = Tensor { shape: vec![1, 1], data: Data::from_f32(DType::F16, &[*c]) };
                let constant =
                    Value { name: format!("c{at}"), ty: tensor.ty(), data: Some(Arc::new(tensor)), surface: None };
                (OpKind::Binary(*op), vec![x, net.add_value(constant)])
            }
        };
        net.ops.push(Op { name: format!("y{at}"), kind, inputs, outputs: vec![out] });
        x = out;
    }
    net.outputs.push(x);
    check::check(&net).expect("a sound network");
    let input = Tensor { shape: ty.shape, data: Data::from_f32(DType::F16, &data) };
    Case { net, inputs: vec![input] }
}

#[test]
fn every_pair_of_elementwise_steps_is_right() {
    let all = steps();
    let (mut right, mut drawn, mut wrong) = (0, 0, BTreeMap::new());
    std::panic::set_hook(Box::new(|_| {}));
    for first in &all {
        for second in &all {
            if !exact(first) && matches!(second, Step::Function(Unary::Inverse { .. })) {
                continue;
            }
            drawn += 1;
            let case = case(&[first, second]);
            match outcome(&case) {
                Outcome::Wrong(why) => drop(wrong.insert(format!("{first:?}, then {second:?}"), why)),
                Outcome::Refused(why) => drop(wrong.insert(format!("{first:?}, then {second:?}"), why)),
                _ => right += 1,
            }
        }
    }
    drop(std::panic::take_hook());
    for (steps, why) in &wrong {
        println!("WRONG {steps}: {why}");
    }
    println!("{right} right, {} wrong", wrong.len());
    assert!(wrong.is_empty());
    assert_eq!(right, drawn);
    assert!(drawn > 1800, "{drawn} pairs");
}
