//! Networks by hand, and inputs for a run before the one that is looked at.

use anemone::Array;
use anemone_compile::compile;
use anemone_facts::chips;
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, Tensor, TensorType, Value};
use anemone_program::Program;
use half::f16;
use std::sync::Arc;

fn value(name: String, shape: Vec<usize>) -> Value {
    let ty = TensorType { dtype: DType::F16, shape };
    Value { name, ty, data: None, surface: None }
}

fn constant(name: String, shape: Vec<usize>, number: impl Fn(usize) -> f16) -> Value {
    let data = Data::F16((0..shape.iter().product()).map(number).collect());
    let tensor = Tensor { shape: shape.clone(), data };
    Value { data: Some(Arc::new(tensor)), ..value(name, shape) }
}

/// Convolutions one after another, on so many channels at first and on so many rows and columns throughout. Layers are output
/// channels, kernel and groups; `sums` are layers and others before them whose results are added; `weight` has a layer's number and a
/// coefficient's place.
pub fn convolutions(
    name: &str,
    start: [usize; 2],
    layers: &[[usize; 3]],
    sums: &[[usize; 2]],
    weight: impl Fn(usize, usize) -> f16,
) -> Program {
    let net = convolutions_net(name, start, layers, sums, weight);
    compile(&net, &chips::CHIPS[0], &Default::default(), &mut ()).expect("the network compiles")
}

/// The network of [`convolutions`].
pub fn convolutions_net(
    name: &str,
    [mut channels, extent]: [usize; 2],
    layers: &[[usize; 3]],
    sums: &[[usize; 2]],
    weight: impl Fn(usize, usize) -> f16,
) -> Net {
    let mut net = Net { name: name.into(), ..Net::default() };
    let mut last = net.add_value(value("x".into(), vec![1, channels, extent, extent]));
    net.inputs = vec![last];
    let mut left = Vec::new();
    for (layer, &[cout, kernel, groups]) in layers.iter().enumerate() {
        let shape = vec![cout, channels / groups, kernel, kernel];
        let weights = net.add_value(constant(format!("w{layer}"), shape, |i| weight(layer, i)));
        let y = net.add_value(value(format!("y{layer}"), vec![1, cout, extent, extent]));
        let pads = vec![(kernel / 2, kernel / 2); 2];
        let kind = OpKind::Conv { strides: vec![1, 1], pads, dilations: vec![1, 1], groups };
        net.ops.push(Op { name: format!("conv{layer}"), kind, inputs: vec![last, weights], outputs: vec![y] });
        (last, channels) = (y, cout);
        if let Some(&[_, other]) = sums.iter().find(|[to, _]| *to == layer) {
            let y = net.add_value(value(format!("s{layer}"), vec![1, cout, extent, extent]));
            let kind = OpKind::Binary(Binary::Add);
            net.ops.push(Op { name: format!("sum{layer}"), kind, inputs: vec![last, left[other]], outputs: vec![y] });
            last = y;
        }
        left.push(last);
    }
    net.outputs = vec![last];
    net
}

/// Products of one matrix of so many rows and taps by one of so many columns each, all of them outputs; `weight` gives the
/// coefficients of each.
pub fn products(
    name: &str,
    [rows, taps]: [usize; 2],
    columns: &[usize],
    weight: impl Fn(usize, usize) -> f16,
) -> Program {
    let mut net = Net { name: name.into(), ..Net::default() };
    let x = net.add_value(value("x".into(), vec![rows, taps]));
    net.inputs = vec![x];
    for (layer, &columns) in columns.iter().enumerate() {
        let weights = net.add_value(constant(format!("w{layer}"), vec![columns, taps], |i| weight(layer, i)));
        let y = net.add_value(value(format!("y{layer}"), vec![rows, columns]));
        let op = format!("product{layer}");
        net.ops.push(Op { name: op, kind: OpKind::Linear, inputs: vec![x, weights], outputs: vec![y] });
        net.outputs.push(y);
    }
    compile(&net, &chips::CHIPS[0], &Default::default(), &mut ()).expect("the network compiles")
}

/// Other inputs of the same extents: what a plan runs on before, so that what it leaves behind would show.
pub fn others(inputs: &[(String, Array)]) -> Vec<(String, Array)> {
    let other = |a: &Array| Array { shape: a.shape.clone(), data: a.data.iter().rev().map(|x| 0.5 * x).collect() };
    inputs.iter().map(|(name, a)| (name.clone(), other(a))).collect()
}
