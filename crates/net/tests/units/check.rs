//! One net per violation.

use anemone_net::check::check;
use anemone_net::graph::{DType, Op, Tensor};
use anemone_net::graph::{Net, TensorType, Value, ValueId};
use anemone_net::ops::{OpKind, Unary};
use anemone_net::{Counted, Error};
use std::sync::Arc;

/// `y = relu(x)`.
fn net() -> Net {
    let mut net = Net { name: "main".to_string(), ..Net::default() };
    for name in ["x", "y"] {
        let ty = TensorType::new(DType::F32, [2]);
        net.add_value(Value { name: name.to_string(), ty, data: None, surface: None });
    }
    net.inputs = vec![ValueId(0)];
    net.outputs = vec![ValueId(1)];
    let kind = OpKind::Unary(Unary::Relu);
    net.ops.push(Op { name: "relu".to_string(), kind, inputs: vec![ValueId(0)], outputs: vec![ValueId(1)] });
    net
}

fn errors(change: impl FnOnce(&mut Net)) -> Vec<Error> {
    let mut net = net();
    change(&mut net);
    check(&net).err().unwrap_or_default()
}

#[test]
fn finds_each_violation() {
    assert_eq!(errors(|_| ()), []);
    assert!(matches!(errors(|n| n.values[1].name = "x".into())[..], [Error::NameTwice { first: 0, second: 1, .. }]));
    assert!(matches!(errors(|n| n.ops[0].inputs[0] = ValueId(9))[..], [Error::NoSuchValue { id: 9, count: 2, .. }]));
    assert!(matches!(errors(|n| n.ops[0].inputs[0] = ValueId(1))[..], [Error::NotDefined { .. }]));
    assert!(matches!(errors(|n| n.inputs.push(ValueId(1)))[..], [Error::DefinedTwice { .. }]));
    assert!(matches!(errors(|n| n.ops.clear())[..], [Error::OutputNotDefined { .. }]));
    assert!(matches!(errors(|n| n.values[1].ty.shape = vec![3])[..], [Error::TypeMismatch { .. }]));
    let counted = |count, axis| Counted { rows: ValueId(1), count, axis };
    assert!(matches!(errors(|n| n.counted.push(counted(ValueId(0), 0)))[..], [Error::Counted { .. }]));
    assert!(matches!(errors(|n| n.counted.push(counted(ValueId(1), 0)))[..], [Error::Counted { .. }]));
    assert!(matches!(errors(|n| n.ops[0].inputs.clear())[..], [Error::InOp { .. }]));
    assert!(matches!(
        errors(|n| n.ops[0].outputs.push(ValueId(0)))[..],
        [Error::DefinedTwice { .. }, Error::InOp { .. }]
    ));
    let constant = |n: &mut Net| {
        n.inputs.clear();
        n.values[0].data = Some(Arc::new(Tensor::f32([2], vec![1.0])));
    };
    assert!(matches!(errors(constant)[..], [Error::ConstantData { elements: 1, .. }]));
}

#[test]
fn collects_all() {
    let found = errors(|n| {
        n.values[1].ty.shape = vec![3];
        n.outputs.push(ValueId(7));
        n.ops.push(n.ops[0].clone());
    });
    assert_eq!(found.len(), 4, "{found:?}");
}
