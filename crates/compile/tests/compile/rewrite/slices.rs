use anemone_compile::Options;
use anemone_compile::testing::{Remarks, forward_slices, remove_dead};
use anemone_net::text;

#[test]
fn a_list_that_is_read_back_is_its_parts() {
    let text = r#"net "n" {
  input %x: f16[1, 2]
  const %z: f16[3, 2] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
  const %o: f16[1, 2] = [0.0, 0.0]
  %a: f16[1, 2] = relu(%x)
  %j: f16[4, 2] = concat(%a, %z) axis=0
  %l: f16[4, 2] = reshape(%j)
  %f: f16[1, 2] = slice(%l) begin=[0, 0] end=[1, 2] stride=[1, 1]
  %r: f16[2, 2] = slice(%l) begin=[2, 0] end=[4, 2] stride=[1, 1]
  %s: f16[1, 2] = add(%f, %o)
  %b: f16[1, 2] = tanh(%s)
  %h: f16[2, 2] = slice(%l) begin=[0, 0] end=[2, 2] stride=[1, 1]
  %y: f16[5, 2] = concat(%h, %b, %r) axis=0
  output %y
}
"#;
    let mut net = text::parse(text, &[]).expect("the case parses");
    forward_slices(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    remove_dead(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    let kinds: Vec<&str> = net.ops.iter().map(|op| op.kind.name()).collect();
    assert_eq!(kinds, ["relu", "tanh", "concat"]);
    assert_eq!(net.ops[2].inputs.len(), 4);
}
