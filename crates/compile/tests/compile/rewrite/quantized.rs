use super::becomes;
use anemone_compile::testing::recognize_quantization;

#[test]
fn a_quantization_that_is_undone_is_one_rounding_and_a_scale() {
    becomes(
        recognize_quantization,
        r#"net "n" {
  input %x: f16[4]
  const %s: f32[1] = [0.5]
  const %z: f32[1] = [3.0]
  %p: f16[4] = relu(%x)
  %a: f32[4] = div(%p, %s)
  %b: f32[4] = round(%a)
  %c: f32[4] = add(%b, %z)
  %d: f32[4] = clip(%c) min=0.0 max=255.0
  %q: u8[4] = cast(%d)
  %e: f32[4] = sub(%q, %z)
  %f: f32[4] = mul(%e, %s)
  %y: f32[4] = abs(%f)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[4]
  const %s: f32[1] = [0.5]
  const %z: f32[1] = [3.0]
  const %q.reciprocal: f32[1] = [2.0]
  const %q.scale: f32[1] = [0.5]
  %p: f16[4] = relu(%x)
  %a: f32[4] = div(%p, %s)
  %b: f32[4] = round(%a)
  %c: f32[4] = add(%b, %z)
  %d: f32[4] = clip(%c) min=0.0 max=255.0
  %q.mul: f16[4] = mul(%x, %q.reciprocal) name="q"
  %q.round_clip: f16[4] = round_clip(%q.mul) min=0.0 max=252.0 name="q"
  %q.mul.16: f16[4] = mul(%q.round_clip, %q.scale) name="q"
  %q: u8[4] = cast(%d)
  %e: f32[4] = sub(%q, %z)
  %f: f32[4] = mul(%e, %s)
  %y: f32[4] = abs(%q.mul.16)
  output %y
}
"#,
    );
}
