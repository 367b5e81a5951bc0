use anemone_compile::Options;
use anemone_compile::testing::{Remarks, drop_conversions, remove_dead, scale_whole_sums};
use anemone_net::text;

fn kinds(weight: &str, reader: &str) -> Vec<&'static str> {
    let text = r#"net "n" {
  input %q: u8[3, 2]
  input %s: f32[3, 1]
  const %w: f32[1, 2] = [WEIGHT, -100.0]
  %x: f32[3, 2] = cast(%q)
  %p: f32[3, 1] = linear(%x, %w)
  %c: i32[3, 1] = cast(%p)
  %f: f32[3, 1] = cast(%c)
  %y: f32[3, 1] = READER
  output %y
}
"#;
    let text = text.replace("WEIGHT", weight).replace("READER", reader);
    let mut net = text::parse(&text, &[]).expect("the case parses");
    let (options, mut remarks) = (Options::default(), Remarks::default());
    drop_conversions(&mut net, &options, &mut remarks).expect("the pass succeeds");
    scale_whole_sums(&mut net, &options, &mut remarks).expect("the pass succeeds");
    remove_dead(&mut net, &options, &mut remarks).expect("the pass succeeds");
    net.ops.iter().map(|op| op.kind.name()).collect()
}

#[test]
fn sums_that_are_scaled_stay_floats() {
    assert_eq!(kinds("127.0", "mul(%f, %s)"), ["linear", "mul", "mul"]);
    // Not whole, or not scaled.
    assert_eq!(kinds("0.5", "mul(%f, %s)"), ["linear", "cast", "mul"]);
    assert_eq!(kinds("127.0", "add(%f, %s)"), ["linear", "cast", "add"]);
}
