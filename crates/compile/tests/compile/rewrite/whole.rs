use anemone_compile::Options;
use anemone_compile::segments::may_divide;
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

#[test]
fn addends_in_levels_are_added_behind_the_scale() {
    let kinds = |level: &str| {
        let text = format!(
            r#"net "n" {{
  input %q: u8[1, 2, 4, 4]
  input %a: f32[]
  const %w: f32[3, 2, 1, 1] = [100.0, -100.0, 7.0, 8.0, 90.0, 91.0]
  const %b: f32[3] = [0.5, -1.5, 2.5]
  const %f: f32[] = [0.25]
  %x: f32[1, 2, 4, 4] = cast(%q)
  %p: f32[1, 3, 4, 4] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
  %c: i32[1, 3, 4, 4] = cast(%p)
  %s: f32[] = mul(%a, %f)
  %t: f32[] = mul(%a, %{level})
  %d: f32[3] = div(%b, %t)
  %e: f32[3] = floor(%d)
  %i: i32[3] = cast(%e)
  %r: i32[1, 3, 1, 1] = reshape(%i)
  %z: i32[1, 3, 4, 4] = add(%c, %r)
  %y: f32[1, 3, 4, 4] = mul(%z, %s)
  output %y
}}
"#
        );
        let mut net = text::parse(&text, &[]).expect("the case parses");
        let divided = may_divide(&net);
        let (options, mut remarks) = (Options::default(), Remarks::default());
        scale_whole_sums(&mut net, &options, &mut remarks).expect("the pass succeeds");
        remove_dead(&mut net, &options, &mut remarks).expect("the pass succeeds");
        (divided, net.ops.iter().map(|op| op.kind.name()).collect::<Vec<_>>())
    };
    assert_eq!(kinds("f"), (false, vec!["cast", "conv", "mul", "mul", "mul", "add"]));
    // Another scale than that of the sums: levels of other values, integers of any size, which the host adds.
    let (divided, kinds) = kinds("a");
    assert!(divided && kinds.contains(&"floor"), "{kinds:?}");
}
