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

#[test]
fn limits_of_divisors_have_finite_inverses() {
    becomes(
        bound_values,
        r#"net "n" {
  input %x: f16[2, 4]
  input %l: f16[2, 1]
  const %e: f16[] = [6e-8]
  %c: f16[2, 1] = clip(%l) min=1e-12 max=inf
  %y: f16[2, 4] = div(%x, %c)
  %m: f16[2, 1] = max(%l, %e)
  %w: f16[2, 4] = broadcast(%m)
  %z: f16[2, 4] = div(%x, %w)
  output %y
  output %z
}
"#,
        r#"net "n" {
  input %x: f16[2, 4]
  input %l: f16[2, 1]
  const %m.least: f16[] = [3.0517578e-5]
  %c: f16[2, 1] = clip(%l) min=3.0517578e-5 max=inf
  %y: f16[2, 4] = div(%x, %c)
  %m: f16[2, 1] = max(%l, %m.least)
  %w: f16[2, 4] = broadcast(%m)
  %z: f16[2, 4] = div(%x, %w)
  output %y
  output %z
}
"#,
    );
}

#[test]
fn numbers_added_under_a_root_that_divides_stay_positive() {
    let net = |e: &str, read: &str| {
        format!(
            r#"net "n" {{
  input %x: f32[2, 4]
  input %s: f32[2, 1]
  const %{e}
  %c: f32[2, 1] = add(%s, %{})
  %r: f32[2, 1] = sqrt(%c)
  %y: f32[2, 4] = div(%x, %r)
  output %y
{read}}}
"#,
            e.split(':').next().unwrap()
        )
    };
    let (small, raised) = ("e: f32[] = [1e-12]", "c.least: f32[] = [5.9604645e-8]");
    becomes(bound_values, &net(small, ""), &net(raised, ""));
    // A root that is a result keeps its number.
    becomes(bound_values, &net(small, "  output %r\n"), &net(small, "  output %r\n"));
}
