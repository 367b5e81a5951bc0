use super::becomes;
use anemone_compile::testing::absorb_affines;

#[test]
fn gain_and_offset_go_into_the_convolution() {
    becomes(
        absorb_affines,
        r#"net "n" {
  input %x: f16[3, 2]
  const %w: f16[1, 2] = [1.0, 2.0]
  %p: f16[3, 1] = linear(%x, %w)
  const %g: f16[1] = [2.0]
  %s: f16[3, 1] = mul(%p, %g)
  const %b: f16[1] = [0.5]
  %y: f16[3, 1] = add(%s, %b)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[3, 2]
  const %p.weight: f32[1, 2] = [2.0, 4.0]
  const %p.bias.9: f32[1] = [0.5]
  %y: f16[3, 1] = linear(%x, %p.weight, %p.bias.9) name="p"
  output %y
}
"#,
    );
}

#[test]
fn a_factor_that_fp16_would_lose_in_the_weights_stays() {
    // The second column's weight is 2^-14, and 2^-28 behind the factor.
    let net = r#"net "n" {
  input %x: f16[3, 1]
  const %w: f16[2, 1] = [1.5, 6.1035156e-5]
  %p: f16[3, 2] = linear(%x, %w)
  const %g: f16[1] = [6.1035156e-5]
  const %z: f16[1] = [0.0]
  %s: f16[3, 2] = mul(%p, %g)
  %y: f16[3, 2] = add(%s, %z)
  output %y
}
"#;
    becomes(absorb_affines, net, net);
}

#[test]
fn two_live_operands_are_a_barrier() {
    becomes(
        absorb_affines,
        r#"net "n" {
  input %x: f16[3, 2]
  const %w: f16[1, 2] = [1.0, 2.0]
  %p: f16[3, 1] = linear(%x, %w)
  %q: f16[3, 1] = linear(%x, %w)
  %y: f16[3, 1] = add(%p, %q)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[3, 2]
  const %w: f16[1, 2] = [1.0, 2.0]
  %p: f16[3, 1] = linear(%x, %w)
  %q: f16[3, 1] = linear(%x, %w)
  %y: f16[3, 1] = add(%p, %q)
  output %y
}
"#,
    );
}

#[test]
fn factors_of_columns_go_through_reshapes() {
    becomes(
        absorb_affines,
        r#"net "n" {
  input %x: f16[1, 2, 2]
  const %w: f16[2, 2] = [1.0, 2.0, 3.0, 4.0]
  const %s: f16[1, 2, 1] = [2.0, 3.0]
  %p: f16[1, 2, 2] = linear(%x, %w)
  %r: f16[2, 2] = reshape(%p)
  %t: f16[2, 2, 1] = reshape(%r)
  %y: f16[2, 2, 1] = mul(%t, %s)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 2, 2]
  const %p.weight: f32[2, 2] = [2.0, 4.0, 9.0, 12.0]
  const %p.bias: f32[2] = [0.0, 0.0]
  %p: f16[1, 2, 2] = linear(%x, %p.weight, %p.bias)
  %r: f16[2, 2] = reshape(%p)
  %y: f16[2, 2, 1] = reshape(%r) name="t"
  output %y
}
"#,
    );
}

#[test]
fn transposed_convolutions_have_input_channels_first() {
    let kind = "strides=[1, 1] pads=[[0, 0], [0, 0]] output_pads=[0, 0] dilations=[1, 1] groups=1";
    becomes(
        absorb_affines,
        &format!(
            r#"net "n" {{
  input %x: f16[1, 3, 2, 2]
  const %w: f16[3, 2, 1, 1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %p: f16[1, 2, 2, 2] = conv_transpose(%x, %w) {kind}
  const %g: f16[2, 1, 1] = [2.0, 3.0]
  %y: f16[1, 2, 2, 2] = mul(%p, %g)
  output %y
}}
"#
        ),
        &format!(
            r#"net "n" {{
  input %x: f16[1, 3, 2, 2]
  const %p.weight: f32[3, 2, 1, 1] = [2.0, 6.0, 6.0, 12.0, 10.0, 18.0]
  const %p.bias: f32[2] = [0.0, 0.0]
  %y: f16[1, 2, 2, 2] = conv_transpose(%x, %p.weight, %p.bias) {kind} name="p"
  output %y
}}
"#
        ),
    );
}
