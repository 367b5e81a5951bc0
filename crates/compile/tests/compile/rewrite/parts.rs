use super::becomes;
use anemone_compile::testing::join_parts;

#[test]
fn products_of_steps_by_the_same_weights_are_one() {
    becomes(
        join_parts,
        r#"net "n" {
  input %x: f16[1, 2, 2]
  const %w: f16[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  const %v: f16[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %a: f16[1, 1, 2] = slice(%x) begin=[0, 0, 0] end=[1, 1, 2] stride=[1, 1, 1]
  %b: f16[1, 2] = reshape(%a)
  %c: f16[1, 3] = linear(%b, %w)
  %d: f16[1, 1, 2] = slice(%x) begin=[0, 1, 0] end=[1, 2, 2] stride=[1, 1, 1]
  %e: f16[1, 2] = reshape(%d)
  %f: f16[1, 3] = linear(%e, %v)
  %y: f16[1, 3] = max(%c, %f)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 2, 2]
  %a: f16[1, 1, 2] = slice(%x) begin=[0, 0, 0] end=[1, 1, 2] stride=[1, 1, 1]
  %b: f16[1, 2] = reshape(%a)
  const %w: f16[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %c.joined: f16[1, 2, 3] = linear(%x, %w) name="c"
  %c.part: f16[1, 1, 3] = slice(%c.joined) begin=[0, 0, 0] end=[1, 1, 3] stride=[1, 1, 1] name="c"
  %c: f16[1, 3] = reshape(%c.part)
  %d: f16[1, 1, 2] = slice(%x) begin=[0, 1, 0] end=[1, 2, 2] stride=[1, 1, 1]
  %e: f16[1, 2] = reshape(%d)
  %f.part: f16[1, 1, 3] = slice(%c.joined) begin=[0, 1, 0] end=[1, 2, 3] stride=[1, 1, 1] name="f"
  %f: f16[1, 3] = reshape(%f.part)
  %y: f16[1, 3] = max(%c, %f)
  output %y
}
"#,
    );
}

#[test]
fn gates_of_one_sum_are_one_function() {
    becomes(
        join_parts,
        r#"net "n" {
  input %x: f16[4, 2]
  input %z: f16[4, 2]
  %a: f16[1, 2] = slice(%x) begin=[0, 0] end=[1, 2] stride=[1, 1]
  %b: f16[1, 2] = slice(%x) begin=[1, 0] end=[2, 2] stride=[1, 1]
  %c: f16[1, 2] = slice(%x) begin=[3, 0] end=[4, 2] stride=[1, 1]
  %d: f16[1, 2] = slice(%z) begin=[0, 0] end=[1, 2] stride=[1, 1]
  %e: f16[1, 2] = slice(%z) begin=[1, 0] end=[2, 2] stride=[1, 1]
  %s: f16[1, 2] = add(%a, %d)
  %t: f16[1, 2] = add(%b, %e)
  %f: f16[1, 2] = sigmoid(%a)
  %g: f16[1, 2] = sigmoid(%b)
  %h: f16[1, 2] = sigmoid(%c)
  %i: f16[1, 2] = max(%f, %g)
  %j: f16[1, 2] = max(%h, %i)
  %k: f16[1, 2] = max(%s, %j)
  %y: f16[1, 2] = max(%t, %k)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[4, 2]
  input %z: f16[4, 2]
  %a: f16[1, 2] = slice(%x) begin=[0, 0] end=[1, 2] stride=[1, 1]
  %b: f16[1, 2] = slice(%x) begin=[1, 0] end=[2, 2] stride=[1, 1]
  %c: f16[1, 2] = slice(%x) begin=[3, 0] end=[4, 2] stride=[1, 1]
  %d: f16[1, 2] = slice(%z) begin=[0, 0] end=[1, 2] stride=[1, 1]
  %e: f16[1, 2] = slice(%z) begin=[1, 0] end=[2, 2] stride=[1, 1]
  %s.part: f16[2, 2] = slice(%x) begin=[0, 0] end=[2, 2] stride=[1, 1] name="s"
  %s.part.17: f16[2, 2] = slice(%z) begin=[0, 0] end=[2, 2] stride=[1, 1] name="s"
  %s.joined: f16[2, 2] = add(%s.part, %s.part.17) name="s"
  %s: f16[1, 2] = slice(%s.joined) begin=[0, 0] end=[1, 2] stride=[1, 1]
  %t: f16[1, 2] = slice(%s.joined) begin=[1, 0] end=[2, 2] stride=[1, 1]
  %f.joined: f16[4, 2] = sigmoid(%x) name="f"
  %f: f16[1, 2] = slice(%f.joined) begin=[0, 0] end=[1, 2] stride=[1, 1]
  %g: f16[1, 2] = slice(%f.joined) begin=[1, 0] end=[2, 2] stride=[1, 1]
  %h: f16[1, 2] = slice(%f.joined) begin=[3, 0] end=[4, 2] stride=[1, 1]
  %i: f16[1, 2] = max(%f, %g)
  %j: f16[1, 2] = max(%h, %i)
  %k: f16[1, 2] = max(%s, %j)
  %y: f16[1, 2] = max(%t, %k)
  output %y
}
"#,
    );
}

#[test]
fn sums_apart_and_columns_within_a_row_stay() {
    let net = r#"net "n" {
  input %x: f16[3, 4]
  %a: f16[1, 4] = slice(%x) begin=[0, 0] end=[1, 4] stride=[1, 1]
  %b: f16[1, 4] = slice(%x) begin=[2, 0] end=[3, 4] stride=[1, 1]
  %c: f16[1, 4] = exp(%a)
  %d: f16[1, 4] = exp(%b)
  %e: f16[3, 2] = slice(%x) begin=[0, 0] end=[3, 2] stride=[1, 1]
  %f: f16[3, 2] = slice(%x) begin=[0, 2] end=[3, 4] stride=[1, 1]
  %g: f16[3, 2] = tanh(%e)
  %h: f16[3, 2] = tanh(%f)
  %i: f16[1, 4] = max(%c, %d)
  %j: f16[3, 2] = max(%g, %h)
  %y: f16[1, 4] = relu(%i)
  %z: f16[3, 2] = relu(%j)
  output %y
  output %z
}
"#;
    becomes(join_parts, net, net);
}
