//! Trace of a run's tasks, on small programs whose numbers are known.

use anemone::{Array, Run, execute};
use anemone_compile::{Options, compile};
use anemone_engine::{Options as EngineOptions, Site};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::text;

/// A network of one input `%x`, compiled and run with a trace.
fn run(statements: &str, shape: &[usize], data: Vec<f32>, model: Model) -> Run {
    let extents = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let source = format!("net \"t\" {{ input %x: f16[{extents}] {statements} output %y }}");
    let net = text::parse(&source, &[]).expect("a network");
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let inputs = [("x".to_string(), Array { shape: shape.to_vec(), data })];
    let traced = execute(&program, &inputs, EngineOptions { model, trace: true, ..EngineOptions::default() });
    let plain = execute(&program, &inputs, EngineOptions { model, ..EngineOptions::default() }).expect("runs");
    let traced = traced.expect("runs traced");
    let bits = |run: &Run| run.outputs[0].1.data.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&traced), bits(&plain), "looking changes nothing");
    assert!(plain.trace.is_empty());
    traced
}

const CONV: &str = "const %w: f16[2, 1, 3, 1] = [0.125, -0.125, 0.0625, 0.0625, 0.125, 6e-8] \
     %y: f16[1, 2, 4, 5] = conv(%x, %w) strides=[1, 1] pads=[[1, 1], [0, 0]] dilations=[1, 1] groups=1";

#[test]
fn a_convolution_moves_its_operands_and_multiplies() {
    let run = run(CONV, &[1, 1, 4, 5], vec![0.75; 20], Model::Fast);
    let [task] = run.trace.as_slice() else { panic!("one task: {:?}", run.trace) };
    assert_eq!(task.moved.source1, 40);
    assert_eq!((task.moved.source2, task.moved.l2_read, task.moved.l2_written), (0, 0, 0));
    assert_eq!(task.moved.destination, 80);
    assert!(task.moved.coefficients >= 12, "{}", task.moved.coefficients);
    assert_eq!(task.macs, 2 * 20 * 3);
    assert_eq!(task.inputs[0].shape, [1, 1, 4, 5]);
    assert!(matches!(task.inputs[0].site, Site::Memory { address: 0, .. }), "{:?}", task.inputs[0].site);
    assert_eq!((task.inputs[0].values.largest, task.coefficients.map(|c| c.subnormal)), (0.75, Some(1)));
    assert_eq!((task.saturated, task.nan_coerced, task.denormals_flushed), (0, 0, 0));
}

#[test]
fn subnormal_operands_are_flushed_where_no_product_counts() {
    let mut data = vec![0.75; 20];
    data[..3].fill(1e-5);
    let flushed = |data: &[f32], model| run(CONV, &[1, 1, 4, 5], data.to_vec(), model).trace[0].denormals_flushed;
    // All weights are below 1/4, so three elements are lost; the subnormal weight meets 0.75 and counts.
    assert_eq!(flushed(&data, Model::Fixed), 3);
    assert_eq!(flushed(&data, Model::Tiled), 4);
    assert_eq!(flushed(&data, Model::Fast), 0);
}

#[test]
fn saturations_and_nan_are_counted() {
    let square = "%y: f16[1, 4] = mul(%x, %x)";
    let of = |data: [f32; 4], model| {
        let run = run(square, &[1, 4], data.to_vec(), model);
        let task = run.trace.last().expect("a task").clone();
        (task.saturated, task.nan_coerced, task.largest())
    };
    assert_eq!(of([300.0, -300.0, 2.0, 1.0], Model::Fast), (2, 0, 4.0));
    // A source that is infinite already does not saturate. Both sources are the one tensor.
    assert_eq!(of([f32::INFINITY, 300.0, 2.0, 1.0], Model::Fixed), (0, 0, 4.0));
    let (_, coerced, _) = of([f32::NAN, 3.0, 2.0, 1.0], Model::Fixed);
    assert!(coerced >= 1, "{coerced}");
    assert_eq!(of([f32::NAN, 3.0, 2.0, 1.0], Model::Fast).1, 0);
    let sum = "const %w: f16[1, 4] = [1.0, 1.0, 1.0, 1.0] %y: f16[1, 1] = linear(%x, %w)";
    let saturated = |model| run(sum, &[1, 4], vec![10000.0; 4], model).trace.iter().map(|t| t.saturated).sum::<u64>();
    assert_eq!((saturated(Model::Fast), saturated(Model::Fixed)), (0, 1));
}

#[test]
fn masks_of_the_lowering_are_no_saturations() {
    let saturated = |statements: &str, data: [f32; 4]| {
        let run = run(statements, &[1, 4], data.to_vec(), Model::Fast);
        assert!(run.trace.iter().flat_map(|t| &t.outputs).any(|o| o.values.infinite > 0), "{statements}");
        run.trace.iter().map(|t| t.saturated).sum::<u64>()
    };
    let gathered =
        "%i: i32[1, 1] = arg_max(%x) last=false axis=1 keep_dims=true %y: f16[1, 1] = gather_along(%x, %i) axis=1";
    assert_eq!(saturated(gathered, [3.0, -1.0, 13.0, 0.5]), 0);
    assert_eq!(saturated("%y: f16[1, 4] = exp(%x)", [1.0, 20.0, 0.0, 30.0]), 2);
    assert_eq!(
        saturated(
            "%m: f16[1, 4] = mul(%x, %x) %i: i32[1, 1] = arg_max(%x) last=false axis=1 keep_dims=true %y: f16[1, 1] = gather_along(%m, %i) axis=1",
            [1.0, 400.0, 0.0, 3.0]
        ),
        1
    );
}
