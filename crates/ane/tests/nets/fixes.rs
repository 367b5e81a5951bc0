//! Every class of rewrite that `ane fix` knows, on a small network that the check refuses: applied, written, and checked again.

use anemone::check::{self, Subject};
use anemone::convert::{NetForm, encode};
use anemone::fix::fix;
use anemone::reference::chip as chip_named;
use anemone::{Choices, files};
use anemone_check::{Route, check as place};
use anemone_net::infer::infer;
use anemone_net::{
    Coordinates, DType, Data, EdgeMode, Net, Op, OpKind, PoolKind, ResizeMode, Tensor, TensorType, Unary, Value,
    ValueId,
};
use std::path::Path;
use std::sync::Arc;

/// A network of one operand, built operation by operation.
struct Small(Net, ValueId);

impl Small {
    fn new(shape: &[usize]) -> Small {
        let mut net = Net { name: "main".into(), ..Net::default() };
        let ty = TensorType::new(DType::F16, shape);
        let x = net.add_value(Value { name: "x".into(), ty, data: None, surface: None });
        net.inputs.push(x);
        Small(net, x)
    }

    fn constant(&mut self, dtype: DType, shape: &[usize], number: impl Fn(usize) -> f32) -> ValueId {
        let values: Vec<f32> = (0..shape.iter().product()).map(number).collect();
        let tensor = Tensor { shape: shape.to_vec(), data: Data::from_f32(dtype, &values) };
        let name = format!("c{}", self.0.values.len());
        let ty = TensorType::new(dtype, shape);
        self.0.add_value(Value { name, ty, data: Some(Arc::new(tensor)), surface: None })
    }

    fn weight(&mut self, shape: &[usize]) -> ValueId {
        self.constant(DType::F16, shape, |i| ((i * 37 % 29) as f32 - 14.0) / 64.0)
    }

    fn op(mut self, kind: OpKind, others: &[ValueId], declared: Option<&[usize]>) -> Small {
        let inputs: Vec<ValueId> = [self.1].iter().chain(others).copied().collect();
        let types: Vec<&TensorType> = inputs.iter().map(|&id| &self.0.value(id).ty).collect();
        let declared = declared.map(|shape| TensorType::new(DType::F16, shape));
        let ty = infer(&kind, &types, declared.as_ref()).expect("a result").remove(0);
        let name = format!("y{}", self.0.values.len());
        let result = self.0.add_value(Value { name: name.clone(), ty, data: None, surface: None });
        self.0.ops.push(Op { name, kind, inputs, outputs: vec![result] });
        Small(self.0, result)
    }

    fn done(self) -> Net {
        let Small(mut net, last) = self.op(OpKind::Unary(Unary::Relu), &[], None);
        net.outputs.push(last);
        net
    }
}

fn conv(axes: usize, stride: usize, pad: usize, dilation: usize, groups: usize) -> OpKind {
    let (strides, dilations) = (vec![stride; axes], vec![dilation; axes]);
    OpKind::Conv { strides, pads: vec![(pad, pad); axes], dilations, groups }
}

fn pool(kind: PoolKind, kernel: [usize; 2], strides: [usize; 2], pads: [usize; 2]) -> OpKind {
    let pads = pads.map(|n| (n, n)).to_vec();
    OpKind::Pool { kind, kernel: kernel.to_vec(), strides: strides.to_vec(), pads, ceil_mode: false }
}

/// Networks by name, with the chip that refuses them and the beginning of the form that they come to.
fn cases() -> Vec<(&'static str, &'static str, &'static str, Net)> {
    let mut all = Vec::new();
    let mut add = |name, chip, into, small: Small| all.push((name, chip, into, small.done()));
    let mut s = Small::new(&[1, 3, 64, 64]);
    let w = s.weight(&[4, 3, 16, 16]);
    add("patch embedding", "h16", "space-to-depth by 16x16", s.op(conv(2, 16, 0, 1, 1), &[w], None));
    let mut s = Small::new(&[1, 1, 2000]);
    let w = s.weight(&[6, 1, 256]);
    let bias = s.weight(&[6]);
    add("spectrum", "m1", "space-to-depth by 1x128", s.op(conv(1, 128, 64, 1, 1), &[w, bias], None));
    let mut s = Small::new(&[1, 6, 1, 90]);
    let w = s.weight(&[6, 1, 1, 31]);
    add(
        "wide kernel of groups",
        "m1",
        "a sum of 3",
        s.op(
            OpKind::Conv { strides: vec![1, 1], pads: vec![(0, 0), (15, 15)], dilations: vec![1, 1], groups: 6 },
            &[w],
            None,
        ),
    );
    let mut s = Small::new(&[1, 4, 1, 90]);
    let w = s.weight(&[4, 4, 1, 17]);
    let kind = OpKind::Conv { strides: vec![1, 2], pads: vec![(0, 0), (9, 31)], dilations: vec![1, 4], groups: 1 };
    add("wide dilated kernel", "h16", "the convolution with rows", s.op(kind, &[w], None));
    let mut s = Small::new(&[1, 2, 5, 8, 8]);
    let w = s.weight(&[3, 2, 3, 3, 3]);
    let bias = s.weight(&[3]);
    let kind = OpKind::Conv {
        strides: vec![2, 1, 1],
        pads: vec![(1, 2), (1, 1), (0, 1)],
        dilations: vec![1, 1, 1],
        groups: 1,
    };
    add("kernel with depth", "m1", "3 convolutions", s.op(kind, &[w, bias], None));
    for (groups, channels) in [(1, 3), (2, 4)] {
        let mut s = Small::new(&[1, channels, 7, 5]);
        let w = s.weight(&[channels, 2, 18, 17]);
        let bias = s.weight(&[2 * groups]);
        let kind = OpKind::ConvTranspose {
            strides: vec![8, 4],
            pads: vec![(3, 5), (2, 0)],
            output_pads: vec![1, 2],
            dilations: vec![1, 1],
            groups,
        };
        add("transposed", "h16", "a convolution of 3x5", s.op(kind, &[w, bias], None));
    }
    let max = PoolKind::Max;
    add(
        "wide pooling",
        "h16",
        "a sequence of 3 smaller",
        Small::new(&[1, 3, 4, 68]).op(pool(max, [1, 17], [1, 17], [0, 0]), &[], None),
    );
    add(
        "padded pooling",
        "h16",
        "a sequence of 2 smaller",
        Small::new(&[1, 3, 20, 20]).op(pool(max, [13, 13], [2, 1], [6, 6]), &[], None),
    );
    add(
        "pooling of all",
        "h16",
        "a reduction",
        Small::new(&[1, 3, 40, 40]).op(pool(max, [40, 40], [1, 1], [0, 0]), &[], None),
    );
    add("one operand", "m1", "its operand", Small::new(&[1, 4, 8, 8]).op(OpKind::Concat { axis: 1 }, &[], None));
    let s = Small::new(&[1, 1, 4, 4]);
    let many = vec![s.1; 299];
    add("many operands", "h16", "a concat of 2 groups", s.op(OpKind::Concat { axis: 1 }, &many, None));
    let kind = OpKind::PadEdge { pads: vec![(0, 0), (0, 0), (2, 1), (0, 3)], mode: EdgeMode::Reflect };
    add("mirrored border", "m1", "slices of its border", Small::new(&[1, 4, 9, 9]).op(kind, &[], None));
    let kind = OpKind::Pad { pads: vec![(0, 0), (1, 1), (0, 2), (0, 0)], value: 1.5 };
    add("padded channels", "h16", "a concat with constants", Small::new(&[1, 4, 9, 9]).op(kind, &[], None));
    let mut s = Small::new(&[1, 8, 4, 6]);
    let indices = s.constant(DType::I32, &[4], |i| [3.0, 4.0, -1.0, 0.0][i]);
    add("gather", "m1", "3 slices", s.op(OpKind::Gather { axis: 1 }, &[indices], None));
    for (mode, coordinates) in
        [(ResizeMode::Linear, Coordinates::AlignCorners), (ResizeMode::Linear, Coordinates::HalfPixel)]
    {
        let kind = OpKind::Resize { mode, coordinates };
        let small = Small::new(&[1, 2, 6, 8]).op(kind, &[], Some(&[1, 2, 15, 21]));
        add("resampling", "m1", "a product", small);
    }
    let windows = Small::new(&[1, 12, 12, 8])
        .op(OpKind::Reshape, &[], Some(&[1, 3, 4, 3, 4, 8]))
        .op(OpKind::Transpose { perm: vec![0, 1, 3, 2, 4, 5] }, &[], None)
        .op(OpKind::Reshape, &[], Some(&[9, 16, 8]));
    add("windows", "h16", "part of the transposes", windows);
    let shuffled = Small::new(&[1, 16, 8, 4])
        .op(OpKind::Reshape, &[], Some(&[2, 2, 4, 4, 4, 2]))
        .op(OpKind::Transpose { perm: vec![5, 0, 4, 1, 3, 2] }, &[], None)
        .op(OpKind::Reshape, &[], Some(&[1, 64, 8]));
    add("six axes", "m1", "part of the transposes", shuffled);
    all
}

/// Operations, and those that the check takes, of a package.
fn counted(package: &Path, chip: &'static anemone_facts::chips::Chip) -> (usize, usize) {
    let Ok(Subject::Program(outline, _)) = check::load(package, &Choices::default()) else { panic!("a program") };
    let placed = place(&outline, chip, Route::Direct);
    (placed.verdicts.len(), placed.verdicts.iter().filter(|v| v.place.on_engine()).count())
}

#[test]
fn every_rewrite_is_taken_and_keeps_results() {
    let folder = tempfile::tempdir().expect("a folder");
    for (at, (name, chip, into, net)) in cases().into_iter().enumerate() {
        let chip = chip_named(chip).expect("a chip");
        let fixed = fix(&net, None, chip, 1).unwrap_or_else(|e| panic!("{name}: {}", e.message));
        assert!(fixed.counts[0].1 < fixed.counts[0].0, "{name}: nothing was refused");
        assert!(fixed.left.is_empty(), "{name}: {:?}", fixed.left);
        assert!(fixed.applied.first().is_some_and(|a| a.into.starts_with(into)), "{name}: {:?}", fixed.applied);
        assert!(fixed.error <= 1e-5, "{name}: {}", fixed.error);
        let package = folder.path().join(format!("{at}.mlpackage"));
        for (part, bytes) in encode(&fixed.net, NetForm::Mlpackage).expect("a package") {
            let path = package.join(part);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            files::write(&path, &bytes).expect("a file");
        }
        let (total, taken) = counted(&package, chip);
        assert_eq!(taken, total, "{name}: the package is not taken whole");
    }
}

/// Operations that no rewrite helps stay as they are, with the reason and a fix.
#[test]
fn what_cannot_be_fixed_is_left() {
    let net = Small::new(&[1, 16, 64]).op(OpKind::ArgSort { axis: 2, descending: true }, &[], None);
    let Small(mut net, last) = net;
    net.outputs.push(last);
    let fixed = fix(&net, None, chip_named("h16").expect("a chip"), 1).expect("an answer");
    assert!(fixed.applied.is_empty() && fixed.net.ops.len() == 1);
    assert!(
        fixed.left.len() == 1 && !fixed.left[0].reason.is_empty() && !fixed.left[0].fix.is_empty(),
        "{:?}",
        fixed.left
    );
}
