//! Apple's ways with one operation, executed: as many tasks as its compiler of 2026 makes, and the results of our own way.

use anemone::{Array, execute};
use anemone_compile::{Compat, Options, compile};
use anemone_facts::chips::CHIPS;
use anemone_net::{Data, Tensor, check, text};
use half::f16;
use std::sync::Arc;

/// Tasks and result of a network of one output, whose constants are blobs in their order, in each dialect.
pub(crate) fn both(source: &str, blobs: &[Arc<Tensor>], inputs: &[(String, Array)]) -> [(usize, Vec<f32>); 2] {
    let net = text::parse(source, blobs).expect("the network is well formed");
    check::check(&net).expect("the network is valid");
    [Compat::Own, Compat::Zin9509].map(|compat| {
        let options = Options { compat, ..Options::default() };
        let program = compile(&net, &CHIPS[0], &options, &mut ()).expect("it compiles");
        let run = execute(&program, inputs, Default::default()).expect("it runs");
        (program.tasks().expect("tasks").len(), run.outputs[0].1.data.clone())
    })
}

pub(crate) fn array(name: &str, shape: &[usize], value: impl Fn(usize) -> f32) -> (String, Array) {
    let count = shape.iter().product();
    (name.into(), Array { shape: shape.to_vec(), data: (0..count).map(value).collect() })
}

/// Whole numbers from -2 to 2, which sum exactly.
pub(crate) fn small(i: usize) -> f32 {
    (i * 7 % 5) as f32 - 2.0
}

#[test]
fn convolutions_whose_passes_exceed_kernel_memory_are_cut_into_single_passes() {
    // 14 of 16 channels an engine have coefficients that fit: 224 outputs are one pass that is partly filled.
    let blob = |shape: &[usize], value: fn(usize) -> f32| {
        let count = shape.iter().product();
        let data = Data::F16((0..count).map(|i| f16::from_f32(value(i))).collect());
        Arc::new(Tensor { shape: shape.to_vec(), data })
    };
    let weights = blob(&[256, 256, 3, 3], |i| if i % 11 == 0 { small(i / 11) } else { 0.0 });
    let source = "net \"n\" {\n  input %x: f16[1, 256, 12, 12]\n  const %w: f16[256, 256, 3, 3] = blob 0\n  \
                  %y: f16[1, 256, 12, 12] = conv(%x, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1\n  \
                  output %y\n}\n";
    let [own, apples] = both(source, &[weights], &[array("x", &[1, 256, 12, 12], small)]);
    assert_eq!(apples.0, 2, "tasks of 32 and 224 outputs");
    assert_eq!(own.1, apples.1, "the same numbers");
    // With stride 2, masks take kernel memory too.
    let source = source.replace("12, 12", "20, 20").replace("f16[1, 256, 20, 20] = conv", "f16[1, 256, 10, 10] = conv");
    let weights = blob(&[256, 256, 3, 3], |i| if i % 11 == 0 { small(i / 11) } else { 0.0 });
    let source = source.replace("strides=[1, 1]", "strides=[2, 2]");
    let [own, apples] = both(&source, &[weights], &[array("x", &[1, 256, 20, 20], small)]);
    assert_eq!(apples.0, 2, "tasks of 64 and 192 outputs");
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn groups_whose_coefficients_exceed_kernel_memory_are_convolutions_of_their_own() {
    let blob = |shape: &[usize], value: fn(usize) -> f32| {
        let data = Data::F16((0..shape.iter().product()).map(|i| f16::from_f32(value(i))).collect());
        Arc::new(Tensor { shape: shape.to_vec(), data })
    };
    let weights = blob(&[512, 256, 3, 3], |i| if i % 11 == 0 { small(i / 11) } else { 0.0 });
    let bias = blob(&[512], |i| small(i * 3) + (i % 4) as f32);
    let source = "net \"n\" {\n  input %x: f16[1, 512, 12, 12]\n  const %w: f16[512, 256, 3, 3] = blob 0\n  \
                  const %b: f16[512] = blob 1\n  \
                  %y: f16[1, 512, 12, 12] = conv(%x, %w, %b) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=2\n  \
                  output %y\n}\n";
    let [own, apples] = both(source, &[weights, bias], &[array("x", &[1, 512, 12, 12], small)]);
    assert_eq!(apples.0, 5, "a copy, and two tasks for each group");
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn constant_rows_are_interleaved_when_compiling() {
    for (rows, tasks) in [(1, [2, 2]), (5, [2, 3]), (32, [2, 2]), (48, [3, 3]), (100, [3, 8])] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[40, 64]\n{}  \
             %y: f16[{rows}, 40] = matmul(%w, %x) transpose_x=false transpose_y=true\n  output %y\n}}\n",
            matrix(rows, 64)
        );
        let [own, apples] = both(&source, &[], &[array("x", &[40, 64], small)]);
        let row = |at: usize, k: usize| small((at * 64 + k) * 3 + 1);
        let right: Vec<f32> =
            (0..rows * 40).map(|at| (0..64).map(|k| row(at / 40, k) * small(at % 40 * 64 + k)).sum()).collect();
        assert_eq!([&own.1, &apples.1], [&right, &right], "{rows} rows");
        assert_eq!([own.0, apples.0], tasks, "{rows} rows");
    }
}

#[test]
fn many_outputs_of_sixty_four_rows_are_folded() {
    let (depth, outputs) = (1024, 2048);
    let source = format!(
        "net \"n\" {{\n  input %x: f16[64, {depth}]\n  const %w: f16[{outputs}, {depth}] = blob 0\n  \
         %y: f16[64, {outputs}] = matmul(%x, %w) transpose_x=false transpose_y=true\n  output %y\n}}\n"
    );
    let [own, apples] = both(&source, &[sparse(outputs, depth)], &[array("x", &[64, depth], small)]);
    assert_eq!(apples.0, 3, "a copy to a square, the product, a copy back");
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn a_matrix_that_several_products_read_is_staged_with_all_its_columns() {
    let source = "net \"n\" {\n  input %x: f16[384, 640]\n  const %v: f16[2560, 640] = blob 0\n  const %w: f16[640, 2560] = blob 1\n  \
                  %a: f16[384, 2560] = matmul(%x, %v) transpose_x=false transpose_y=true\n  \
                  %y: f16[384, 640] = matmul(%a, %w) transpose_x=false transpose_y=true\n  output %y\n}\n";
    let blobs = [sparse(2560, 640), sparse(640, 2560)];
    let [own, apples] = both(source, &blobs, &[array("x", &[384, 640], small)]);
    assert_eq!(
        apples.0, 9,
        "a transpose and eight tasks of two products: 768 outputs of 640 coefficients, 192 of 2560"
    );
    assert_eq!(own.1, apples.1, "the same numbers");
}

/// A matrix of small numbers, six of seven of which are zero.
fn sparse(rows: usize, columns: usize) -> Arc<Tensor> {
    let value = |i: usize| f16::from_f32(if i.is_multiple_of(7) { small(i / 7) } else { 0.0 });
    Arc::new(Tensor { shape: vec![rows, columns], data: Data::F16((0..rows * columns).map(value).collect()) })
}

#[test]
fn sixty_four_rows_are_not_folded_for_coefficients_beyond_kernel_memory() {
    let source = "net \"n\" {\n  input %x: f16[1, 64, 768]\n  const %w: f16[768, 768] = blob 0\n  \
                  %n: f16[1, 64, 768] = layer_norm(%x) axes=[2] epsilon=0.00001\n  \
                  %y: f16[1, 64, 768] = matmul(%n, %w) transpose_x=false transpose_y=true\n  output %y\n}\n";
    let [own, apples] = both(source, &[sparse(768, 768)], &[array("x", &[1, 64, 768], small)]);
    assert_eq!(apples.0, 5, "three tasks of the norm, a transpose and the product");
    let most = own.1.iter().fold(0.0f32, |most, y| most.max(y.abs()));
    assert!(own.1.iter().zip(&apples.1).all(|(a, b)| (a - b).abs() <= most / 256.0), "both multiply the same norms");
}

#[test]
fn two_products_in_a_row_are_transposed_once() {
    let source = "net \"n\" {\n  input %x: f16[1, 64, 256]\n  const %v: f16[256, 256] = blob 0\n  const %w: f16[256, 256] = blob 1\n  \
                  %a: f16[1, 64, 256] = matmul(%x, %v) transpose_x=false transpose_y=true\n  \
                  %y: f16[1, 64, 256] = matmul(%a, %w) transpose_x=false transpose_y=true\n  output %y\n}\n";
    let blobs = [sparse(256, 256), sparse(256, 256)];
    let [own, apples] = both(source, &blobs, &[array("x", &[1, 64, 256], small)]);
    assert_eq!(apples.0, 3, "a transpose and two products");
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn attention_of_an_input_to_itself_brings_it_once() {
    let source = "net \"n\" {\n  input %x: f16[1, 64, 256]\n  const %c: f16[] = [0.125]\n  \
                  %m: f16[1, 64, 64] = matmul(%x, %x) transpose_x=false transpose_y=true\n  %p: f16[1, 64, 64] = mul(%m, %c)\n  \
                  %s: f16[1, 64, 64] = softmax(%p) axis=2\n  \
                  %v: f16[1, 64, 256] = matmul(%s, %x) transpose_x=false transpose_y=false\n  \
                  %y: f16[1, 64, 256] = add(%x, %v)\n  output %y\n}\n";
    let [own, apples] = both(source, &[], &[array("x", &[1, 64, 256], |i| small(i * i) / 8.0)]);
    assert_eq!(apples.0, 10, "a transpose for each matrix, two products, five tasks of the softmax and the sum");
    assert!(own.1.iter().zip(&apples.1).all(|(a, b)| (a - b).abs() <= 4e-3), "both add the same values");
}

#[test]
fn an_input_added_to_its_products_stays_beside_them() {
    let source = "net \"n\" {\n  input %x: f16[1, 128, 256]\n  const %v: f16[512, 256] = blob 0\n  const %w: f16[256, 512] = blob 1\n  \
                  %a: f16[1, 128, 512] = matmul(%x, %v) transpose_x=false transpose_y=true\n  %r: f16[1, 128, 512] = relu(%a)\n  \
                  %m: f16[1, 128, 256] = matmul(%r, %w) transpose_x=false transpose_y=true\n  %y: f16[1, 128, 256] = add(%x, %m)\n  output %y\n}\n";
    let [own, apples] = both(source, &[sparse(512, 256), sparse(256, 512)], &[array("x", &[1, 128, 256], small)]);
    assert_eq!(apples.0, 5, "a copy, a transpose, two products and the sum");
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn scores_of_two_products_lie_behind_their_maxima() {
    let source = "net \"n\" {\n  input %q: f16[1, 256, 32]\n  input %k: f16[1, 256, 32]\n  input %v: f16[1, 256, 32]\n  \
                  %m: f16[1, 256, 256] = matmul(%q, %k) transpose_x=false transpose_y=true\n  %s: f16[1, 256, 256] = softmax(%m) axis=2\n  \
                  %y: f16[1, 256, 32] = matmul(%s, %v) transpose_x=false transpose_y=false\n  output %y\n}\n";
    let inputs = ["q", "k", "v"].map(|name| array(name, &[1, 256, 32], |i| small(i * i) / 8.0));
    let [own, apples] = both(source, &[], &inputs);
    assert_eq!(apples.0, 11, "two copies, two products each way and five tasks of the softmax");
    assert!(own.1.iter().zip(&apples.1).all(|(a, b)| (a - b).abs() <= 4e-3), "both sum the same values");
}

#[test]
fn sums_over_rows_are_turned_there_and_back() {
    for shape in [[1, 32, 4, 4], [1, 128, 16, 16]] {
        let [_, c, h, w] = shape;
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, {c}, {h}, {w}]\n  \
             %y: f16[1, {c}, 1, {w}] = reduce_sum(%x) axes=[2] keep_dims=true\n  output %y\n}}\n"
        );
        let [own, apples] = both(&source, &[], &[array("x", &shape, small)]);
        assert_eq!(apples.0, 3, "{shape:?}");
        assert_eq!(own.1, apples.1, "{shape:?}");
    }
}

#[test]
fn reductions_to_one_number_cover_rows_as_planes() {
    for [c, h, w] in [[64, 8, 8], [32, 4, 4], [5, 3, 7]] {
        let shape = [1, c, h, w];
        // The largest element is in the last plane of a row in the middle.
        let of = |i: usize| if i == (c / 2 * h + h - 1) * w + 1 { 60.0 } else { (i % 7) as f32 - 3.0 };
        let all: Vec<f32> = (0..c * h * w).map(of).collect();
        for (op, expected) in [("reduce_sum", all.iter().sum()), ("reduce_max", 60.0)] {
            let source = format!(
                "net \"n\" {{\n  input %x: f16[1, {c}, {h}, {w}]\n  \
                 %y: f16[1, 1, 1, 1] = {op}(%x) axes=[1, 2, 3] keep_dims=true\n  output %y\n}}\n"
            );
            let results = both(&source, &[], &[array("x", &shape, of)]);
            for (tasks, values) in results {
                assert_eq!((tasks, values), (1, vec![expected]), "{op} of {shape:?}");
            }
        }
    }
}

#[test]
fn powers_are_three_tasks_and_saturate_as_the_tables_do() {
    let source = "net \"n\" {\n  input %x: f16[1, 64, 1, 1]\n  input %z: f16[1, 64, 1, 1]\n  \
                  %y: f16[1, 64, 1, 1] = pow(%x, %z)\n  output %y\n}\n";
    let inputs =
        [array("x", &[1, 64, 1, 1], |i| 0.25 + i as f32 / 16.0), array("z", &[1, 64, 1, 1], |i| small(i) / 2.0)];
    let [own, apples] = both(source, &[], &inputs);
    assert_eq!(apples.0, 3);
    assert!(own.0 > 3, "our way defines what Apple's tables do not");
    for (own, apples) in own.1.iter().zip(&apples.1) {
        assert!((own - apples).abs() <= 2e-3 * own.abs(), "{own} and {apples}");
    }
}

#[test]
fn the_hyperbolic_tangent_is_one_from_four_on() {
    let source = "net \"n\" {\n  input %x: f16[1, 4, 1, 1]\n  %y: f16[1, 4, 1, 1] = tanh(%x)\n  output %y\n}\n";
    let [_, apples] = both(source, &[], &[array("x", &[1, 4, 1, 1], |i| [-4.5, 0.0, 0.5, 4.0][i])]);
    assert_eq!(apples.1, [-1.0, 0.0, f16::from_f32(0.5f32.tanh()).to_f32(), 1.0]);
}

#[test]
fn powers_multiply_pairs_of_channels() {
    for shape in [[1, 3, 5, 7], [1, 64, 8, 8], [1, 4, 1, 1], [1, 2, 200, 130], [2, 3, 4, 5]] {
        let extents = shape.map(|n| n.to_string()).join(", ");
        let source = format!(
            "net \"n\" {{\n  input %x: f16[{extents}]\n  input %z: f16[{extents}]\n  \
             %y: f16[{extents}] = pow(%x, %z)\n  output %y\n}}\n"
        );
        let (base, exponent) = (|i: usize| 0.25 * (1 + i * 5 % 13) as f32, |i: usize| 0.25 * small(i * 3 + 1));
        let inputs = [array("x", &shape, base), array("z", &shape, exponent)];
        let [_, apples] = both(&source, &[], &inputs);
        assert_eq!(apples.0, 3, "{shape:?}");
        for (i, y) in apples.1.iter().enumerate() {
            let right = base(i).powf(exponent(i));
            assert!((y - right).abs() <= 4e-3 * right, "{shape:?}[{i}]: {y} for {right}");
        }
    }
}

#[test]
fn norms_of_columns_sum_squares_by_group() {
    for shape in [[1, 64, 8, 8], [1, 3, 5, 7], [1, 16, 20, 200]] {
        let extents = shape.map(|n| n.to_string()).join(", ");
        let source = format!(
            "net \"n\" {{\n  input %x: f16[{extents}]\n  \
             %y: f16[{extents}] = layer_norm(%x) axes=[3] epsilon=1e-3\n  output %y\n}}\n"
        );
        let [own, apples] = both(&source, &[], &[array("x", &shape, |i| small(i * i + i / 7))]);
        assert_eq!(apples.0, 5, "{shape:?}");
        let apart = own.1.iter().zip(&apples.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 4e-3, "{shape:?}: {apart}");
    }
}

#[test]
fn norms_of_channels_are_those_of_a_row() {
    for shape in [[1, 64, 1, 1], [1, 7, 1, 1], [1, 2048, 1, 1]] {
        let extents = shape.map(|n| n.to_string()).join(", ");
        let channels = shape[1];
        let gamma = (0..channels).map(|c| format!("{}.5", c % 3)).collect::<Vec<_>>().join(", ");
        let source = format!(
            "net \"n\" {{\n  input %x: f16[{extents}]\n  const %g: f16[{channels}] = [{gamma}]\n  \
             %n: f16[{extents}] = layer_norm(%x) axes=[1] epsilon=1e-3\n  \
             %y: f16[{extents}] = layer_norm(%n, %g) axes=[1] epsilon=1e-3\n  output %y\n}}\n"
        );
        let x = |i: usize| small(i * i + i / 7);
        let [own, apples] = both(&source, &[], &[array("x", &shape, x)]);
        assert!(own.0 <= 8, "{shape:?}: {} tasks for two norms and a factor", own.0);
        let norm = |values: &[f32]| {
            let mean = values.iter().sum::<f32>() / channels as f32;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / channels as f32;
            values.iter().map(|v| (v - mean) / (variance + 1e-3).sqrt()).collect::<Vec<_>>()
        };
        let twice = norm(&norm(&(0..channels).map(x).collect::<Vec<_>>()));
        for (c, n) in twice.iter().enumerate() {
            let right = n * ((c % 3) as f32 + 0.5);
            for y in [own.1[c], apples.1[c]] {
                assert!((y - right).abs() < 2e-2, "{shape:?}[{c}]: {y} for {right}");
            }
        }
    }
}

#[test]
fn a_transposed_left_matrix_is_turned_first_where_its_rows_are_folded() {
    let (rows, depth, outputs) = (16, 24, 512);
    let weights = (0..outputs * depth).map(|i| format!("{:?}", small(i * 3 + 1))).collect::<Vec<_>>().join(", ");
    let source = format!(
        "net \"n\" {{\n  input %x: f16[{depth}, {rows}]\n  const %w: f16[{outputs}, {depth}] = [{weights}]\n  \
         %y: f16[{rows}, {outputs}] = matmul(%x, %w) transpose_x=true transpose_y=true\n  output %y\n}}\n"
    );
    let [own, apples] = both(&source, &[], &[array("x", &[depth, rows], small)]);
    assert_eq!([own.0, apples.0], [1, 4], "three copies beside the product");
    assert_eq!(own.1, apples.1);
}

#[test]
fn a_reduction_of_one_element_is_a_copy() {
    for kind in ["sum", "mean", "max", "min"] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 1, 4, 40]\n  \
             %y: f16[1, 1, 4, 40] = reduce_{kind}(%x) axes=[1] keep_dims=true\n  output %y\n}}\n"
        );
        let [own, apples] = both(&source, &[], &[array("x", &[1, 1, 4, 40], small)]);
        assert_eq!([own.0, apples.0], [1, 1], "{kind}");
        assert_eq!(apples.1, (0..160).map(small).collect::<Vec<_>>(), "{kind}");
        assert_eq!(own.1, apples.1, "{kind}");
    }
}

#[test]
fn a_softmax_of_single_elements_is_one() {
    let source =
        "net \"n\" {\n  input %x: f16[1, 40, 1, 1]\n  %y: f16[1, 40, 1, 1] = softmax(%x) axis=3\n  output %y\n}\n";
    let [own, apples] = both(source, &[], &[array("x", &[1, 40, 1, 1], small)]);
    assert_eq!(apples.0, 5);
    assert_eq!([own.1, apples.1], [vec![1.0; 40], vec![1.0; 40]]);
}

#[test]
fn a_matrix_whose_interleaved_rows_are_wider_than_a_tensor_is_multiplied() {
    let (rows, depth) = (128, 4096);
    let source = format!(
        "net \"n\" {{\n  input %x: f16[{rows}, {depth}]\n  input %w: f16[{depth}, 32]\n  \
         %y: f16[{rows}, 32] = matmul(%x, %w) transpose_x=false transpose_y=false\n  output %y\n}}\n"
    );
    let sparse = |i: usize| if i.is_multiple_of(97) { small(i / 97) } else { 0.0 };
    let inputs = [array("x", &[rows, depth], sparse), array("w", &[depth, 32], small)];
    let [own, apples] = both(&source, &[], &inputs);
    assert_eq!(apples.0, 2, "a copy of the rows, and the product");
    let right: Vec<f32> = (0..rows * 32)
        .map(|at| (0..depth).map(|k| sparse(at / 32 * depth + k) * small(k * 32 + at % 32)).sum())
        .collect();
    assert_eq!([&own.1, &apples.1], [&right, &right]);
}

/// Lines of a network with a constant matrix `%w[n, k]`.
fn matrix(n: usize, k: usize) -> String {
    let weights = (0..n * k).map(|i| format!("{:?}", small(i * 3 + 1))).collect::<Vec<_>>().join(", ");
    format!("  const %w: f16[{n}, {k}] = [{weights}]\n")
}

#[test]
fn a_number_applied_to_a_left_matrix_follows_its_transpose() {
    for (operation, tasks) in [("mul", 3), ("add", 3)] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 64, 96]\n  const %c: f16[] = [0.125]\n{}  \
             %s: f16[1, 64, 96] = {operation}(%x, %c)\n  \
             %y: f16[1, 64, 80] = matmul(%s, %w) transpose_x=false transpose_y=true\n  output %y\n}}\n",
            matrix(80, 96)
        );
        let [own, apples] = both(&source, &[], &[array("x", &[1, 64, 96], small)]);
        assert_eq!(apples.0, tasks, "{operation}: a transpose, the number and the product");
        assert_eq!(own.1, apples.1, "{operation}");
    }
}

#[test]
fn a_sum_for_a_norm_reads_what_the_transpose_has_brought() {
    let source = format!(
        "net \"n\" {{\n  input %x: f16[1, 32, 96]\n{}  \
         %m: f16[1, 32, 96] = matmul(%x, %w) transpose_x=false transpose_y=true\n  %a: f16[1, 32, 96] = add(%x, %m)\n  \
         %y: f16[1, 32, 96] = layer_norm(%a) axes=[2] epsilon=0.00001\n  output %y\n}}\n",
        matrix(96, 96)
    );
    let [own, apples] = both(&source, &[], &[array("x", &[1, 32, 96], small)]);
    assert_eq!(apples.0, 6, "a transpose, the product, the sum, and three tasks of the norm");
    assert!(own.1.iter().zip(&apples.1).all(|(a, b)| (a - b).abs() <= 4e-3), "both are norms of the same sums");
}

#[test]
fn a_softmax_of_one_row_is_not_reduced_in_pieces() {
    let source =
        "net \"n\" {\n  input %x: f16[1, 1, 1, 512]\n  %y: f16[1, 1, 1, 512] = softmax(%x) axis=3\n  output %y\n}\n";
    let [own, apples] = both(source, &[], &[array("x", &[1, 1, 1, 512], small)]);
    assert_eq!([own.0, apples.0], [5, 5]);
    assert!(own.1.iter().zip(&apples.1).all(|(a, b)| (a - b).abs() <= 4e-5), "both are softmax");
    assert!((apples.1.iter().sum::<f32>() - 1.0).abs() < 1e-2);
}

#[test]
fn rows_that_fill_no_engines_evenly_are_staged_at_once() {
    for rows in [48, 80, 144] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[{rows}, 64]\n  input %w: f16[40, 64]\n  \
             %y: f16[{rows}, 40] = matmul(%x, %w) transpose_x=false transpose_y=true\n  output %y\n}}\n"
        );
        let [own, apples] =
            both(&source, &[], &[array("x", &[rows, 64], small), array("w", &[40, 64], |i| small(i * 3))]);
        assert_eq!(apples.0, 2 + usize::div_ceil(rows, 32), "{rows} rows");
        assert_eq!(own.1, apples.1, "{rows} rows");
    }
}

/// Elements of a norm over groups of `count` elements.
fn normed(x: &[f32], count: usize) -> Vec<f32> {
    let group = |group: &[f32]| {
        let mean = group.iter().sum::<f32>() / count as f32;
        let deviation = (group.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / count as f32).sqrt();
        group.iter().map(|v| (v - mean) / deviation).collect::<Vec<_>>()
    };
    x.chunks_exact(count).flat_map(group).collect()
}

#[test]
fn a_norm_over_rows_has_planes_or_transposed_statistics() {
    // Rows differ, so that one left out or taken twice changes the mean.
    let value = |i: usize| small(i) + (i / 8 % 6) as f32;
    for (axes, count) in [("1, 2, 3", 1152), ("2, 3", 48)] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 24, 6, 8]\n  \
             %y: f16[1, 24, 6, 8] = layer_norm(%x) axes=[{axes}] epsilon=0.00001\n  output %y\n}}\n"
        );
        let [own, apples] = both(&source, &[], &[array("x", &[1, 24, 6, 8], value)]);
        assert_eq!(apples.0, 3, "{axes}");
        let wanted = normed(&(0..1152).map(value).collect::<Vec<f32>>(), count);
        for (at, wanted) in wanted.iter().enumerate() {
            let near = |y: &[f32]| (y[at] - wanted).abs() <= 4e-3;
            assert!(near(&own.1) && near(&apples.1), "{axes}: element {at}");
        }
    }
}

#[test]
fn a_softmax_over_rows_has_rows_as_channels() {
    let source =
        "net \"n\" {\n  input %x: f16[1, 24, 6, 8]\n  %y: f16[1, 24, 6, 8] = softmax(%x) axis=2\n  output %y\n}\n";
    let value = |i: usize| small(i) + (i / 48 % 5) as f32;
    let [own, apples] = both(source, &[], &[array("x", &[1, 24, 6, 8], value)]);
    assert_eq!(apples.0, 5);
    for at in 0..1152 {
        let first = at / 48 * 48 + at % 8;
        let sum: f32 = (0..6).map(|row| (value(first + 8 * row) - value(at)).exp()).sum();
        let near = |y: &[f32]| (y[at] - sum.recip()).abs() <= 4e-3;
        assert!(near(&own.1) && near(&apples.1), "element {at}");
    }
}

#[test]
fn a_norm_over_the_channels_of_rows_and_columns_transposes_them_twice() {
    for (gamma, tasks) in [("", 6), ("%g", 8)] {
        let (channels, pixels) = (24usize, 48);
        let gain = (0..channels).map(|c| format!("{:?}", 1.0 + (c % 3) as f32)).collect::<Vec<_>>().join(", ");
        let (constant, operand) = match gamma {
            "" => (String::new(), String::new()),
            _ => (format!("  const %g: f16[24] = [{gain}]\n"), ", %g".to_string()),
        };
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 24, 6, 8]\n{constant}  \
             %y: f16[1, 24, 6, 8] = layer_norm(%x{operand}) axes=[1] epsilon=0.00001\n  output %y\n}}\n"
        );
        let value = |i: usize| small(i) + (i / pixels % 4) as f32;
        let [own, apples] = both(&source, &[], &[array("x", &[1, 24, 6, 8], value)]);
        assert_eq!(apples.0, tasks, "{gamma}");
        let by_pixel: Vec<f32> = (0..channels * pixels).map(|i| value(i % channels * pixels + i / channels)).collect();
        for (i, wanted) in normed(&by_pixel, channels).iter().enumerate() {
            let (channel, pixel) = (i % channels, i / channels);
            let wanted = wanted * if gamma.is_empty() { 1.0 } else { 1.0 + (channel % 3) as f32 };
            let near = |y: &[f32]| (y[channel * pixels + pixel] - wanted).abs() <= 1.2e-2;
            assert!(near(&own.1) && near(&apples.1), "{gamma}: channel {channel}, pixel {pixel}");
        }
    }
}

#[test]
fn equal_biases_of_a_linear_layer_are_one_number() {
    // 40 rows stay columns, 64 are folded, and the coefficients of 512 outputs take several tasks.
    for (rows, inputs, outputs) in [(40, 96, 80), (64, 512, 256), (24, 1024, 512)] {
        for relu in [false, true] {
            let bias = vec!["0.75"; outputs].join(", ");
            let (made, last) = match relu {
                true => ("p", format!("  %y: f16[{rows}, {outputs}] = relu(%p)\n")),
                false => ("y", String::new()),
            };
            let source = format!(
                "net \"n\" {{\n  input %x: f16[{rows}, {inputs}]\n  const %w: f16[{outputs}, {inputs}] = blob 0\n  \
                 const %b: f16[{outputs}] = [{bias}]\n  %{made}: f16[{rows}, {outputs}] = linear(%x, %w, %b)\n{last}  \
                 output %y\n}}\n"
            );
            let value = |i: usize| if i.is_multiple_of(11) { small(i / 11) } else { 0.0 };
            let data = Data::F16((0..outputs * inputs).map(|i| f16::from_f32(value(i))).collect());
            let weights = Arc::new(Tensor { shape: vec![outputs, inputs], data });
            let [own, apples] = both(&source, &[weights], &[array("x", &[rows, inputs], small)]);
            assert_eq!(own.1, apples.1, "{rows} rows, {inputs} inputs, {outputs} outputs, relu {relu}");
            assert!(apples.1.iter().any(|y| y.fract().abs() == 0.75), "the bias is added");
        }
    }
}
