use super::becomes;
use anemone_compile::testing::remove_dead;

#[test]
fn what_nobody_reads_disappears() {
    becomes(
        remove_dead,
        r#"net "n" {
  input %x: f16[2]
  %a: f16[2] = relu(%x)
  %y: f16[2] = abs(%x)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[2]
  %y: f16[2] = abs(%x)
  output %y
}
"#,
    );
}
