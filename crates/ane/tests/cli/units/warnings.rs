use anemone::Array;
use anemone::tensor::views;
use anemone::warnings::{NAMES, OF_EACH_RUN, is_compared, of_reference, of_run, work};
use anemone_facts::numerics::Model;
use anemone_net::{Net, Tensor, eval, text};
use std::collections::HashSet;

fn array(data: &[f32]) -> Array {
    Array { shape: vec![data.len()], data: data.to_vec() }
}

fn reference(net: &str, input: &[i32]) -> Vec<&'static str> {
    let net = text::parse(net, &[]).expect("the net parses");
    let inputs = [Tensor::i32([input.len()], input.to_vec())];
    let outputs = eval::eval(&net, &inputs).expect("evaluates");
    of_reference(&net, &inputs, &outputs).iter().map(|w| w.name).collect()
}

#[test]
fn integers_beyond_32_bits_are_told() {
    let wraps = "net \"n\" {\n  input %x: i32[2]\n  const %c: i32[1] = [65536]\n  %p: i32[2] = mul(%x, %c)\n  \
                 %d: i32[1] = reduce_sum(%p) axes=[0] keep_dims=true\n  const %h: i32[1] = [1000]\n  \
                 %y: i32[1] = mod(%d, %h)\n  output %y\n}\n";
    assert_eq!(reference(wraps, &[7, 8]), [""; 0]);
    assert_eq!(reference(wraps, &[70000, 8]), ["inexact-integer"]);
    let divides =
        "net \"n\" {\n  input %x: i32[2]\n  const %h: i32[1] = [1000]\n  %y: i32[2] = div(%h, %x)\n  output %y\n}\n";
    assert_eq!(reference(divides, &[7, 8]), [""; 0]);
    assert_eq!(reference(divides, &[7, 0]), ["undefined"]);
}

#[test]
fn a_network_is_compared_up_to_a_size() {
    let of = |text: &str| work(&text::parse(text, &[]).expect("the net parses"));
    let dense = "net \"n\" {\n  input %x: f16[8, 16]\n  input %w: f16[16, 4]\n  %y: f16[8, 4] = matmul(%x, %w) transpose_x=false transpose_y=false\n  output %y\n}\n";
    assert_eq!(of(dense), 8 * 16 * 4);
    let net = text::parse(dense, &[]).expect("the net parses");
    assert!(is_compared(&net, 512) && !is_compared(&net, 511));
}

#[test]
fn unsigned_integers_below_zero_are_told() {
    let net = "net \"n\" {\n  input %x: i32[2]\n  input %z: i32[2]\n  %y: i32[2] = sub(%x, %z)\n  output %y\n}\n";
    let mut net = text::parse(net, &[]).expect("the net parses");
    net.unsigned = vec!["x".into(), "z".into(), "y".into()];
    let [x, z, less] = [[5.0, 3.0], [2.0, 4.0], [3.0, -1.0]].map(|data| array(&data));
    let [tensor, less_tensor] = [[5, 3], [3, -1]].map(|data| Tensor::i32([2], data.to_vec()));
    let told = |net: &Net| {
        let inputs = [("x".to_string(), x.clone()), ("z".to_string(), z.clone())];
        let outputs = [("y".to_string(), less.clone())];
        let compiled = of_run(net, Model::Fast, &views(&inputs), &outputs, &HashSet::new(), OF_EACH_RUN);
        let second = Tensor::i32([2], vec![2, 4]);
        let evaluated = of_reference(net, &[tensor.clone(), second], std::slice::from_ref(&less_tensor));
        [compiled, evaluated].map(|all| all.iter().map(|w| format!("{} {}", w.name, w.at)).collect::<Vec<_>>())
    };
    assert_eq!(told(&net), [["inexact-integer y"]; 2]);
    net.unsigned.clear();
    assert_eq!(told(&net), [[""; 0]; 2]);
}

#[test]
fn an_input_that_nothing_reads_is_not_missed() {
    let net = "net \"n\" {\n  input %x: f16[2]\n  input %z: i32[2]\n  %y: f16[2] = relu(%x)\n  output %y\n}\n";
    assert_eq!(names(net, Model::Fast, &[1.0, f32::NAN], &[1.0, 0.0]), ["undefined"]);
}

#[test]
fn integers_that_wrap_before_they_are_compared_are_told() {
    let net = "net \"n\" {\n  input %x: u16[2]\n  %p: u16[2] = mul(%x, %x)\n  const %c: u16[1] = [100]\n  \
               %y: bool[2] = less(%p, %c)\n  output %y\n}\n";
    assert_eq!(names(net, Model::Fast, &[2.0, 3.0], &[1.0, 1.0]), [""; 0]);
    assert_eq!(names(net, Model::Fast, &[2.0, 256.0], &[1.0, 0.0]), ["inexact-integer"]);
}

fn names(net: &str, model: Model, input: &[f32], output: &[f32]) -> Vec<&'static str> {
    let net = text::parse(net, &[]).expect("the net parses");
    let (inputs, outputs) = ([("x".to_string(), array(input))], [("y".to_string(), array(output))]);
    let all = of_run(&net, model, &views(&inputs), &outputs, &HashSet::new(), OF_EACH_RUN);
    assert!(all.iter().all(|w| NAMES.iter().any(|(name, _)| *name == w.name)), "{all:?}");
    all.iter().map(|w| w.name).collect()
}

#[test]
fn each_doubt_has_its_name() {
    let exp = "net \"n\" {\n  input %x: f16[2]\n  %y: f16[2] = exp(%x)\n  output %y\n}\n";
    assert_eq!(names(exp, Model::Fast, &[1.0, 2.0], &[2.7, 7.4]), [""; 0]);
    assert_eq!(names(exp, Model::Fast, &[1.0, 20.0], &[2.7, f32::INFINITY]), ["saturated"]);
    assert_eq!(names(exp, Model::Fast, &[1.0, f32::INFINITY], &[2.7, f32::INFINITY]), [""; 0]);
    assert_eq!(names(exp, Model::Fast, &[1.0, f32::INFINITY], &[2.7, 0.0]), ["undefined"]);
    assert_eq!(names(exp, Model::Fast, &[1e5, 1.0], &[f32::INFINITY, 2.7]), ["saturated", "saturated"][..1]);
    assert_eq!(names(exp, Model::Fast, &[10000.0, 10001.0], &[f32::INFINITY; 2]), ["indistinguishable"]);
    assert_eq!(names(exp, Model::Fast, &[f32::NAN, 1.0], &[f32::NAN, 2.7]), [""; 0]);
    let read = names(exp, Model::Fixed, &[f32::NAN, 1.0], &[f32::INFINITY, 2.7]);
    assert_eq!(read, ["nan-as-infinity", "undefined"]);
    // A constant NaN runs on the host, which keeps it.
    let kept = "net \"n\" {\n  input %x: f16[2]\n  const %c: f16[2] = [nan, 1.0]\n  %y: f16[2] = max(%x, %c)\n  output %y\n}\n";
    assert_eq!(names(kept, Model::Fast, &[1.0, 2.0], &[f32::NAN, 2.0]), ["nan-weights"]);
    // A reciprocal multiplies the error of a table.
    let inverse = "net \"n\" {\n  input %x: f16[2]\n  %g: f16[2] = gelu(%x) mode=exact\n  %y: f16[2] = inverse(%g) epsilon=0.0\n  output %y\n}\n";
    assert_eq!(names(inverse, Model::Fast, &[1.0, -2.5], &[1.188, -64.5]), [""; 0]);
    assert_eq!(names(inverse, Model::Fast, &[1.0, -2.5], &[1.188, -65.5]), ["inaccurate"]);
    let whole = "net \"n\" {\n  input %x: i32[2]\n  %y: i32[2] = abs(%x)\n  output %y\n}\n";
    assert_eq!(names(whole, Model::Fast, &[1.0, -2047.0], &[1.0, 2047.0]), [""; 0]);
    assert_eq!(names(whole, Model::Fast, &[1.0, -2049.0], &[1.0, 2050.0]), ["inexact-integer"; 2]);
}
