use super::{becomes, decompose};

#[test]
fn a_batch_norm_is_an_affine() {
    becomes(
        decompose,
        r#"net "n" {
  input %x: f16[1, 2, 1, 1]
  const %m: f16[2] = [1.0, 0.0]
  const %v: f16[2] = [1.0, 4.0]
  %y: f16[1, 2, 1, 1] = batch_norm(%x, %m, %v) epsilon=0.0
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 2, 1, 1]
  const %y.scale: f32[1, 2, 1, 1] = [1.0, 0.5]
  %y.scaled: f16[1, 2, 1, 1] = mul(%x, %y.scale) name="y"
  const %y.shift: f32[1, 2, 1, 1] = [-1.0, 0.0]
  %y: f16[1, 2, 1, 1] = add(%y.scaled, %y.shift)
  output %y
}
"#,
    );
}

#[test]
fn a_gather_is_slices_side_by_side() {
    becomes(
        decompose,
        r#"net "n" {
  input %x: f16[4, 2]
  const %i: i32[3] = [3, 0, 1]
  %y: f16[3, 2] = gather(%x, %i) axis=0
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[4, 2]
  %y.part: f16[1, 2] = slice(%x) begin=[3, 0] end=[4, 2] stride=[1, 1] name="y"
  %y.part.4: f16[2, 2] = slice(%x) begin=[0, 0] end=[2, 2] stride=[1, 1] name="y"
  %y.joined: f16[3, 2] = concat(%y.part, %y.part.4) axis=0 name="y"
  %y: f16[3, 2] = reshape(%y.joined)
  output %y
}
"#,
    );
}
