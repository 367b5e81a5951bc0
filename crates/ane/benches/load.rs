//! Time from a package with 100 MB of weights to a checked network: the weight file is read once, and never copied.

use anemone::Model;
use anemone::convert::{NetForm, encode};
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, TensorType, Value};
use std::sync::Arc;
use std::time::Instant;

/// A chain of matrix products with `layers` weights of 2048 x 2048 halves, 8 MiB each.
fn chain(layers: usize) -> Net {
    const SIDE: usize = 2048;
    let mut net = Net { name: "main".into(), ..Net::default() };
    let ty = |shape: &[usize]| TensorType { dtype: DType::F16, shape: shape.to_vec() };
    let value = |name: String, shape: &[usize]| Value { name, ty: ty(shape), data: None, surface: None };
    let mut x = net.add_value(value("x".into(), &[1, SIDE]));
    net.inputs = vec![x];
    for layer in 0..layers {
        let data = (0..SIDE * SIDE).map(|i| half::f16::from_f32(((i + layer) % 251) as f32 / 256.0)).collect();
        let tensor = Arc::new(Tensor { shape: vec![SIDE, SIDE], data: Data::F16(data) });
        let weight = net.add_value(Value { data: Some(tensor), ..value(format!("w{layer}"), &[SIDE, SIDE]) });
        let y = net.add_value(value(format!("y{layer}"), &[1, SIDE]));
        net.ops.push(Op { name: format!("y{layer}"), kind: OpKind::Linear, inputs: vec![x, weight], outputs: vec![y] });
        x = y;
    }
    net.outputs = vec![x];
    net
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let package = folder.path().join("chain.mlpackage");
    let parts = encode(&chain(13), NetForm::Mlpackage).expect("the net is written");
    let bytes: usize = parts.iter().map(|(_, b)| b.len()).sum();
    for (relative, bytes) in parts {
        let path = package.join(relative);
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder is made");
        std::fs::write(path, bytes).expect("the file is written");
    }
    let mut times: Vec<_> = (0..7)
        .map(|_| {
            let start = Instant::now();
            let model = Model::load(&package).expect("it loads");
            let time = start.elapsed();
            drop(model);
            time
        })
        .collect();
    times.sort();
    println!("{} MB to a checked network: median {:.0?}, best {:.0?}", bytes / 1_000_000, times[3], times[0]);
}
