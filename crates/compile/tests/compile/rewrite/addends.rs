use super::becomes;
use anemone_compile::testing::join_addends;

#[test]
fn two_constants_become_one() {
    becomes(
        join_addends,
        r#"net "n" {
  input %x: f16[2, 2]
  const %a: f16[2] = [1.0, 2.0]
  %s: f16[2, 2] = add(%x, %a)
  %r: f16[2, 1, 2] = reshape(%s)
  const %b: f16[2, 1, 1] = [10.0, 20.0]
  %y: f16[2, 1, 2] = sub(%r, %b)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[2, 2]
  const %s.addend: f32[2, 2] = [-9.0, -8.0, -19.0, -18.0]
  %s: f16[2, 2] = add(%x, %s.addend)
  %y: f16[2, 1, 2] = reshape(%s) name="r"
  output %y
}
"#,
    );
}

#[test]
fn numbers_and_sums_that_others_read_stay() {
    for (constant, also) in [("%b: f16[1] = [10.0]", ""), ("%b: f16[2, 1] = [10.0, 20.0]", "  output %s\n")] {
        let kept = format!(
            r#"net "n" {{
  input %x: f16[2, 2]
  const %a: f16[2] = [1.0, 2.0]
  %s: f16[2, 2] = add(%x, %a)
  const {constant}
  %y: f16[2, 2] = add(%s, %b)
  output %y
{also}}}
"#
        );
        becomes(join_addends, &kept, &kept);
    }
}
