use super::becomes;
use anemone_compile::Options;
use anemone_compile::testing::{Remarks, align_heads};

#[test]
fn heads_begin_on_boundaries() {
    let text = |rows: usize| {
        let zeros = vec!["0.5"; rows * 2].join(", ");
        format!(
            "net \"n\" {{\n  input %x: f16[3, 2]\n  const %w: f16[{rows}, 2] = [{zeros}]\n  %p: f16[3, {rows}] = linear(%x, %w)\n  \
             %y: f16[3, 2, {}] = reshape(%p)\n  output %y\n}}\n",
            rows / 2
        )
    };
    // Heads of 32 columns are views as they are.
    becomes(align_heads, &text(64), &text(64));
    let mut net = anemone_net::text::parse(&text(48), &[]).expect("the case parses");
    align_heads(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    let kinds: Vec<&str> = net.ops.iter().map(|op| op.kind.name()).collect();
    assert_eq!(kinds, ["linear", "reshape", "slice"]);
    assert_eq!(net.value(net.ops[0].outputs[0]).ty.shape, [3, 64]);
    assert_eq!(net.value(net.ops[2].outputs[0]).ty.shape, [3, 2, 24]);
}
