use anemone_compile::Options;
use anemone_compile::testing::{Remarks, collapse_transposes};
use anemone_net::eval::eval;
use anemone_net::{Net, OpKind, Tensor, text};

/// The network after the pass, which leaves its results as they are.
fn collapsed(body: &str) -> Net {
    let source = format!("net \"n\" {{\n  input %x: f32[1, 2, 3, 4]\n{body}}}\n");
    let before = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut after = before.clone();
    collapse_transposes(&mut after, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    anemone_net::check::check(&after).unwrap_or_else(|e| panic!("{e:?}\n{}", text::print(&after).0));
    let x = Tensor::f32([1, 2, 3, 4], (0..24).map(|i| (i * 7 % 24) as f32 / 16.0 - 0.6).collect());
    let values = |net: &Net| eval(net, std::slice::from_ref(&x)).expect("it runs");
    for (a, b) in values(&before).iter().zip(&values(&after)) {
        assert_eq!((&a.shape, a.data.to_f32()), (&b.shape, b.data.to_f32()), "{}", text::print(&after).0);
    }
    after
}

fn transposes(net: &Net) -> usize {
    net.ops.iter().filter(|op| matches!(op.kind, OpKind::Transpose { .. })).count()
}

#[test]
fn channels_that_are_last_between_transposes_stay_first() {
    // A value with two readers, numbers for each channel, a reduction without and with its axes, and a concatenation.
    let net = collapsed(
        "  const %k: f32[2] = [0.5, 2.0]
  const %h: f32[1, 1, 1, 1] = [0.25]
  %a: f32[1, 3, 4, 2] = transpose(%x) perm=[0, 2, 3, 1]
  %t: f32[1, 3, 4, 2] = tanh(%a)
  %u: f32[1, 3, 4, 2] = mul(%t, %k)
  %m: f32[1, 1, 1, 2] = reduce_mean(%u) axes=[1, 2] keep_dims=true
  %g: f32[1, 1, 1, 2] = add(%m, %h)
  %v: f32[1, 3, 4, 2] = mul(%u, %g)
  %r: f32[1, 2] = reduce_max(%v) axes=[1, 2] keep_dims=false
  %c: f32[1, 3, 4, 4] = concat(%v, %t) axis=3
  %p: f32[1, 4, 4, 4] = pad(%c) pads=[[0, 0], [0, 1], [0, 0], [0, 0]] value=0.5
  %s: f32[1, 2, 4, 3] = slice(%p) begin=[0, 0, 0, 1] end=[1, 4, 4, 4] stride=[1, 2, 1, 1]
  %b: f32[1, 3, 2, 4] = transpose(%s) perm=[0, 3, 1, 2]
  %y: f32[1, 3, 2, 4] = relu(%b)
  output %y
  output %r
",
    );
    assert_eq!(transposes(&net), 0, "{}", text::print(&net).0);
}

#[test]
fn results_in_both_orders_keep_one_transpose() {
    let body = "  %a: f32[1, 3, 4, 2] = transpose(%x) perm=[0, 2, 3, 1]
  %t: f32[1, 3, 4, 2] = tanh(%a)
  %b: f32[1, 2, 3, 4] = transpose(%t) perm=[0, 3, 1, 2]
  %y: f32[1, 2, 3, 4] = relu(%b)
  output %y
  output %t
";
    assert_eq!(transposes(&collapsed(body)), 1);
}

#[test]
fn operands_of_another_order_are_no_reason_to_turn() {
    // One transpose would be saved, and one needed.
    let body = "  input %z: f32[1, 3, 4, 2]
"
    .to_string()
        + "  %a: f32[1, 3, 4, 2] = transpose(%x) perm=[0, 2, 3, 1]
  %t: f32[1, 3, 4, 2] = add(%a, %z)
  output %t
";
    let source = format!("net \"n\" {{\n  input %x: f32[1, 2, 3, 4]\n{body}}}\n");
    let mut net = text::parse(&source, &[]).expect("the case parses");
    let before = text::print(&net).0;
    collapse_transposes(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    assert_eq!(text::print(&net).0, before);
}

#[test]
fn rows_stay_rows() {
    // Slices of columns are copied, those of rows are not.
    let net = collapsed(
        "  %a: f32[4, 1, 2, 3] = transpose(%x) perm=[3, 0, 1, 2]
  %s: f32[2, 1, 2, 3] = slice(%a) begin=[0, 0, 0, 0] end=[2, 1, 2, 3] stride=[1, 1, 1, 1]
  %t: f32[2, 1, 2, 3] = tanh(%s)
  %b: f32[1, 2, 3, 2] = transpose(%t) perm=[1, 2, 3, 0]
  %y: f32[1, 2, 3, 2] = relu(%b)
  output %y
",
    );
    assert!(net.ops.iter().any(|op| matches!(&op.kind, OpKind::Slice { end, .. } if end[0] == 2)));
}
