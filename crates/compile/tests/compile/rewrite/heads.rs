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

#[test]
fn parts_begin_on_boundaries() {
    let text = |parts: [[usize; 2]; 2]| {
        let [[a, b], [c, d]] = parts;
        let weights = vec!["0.5"; 80].join(", ");
        format!(
            "net \"n\" {{\n  input %x: f16[3, 2]\n  const %w: f16[40, 2] = [{weights}]\n  %p: f16[3, 40] = linear(%x, %w)\n  \
             %a: f16[3, {}] = slice(%p) begin=[0, {a}] end=[3, {b}] stride=[1, 1]\n  \
             %b: f16[3, {}] = slice(%p) begin=[0, {c}] end=[3, {d}] stride=[1, 1]\n  output %a\n  output %b\n}}\n",
            b - a,
            d - c
        )
    };
    // Parts that are unequal, lie across the grid of parts, or would be zeros for the most, stay.
    for parts in [[[0, 8], [8, 24]], [[0, 20], [10, 30]], [[0, 10], [10, 20]]] {
        becomes(align_heads, &text(parts), &text(parts));
    }
    let mut net = anemone_net::text::parse(&text([[0, 20], [20, 40]]), &[]).expect("the case parses");
    align_heads(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    assert_eq!(net.value(net.ops[0].outputs[0]).ty.shape, [3, 64]);
    let begins: Vec<String> = net.ops[1..].iter().map(|op| format!("{:?}", op.kind)).collect();
    assert!(begins[1].contains("begin: [0, 32]"), "{begins:?}");
    assert!(begins[1].contains("end: [3, 52]"), "{begins:?}");
}
