use anemone_compile::testing::verify_passes;
use anemone_compile::{Options, compile};
use anemone_facts::chips::CHIPS;

/// Tasks of a network whose last operation joins two functions of its input along an axis.
fn tasks(axis: usize, joined: &str) -> usize {
    let _verified = verify_passes();
    let text = format!(
        "net \"n\" {{\n  input %x: f16[1, 4, 4, 8]\n  %a: f16[1, 4, 4, 8] = relu(%x)\n  %b: f16[1, 4, 4, 8] = tanh(%x)\n  \
         %y: f16[{joined}] = concat(%a, %b) axis={axis}\n  output %y\n}}\n"
    );
    let net = anemone_net::text::parse(&text, &[]).expect("the text parses");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    program.tasks().map_or(0, |tasks| tasks.len())
}

#[test]
fn parts_are_computed_in_their_places() {
    assert_eq!(tasks(1, "1, 8, 4, 8"), 2);
    assert_eq!(tasks(2, "1, 4, 8, 8"), 2);
    // Columns that start within a row of memory are copied.
    assert!(tasks(3, "1, 4, 4, 16") > 2);
}

/// Tasks of a rotary embedding whose halves are `half` columns.
fn rotary(half: usize) -> usize {
    let _verified = verify_passes();
    let all = 2 * half;
    let text = format!(
        "net \"n\" {{\n  input %x: f16[1, 4, 6, {all}]\n  input %c: f16[1, 1, 6, {all}]\n  input %s: f16[1, 1, 6, {all}]\n  \
         %a: f16[1, 4, 6, {half}] = slice(%x) begin=[0, 0, 0, 0] end=[1, 4, 6, {half}] stride=[1, 1, 1, 1]\n  \
         %b: f16[1, 4, 6, {half}] = slice(%x) begin=[0, 0, 0, {half}] end=[1, 4, 6, {all}] stride=[1, 1, 1, 1]\n  \
         %n: f16[1, 4, 6, {half}] = neg(%b)\n  %r: f16[1, 4, 6, {all}] = concat(%n, %a) axis=3\n  \
         %p: f16[1, 4, 6, {all}] = mul(%x, %c)\n  %q: f16[1, 4, 6, {all}] = mul(%r, %s)\n  \
         %y: f16[1, 4, 6, {all}] = add(%p, %q)\n  output %y\n}}\n"
    );
    let net = anemone_net::text::parse(&text, &[]).expect("the text parses");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    program.tasks().map_or(0, |tasks| tasks.len())
}

#[test]
fn exchanged_halves_are_multiplied_in_their_places() {
    // The product by cosines, one for each half, the sum.
    assert_eq!(rotary(32), 4);
}
