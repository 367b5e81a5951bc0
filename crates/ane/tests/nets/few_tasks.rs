//! Rewrites that save tasks: exact results within a number of tasks that one task for each position, row or element would exceed.

use anemone::Array;
use anemone::execute::execute;
use anemone_compile::{Options, compile};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::{DType, Tensor, check, eval, text};

/// Input types and operations of a network, the name of its result, and the largest number of tasks.
const CASES: [(&str, &[&str], &str, usize); 24] = [
    ("rows at computed positions", &["f16[24, 6]", "i32[5]"], "%y: f16[5, 6] = gather(%x0, %x1) axis=0", 10),
    ("columns at computed positions", &["f16[3, 24]", "i32[5]"], "%y: f16[3, 5] = gather(%x0, %x1) axis=1", 10),
    (
        "positions of each row",
        &["f16[2, 24, 4]", "i32[2, 7, 4]"],
        "%y: f16[2, 7, 4] = gather_along(%x0, %x1) axis=1",
        10,
    ),
    (
        "positions of the first rows",
        &["f16[5, 3, 8]", "i32[2, 1, 1]"],
        "%y: f16[2, 1, 1] = gather_along(%x0, %x1) axis=2",
        10,
    ),
    (
        "row vectors times matrices of fewer vectors",
        &["f16[4, 100, 1, 2]", "f16[100, 2, 3]"],
        "%y: f16[4, 100, 1, 3] = matmul(%x0, %x1) transpose_x=false transpose_y=false",
        5,
    ),
    (
        "means with a factor and an addend for each channel",
        &["f16[1, 2, 6, 4]"],
        "const %g: f16[1, 2, 1, 1] = [2.0, -3.0]\n  const %t: f16[1, 2, 1, 1] = [0.5, 0.25]\n  \
         %p: f16[1, 2, 3, 2] = avg_pool(%x0) kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]] exclude_padding=false ceil_mode=false\n  \
         %s: f16[1, 2, 3, 2] = mul(%p, %g)\n  %y: f16[1, 2, 3, 2] = add(%s, %t)",
        1,
    ),
    (
        "columns in reverse order",
        &["f16[3, 22]"],
        "const %i: i32[22] = [21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]\n  %y: f16[3, 22] = gather(%x0, %i) axis=1",
        20,
    ),
    (
        "rows in reverse order, from the middle",
        &["f16[20, 3]"],
        "const %i: i32[12] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4]\n  %y: f16[12, 3] = gather(%x0, %i) axis=0",
        8,
    ),
    ("remainders of a power of two", &["i32[40]"], "const %d: i32[] = [8]\n  %y: i32[40] = mod(%x0, %d)", 7),
    ("quotients by a power of two", &["i32[40]"], "const %d: i32[] = [8]\n  %y: i32[40] = floor_div(%x0, %d)", 6),
    ("remainders of a number", &["i32[40]"], "const %d: i32[] = [7]\n  %y: i32[40] = mod(%x0, %d)", 8),
    (
        "copies of a quotient, numbered out of order",
        &["u8[1, 3]", "u8[1, 3]"],
        "const %o: u8[] = [1]\n  %d: u8[1, 3] = max(%x1, %o)\n  %a: u8[1, 3] = floor_div(%x0, %d)\n  %b: u8[1, 3] = reduce_max(%a) axes=[0] keep_dims=true\n  \
         %y: u8[1, 3] = transpose(%b) perm=[0, 1]",
        14,
    ),
    ("floors of quotients by a number", &["i32[40]"], "const %d: i32[] = [7]\n  %y: i32[40] = floor_div(%x0, %d)", 6),
    ("quotients by a number", &["i32[40]"], "const %d: i32[] = [7]\n  %y: i32[40] = div(%x0, %d)", 4),
    (
        "rows added at constant positions",
        &["f16[6, 3]", "f16[40, 3]"],
        "const %i: i32[40, 1] = [4, 2, 5, 2, 5, 5, 5, 4, 0, 3, 1, 5, 0, 1, 0, 2, 3, 1, 3, 4, 0, 4, 1, 0, 5, 1, 3, 2, 1, 3, 1, 0, 1, 4, 4, 3, 1, 1, 0, 0]\n  %y: f16[6, 3] = scatter_nd(%x0, %i, %x1) mode=add",
        6,
    ),
    (
        "elements of rows added to zeros",
        &["f16[40, 3]"],
        "const %z: f16[6, 3] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]\n  const %i: i32[40, 3] = [4, 4, 4, 2, 2, 2, 5, 5, 5, 2, 2, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 4, 4, 0, 0, 0, 3, 3, 3, 1, 1, 1, 5, 5, 5, 0, 0, 0, 1, 1, 1, 0, 0, 0, 2, 2, 2, 3, 3, 3, 1, 1, 1, 3, 3, 3, 4, 4, 4, 0, 0, 0, 4, 4, 4, 1, 1, 1, 0, 0, 0, 5, 5, 5, 1, 1, 1, 3, 3, 3, 2, 2, 2, 1, 1, 1, 3, 3, 3, 1, 1, 1, 0, 0, 0, 1, 1, 1, 4, 4, 4, 4, 4, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]\n  %y: f16[6, 3] = scatter_along(%z, %i, %x0) axis=0 mode=add",
        5,
    ),
    (
        "exchanged neighbours of columns",
        &["f16[1, 6, 3, 24]", "f16[24]"],
        "%p: f16[1, 6, 3, 24] = mul(%x0, %x1)\n  %q: f16[1, 3, 6, 24] = transpose(%p) perm=[0, 2, 1, 3]\n  \
         %a: f16[1, 3, 6, 12] = slice(%q) begin=[0, 0, 0, 0] end=[1, 3, 6, 24] stride=[1, 1, 1, 2]\n  \
         %b: f16[1, 3, 6, 12] = slice(%q) begin=[0, 0, 0, 1] end=[1, 3, 6, 24] stride=[1, 1, 1, 2]\n  \
         %n: f16[1, 3, 6, 12] = neg(%b)\n  %c: f16[1, 3, 6, 12, 1] = reshape(%n)\n  %d: f16[1, 3, 6, 12, 1] = reshape(%a)\n  \
         %j: f16[1, 3, 6, 12, 2] = concat(%c, %d) axis=4\n  %r: f16[1, 3, 6, 24] = reshape(%j)\n  \
         %y: f16[1, 3, 6, 24] = mul(%r, %q)",
        5,
    ),
    (
        "products of 49 rows",
        &["f16[8, 49, 16]", "f16[8, 16, 49]"],
        "%y: f16[8, 49, 49] = matmul(%x0, %x1) transpose_x=false transpose_y=false",
        5,
    ),
    (
        "maxima with a stride of two factors",
        &["f16[1, 3, 24, 18]"],
        "%y: f16[1, 3, 4, 3] = max_pool(%x0) kernel=[6, 6] strides=[6, 6] pads=[[0, 0], [0, 0]] ceil_mode=false",
        2,
    ),
    (
        "overlapping maxima behind padding",
        &["f16[1, 3, 22, 24]"],
        "%y: f16[1, 3, 5, 4] = max_pool(%x0) kernel=[7, 6] strides=[4, 6] pads=[[1, 0], [0, 0]] ceil_mode=false",
        2,
    ),
    (
        "a maximum of whole planes",
        &["f16[1, 3, 14, 14]"],
        "%y: f16[1, 3, 1, 1] = max_pool(%x0) kernel=[14, 14] strides=[14, 14] pads=[[0, 0], [0, 0]] ceil_mode=false",
        1,
    ),
    (
        "products of transposed rows",
        &["f16[2, 15, 3]"],
        "const %w: f16[2, 3] = [1.0, -2.0, 3.0, 0.5, 0.25, -1.0]\n  %t: f16[15, 2, 3] = transpose(%x0) perm=[1, 0, 2]\n  %y: f16[15, 2, 2] = linear(%t, %w)",
        4,
    ),
    (
        "a product with a transposed left matrix",
        &["f16[12, 64]", "f16[12, 20]"],
        "%y: f16[64, 20] = matmul(%x0, %x1) transpose_x=true transpose_y=false",
        2,
    ),
    (
        "choices by parts of one condition",
        &["f16[4, 6, 8]", "f16[4, 6, 8]"],
        "%t: bool[4, 6, 8] = greater(%x0, %x1)\n  %c0: bool[1, 6, 8] = slice(%t) begin=[0, 0, 0] end=[1, 6, 8] stride=[1, 1, 1]\n  %a0: f16[1, 6, 8] = slice(%x0) begin=[0, 0, 0] end=[1, 6, 8] stride=[1, 1, 1]\n  %b0: f16[1, 6, 8] = slice(%x1) begin=[0, 0, 0] end=[1, 6, 8] stride=[1, 1, 1]\n  %s0: f16[1, 6, 8] = select(%c0, %a0, %b0)\n  %c1: bool[1, 6, 8] = slice(%t) begin=[1, 0, 0] end=[2, 6, 8] stride=[1, 1, 1]\n  %a1: f16[1, 6, 8] = slice(%x0) begin=[1, 0, 0] end=[2, 6, 8] stride=[1, 1, 1]\n  %b1: f16[1, 6, 8] = slice(%x1) begin=[1, 0, 0] end=[2, 6, 8] stride=[1, 1, 1]\n  %s1: f16[1, 6, 8] = select(%c1, %a1, %b1)\n  %c2: bool[1, 6, 8] = slice(%t) begin=[2, 0, 0] end=[3, 6, 8] stride=[1, 1, 1]\n  %a2: f16[1, 6, 8] = slice(%x0) begin=[2, 0, 0] end=[3, 6, 8] stride=[1, 1, 1]\n  %b2: f16[1, 6, 8] = slice(%x1) begin=[2, 0, 0] end=[3, 6, 8] stride=[1, 1, 1]\n  %s2: f16[1, 6, 8] = select(%c2, %a2, %b2)\n  %c3: bool[1, 6, 8] = slice(%t) begin=[3, 0, 0] end=[4, 6, 8] stride=[1, 1, 1]\n  %a3: f16[1, 6, 8] = slice(%x0) begin=[3, 0, 0] end=[4, 6, 8] stride=[1, 1, 1]\n  %b3: f16[1, 6, 8] = slice(%x1) begin=[3, 0, 0] end=[4, 6, 8] stride=[1, 1, 1]\n  %s3: f16[1, 6, 8] = select(%c3, %a3, %b3)\n  %y: f16[4, 6, 8] = concat(%s0, %s1, %s2, %s3) axis=0",
        32,
    ),
];

/// Functions made of several tasks, and the largest number of those.
const FUNCTIONS: [(&str, &str, usize); 4] = [
    ("sine", "%y: f16[4, 32] = sin(%x)", 7),
    ("sine of few turns", "%a: f16[4, 32] = clip(%x) min=-60.0 max=60.0\n  %y: f16[4, 32] = sin(%a)", 6),
    ("cosine", "%y: f16[4, 32] = cos(%x)", 6),
    ("elu", "%y: f16[4, 32] = elu(%x) alpha=0.5", 3),
];

/// Steps that round, truncate or limit on their own would be more tasks.
#[test]
fn functions_share_their_steps() {
    for (name, ops, most) in FUNCTIONS {
        let source = format!("net \"n\" {{\n  input %x: f16[4, 32]\n  {ops}\n  output %y\n}}\n");
        let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
        let data: Vec<f32> = (0..128).map(|i| (i as f32 - 64.0) * 1.5).collect();
        let expected = eval::eval(&net, &[Tensor::f32(vec![4, 32], data.clone())]).expect("evaluates")[0].data.to_f32();
        let array = Array { shape: vec![4, 32], data };
        let run = execute(&program, &[("x".into(), array)], Default::default()).expect("runs");
        let worst = expected.iter().zip(&run.outputs[0].1.data).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 2.2e-3, "{name}: error {worst}");
        let tasks = program.tasks().expect("tasks").len();
        assert!(tasks <= most, "{name}: {tasks} tasks, at most {most}");
    }
}

/// Taps of a dilated window that is larger than the array's become channels one by one: their coefficients contain no zeros.
#[test]
fn taps_far_apart_are_channels() {
    let count = 16 * 16 * 9;
    let kernel: Vec<String> = (0..count).map(|i| format!("{}", (i * 5 % 7) as f32 - 3.0)).collect();
    let source = format!(
        "net \"n\" {{\n  input %x: f16[1, 16, 14, 14]\n  const %w: f16[16, 16, 3, 3] = [{}]\n  \
         %y: f16[1, 16, 14, 14] = conv(%x, %w) strides=[1, 1] pads=[[12, 12], [12, 12]] dilations=[12, 12] groups=1\n  \
         output %y\n}}\n",
        kernel.join(", ")
    );
    let net = text::parse(&source, &[]).expect("a network");
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    // The zeros of the padding included; with blocks of two taps, coefficients alone take 325 kB.
    assert!(program.kernel.len() <= 32 * count, "{} bytes", program.kernel.len());
    let shape = vec![1, 16, 14, 14];
    let data: Vec<f32> = (0..16 * 14 * 14).map(|i| (i * 3 % 11) as f32 - 5.0).collect();
    let expected = eval::eval(&net, &[Tensor::f32(shape.clone(), data.clone())]).expect("evaluates")[0].data.to_f32();
    let run = execute(&program, &[("x".into(), Array { shape, data })], Default::default()).expect("runs");
    assert_eq!(run.outputs[0].1.data, expected);
}

/// Operations over three axes, and the largest number of tasks; `W` is a kernel of that many numbers.
const VOLUMES: [(&str, &str, usize); 6] = [
    (
        "convolution with padding",
        "const %w: f16[4, 3, 3, 3, 3] = [W324]\n  const %b: f16[4] = [1.0, 2.0, 3.0, 4.0]\n  %y: f16[1, 4, 6, 8, 8] = conv(%x0, %w, %b) strides=[1, 1, 1] pads=[[1, 1], [1, 1], [1, 1]] dilations=[1, 1, 1] groups=1",
        1,
    ),
    (
        "strided dilated convolution by groups",
        "const %w: f16[6, 1, 2, 3, 3] = [W108]\n  %y: f16[1, 6, 3, 4, 4] = conv(%x0, %w) strides=[2, 2, 2] pads=[[1, 1], [1, 1], [1, 1]] dilations=[2, 1, 1] groups=3",
        3,
    ),
    (
        "transposed convolution",
        "const %w: f16[3, 2, 4, 4, 4] = [W384]\n  %y: f16[1, 2, 12, 16, 16] = conv_transpose(%x0, %w) strides=[2, 2, 2] pads=[[1, 1], [1, 1], [1, 1]] output_pads=[0, 0, 0] dilations=[1, 1, 1] groups=1",
        7,
    ),
    (
        "maxima",
        "%y: f16[1, 3, 3, 4, 4] = max_pool(%x0) kernel=[2, 2, 2] strides=[2, 2, 2] pads=[[0, 0], [0, 0], [0, 0]] ceil_mode=false",
        2,
    ),
    (
        "overlapping maxima of three planes",
        "%y: f16[1, 3, 4, 4, 4] = max_pool(%x0) kernel=[3, 3, 3] strides=[1, 2, 2] pads=[[0, 0], [1, 1], [1, 1]] ceil_mode=false",
        3,
    ),
    (
        "means",
        "%y: f16[1, 3, 3, 4, 4] = avg_pool(%x0) kernel=[2, 2, 2] strides=[2, 2, 2] pads=[[0, 0], [0, 0], [0, 0]] exclude_padding=true ceil_mode=false",
        3,
    ),
];

/// One plane after another, padded and copied beside each other, would be more tasks.
#[test]
fn planes_of_a_volume_are_channels() {
    for (name, ops, most) in VOLUMES {
        exact_in_few_tasks(name, &["f16[1, 3, 6, 8, 8]"], &filled(ops), most);
    }
}

/// Functions behind a window or a product, and means whose windows are farther apart than one task's.
const WINDOWS: [(&str, &str, &str, usize); 5] = [
    (
        "magnitudes of means",
        "f16[1, 3, 8, 8]",
        "%m: f16[1, 3, 4, 4] = avg_pool(%x0) kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]] exclude_padding=true ceil_mode=false\n  %y: f16[1, 3, 4, 4] = abs(%m)",
        1,
    ),
    (
        "clipped means of padded windows, scaled and shifted",
        "f16[1, 3, 8, 8]",
        "const %s: f16[1] = [2.0]\n  const %b: f16[1] = [0.5]\n  %m: f16[1, 3, 9, 9] = avg_pool(%x0) kernel=[2, 2] strides=[1, 1] pads=[[1, 1], [1, 1]] exclude_padding=false ceil_mode=false\n  %t: f16[1, 3, 9, 9] = mul(%m, %s)\n  %u: f16[1, 3, 9, 9] = add(%t, %b)\n  %y: f16[1, 3, 9, 9] = clip(%u) min=-3.0 max=20.0",
        1,
    ),
    (
        "magnitudes of means, two images",
        "f16[2, 3, 8, 8]",
        "%m: f16[2, 3, 4, 4] = avg_pool(%x0) kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]] exclude_padding=true ceil_mode=false\n  %y: f16[2, 3, 4, 4] = abs(%m)",
        2,
    ),
    (
        "magnitudes of a convolution",
        "f16[1, 3, 6, 6]",
        "const %w: f16[4, 3, 3, 3] = [W108]\n  %c: f16[1, 4, 6, 6] = conv(%x0, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1\n  %y: f16[1, 4, 6, 6] = abs(%c)",
        1,
    ),
    (
        "means eight rows and columns apart, two images",
        "f16[2, 3, 32, 24]",
        "%y: f16[2, 3, 4, 3] = avg_pool(%x0) kernel=[8, 8] strides=[8, 8] pads=[[0, 0], [0, 0]] exclude_padding=true ceil_mode=false",
        4,
    ),
];

#[test]
fn windows_take_the_functions_behind_them() {
    for (name, input, ops, most) in WINDOWS {
        exact_in_few_tasks(name, &[input], &filled(ops), most);
    }
}

/// Operations that the engine can do in few tasks: overlapping passes, phases as channels, shared copies, tables of single steps.
const FEWER: [(&str, &[&str], &str, usize); 24] = [
    (
        "rows that no passes of several lanes hold",
        &["f16[3, 49, 2]", "f16[3, 2, 8]"],
        "%a: f16[3, 49, 2] = clip(%x0) min=-10.0 max=10.0\n  %y: f16[3, 49, 8] = matmul(%a, %x1) transpose_x=false transpose_y=false",
        4,
    ),
    (
        "a factor behind passes that overlap",
        &["f16[3, 49, 2]", "f16[3, 2, 8]"],
        "const %c: f16[1] = [0.5]\n  %a: f16[3, 49, 2] = clip(%x0) min=-10.0 max=10.0\n  %m: f16[3, 49, 8] = matmul(%a, %x1) transpose_x=false transpose_y=false\n  %y: f16[3, 49, 8] = mul(%m, %c)",
        4,
    ),
    (
        "rows of one matrix",
        &["f16[100, 2]", "f16[2, 8]"],
        "%a: f16[100, 2] = clip(%x0) min=-10.0 max=10.0\n  %y: f16[100, 8] = matmul(%a, %x1) transpose_x=false transpose_y=false",
        4,
    ),
    (
        "three passes of a transposed left matrix",
        &["f16[2, 310]", "f16[2, 8]"],
        "%a: f16[2, 310] = clip(%x0) min=-10.0 max=10.0\n  %y: f16[310, 8] = matmul(%a, %x1) transpose_x=true transpose_y=false",
        7,
    ),
    (
        "a ReLU of a row, three times",
        &["f16[1, 1, 1, 7]"],
        "%a: f16[1, 2, 1, 7] = concat(%x0, %x0) axis=1\n  %b: f16[1, 3, 1, 7] = concat(%a, %x0) axis=1\n  %c: f16[1, 3, 1, 7] = relu(%b)\n  %y: f16[1, 1, 3, 7] = transpose(%c) perm=[0, 2, 1, 3]",
        4,
    ),
    ("a constant row", &["f16[2, 4, 8]"], "const %c: f16[8] = [W8]\n  %y: f16[2, 4, 8] = add(%x0, %c)", 1),
    (
        "a factor of each channel",
        &["f16[1, 4, 3, 8]"],
        "const %c: f16[4, 1, 1] = [1.0, 2.0, 0.5, 3.0]\n  %y: f16[1, 4, 3, 8] = mul(%x0, %c)",
        1,
    ),
    (
        "phases with the same window",
        &["f16[2, 3, 4, 4]"],
        "const %w: f16[3, 2, 2, 2] = [W24]\n  const %b: f16[2] = [1.0, 2.0]\n  %y: f16[2, 2, 8, 8] = conv_transpose(%x0, %w, %b) strides=[2, 2] pads=[[0, 0], [0, 0]] output_pads=[0, 0] dilations=[1, 1] groups=1",
        6,
    ),
    (
        "phases with different windows",
        &["f16[1, 3, 4, 5]"],
        "const %w: f16[3, 2, 4, 4] = [W96]\n  const %b: f16[2] = [1.0, 2.0]\n  %y: f16[1, 2, 8, 10] = conv_transpose(%x0, %w, %b) strides=[2, 2] pads=[[1, 1], [1, 1]] output_pads=[0, 0] dilations=[1, 1] groups=1",
        3,
    ),
    (
        "a function behind phases",
        &["f16[1, 3, 4, 5]"],
        "const %w: f16[3, 2, 4, 4] = [W96]\n  const %b: f16[2] = [1.0, 2.0]\n  %t: f16[1, 2, 8, 10] = conv_transpose(%x0, %w, %b) strides=[2, 2] pads=[[1, 1], [1, 1]] output_pads=[0, 0] dilations=[1, 1] groups=1\n  %y: f16[1, 2, 8, 10] = leaky_relu(%t) alpha=0.25",
        3,
    ),
    (
        "rotations of columns",
        &["f16[2, 5, 16]"],
        "%pa: f16[2, 5, 13] = slice(%x0) begin=[0, 0, 3] end=[2, 5, 16] stride=[1, 1, 1]\n  %pb: f16[2, 5, 3] = slice(%x0) begin=[0, 0, 0] end=[2, 5, 3] stride=[1, 1, 1]\n  %p: f16[2, 5, 16] = concat(%pa, %pb) axis=2\n  %qa: f16[2, 5, 9] = slice(%x0) begin=[0, 0, 7] end=[2, 5, 16] stride=[1, 1, 1]\n  %qb: f16[2, 5, 7] = slice(%x0) begin=[0, 0, 0] end=[2, 5, 7] stride=[1, 1, 1]\n  %q: f16[2, 5, 16] = concat(%qa, %qb) axis=2\n  %ra: f16[2, 5, 5] = slice(%x0) begin=[0, 0, 11] end=[2, 5, 16] stride=[1, 1, 1]\n  %rb: f16[2, 5, 11] = slice(%x0) begin=[0, 0, 0] end=[2, 5, 11] stride=[1, 1, 1]\n  %r: f16[2, 5, 16] = concat(%ra, %rb) axis=2\n  %m: f16[2, 5, 16] = max(%p, %q)\n  %y: f16[2, 5, 16] = min(%m, %r)",
        7,
    ),
    (
        "slices of the same rows, joined",
        &["f16[2, 49]"],
        "%p1: f16[2, 1] = slice(%x0) begin=[0, 7] end=[2, 8] stride=[1, 1]\n  %p2: f16[2, 2] = slice(%x0) begin=[0, 14] end=[2, 16] stride=[1, 1]\n  %p3: f16[2, 3] = slice(%x0) begin=[0, 21] end=[2, 24] stride=[1, 1]\n  %p4: f16[2, 4] = slice(%x0) begin=[0, 28] end=[2, 32] stride=[1, 1]\n  %p5: f16[2, 5] = slice(%x0) begin=[0, 35] end=[2, 40] stride=[1, 1]\n  %p6: f16[2, 6] = slice(%x0) begin=[0, 42] end=[2, 48] stride=[1, 1]\n  %y: f16[2, 21] = concat(%p1, %p2, %p3, %p4, %p5, %p6) axis=1",
        8,
    ),
    (
        "whole numbers that are equal",
        &["i32[4, 1]"],
        "const %c: i32[8] = [-4, 7, 0, 3, -50, 24, 11, 1]\n  %e: bool[4, 8] = equal(%x0, %c)\n  %y: f16[4, 8] = cast(%e)",
        2,
    ),
    (
        "rows of a constant table",
        &["f16[1, 3]", "i32[5]"],
        "const %t: f16[24, 3] = [W72]\n  %r: f16[5, 3] = gather(%t, %x1) axis=0\n  %y: f16[5, 3] = add(%r, %x0)",
        8,
    ),
    (
        "a convolution above a threshold",
        &["f16[1, 3, 6, 6]"],
        "const %w: f16[4, 3, 3, 3] = [W108]\n  const %l: f16[1] = [7.0]\n  const %z: f16[1] = [0.0]\n  %c: f16[1, 4, 6, 6] = conv(%x0, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1\n  %g: bool[1, 4, 6, 6] = greater_equal(%c, %l)\n  %y: f16[1, 4, 6, 6] = select(%g, %c, %z)",
        1,
    ),
    (
        "means of windows of several extents",
        &["f16[1, 2, 6, 6]"],
        "const %w: f16[2, 2, 1, 1] = [0.5, 0.0, 1.0, 2.0]\n  %c: f16[1, 2, 6, 6] = conv(%x0, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  %s0: f16[1, 2, 1, 2] = slice(%c) begin=[0, 0, 0, 0] end=[1, 2, 1, 2] stride=[1, 1, 1, 1]\n  %m0: f16[1, 2, 1, 1] = reduce_mean(%s0) axes=[2, 3] keep_dims=true\n  %s1: f16[1, 2, 1, 4] = slice(%c) begin=[0, 0, 0, 1] end=[1, 2, 1, 5] stride=[1, 1, 1, 1]\n  %m1: f16[1, 2, 1, 1] = reduce_mean(%s1) axes=[2, 3] keep_dims=true\n  %s2: f16[1, 2, 1, 2] = slice(%c) begin=[0, 0, 0, 4] end=[1, 2, 1, 6] stride=[1, 1, 1, 1]\n  %m2: f16[1, 2, 1, 1] = reduce_mean(%s2) axes=[2, 3] keep_dims=true\n  %s3: f16[1, 2, 2, 2] = slice(%c) begin=[0, 0, 1, 0] end=[1, 2, 3, 2] stride=[1, 1, 1, 1]\n  %m3: f16[1, 2, 1, 1] = reduce_mean(%s3) axes=[2, 3] keep_dims=true\n  %s4: f16[1, 2, 2, 4] = slice(%c) begin=[0, 0, 1, 1] end=[1, 2, 3, 5] stride=[1, 1, 1, 1]\n  %m4: f16[1, 2, 1, 1] = reduce_mean(%s4) axes=[2, 3] keep_dims=true\n  %s5: f16[1, 2, 2, 2] = slice(%c) begin=[0, 0, 1, 4] end=[1, 2, 3, 6] stride=[1, 1, 1, 1]\n  %m5: f16[1, 2, 1, 1] = reduce_mean(%s5) axes=[2, 3] keep_dims=true\n  %s6: f16[1, 2, 4, 2] = slice(%c) begin=[0, 0, 2, 0] end=[1, 2, 6, 2] stride=[1, 1, 1, 1]\n  %m6: f16[1, 2, 1, 1] = reduce_mean(%s6) axes=[2, 3] keep_dims=true\n  %s7: f16[1, 2, 4, 4] = slice(%c) begin=[0, 0, 2, 1] end=[1, 2, 6, 5] stride=[1, 1, 1, 1]\n  %m7: f16[1, 2, 1, 1] = reduce_mean(%s7) axes=[2, 3] keep_dims=true\n  %s8: f16[1, 2, 4, 2] = slice(%c) begin=[0, 0, 2, 4] end=[1, 2, 6, 6] stride=[1, 1, 1, 1]\n  %m8: f16[1, 2, 1, 1] = reduce_mean(%s8) axes=[2, 3] keep_dims=true\n  %y: f16[1, 2, 1, 9] = concat(%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7, %m8) axis=3",
        6,
    ),
    (
        "single columns of one value",
        &["f16[5, 12]"],
        "%a: f16[5, 1] = slice(%x0) begin=[0, 1] end=[5, 2] stride=[1, 1]\n  %b: f16[5, 1] = slice(%x0) begin=[0, 2] end=[5, 3] stride=[1, 1]\n  %c: f16[5, 1] = slice(%x0) begin=[0, 7] end=[5, 8] stride=[1, 1]\n  %d: f16[5, 1] = max(%a, %b)\n  %y: f16[5, 1] = max(%d, %c)",
        6,
    ),
    (
        "means of windows that a concatenation joins",
        &["f16[1, 2, 10, 10]"],
        "%s0: f16[1, 2, 4, 4] = slice(%x0) begin=[0, 0, 0, 1] end=[1, 2, 4, 5] stride=[1, 1, 1, 1]\n  %m0: f16[1, 2, 1, 1] = reduce_mean(%s0) axes=[2, 3] keep_dims=true\n  %s1: f16[1, 2, 4, 4] = slice(%x0) begin=[0, 0, 0, 4] end=[1, 2, 4, 8] stride=[1, 1, 1, 1]\n  %m1: f16[1, 2, 1, 1] = reduce_mean(%s1) axes=[2, 3] keep_dims=true\n  %s2: f16[1, 2, 4, 4] = slice(%x0) begin=[0, 0, 3, 1] end=[1, 2, 7, 5] stride=[1, 1, 1, 1]\n  %m2: f16[1, 2, 1, 1] = reduce_mean(%s2) axes=[2, 3] keep_dims=true\n  %s3: f16[1, 2, 4, 4] = slice(%x0) begin=[0, 0, 3, 4] end=[1, 2, 7, 8] stride=[1, 1, 1, 1]\n  %m3: f16[1, 2, 1, 1] = reduce_mean(%s3) axes=[2, 3] keep_dims=true\n  %s4: f16[1, 2, 4, 4] = slice(%x0) begin=[0, 0, 6, 1] end=[1, 2, 10, 5] stride=[1, 1, 1, 1]\n  %m4: f16[1, 2, 1, 1] = reduce_mean(%s4) axes=[2, 3] keep_dims=true\n  %s5: f16[1, 2, 4, 4] = slice(%x0) begin=[0, 0, 6, 4] end=[1, 2, 10, 8] stride=[1, 1, 1, 1]\n  %m5: f16[1, 2, 1, 1] = reduce_mean(%s5) axes=[2, 3] keep_dims=true\n  %y: f16[1, 2, 1, 6] = concat(%m0, %m1, %m2, %m3, %m4, %m5) axis=3",
        6,
    ),
    (
        "channels in the order of patches within patches",
        &["f16[1, 4, 4, 4]"],
        "const %w: f16[16, 4, 1, 1] = [W64]\n  %c: f16[1, 16, 4, 4] = conv(%x0, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  %r: f16[2, 2, 2, 2, 4, 4] = reshape(%c)\n  %y: f16[4, 4, 2, 2, 2, 2] = transpose(%r) perm=[4, 5, 1, 3, 0, 2]",
        2,
    ),
    (
        "equal parts of columns",
        &["f16[5, 4]"],
        "const %w: f16[40, 4] = [W160]\n  %p: f16[5, 40] = linear(%x0, %w)\n  %a: f16[5, 20] = slice(%p) begin=[0, 0] end=[5, 20] stride=[1, 1]\n  %b: f16[5, 20] = slice(%p) begin=[0, 20] end=[5, 40] stride=[1, 1]\n  %y: f16[5, 20] = max(%a, %b)",
        3,
    ),
    (
        "a wide window between transposes",
        &["f16[1, 24, 4]"],
        "const %w: f16[4, 4, 17] = [W272]\n  %a: f16[1, 24, 4] = clip(%x0) min=-4.0 max=4.0\n  %t: f16[1, 4, 24] = transpose(%a) perm=[0, 2, 1]\n  %c: f16[1, 4, 24] = conv(%t, %w) strides=[1] pads=[[8, 8]] dilations=[1] groups=1\n  %u: f16[1, 24, 4] = transpose(%c) perm=[0, 2, 1]\n  %y: f16[1, 24, 4] = max(%u, %x0)",
        4,
    ),
    (
        "a part of a concatenation and the same value alone",
        &["f16[5, 16]"],
        "const %w: f16[8, 32] = [W256]\n  const %v: f16[8, 16] = [W128]\n  %a: f16[5, 16] = clip(%x0) min=-4.0 max=4.0\n  %b: f16[5, 16] = clip(%x0) min=-2.0 max=3.0\n  %c: f16[5, 32] = concat(%a, %b) axis=1\n  %p: f16[5, 8] = linear(%c, %w)\n  %q: f16[5, 8] = linear(%a, %v)\n  %y: f16[5, 8] = max(%p, %q)",
        7,
    ),
    (
        "positions that exchange two axes",
        &["f16[12, 8]"],
        "const %i: i32[12] = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]\n  %g: f16[12, 8] = gather(%x0, %i) axis=0\n  %y: f16[8, 12] = transpose(%g) perm=[1, 0]",
        2,
    ),
    (
        "a sum of constants with factors",
        &["f16[1, 4]"],
        "const %w: f16[4, 6, 32] = [W768]\n  %f: f16[4, 1, 1] = reshape(%x0)\n  %m: f16[4, 6, 32] = mul(%f, %w)\n  %y: f16[6, 32] = reduce_sum(%m) axes=[0] keep_dims=false",
        3,
    ),
];

#[test]
fn tasks_are_few() {
    for (name, types, ops, most) in FEWER {
        exact_in_few_tasks(name, types, &filled(ops), most);
    }
}

/// Text with small weights for each `[Wn]`, a number of them.
pub(crate) fn filled(text: &str) -> String {
    let mut text = text.to_string();
    while let Some(at) = text.find("[W") {
        let end = at + text[at..].find(']').expect("an end");
        let count: usize = text[at + 2..end].parse().expect("a number");
        let weights: Vec<String> = (0..count).map(|i| format!("{}.0", i * 7 % 5 % 3)).collect();
        text.replace_range(at + 1..end, &weights.join(", "));
    }
    text
}

/// Two tables with the same positions take the tasks of one gather, not twice as many.
#[test]
fn columns_of_tables_with_the_same_positions_are_gathered_at_once() {
    let ops = "const %t: f16[24, 3] = [W72]\n  const %u: f16[24, 1] = [W24]\n  %r: f16[5, 3] = gather(%t, %x1) axis=0\n  \
               %s: f16[5, 1] = gather(%u, %x1) axis=0\n  %m: f16[5, 3] = mul(%r, %s)\n  %y: f16[5, 3] = add(%m, %x0)";
    exact_in_few_tasks("tables side by side", &["f16[1, 3]", "i32[5]"], &filled(ops), 13);
}

#[test]
fn rewrites_are_exact_in_few_tasks() {
    for (name, types, ops, most) in CASES {
        exact_in_few_tasks(name, types, ops, most);
    }
}

/// Compiles and runs a network whose inputs are small integers.
pub(crate) fn exact_in_few_tasks(name: &str, types: &[&str], ops: &str, most: usize) {
    let declared: Vec<String> = types.iter().enumerate().map(|(i, ty)| format!("  input %x{i}: {ty}\n")).collect();
    let source = format!("net \"n\" {{\n{}  {ops}\n  output %y\n}}\n", declared.concat());
    let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
    check::check(&net).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let tensors: Vec<Tensor> = net
        .inputs
        .iter()
        .enumerate()
        .map(|(i, &id)| {
            let ty = &net.value(id).ty;
            // Positions are within the axis; the first inputs take both signs.
            let value = |at: usize| match i {
                0 => (at * 37 % 101) as f32 - 50.0,
                _ => (at * 7 % 24) as f32,
            };
            Tensor::f32(ty.shape.clone(), (0..ty.elements()).map(value).collect()).cast(ty.dtype)
        })
        .collect();
    let expected = eval::eval_typed(&net, &tensors).expect("evaluates")[0].data.to_f32();
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let arrays: Vec<(String, Array)> = tensors
        .iter()
        .enumerate()
        .map(|(i, t)| (format!("x{i}"), Array { shape: t.shape.clone(), data: t.data.to_f32() }))
        .collect();
    let run = execute(&program, &arrays, Default::default()).expect("runs");
    assert_eq!(run.outputs[0].1.data, expected, "{name}");
    let tasks = program.tasks().expect("tasks").len();
    assert!(tasks <= most, "{name}: {tasks} tasks, at most {most}");
}

/// Rows of four tables at columns of one tensor and at positions of their own, some counted from the end.
#[test]
fn rows_of_several_tables_are_gathered_at_once() {
    let table = |k: usize| (0..72).map(|i| format!("{}.0", (i * 31 + k * 17) % 199)).collect::<Vec<_>>().join(", ");
    for own in [false, true] {
        let mut source = String::from("net \"n\" {\n  input %x: i32[5, 4]\n");
        if own {
            (0..4).for_each(|k| source += &format!("  input %p{k}: i32[5]\n"));
        }
        for k in 0..4 {
            source += &format!("  const %t{k}: f16[24, 3] = [{}]\n", table(k));
            if !own {
                source += &format!(
                    "  %s{k}: i32[5, 1] = slice(%x) begin=[0, {k}] end=[5, {}] stride=[1, 1]\n  %p{k}: i32[5] = reshape(%s{k})\n",
                    k + 1
                );
            }
            source += &format!("  %r{k}: f16[5, 3] = gather(%t{k}, %p{k}) axis=0\n");
        }
        source += "  %f: f16[5, 4] = cast(%x)\n  %u: f16[5, 1] = reduce_max(%f) axes=[1] keep_dims=true\n  %v: f16[5, 3] = add(%r0, %u)\n";
        source += "  %y: f16[5, 12] = concat(%v, %r1, %r2, %r3) axis=1\n  output %y\n}\n";
        let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let position = |at: usize| (at * 7 % 48) as f32 - 24.0;
        let tensor = |id| {
            let ty = &net.value(id).ty;
            Tensor::f32(ty.shape.clone(), (0..ty.elements()).map(position).collect()).cast(ty.dtype)
        };
        let tensors: Vec<Tensor> = net.inputs.iter().map(|&id| tensor(id)).collect();
        let expected = eval::eval_typed(&net, &tensors).expect("evaluates")[0].data.to_f32();
        let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
        let named = net.inputs.iter().zip(&tensors);
        let arrays: Vec<(String, Array)> = named
            .map(|(&id, t)| (net.value(id).name.clone(), Array { shape: t.shape.clone(), data: t.data.to_f32() }))
            .collect();
        let run = execute(&program, &arrays, Default::default()).expect("runs");
        assert_eq!(run.outputs[0].1.data, expected, "positions of their own: {own}");
        let tasks = program.tasks().expect("tasks").len();
        // Four gathers one by one are more than forty.
        assert!(tasks <= 24, "{tasks} tasks, positions of their own: {own}");
    }
}

/// Sines and cosines of three multiples of one value, as encodings of positions have them; one by one they are more than forty tasks.
#[test]
fn waves_of_several_values_are_computed_at_once() {
    let mut source = String::from("net \"n\" {\n  input %a0: f16[6, 32]\n");
    for (k, scale) in [(1, "3.0"), (2, "40.0")] {
        source += &format!("  const %s{k}: f16[] = [{scale}]\n  %a{k}: f16[6, 32] = mul(%a0, %s{k})\n");
    }
    (0..3).for_each(|k| source += &format!("  %i{k}: f16[6, 32] = sin(%a{k})\n  %c{k}: f16[6, 32] = cos(%a{k})\n"));
    source += "  %y: f16[36, 32] = concat(%i0, %c0, %i1, %c1, %i2, %c2) axis=0\n  output %y\n}\n";
    let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
    // Arguments of the last pair reach 700, hundreds of turns.
    let values = (0..192).map(|at| (at * 37 % 141) as f32 * 0.25 - 17.5).collect();
    let x = Tensor::f32(vec![6, 32], values).cast(DType::F16);
    let expected = eval::eval_typed(&net, std::slice::from_ref(&x)).expect("evaluates")[0].data.to_f32();
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let arrays = [("a0".to_string(), Array { shape: x.shape.clone(), data: x.data.to_f32() })];
    for model in [Model::Fast, Model::Fixed] {
        let options = anemone_engine::Options { model, ..Default::default() };
        let run = execute(&program, &arrays, options).expect("runs");
        for (at, (y, expected)) in run.outputs[0].1.data.iter().zip(&expected).enumerate() {
            assert!((y - expected).abs() < 3e-3, "{model:?}, {at}: {y} for {expected}");
        }
    }
    let tasks = program.tasks().expect("tasks").len();
    assert!(tasks <= 20, "{tasks} tasks");
}
