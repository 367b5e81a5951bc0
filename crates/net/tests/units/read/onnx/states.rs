//! Operators with states, by laws: shorter sequences are those of shorter operands, and a step with a cache is the last one of all steps.

use super::{extent, float_info};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{
    Attribute, Graph, Model, Node, OpsetId, Tensor as Stored, TensorType, Type, ValueInfo,
};
use anemone_net::{Data, Net, Tensor};
use prost::Message;

/// One node; operands are given at run time, or stored.
struct One {
    node: Node,
    live: Vec<Tensor>,
    graph: Graph,
}

impl One {
    fn new(domain: &str, op: &str, outputs: usize) -> One {
        let output = (0..outputs).map(|i| format!("y{i}")).collect::<Vec<_>>();
        let node = Node { op_type: op.into(), domain: domain.into(), output: output.clone(), ..Node::default() };
        let output = output.into_iter().map(|name| ValueInfo { name, ty: None }).collect();
        One { node, live: Vec::new(), graph: Graph { output, ..Graph::default() } }
    }

    fn name(&mut self) -> String {
        let name = format!("x{}", self.node.input.len());
        self.node.input.push(name.clone());
        name
    }

    fn live(mut self, tensor: Tensor) -> One {
        let name = self.name();
        let element = if tensor.data.dtype().is_float() { 1 } else { 6 };
        let mut info = float_info(&name, tensor.shape.iter().map(|&n| extent(n as i64)).collect());
        let shape = info.ty.take().and_then(|ty| ty.tensor).and_then(|tensor| tensor.shape);
        info.ty = Some(Type { tensor: Some(TensorType { element, shape }) });
        self.graph.input.push(ValueInfo { ..info });
        self.live.push(tensor);
        self
    }

    fn stored(mut self, tensor: &Tensor) -> One {
        let name = self.name();
        let dims = tensor.shape.iter().map(|&n| n as i64).collect();
        let mut stored = Stored { dims, name, ..Stored::default() };
        match tensor.data.dtype().is_float() {
            true => (stored.data_type, stored.float_data) = (1, tensor.data.to_f32()),
            false => (stored.data_type, stored.int32_data) = (6, tensor.data.to_i32()),
        }
        self.graph.initializer.push(stored);
        self
    }

    fn none(mut self, count: usize) -> One {
        self.node.input.extend(vec![String::new(); count]);
        self
    }

    fn attribute(mut self, name: &str, set: impl FnOnce(&mut Attribute)) -> One {
        let mut attribute = Attribute { name: name.into(), ..Attribute::default() };
        set(&mut attribute);
        self.node.attribute.push(attribute);
        self
    }

    fn int(self, name: &str, i: i64) -> One {
        self.attribute(name, |a| a.i = i)
    }

    fn net(&mut self) -> Net {
        self.graph.node.push(self.node.clone());
        let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
        let model = Model { graph: Some(self.graph.clone()), opset_import, ..Model::default() };
        read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).expect("a network").0
    }

    fn run(mut self) -> Vec<Tensor> {
        let net = self.net();
        // Operands without elements are constants of the network.
        self.live.retain(|tensor| !tensor.data.is_empty());
        eval(&net, &self.live).expect("it runs")
    }
}

/// Numbers between -1 and 1 that differ.
fn numbers(seed: usize, shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    let of = |i: usize| ((i * 37 + seed * 101) % 199) as f32 / 99.5 - 1.0;
    Tensor::f32(shape, (0..count).map(of).collect())
}

fn whole(shape: &[usize], values: &[i32]) -> Tensor {
    Tensor { shape: shape.to_vec(), data: Data::I32(values.to_vec()) }
}

/// The part of a tensor at one position of an axis.
fn part(x: &Tensor, axis: usize, from: usize, to: usize) -> Vec<f32> {
    let inner: usize = x.shape[axis + 1..].iter().product();
    let run = x.shape[axis] * inner;
    x.data.to_f32().chunks(run).flat_map(|c| c[from * inner..to * inner].to_vec()).collect()
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
}

const STEPS: usize = 5;

/// A layer over `x` `[steps, N, 3]` with these lengths; its results.
fn layer(op: &str, way: &str, x: Tensor, lengths: Option<(&[i32], bool)>) -> Vec<Tensor> {
    let gates = match op {
        "LSTM" => 4,
        "GRU" => 3,
        _ => 1,
    };
    let turns = if way == "bidirectional" { 2 } else { 1 };
    let (n, hidden) = (x.shape[1], 4);
    let one = One::new("", op, if op == "LSTM" { 3 } else { 2 })
        .live(x)
        .stored(&numbers(1, &[turns, gates * hidden, 3]))
        .stored(&numbers(2, &[turns, gates * hidden, hidden]))
        .stored(&numbers(3, &[turns, 2 * gates * hidden]))
        .int("hidden_size", hidden as i64)
        .attribute("direction", |a| a.s = way.as_bytes().to_vec().into());
    match lengths {
        None => one.run(),
        Some((lengths, true)) => one.live(whole(&[n], lengths)).run(),
        Some((lengths, false)) => one.stored(&whole(&[n], lengths)).run(),
    }
}

#[test]
fn shorter_sequences_are_those_of_shorter_operands() {
    let x = numbers(7, &[STEPS, 3, 3]);
    let lengths = [2, STEPS as i32, 1];
    for (op, way) in [("RNN", "forward"), ("GRU", "reverse"), ("LSTM", "bidirectional"), ("LSTM", "forward")] {
        for live in [false, true] {
            let found = layer(op, way, x.clone(), Some((&lengths, live)));
            for (item, &length) in lengths.iter().enumerate() {
                let length = length as usize;
                let own = Tensor::f32([STEPS, 1, 3], part(&x, 1, item, item + 1));
                let own = Tensor::f32([length, 1, 3], part(&own, 0, 0, length));
                let wanted = layer(op, way, own, None);
                let turns = found[0].shape[1];
                let states = Tensor::f32([STEPS, turns, 1, 4], part(&found[0], 2, item, item + 1));
                close(&part(&states, 0, 0, length), &wanted[0].data.to_f32());
                assert!(part(&states, 0, length, STEPS).iter().all(|&v| v == 0.0), "{op} {way}");
                for (found, wanted) in found.iter().zip(&wanted).skip(1) {
                    close(&part(found, 1, item, item + 1), &wanted.data.to_f32());
                }
            }
        }
    }
}

#[test]
fn activations_take_the_next_of_their_numbers() {
    let one = |names: &[&'static str]| {
        let names = names.iter().map(|name| bytes::Bytes::from_static(name.as_bytes())).collect::<Vec<_>>();
        let x = Tensor::f32([1, 1, 1], vec![0.5]);
        let ones = Tensor::f32([2, 1, 1], vec![1.0; 2]);
        let one = One::new("", "RNN", 1).live(x).stored(&ones).stored(&ones).int("hidden_size", 1);
        let one = one
            .attribute("direction", |a| a.s = "bidirectional".into())
            .attribute("activations", |a| a.strings = names);
        let one = one.attribute("activation_alpha", |a| a.floats = vec![2.0, 0.25]);
        one.attribute("activation_beta", |a| a.floats = vec![1.0]).run().remove(0).data.to_f32()
    };
    close(&one(&["Relu", "Affine"]), &[0.5, 2.0]);
    close(&one(&["ThresholdedRelu", "ThresholdedRelu"]), &[0.0, 0.5]);
}

const DOMAIN: &str = "com.microsoft";

#[test]
fn a_step_with_a_cache_is_the_last_of_all_steps() {
    let (count, own, width, batch) = (4, 2, 16, 2);
    let operand = |seed, heads: usize| numbers(seed, &[batch, STEPS, heads * width]);
    let (q, k, v) = (operand(1, count), operand(2, own), operand(3, own));
    let tables = [numbers(4, &[8, width / 2]), numbers(5, &[8, width / 2])];
    let grouped = |parts: [&Tensor; 3], caches: Option<[&Tensor; 2]>, keys: &[i32], total: usize, live: bool| {
        let mut one = One::new(DOMAIN, "GroupQueryAttention", 3);
        for x in parts {
            one = one.live(x.clone());
        }
        one = match caches {
            None => one.none(2),
            Some([k, v]) => one.live(k.clone()).live(v.clone()),
        };
        let last: Vec<i32> = keys.iter().map(|k| k - 1).collect();
        let last = whole(&[batch], &last);
        one = if live { one.live(last) } else { one.stored(&last) };
        one = one.stored(&whole(&[1], &[total as i32])).stored(&tables[0]).stored(&tables[1]);
        one.int("num_heads", count as i64).int("kv_num_heads", own as i64).int("do_rotary", 1).run()
    };
    let all = grouped([&q, &k, &v], None, &[STEPS as i32; 2], STEPS, false);
    let step = |x: &Tensor| Tensor::f32([batch, 1, x.shape[2]], part(x, 1, STEPS - 1, STEPS));
    let wanted = part(&all[0], 1, STEPS - 1, STEPS);
    for (places, live) in [(STEPS - 1, false), (STEPS - 1, true), (STEPS + 2, true), (STEPS + 2, false)] {
        // Keys of the first steps, and any numbers behind them.
        let cache = |of: &Tensor| {
            let mut cache = numbers(9, &[batch, own, places, width]).data.to_f32();
            for (to, from) in cache.chunks_mut(places * width).zip(of.data.to_f32().chunks(STEPS * width)) {
                to[..(STEPS - 1) * width].copy_from_slice(&from[..(STEPS - 1) * width]);
            }
            Tensor::f32([batch, own, places, width], cache)
        };
        let (ck, cv) = (cache(&all[1]), cache(&all[2]));
        let found = grouped([&step(&q), &step(&k), &step(&v)], Some([&ck, &cv]), &[STEPS as i32; 2], STEPS, live);
        close(&found[0].data.to_f32(), &wanted);
        close(&part(&found[1], 2, 0, STEPS), &all[1].data.to_f32());
    }
}

#[test]
fn heads_with_past_keys_are_those_of_all_keys() {
    let (count, width) = (2, 4);
    let operand = |seed| numbers(seed, &[1, STEPS, count * width]);
    let (q, k, v) = (operand(1), operand(2), operand(3));
    let heads = |parts: [&Tensor; 3], past: Option<[&Tensor; 2]>| {
        let mut one = One::new(DOMAIN, "MultiHeadAttention", 3);
        for x in parts {
            one = one.live(x.clone());
        }
        if let Some([k, v]) = past {
            one = one.none(3).live(k.clone()).live(v.clone());
        }
        one.int("num_heads", count as i64).int("unidirectional", 1).run()
    };
    let all = heads([&q, &k, &v], None);
    let (first, rest) = (2, STEPS - 2);
    let past = |x: &Tensor| Tensor::f32([1, count, first, width], part(x, 2, 0, first));
    let last = |x: &Tensor| Tensor::f32([1, rest, count * width], part(x, 1, first, STEPS));
    let found = heads([&last(&q), &last(&k), &last(&v)], Some([&past(&all[1]), &past(&all[2])]));
    close(&found[0].data.to_f32(), &part(&all[0], 1, first, STEPS));
    close(&found[2].data.to_f32(), &all[2].data.to_f32());
    // The first step of a decoder has a cache without keys.
    let none = Tensor::f32([1, count, 0, width], Vec::new());
    let found = heads([&q, &k, &v], Some([&none, &none]));
    close(&found[0].data.to_f32(), &all[0].data.to_f32());
    close(&found[1].data.to_f32(), &all[1].data.to_f32());
}

#[test]
fn products_and_tables_of_the_optimizer() {
    let stored = |shape: &[usize], values: &[f32]| Tensor::f32(shape.to_vec(), values.to_vec());
    let x = stored(&[1, 2], &[1.0, -2.0]);
    let product = One::new(DOMAIN, "FusedGemm", 1)
        .live(x)
        .stored(&stored(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
        .stored(&stored(&[2], &[0.0, 8.0]))
        .attribute("activation", |a| a.s = b"LeakyRelu".to_vec().into())
        .attribute("activation_alpha", |a| a.f = 0.5);
    close(&product.run()[0].data.to_f32(), &[-2.5, 2.0]);
    // Row 1 of the words, place 0, row 0 of the segments: (1, 3), whose norm is (-1, 1).
    let embedded = One::new(DOMAIN, "EmbedLayerNormalization", 2)
        .live(whole(&[1, 1], &[1]))
        .live(whole(&[1, 1], &[0]))
        .stored(&stored(&[2, 2], &[9.0, 9.0, 1.0, 0.0]))
        .stored(&stored(&[1, 2], &[0.0, 2.0]))
        .stored(&stored(&[1, 2], &[0.0, 1.0]))
        .stored(&stored(&[2], &[1.0, 2.0]))
        .stored(&stored(&[2], &[0.0, 5.0]))
        .live(whole(&[1, 1], &[1]))
        .run();
    close(&embedded[0].data.to_f32(), &[-1.0, 7.0]);
    assert_eq!(embedded[1].data.to_i32(), [1]);
}

#[test]
fn the_last_query_sees_all_keys() {
    // Equal keys: means of the values seen.
    let (q, k) = (Tensor::f32([1, 2, 1], vec![1.0; 2]), Tensor::f32([1, 4, 1], vec![1.0; 4]));
    let v = Tensor::f32([1, 4, 1], vec![2.0, 4.0, 8.0, 16.0]);
    let one = One::new(DOMAIN, "MultiHeadAttention", 1).live(q).live(k).live(v);
    close(&one.int("num_heads", 1).int("unidirectional", 1).run()[0].data.to_f32(), &[2.0, 7.5]);
}

#[test]
fn maxima_of_regions() {
    let x = Tensor::f32([1, 1, 3, 4], (1..=12).map(|i| i as f32).collect());
    let regions = Tensor::f32([2, 5], vec![0.0, 1.0, 0.0, 3.0, 1.0, 0.0, 9.0, 9.0, 9.0, 9.0]);
    let one = One::new("", "MaxRoiPool", 1).live(x).live(regions).attribute("pooled_shape", |a| a.ints = vec![1, 2]);
    // Parts of a region outside of the image are zero.
    assert_eq!(one.run()[0].data.to_f32(), [7.0, 8.0, 0.0, 0.0]);
}

#[test]
fn linear_models_of_scaled_columns() {
    let x = Tensor::f32([2, 2], vec![1.0, 2.0, 3.0, -1.0]);
    let ml = |op: &str, outputs| One::new("ai.onnx.ml", op, outputs).live(x.clone());
    let floats = |one: One, name: &str, list: &[f32]| one.attribute(name, |a| a.floats = list.to_vec());
    let scaled = floats(floats(ml("Scaler", 1), "offset", &[1.0, 0.0]), "scale", &[2.0, 3.0]).run();
    assert_eq!(scaled[0].data.to_f32(), [0.0, 6.0, 4.0, -3.0]);
    let one =
        floats(floats(ml("LinearClassifier", 2), "coefficients", &[1.0, 0.0, 0.0, 1.0]), "intercepts", &[0.5, 0.0]);
    let found = one.attribute("classlabels_ints", |a| a.ints = vec![7, 9]).run();
    assert_eq!(found[0].data.to_i32(), [9, 7]);
    assert_eq!(found[1].data.to_f32(), [1.5, 2.0, 3.5, -1.0]);
    let found =
        floats(ml("Imputer", 1), "imputed_value_floats", &[5.0]).attribute("replaced_value_float", |a| a.f = 3.0);
    assert_eq!(found.run()[0].data.to_f32(), [1.0, 2.0, 5.0, -1.0]);
}

#[test]
fn a_long_input_with_few_weights_is_an_operand_of_every_step() {
    let products = |features: usize, hidden: usize| {
        let mut one = One::new("", "LSTM", 3)
            .live(numbers(4, &[STEPS, 1, features]))
            .stored(&numbers(1, &[1, 4 * hidden, features]))
            .stored(&numbers(2, &[1, 4 * hidden, hidden]))
            .int("hidden_size", hidden as i64);
        one.net().ops.iter().filter(|op| op.kind.name() == "conv").count()
    };
    assert_eq!(products(40, 4), STEPS);
    // One product for all steps, and one of the state in each.
    assert_eq!(products(1000, 16), 1 + STEPS);
}
