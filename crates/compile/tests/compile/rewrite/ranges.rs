use super::becomes;
use anemone_compile::testing::bound_values;

#[test]
fn whole_numbers_in_range_need_no_conversion() {
    becomes(
        bound_values,
        r#"net "n" {
  input %x: f16[4]
  %c: f16[4] = clip(%x) min=0.0 max=255.0
  %r: f16[4] = round(%c)
  %b: u8[4] = cast(%r)
  %y: f16[4] = abs(%b)
  %z: f16[4] = neg(%y)
  output %z
}
"#,
        r#"net "n" {
  input %x: f16[4]
  %c: f16[4] = clip(%x) min=0.0 max=255.0
  %r: f16[4] = round(%c)
  %z: f16[4] = neg(%r)
  output %z
}
"#,
    );
}

#[test]
fn numbers_beyond_the_type_are_converted() {
    let net = r#"net "n" {
  input %x: f16[4]
  %c: f16[4] = clip(%x) min=0.0 max=300.0
  %r: f16[4] = round(%c)
  %b: u8[4] = cast(%r)
  %z: f16[4] = neg(%b)
  output %z
}
"#;
    becomes(bound_values, net, net);
}

#[test]
fn a_range_from_zero_on_has_no_zero_point() {
    becomes(
        bound_values,
        r#"net "n" {
  input %x: f16[4]
  const %zero: f16[] = [0.0]
  %r: f16[4] = relu(%x)
  %m: f16[1] = reduce_min(%r) axes=[0] keep_dims=true
  %l: f16[1] = min(%m, %zero)
  %q: f16[4] = sub(%r, %l)
  %y: f16[4] = neg(%q)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[4]
  const %zero: f16[] = [0.0]
  %r: f16[4] = relu(%x)
  %m: f16[1] = reduce_min(%r) axes=[0] keep_dims=true
  %y: f16[4] = neg(%r)
  output %y
}
"#,
    );
}
