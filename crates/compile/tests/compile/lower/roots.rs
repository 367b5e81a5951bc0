use anemone_compile::testing::verify_passes;
use anemone_compile::{Options, compile};
use anemone_facts::chips::CHIPS;

fn tasks(body: &str) -> usize {
    let _verified = verify_passes();
    let text = format!(
        "net \"n\" {{\n  input %x: f16[1, 8, 64]\n  const %e: f16[] = [1e-3]\n  const %one: f16[] = [1.0]\n{body}  output %y\n}}\n"
    );
    let net = anemone_net::text::parse(&text, &[]).expect("the text parses");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    program.tasks().map_or(0, |tasks| tasks.len())
}

const MEAN: &str = "  %s: f16[1, 8, 64] = mul(%x, %x)\n  %m: f16[1, 8, 1] = reduce_mean(%s) axes=[2] keep_dims=true\n  \
                    %v: f16[1, 8, 1] = add(%m, %e)\n";

#[test]
fn a_root_of_a_mean_of_squares_is_one_task() {
    let quotient = "  %r: f16[1, 8, 1] = sqrt(%v)\n  %i: f16[1, 8, 1] = div(%one, %r)\n";
    let inverse = "  %i: f16[1, 8, 1] = rsqrt(%v) epsilon=0.0\n";
    for root in [quotient, inverse] {
        assert_eq!(tasks(&format!("{MEAN}{root}  %y: f16[1, 8, 64] = mul(%x, %i)\n")), 2);
    }
}

#[test]
fn values_between_with_other_readers_are_computed() {
    let root = "  %i: f16[1, 8, 1] = rsqrt(%v) epsilon=0.0\n";
    // The square, its mean and an addend beside the root.
    assert_eq!(
        tasks(&format!("{MEAN}{root}  %a: f16[1, 8, 64] = mul(%x, %i)\n  %y: f16[1, 8, 64] = add(%a, %v)\n")),
        5
    );
}
