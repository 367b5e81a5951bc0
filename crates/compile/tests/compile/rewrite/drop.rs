use super::becomes;
use anemone_compile::testing::drop_conversions;

#[test]
fn what_changes_nothing_is_dropped() {
    becomes(
        drop_conversions,
        r#"net "n" {
  input %x: f32[2, 2]
  %h: f16[2, 2] = cast(%x)
  %i: f16[2, 2] = identity(%h)
  %r: f16[2, 2] = relu(%i)
  %y: f32[2, 2] = cast(%r)
  output %y
}
"#,
        r#"net "n" {
  input %x: f32[2, 2]
  %y: f32[2, 2] = relu(%x) name="r"
  output %y
}
"#,
    );
}

#[test]
fn a_value_that_others_read_too_is_copied_to_the_output() {
    becomes(
        drop_conversions,
        r#"net "n" {
  input %x: f16[2]
  %a: f16[2] = relu(%x)
  %b: f16[2] = identity(%a)
  %z: f16[2] = abs(%b)
  %y: f16[2] = identity(%b)
  output %y
  output %z
}
"#,
        r#"net "n" {
  input %x: f16[2]
  %a: f16[2] = relu(%x)
  %z: f16[2] = abs(%a)
  %y: f16[2] = identity(%a)
  output %y
  output %z
}
"#,
    );
}

#[test]
fn a_truth_value_as_an_integer_is_one() {
    let both = r#"net "n" {
  input %x: f16[2]
  %t: bool[2] = cast(%x)
  %y: i32[2] = cast(%t)
  output %y
}
"#;
    becomes(drop_conversions, both, both);
}

#[test]
fn truncation_stays() {
    becomes(
        drop_conversions,
        r#"net "n" {
  input %x: f16[2]
  %i: i32[2] = cast(%x)
  %y: f16[2] = cast(%i)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[2]
  %i: i32[2] = cast(%x)
  %y: f16[2] = cast(%i)
  output %y
}
"#,
    );
}

#[test]
fn a_function_of_two_operands_repeats_elements_itself() {
    let net = |first: &str| {
        format!(
            r#"net "n" {{
  input %x: f16[3, 4]
  input %a: f16[4]
  input %b: f16[3, 1]
{first}
  %v: f16[3, 4] = broadcast(%b)
  %z: f16[3, 4] = add(%v, %v)
  %w: f16[3, 4] = broadcast(%a)
  output %y
  output %z
  output %w
}}
"#
        )
    };
    let before = "  %c: f16[3, 4] = broadcast(%a)\n  %d: f16[3, 4] = broadcast(%b)\n  %s: f16[3, 4] = mul(%c, %d)\n  %e: f16[3, 4] = broadcast(%a)\n  %y: f16[3, 4] = div(%s, %e)";
    let after = "  %s: f16[3, 4] = mul(%a, %b)\n  %y: f16[3, 4] = div(%s, %a)";
    becomes(drop_conversions, &net(before), &net(after));
}
