use super::becomes;
use anemone_compile::testing::replace_matmul;

#[test]
fn a_constant_matrix_becomes_a_weight() {
    becomes(
        |net, options, reasons| replace_matmul(net, &anemone_facts::chips::CHIPS[0], options, reasons),
        r#"net "n" {
  input %x: f16[3, 2]
  const %w: f16[2, 1] = [1.0, 2.0]
  %y: f16[3, 1] = matmul(%x, %w) transpose_x=false transpose_y=false
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[3, 2]
  const %y.weight: f16[1, 2] = [1.0, 2.0]
  %y: f16[3, 1] = linear(%x, %y.weight)
  output %y
}
"#,
    );
}
