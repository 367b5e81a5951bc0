//! Compressed weights through the compiler: what streams compressed and what is expanded, and that it is the same
//! network either way. The words say what streams; the engine reads the streams.

use crate::common;

use anemone_compile::{Options, compile};
use anemone_engine::{Memory, Options as EngineOptions, run};
use anemone_facts::numerics::Model;
use anemone_facts::{Field, chips};
use anemone_net::compress::{self, Compression, Method};
use anemone_net::stored::{Element, Form, Stored, pack};
use anemone_net::*;
use anemone_program::{Direction, Program};
use common::Random;
use std::sync::Arc;

/// One operation with a constant of those extents.
fn net(kind: &OpKind, x: &[usize], weights: &Tensor) -> Net {
    let mut net = Net { name: "n".into(), ..Net::default() };
    let ty = TensorType { dtype: DType::F16, shape: x.to_vec() };
    let x = net.add_value(Value { name: "x".into(), ty, data: None, surface: None });
    let data = Some(Arc::new(weights.clone()));
    let w = net.add_value(Value { name: "w".into(), ty: weights.ty(), data, surface: None });
    let types: Vec<&TensorType> = [x, w].iter().map(|&id| &net.value(id).ty).collect();
    let ty = infer::infer(kind, &types, None).expect("types fit").remove(0);
    let y = net.add_value(Value { name: "y".into(), ty, data: None, surface: None });
    net.ops.push(Op { name: "y".into(), kind: kind.clone(), inputs: vec![x, w], outputs: vec![y] });
    (net.inputs, net.outputs) = (vec![x], vec![y]);
    net
}

fn conv(stride: usize, kernel: usize, dilation: usize, groups: usize) -> OpKind {
    let reach = (kernel - 1) * dilation / 2;
    OpKind::Conv { strides: vec![stride; 2], pads: vec![(reach, reach); 2], dilations: vec![dilation; 2], groups }
}

/// Operations with their input's and weight's extents.
fn operations() -> Vec<(&'static str, OpKind, Vec<usize>, Vec<usize>)> {
    let transposed = OpKind::ConvTranspose {
        strides: vec![2, 2],
        pads: vec![(0, 0); 2],
        output_pads: vec![0, 0],
        dilations: vec![1, 1],
        groups: 1,
    };
    let product = |transpose_y| OpKind::MatMul { transpose_x: false, transpose_y };
    vec![
        ("1x1", conv(1, 1, 1, 1), vec![1, 96, 8, 8], vec![80, 96, 1, 1]),
        ("3x3", conv(1, 3, 1, 1), vec![1, 24, 8, 40], vec![48, 24, 3, 3]),
        ("dilated", conv(1, 3, 2, 1), vec![1, 24, 8, 8], vec![48, 24, 3, 3]),
        ("grouped", conv(1, 3, 1, 2), vec![1, 48, 8, 8], vec![64, 24, 3, 3]),
        ("linear", OpKind::Linear, vec![1, 3, 64], vec![128, 64]),
        ("product", product(false), vec![1, 5, 64], vec![64, 128]),
        ("turned product", product(true), vec![1, 5, 64], vec![128, 64]),
        ("transposed", transposed, vec![1, 64, 4, 4], vec![64, 64, 2, 2]),
    ]
}

fn weights(shape: &[usize]) -> Tensor {
    let mut random = Random::new(7);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.uniform(-0.25, 0.25)).collect();
    Tensor { shape: shape.to_vec(), data: Data::from_f32(DType::F16, &values) }
}

fn compressed(net: &Net, method: Method) -> Net {
    let mut net = net.clone();
    assert_eq!(compress::compress(&mut net, method).expect("a form").tensors, 1);
    net
}

/// The same network with its constants expanded.
fn expanded(net: &Net) -> Net {
    let mut net = net.clone();
    for tensor in net.values.iter_mut().flat_map(|v| &mut v.data) {
        *tensor = Arc::new(Tensor { shape: tensor.shape.clone(), data: tensor.data.dense().into_owned() });
    }
    net
}

fn compiled(net: &Net) -> Program {
    compile(net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles")
}

/// Index widths of palettes, and whether zeros are skipped, over all tasks.
fn streamed(program: &Program) -> (Vec<u32>, bool) {
    let tasks = program.tasks().expect("tasks");
    let get = |field| tasks.iter().map(move |t| t.get(program.layout, field).unwrap_or(0)).collect::<Vec<_>>();
    let palettes = get(Field::PalettizedEn).into_iter().zip(get(Field::PalettizedBits));
    (palettes.filter(|(on, _)| *on == 1).map(|(_, bits)| bits).collect(), get(Field::SparseFmt).contains(&1))
}

/// Every byte of every output, of one and the same input.
fn outputs(program: &Program, model: Model) -> Vec<u8> {
    let mut memory = Memory::for_program(program);
    let mut random = Random::new(5);
    for port in program.ports_of(Direction::Input) {
        for pair in memory.region_mut(port.bar).expect("bound").bytes_mut().chunks_exact_mut(2) {
            pair.copy_from_slice(&half::f16::from_f32(random.uniform(-1.0, 1.0)).to_le_bytes());
        }
    }
    run(program, &mut memory, EngineOptions { model, ..EngineOptions::default() }).expect("runs");
    program.ports_of(Direction::Output).flat_map(|p| memory.region(p.bar).expect("bound").bytes().to_vec()).collect()
}

/// Requires what `wanted` says to stream, in fewer bytes than expanded, and the same result to the bit.
fn check(name: &str, net: &Net, wanted: (Option<u32>, bool)) {
    let (small, large) = (compiled(net), compiled(&expanded(net)));
    let (palettes, sparse) = streamed(&small);
    assert_eq!(palettes.first().copied(), wanted.0, "{name}");
    assert!(palettes.iter().all(|&bits| Some(bits) == wanted.0), "{name}: {palettes:?}");
    assert_eq!(sparse, wanted.1, "{name}");
    assert_eq!(streamed(&large), (vec![], false), "{name}");
    let [less, more] = [&small, &large].map(|p| p.kernel.len());
    if wanted == (None, false) {
        assert_eq!(less, more, "{name}");
    } else {
        assert!(less < more, "{name}: {less} bytes in place of {more}");
    }
    for model in [Model::Fast, Model::Fixed] {
        assert_eq!(outputs(&small, model), outputs(&large, model), "{name}");
    }
}

#[test]
fn palettes_stream_with_indices_of_four_or_eight_bits() {
    for (name, kind, x, w) in operations() {
        let plain = net(&kind, &x, &weights(&w));
        for bits in [1, 2, 3, 4] {
            // The zeros between the elements of a dilated kernel are a value more.
            let streamed = if (name, bits) == ("dilated", 4) { 8 } else { 4 };
            check(
                &format!("{name}, {bits} bits"),
                &compressed(&plain, Method::Palette { bits }),
                (Some(streamed), false),
            );
        }
    }
    // A table of 256 values stands in every stream, so only large kernels gain by it.
    let large = net(&conv(1, 1, 1, 1), &[1, 256, 4, 4], &weights(&[256, 256, 1, 1]));
    for bits in [6, 8] {
        check(&format!("{bits} bits"), &compressed(&large, Method::Palette { bits }), (Some(8), false));
    }
    let small = net(&conv(1, 1, 1, 1), &[1, 64, 4, 4], &weights(&[64, 64, 1, 1]));
    check("a table larger than what it saves", &compressed(&small, Method::Palette { bits: 8 }), (None, false));
}

#[test]
fn zeros_are_not_streamed() {
    for (name, kind, x, w) in operations() {
        let plain = net(&kind, &x, &weights(&w));
        check(name, &compressed(&plain, Method::Prune { share: 0.75 }), (None, true));
    }
    let plain = net(&conv(1, 1, 1, 1), &[1, 64, 4, 4], &weights(&[64, 64, 1, 1]));
    check("too few zeros", &compressed(&plain, Method::Prune { share: 0.01 }), (None, false));
}

#[test]
fn int8_kernels_are_expanded() {
    for (name, kind, x, w) in operations() {
        check(name, &compressed(&net(&kind, &x, &weights(&w)), Method::Int8), (None, false));
    }
}

/// A stride beyond the chip's becomes channels; the taps that this adds are zeros, one more value than 4 bits have.
#[test]
fn strided_kernels_keep_their_palette() {
    let strided = net(&conv(4, 4, 1, 1), &[1, 24, 9, 9], &weights(&[48, 24, 4, 4]));
    check("strided", &compressed(&strided, Method::Palette { bits: 4 }), (Some(8), false));
}

#[test]
fn joint_forms_take_the_smaller_stream() {
    let shape = [64, 64, 1, 1];
    let mut random = Random::new(9);
    let count: usize = shape.iter().product();
    let joint = |share: f32, random: &mut Random| {
        let mask: Vec<u8> = (0..count).map(|_| u8::from(random.uniform(0.0, 1.0) >= share)).collect();
        let set = mask.iter().filter(|&&m| m == 1).count();
        let indices: Vec<u8> = (0..set).map(|_| random.uniform(0.0, 15.99) as u8).collect();
        let packed = |values: &[u8], bits: u32, shape: &[usize]| {
            let form = Form::Plain { element: Element::UInt(bits), bytes: pack(values, bits as usize).into() };
            Stored::tensor(form, shape.to_vec()).expect("fits")
        };
        let table: Vec<f32> = (0..16).map(|i| i as f32 / 32.0 - 0.25 + 1.0 / 128.0).collect();
        let table = Tensor { shape: vec![1, 1, 1, 1, 16, 1], data: Data::from_f32(DType::F16, &table) };
        let mask = packed(&mask, 1, &shape);
        let form = Form::Palette { indices: packed(&indices, 4, &[set]), table, axis: 0, mask: Some(mask.clone()) };
        let values = Stored::tensor(form, vec![set]).expect("fits");
        let weights = Stored::tensor(Form::Sparse { mask, values }, shape.to_vec()).expect("fits");
        let both = Compression { palette: true, sparse: true, scaled: None };
        assert_eq!(Compression::of(&weights.data), both);
        net(&conv(1, 1, 1, 1), &[1, 64, 4, 4], &weights)
    };
    // With the zeros there are 17 values: indices of eight bits.
    check("mostly zeros", &joint(0.9, &mut random), (None, true));
    check("few zeros", &compressed_large(&mut random), (Some(8), false));
}

/// Sixteen values and zero, a tenth of them zeros, in a kernel that is worth a table.
fn compressed_large(random: &mut Random) -> Net {
    let shape = [256, 256, 1, 1];
    let values: Vec<f32> = (0..256 * 256)
        .map(|_| if random.uniform(0.0, 1.0) < 0.1 { 0.0 } else { (random.uniform(0.0, 15.99).floor() + 1.0) / 64.0 })
        .collect();
    let dense = Tensor { shape: shape.to_vec(), data: Data::from_f32(DType::F16, &values) };
    compressed(&net(&conv(1, 1, 1, 1), &[1, 256, 4, 4], &dense), Method::Palette { bits: 6 })
}
