//! State from run to run: a run finds the values that the one before left.

use crate::ane;
use anemone::execute::Execution;
use anemone::{Array, Compiled, Model};
use anemone_compile::Options;
use anemone_facts::chips;
use std::path::Path;

/// The seed's accumulator: a state to which each run adds its input.
const ACCUMULATOR: &str = r#"program(1.3)
{
    func main<ios18>(tensor<fp16, [1, 8]> x, state<tensor<fp16, [1, 8]>> total) {
        tensor<fp16, [1, 8]> before = read_state(input = total)[name = string("before")];
        tensor<fp16, [1, 8]> after = add(x = before, y = x)[name = string("after")];
        write_state(data = after, input = total)[name = string("keep")];
        tensor<fp16, [1, 8]> y = relu(x = after)[name = string("y")];
    } -> (y);
}
"#;

/// A cache of eight slots: a mask with a one at the slot says where the new row goes.
const SLOTS: &str = r#"program(1.3)
{
    func main<ios18>(tensor<fp16, [1, 1, 1, 16]> row, tensor<fp16, [1, 1, 8, 1]> mask, state<tensor<fp16, [1, 1, 8, 16]>> cache) {
        tensor<fp16, [1, 1, 8, 16]> old = read_state(input = cache)[name = string("old")];
        tensor<fp16, []> one = const()[name = string("one"), val = fp16(1.0)];
        tensor<fp16, [1, 1, 8, 1]> keep = sub(x = one, y = mask)[name = string("keep")];
        tensor<fp16, [1, 1, 8, 16]> kept = mul(x = old, y = keep)[name = string("kept")];
        tensor<fp16, [1, 1, 8, 16]> placed = mul(x = row, y = mask)[name = string("placed")];
        tensor<fp16, [1, 1, 8, 16]> new = add(x = kept, y = placed)[name = string("new")];
        write_state(data = new, input = cache)[name = string("store")];
        tensor<fp16, [1, 1, 1, 16]> y = reduce_sum(x = new, axes = tensor<int32, [1]>([2]), keep_dims = bool(true))[name = string("y")];
    } -> (y);
}
"#;

/// The same cache where new rows come in at the end and the oldest leaves.
const SHIFTED: &str = r#"program(1.3)
{
    func main<ios18>(tensor<fp16, [1, 1, 1, 16]> row, state<tensor<fp16, [1, 1, 8, 16]>> cache) {
        tensor<fp16, [1, 1, 8, 16]> old = read_state(input = cache)[name = string("old")];
        tensor<fp16, [1, 1, 7, 16]> tail = slice_by_index(x = old, begin = tensor<int32, [4]>([0, 0, 1, 0]), end = tensor<int32, [4]>([1, 1, 8, 16]))[name = string("tail")];
        tensor<fp16, [1, 1, 8, 16]> new = concat(values = (tail, row), axis = int32(2), interleave = bool(false))[name = string("new")];
        write_state(data = new, input = cache)[name = string("store")];
        tensor<fp16, [1, 1, 8, 16]> y = mul(x = new, y = fp16(2.0))[name = string("y")];
    } -> (y);
}
"#;

fn compiled(text: &str) -> Compiled {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.mil");
    std::fs::write(&path, text).expect("written");
    let model = Model::load(&path).expect("reads");
    model.compile(&chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles")
}

/// Runs once for each of `inputs`, handing states on; returns the states after each run, and the first output.
fn series(compiled: &Compiled, inputs: &[Vec<(&str, Vec<f32>)>]) -> Vec<(Vec<f32>, Vec<f32>)> {
    let net = compiled.net.as_ref().expect("a network");
    let [state] = net.states.as_slice() else { panic!("one state") };
    let (input, output) = (&net.value(state.input).name, &net.value(state.output).name);
    let shape = net.value(state.input).ty.shape.clone();
    let mut held = vec![0.0; shape.iter().product()];
    let mut execution = Execution::new(&compiled.program, Default::default()).expect("plans");
    let mut seen = Vec::new();
    for given in inputs {
        let mut all = vec![(input.clone(), Array { shape: shape.clone(), data: held })];
        for (name, data) in given {
            let shape = net.value(net.find(name).expect("an input")).ty.shape.clone();
            all.push((name.to_string(), Array { shape, data: data.clone() }));
        }
        let run = execution.run(&all).expect("runs");
        let of = |name: &str| run.outputs.iter().find(|(n, _)| n == name).expect("an output").1.data.clone();
        held = of(output);
        seen.push((held.clone(), of(&net.value(net.outputs[0]).name)));
    }
    seen
}

#[test]
fn an_accumulator_counts() {
    let ones = vec![("x", vec![1.0; 8])];
    let seen = series(&compiled(ACCUMULATOR), &[ones.clone(), ones.clone(), ones.clone(), ones]);
    let wanted: Vec<Vec<f32>> = (1..=4).map(|n| vec![n as f32; 8]).collect();
    assert_eq!(seen.iter().map(|(_, y)| y.clone()).collect::<Vec<_>>(), wanted);
    assert_eq!(seen.iter().map(|(held, _)| held.clone()).collect::<Vec<_>>(), wanted);
}

/// A row of its own for each slot.
fn row(slot: usize) -> Vec<f32> {
    (0..16).map(|i| (slot * 16 + i) as f32 / 4.0 - 8.0).collect()
}

#[test]
fn a_cache_fills_slot_by_slot() {
    let mask = |slot: usize| (0..8).map(|i| f32::from(u8::from(i == slot))).collect::<Vec<_>>();
    let inputs: Vec<_> = (0..8).map(|slot| vec![("row", row(slot)), ("mask", mask(slot))]).collect();
    for (last, (held, _)) in series(&compiled(SLOTS), &inputs).into_iter().enumerate() {
        for (slot, found) in held.chunks(16).enumerate() {
            let wanted = if slot <= last { row(slot) } else { vec![0.0; 16] };
            assert_eq!(found, wanted, "slot {slot} after run {last}");
        }
    }
}

#[test]
fn a_cache_shifts() {
    let inputs: Vec<_> = (0..11).map(|n| vec![("row", row(n))]).collect();
    for (last, (held, y)) in series(&compiled(SHIFTED), &inputs).into_iter().enumerate() {
        let wanted: Vec<f32> =
            (0..8).flat_map(|i| if last + i < 7 { vec![0.0; 16] } else { row(last + i - 7) }).collect();
        assert_eq!(held, wanted, "after run {last}");
        assert_eq!(y, wanted.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    }
}

#[test]
fn the_command_line_repeats() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, ones) = (folder.path().join("total.mil"), folder.path().join("ones.npy"));
    std::fs::write(&model, ACCUMULATOR).expect("written");
    let array = Array { shape: vec![1, 8], data: vec![1.0; 8] };
    std::fs::write(&ones, anemone::tensor::npy_bytes(&array)).expect("written");
    let text = |path: &Path| path.to_str().expect("a name").to_string();
    let out = ane!("run", text(&model), "--input", format!("x={}", text(&ones)), "--repeat", "4").fine().out;
    let counts: Vec<String> = out
        .lines()
        .filter(|l| l.starts_with("run ") && l.contains(": y") || l.starts_with("y "))
        .map(str::to_string)
        .collect();
    assert_eq!(counts.len(), 4, "{out}");
    for (n, line) in counts.iter().enumerate() {
        assert!(line.contains(&format!("[{}.0, ", n + 1)), "{line}");
    }
}
