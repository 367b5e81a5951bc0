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
