use super::becomes;
use anemone_compile::Options;
use anemone_compile::testing::{Remarks, forward_affines};
use anemone_net::text;

#[test]
fn gain_and_offset_go_into_the_products_behind() {
    becomes(
        forward_affines,
        r#"net "n" {
  input %x: f16[3, 2]
  const %g: f16[2] = [2.0, 3.0]
  const %b: f16[2] = [1.0, -1.0]
  const %w: f16[1, 2] = [1.0, 2.0]
  %s: f16[3, 2] = mul(%x, %g)
  %t: f16[3, 2] = add(%s, %b)
  %y: f16[3, 1] = linear(%t, %w)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[3, 2]
  const %y.weight: f32[1, 2] = [2.0, 6.0]
  const %y.bias: f32[1] = [-1.0]
  %y: f16[3, 1] = linear(%x, %y.weight, %y.bias)
  output %y
}
"#,
    );
}

#[test]
fn an_addend_to_exact_numbers_stays() {
    let kept = r#"net "n" {
  input %x: f16[3, 1]
  const %b: f16[1] = [-2.1972656]
  const %w: f16[1, 1] = [-3.984375]
  %t: f16[3, 1] = add(%x, %b)
  %y: f16[3, 1] = linear(%t, %w)
  output %y
}
"#;
    becomes(forward_affines, kept, kept);
}

#[test]
fn constants_beyond_fp16_stay_apart() {
    for (g, w) in [("2048.0", "64.0"), ("1e-4", "1e-3")] {
        let kept = format!(
            r#"net "n" {{
  input %x: f16[3, 1]
  const %g: f16[1] = [{g}]
  const %w: f16[1, 1] = [{w}]
  %t: f16[3, 1] = mul(%x, %g)
  %y: f16[3, 1] = linear(%t, %w)
  output %y
}}
"#
        );
        becomes(forward_affines, &kept, &kept);
    }
}

#[test]
fn numbers_move_behind_products_of_computed_matrices() {
    becomes(
        forward_affines,
        r#"net "n" {
  input %x: f16[2, 3, 4]
  input %z: f16[2, 4, 3]
  const %a: f16[1] = [0.5]
  const %b: f16[1] = [0.25]
  %p: f16[2, 3, 4] = mul(%x, %a)
  %q: f16[2, 4, 3] = mul(%z, %b)
  %y: f16[2, 3, 3] = matmul(%p, %q) transpose_x=false transpose_y=false
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[2, 3, 4]
  input %z: f16[2, 4, 3]
  %y.unscaled: f16[2, 3, 3] = matmul(%x, %z) transpose_x=false transpose_y=false name="y"
  const %y.factor: f32[] = [0.125]
  %y: f16[2, 3, 3] = mul(%y.unscaled, %y.factor)
  output %y
}
"#,
    );
}

#[test]
fn numbers_stay_where_fp16_or_another_reader_needs_them() {
    for (a, also) in [("0.3", ""), ("0.5", "  output %p\n")] {
        let kept = format!(
            r#"net "n" {{
  input %x: f16[2, 3, 4]
  input %z: f16[2, 4, 3]
  const %a: f32[1] = [{a}]
  %p: f16[2, 3, 4] = mul(%x, %a)
  %y: f16[2, 3, 3] = matmul(%p, %z) transpose_x=false transpose_y=false
  output %y
{also}}}
"#
        );
        becomes(forward_affines, &kept, &kept);
    }
}

/// Operations behind the functions of both operands of an attention's scores, whose factors are no fp16 numbers.
fn scores(function: &str) -> Vec<String> {
    let text = format!(
        "net \"n\" {{\n  input %x: f32[2, 8]\n  input %z: f32[2, 8]\n  const %c: f32[] = [0.3]\n  \
         %q: f32[2, 8] = {function}(%x)\n  %k: f32[2, 8] = {function}(%z)\n  %u: f32[2, 8] = mul(%q, %c)\n  \
         %v: f32[2, 8] = mul(%k, %c)\n  %s: f32[2, 2] = matmul(%u, %v) transpose_x=false transpose_y=true\n  \
         %y: f32[2, 2] = softmax(%s) axis=1\n  output %y\n}}\n"
    );
    let mut net = text::parse(&text, &[]).expect("the case parses");
    forward_affines(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    net.ops[2..].iter().map(|op| op.kind.name().to_string()).collect()
}

#[test]
fn factors_move_behind_products_of_bounded_operands() {
    assert_eq!(scores("tanh"), ["matmul", "mul", "softmax"]);
    assert_eq!(scores("relu"), ["mul", "mul", "matmul", "softmax"]);
}

#[test]
fn factors_of_channels_go_into_the_convolutions_behind() {
    let conv = "strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=2";
    becomes(
        forward_affines,
        &format!(
            r#"net "n" {{
  input %x: f16[1, 4, 2, 2]
  const %g: f16[1, 4, 1, 1] = [2.0, 3.0, 4.0, 5.0]
  const %w: f16[2, 2, 1, 1] = [1.0, 1.0, 0.5, -1.0]
  %s: f16[1, 4, 2, 2] = mul(%x, %g)
  %y: f16[1, 2, 2, 2] = conv(%s, %w) {conv}
  output %y
}}
"#
        ),
        &format!(
            r#"net "n" {{
  input %x: f16[1, 4, 2, 2]
  const %y.weight: f32[2, 2, 1, 1] = [2.0, 3.0, 2.0, -5.0]
  %y: f16[1, 2, 2, 2] = conv(%x, %y.weight) {conv}
  output %y
}}
"#
        ),
    );
}

/// The gain of the layer before it holds a factor, and zeros around the operand are not those of an addend.
#[test]
fn factors_with_a_gain_and_addends_stay_before_convolutions() {
    let conv = "strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1";
    for step in ["mul(%t, %g)", "add(%t, %g)"] {
        let kept = format!(
            r#"net "n" {{
  input %x: f16[1, 1, 2, 2]
  const %g: f16[1] = [2.0]
  const %w: f16[1, 1, 1, 1] = [3.0]
  %t: f16[1, 1, 2, 2] = mul(%x, %x)
  %s: f16[1, 1, 2, 2] = {step}
  %y: f16[1, 1, 2, 2] = conv(%s, %w) {conv}
  output %y
}}
"#
        );
        becomes(forward_affines, &kept, &kept);
    }
}
