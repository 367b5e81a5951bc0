use anemone_compile::Options;
use anemone_compile::testing::{Remarks, recognize_norms};
use anemone_net::text;

fn kinds(axes: &str, power: &str) -> Vec<&'static str> {
    let text = r#"net "n" {
  input %x: f16[2, 3, 4]
  const %e: f16[] = [0.001]
  const %two: f16[] = [2.0]
  %m: f16[SHAPE] = reduce_mean(%x) axes=[AXES] keep_dims=true
  %d: f16[2, 3, 4] = sub(%x, %m)
  %q: f16[2, 3, 4] = POWER
  %v: f16[SHAPE] = reduce_mean(%q) axes=[AXES] keep_dims=true
  %a: f16[SHAPE] = add(%v, %e)
  %s: f16[SHAPE] = sqrt(%a)
  %y: f16[2, 3, 4] = div(%d, %s)
  output %y
}
"#;
    let shape = if axes == "1, 2" { "2, 1, 1" } else { "2, 1, 4" };
    let text = text.replace("SHAPE", shape).replace("AXES", axes).replace("POWER", power);
    let mut net = text::parse(&text, &[]).expect("the case parses");
    recognize_norms(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    net.ops.iter().map(|op| op.kind.name()).collect()
}

#[test]
fn a_norm_in_parts_is_a_norm() {
    for power in ["square(%d)", "mul(%d, %d)", "pow(%d, %two)"] {
        assert_eq!(kinds("1, 2", power).last(), Some(&"layer_norm"), "{power}");
    }
}

#[test]
fn other_axes_and_other_squares_are_no_norm() {
    assert_eq!(kinds("1", "square(%d)").last(), Some(&"div"));
    assert_eq!(kinds("1, 2", "square(%x)").last(), Some(&"div"));
}
