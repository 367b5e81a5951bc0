//! Rows at the places where a mask is true, in MIL.

use super::*;
use anemone_net::Net;
use anemone_net::mil::parse;

/// A function of `x` and of a mask that is true where `m` is above zero.
fn read(body: &str, output: &str) -> Result<Net, String> {
    let text = format!(
        "program(1.0) {{ func main<ios16>(tensor<fp32, [3, 2]> x, tensor<fp32, [3]> m) {{
           tensor<bool, [3]> mask = greater(x = m, y = fp32(0));
           tensor<int32, [?, 1]> places = non_zero(x = mask);
           {body}
         }} -> ({output}); }}"
    );
    let program = parse(&text).expect("text");
    let read = read_program(&program, &MemoryFiles::default(), &Options::default());
    let (net, _) = read.map_err(|e| e.to_string())?;
    check(&net).expect("a network");
    Ok(net)
}

fn run(net: &Net, mask: [f32; 3]) -> Vec<f32> {
    let x = Tensor::f32([3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    eval(net, &[x, Tensor::f32([3], mask.to_vec())]).expect("it runs")[0].data.to_f32()
}

const CHOSEN: &str = "tensor<fp32, [?, 2]> some = gather_nd(x = x, indices = places, batch_dims = int32(0));";

#[test]
fn rows_are_computed_one_by_one_and_together() {
    let of = |body: &str| read(&format!("{CHOSEN} {body}"), "y").expect("a network");
    let sum = "tensor<fp32, [2]> y = reduce_sum(x = more, axes = tensor<int32, [1]>([0]), keep_dims = bool(false));";
    // A function of one operand, of two, and a product with weights.
    let net = of(&format!("tensor<fp32, [?, 2]> more = square(x = some); {sum}"));
    assert_eq!(run(&net, [1.0, 0.0, 1.0]), [26.0, 40.0]);
    let net = of(&format!("tensor<fp32, [?, 2]> more = mul(x = some, y = tensor<fp32, [2]>([10, 1])); {sum}"));
    assert_eq!(run(&net, [0.0, 1.0, 1.0]), [80.0, 10.0]);
    assert_eq!(run(&net, [0.0; 3]), [0.0, 0.0]);
    let weight = "weight = tensor<fp32, [2, 2]>([1, 1, 0, 1]), bias = tensor<fp32, [2]>([0, 100])";
    let net = of(&format!("tensor<fp32, [?, 2]> more = linear(x = some, {weight}); {sum}"));
    assert_eq!(run(&net, [1.0, 0.0, 1.0]), [14.0, 208.0]);
    // Products across rows, and their number.
    let net =
        of("tensor<fp32, [2, 2]> y = matmul(x = some, y = some, transpose_x = bool(true), transpose_y = bool(false));");
    assert_eq!(run(&net, [1.0, 0.0, 1.0]), [26.0, 32.0, 32.0, 40.0]);
    let net = of("tensor<int32, [2]> extents = shape(x = some);
        int32 count = slice_by_index(x = extents, begin = tensor<int32, [1]>([0]), end = tensor<int32, [1]>([1]), squeeze_mask = tensor<bool, [1]>([true]));
        fp32 number = cast(x = count, dtype = string(\"fp32\"));
        tensor<fp32, [3, 2]> y = mul(x = x, y = number);");
    assert_eq!(run(&net, [1.0, 0.0, 1.0]), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    // The last row.
    let net = of("tensor<fp32, [2]> y = slice_by_index(x = some, begin = tensor<int32, [2]>([-1, 0]), end = tensor<int32, [2]>([0, 0]),
        end_mask = tensor<bool, [2]>([false, true]), squeeze_mask = tensor<bool, [2]>([true, false]));");
    assert_eq!(run(&net, [1.0, 1.0, 0.0]), [3.0, 4.0]);
}

/// Scores of rows for rows are followed through a factor and a softmax.
#[test]
fn rows_attend_to_rows() {
    let body = format!(
        "{CHOSEN} tensor<fp32, [?, ?]> scores = matmul(x = some, y = some, transpose_x = bool(false), transpose_y = bool(true));
         tensor<fp32, [?, ?]> less = mul(x = scores, y = fp32(0.1));
         tensor<fp32, [?, ?]> shares = softmax(x = less, axis = int32(-1));
         tensor<fp32, [?, 2]> sums = matmul(x = shares, y = some, transpose_x = bool(false), transpose_y = bool(false));
         tensor<fp32, [2]> y = reduce_sum(x = sums, axes = tensor<int32, [1]>([0]), keep_dims = bool(false));"
    );
    let net = read(&body, "y").expect("a network");
    // One row is its own; of two, each is a mean by the softmax of a tenth of their products.
    assert_eq!(run(&net, [0.0, 1.0, 0.0]), [3.0, 4.0]);
    let share = |difference: f32| 1.0 / (1.0 + (-difference).exp());
    let first = share((5.0 - 11.0) * 0.1) + share((11.0 - 25.0) * 0.1);
    let found = run(&net, [1.0, 1.0, 0.0]);
    assert!((found[0] - (first + 3.0 * (2.0 - first))).abs() < 1e-4, "{found:?}");
}

/// Assignments by a mask repeat their operand by the number of places, or by a quotient of extents that is one.
#[test]
fn rows_end_in_a_scatter() {
    let extents = "tensor<int32, [2]> found = shape(x = places);
        int32 count = slice_by_index(x = found, begin = tensor<int32, [1]>([0]), end = tensor<int32, [1]>([0]), squeeze_mask = tensor<bool, [1]>([true]));
        tensor<int32, [2]> wanted = concat(values = (count, int32(2)), axis = int32(0), interleave = bool(false));
        tensor<bool, [2]> open = equal(x = wanted, y = int32(-1));";
    let scatter =
        "tensor<fp32, [3, 2]> y = scatter_nd(data = x, indices = places, updates = rows, mode = string(\"update\"));";
    let net = read(
        &format!(
            "{extents} tensor<int32, [2]> reps = select(cond = open, a = tensor<int32, [2]>([1, 1]), b = wanted);
            tensor<fp32, [?, ?]> rows = tile(x = tensor<fp32, [1, 1]>([-1]), reps = reps); {scatter}"
        ),
        "y",
    );
    assert_eq!(run(&net.expect("a network"), [0.0, 1.0, 0.0]), [1.0, 2.0, -1.0, -1.0, 5.0, 6.0]);
    let net = read(
        &format!(
            "{CHOSEN} tensor<fp32, [?, 2]> more = exp(x = some); {extents} tensor<int32, [2]> own = shape(x = more);
            tensor<int32, [2]> whole = select(cond = open, a = own, b = wanted);
            tensor<int32, [2]> reps = real_div(x = whole, y = own);
            tensor<fp32, [?, ?]> rows = tile(x = more, reps = reps); {scatter}"
        ),
        "y",
    );
    let e = |x: f32| x.exp();
    assert_eq!(run(&net.expect("a network"), [1.0, 0.0, 1.0]), [e(1.0), e(2.0), 3.0, 4.0, e(5.0), e(6.0)]);
}

/// An output has the real rows first; a second output has their number.
#[test]
fn rows_are_an_output_with_their_number() {
    let net = read(CHOSEN, "some").expect("a network");
    assert_eq!(run(&net, [0.0, 0.0, 1.0]), [5.0, 6.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(net.outputs.len(), 2);
}

/// Operations without a rule are named, as are blocks, which end with a selection between values of one number of rows.
#[test]
fn other_operations_on_rows_are_refused() {
    let refused = |body: &str| read(&format!("{CHOSEN} {body}"), "y").expect_err("no rule");
    let sorted = refused("tensor<int32, [?, 2]> y = argsort(x = some, axis = int32(0), ascending = bool(true));");
    assert!(sorted.contains("argsort") && sorted.contains("depends on values"), "{sorted}");
    let tiled = refused("tensor<fp32, [?, 2]> y = tile(x = some, reps = tensor<int32, [2]>([2, 1]));");
    assert!(tiled.contains("tile") && tiled.contains("depends on values"), "{tiled}");
    let first = "bool first = slice_by_index(x = mask, begin = tensor<int32, [1]>([0]), end = tensor<int32, [1]>([1]), squeeze_mask = tensor<bool, [1]>([true]));";
    let block = refused(&format!(
        "{first} tensor<fp32, [?, 2]> y = cond(pred = first) {{ tensor<fp32, [?, 2]> a = relu(x = some); }} -> (a), {{ tensor<fp32, [?, 2]> b = exp(x = some); }} -> (b);"
    ));
    assert!(block.contains("cond") && block.contains("depends on values"), "{block}");
}
