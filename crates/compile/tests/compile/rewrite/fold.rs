use super::becomes;
use anemone_compile::testing::fold_constants;

#[test]
fn constants_are_computed() {
    becomes(
        fold_constants,
        r#"net "n" {
  input %x: f16[2]
  const %a: f16[2] = [1.0, 2.0]
  const %b: f16[2] = [3.0, 4.0]
  %c: f16[2] = add(%a, %b)
  %y: f16[2] = mul(%x, %c)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[2]
  const %c: f16[2] = [4.0, 6.0]
  %y: f16[2] = mul(%x, %c)
  output %y
}
"#,
    );
}
