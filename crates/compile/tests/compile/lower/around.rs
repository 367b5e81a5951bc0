use anemone_compile::testing::verify_passes;
use anemone_compile::{Options, compile};
use anemone_facts::chips::CHIPS;

/// A value, and the start of a recurrence with its function.
const START: &str = "  %t: f16[1, 4, 3, 1] = relu(%x)\n  %a: f16[1, 4, 1, 1] = slice(%x) begin=[0, 0, 0, 0] end=[1, 4, 1, 1] stride=[1, 1, 1, 1]\n  \
                 %b: f16[1, 8, 1, 1] = concat(%a, %a) axis=1\n  %r: f16[1, 8, 1, 1] = relu(%b)\n";

fn tasks(body: &str) -> usize {
    let _verified = verify_passes();
    let text = format!("net \"n\" {{\n  input %x: f16[1, 4, 3, 1]\n{body}}}\n");
    let net = anemone_net::text::parse(&text, &[]).expect("the text parses");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    program.tasks().map_or(0, |tasks| tasks.len())
}

#[test]
fn steps_take_their_rows_without_a_copy() {
    let step = |i: usize, h: &str| {
        format!(
            "  %s{i}: f16[1, 4, 1, 1] = slice(%t) begin=[0, 0, {i}, 0] end=[1, 4, {}, 1] stride=[1, 1, 1, 1]\n  \
             %c{i}: f16[1, 12, 1, 1] = concat(%{h}, %s{i}) axis=1\n  %h{i}: f16[1, 12, 1, 1] = tanh(%c{i})\n  \
             %g{i}: f16[1, 8, 1, 1] = slice(%h{i}) begin=[0, 0, 0, 0] end=[1, 8, 1, 1] stride=[1, 1, 1, 1]\n  \
             %r{i}: f16[1, 8, 1, 1] = relu(%g{i})\n",
            i + 1
        )
    };
    let body = format!("{START}{}{}{}  output %r2\n", step(0, "r"), step(1, "r0"), step(2, "r1"));
    // The value, the start and its function, and two functions a step.
    assert_eq!(tasks(&body), 1 + 2 + 3 * 2);
}

#[test]
fn concatenations_that_share_parts_lie_in_memory_as_one() {
    // A state lies between what a step puts before it and the step's own rows.
    let step = |i: usize, h: &str| {
        format!(
            "  %s{i}: f16[1, 4, 1, 1] = slice(%t) begin=[0, 0, {i}, 0] end=[1, 4, {}, 1] stride=[1, 1, 1, 1]\n  \
             %c{i}: f16[1, 12, 1, 1] = concat(%{h}, %s{i}) axis=1\n  %u{i}: f16[1, 12, 1, 1] = tanh(%c{i})\n  \
             %v{i}: f16[1, 8, 1, 1] = slice(%u{i}) begin=[0, 0, 0, 0] end=[1, 8, 1, 1] stride=[1, 1, 1, 1]\n  \
             %w{i}: f16[1, 8, 1, 1] = slice(%u{i}) begin=[0, 4, 0, 0] end=[1, 12, 1, 1] stride=[1, 1, 1, 1]\n  \
             %p{i}: f16[1, 8, 1, 1] = mul(%v{i}, %w{i})\n  %d{i}: f16[1, 16, 1, 1] = concat(%p{i}, %{h}) axis=1\n  \
             %e{i}: f16[1, 16, 1, 1] = tanh(%d{i})\n  \
             %f{i}: f16[1, 8, 1, 1] = slice(%e{i}) begin=[0, 0, 0, 0] end=[1, 8, 1, 1] stride=[1, 1, 1, 1]\n  \
             %g{i}: f16[1, 8, 1, 1] = slice(%e{i}) begin=[0, 8, 0, 0] end=[1, 16, 1, 1] stride=[1, 1, 1, 1]\n  \
             %h{i}: f16[1, 8, 1, 1] = mul(%f{i}, %g{i})\n",
            i + 1
        )
    };
    let body = format!("{START}{}{}{}  output %h2\n", step(0, "r"), step(1, "h0"), step(2, "h1"));
    // The value, the start and its function, and four operations a step.
    assert_eq!(tasks(&body), 1 + 2 + 3 * 4);
}

#[test]
fn a_concatenation_of_neighbours_is_a_view() {
    let body = "  %a: f16[1, 4, 3, 1] = relu(%x)\n  %b: f16[1, 4, 3, 1] = tanh(%x)\n  \
                %c: f16[1, 8, 3, 1] = concat(%a, %b) axis=1\n  %d: f16[1, 8, 3, 1] = tanh(%c)\n  \
                %e: f16[1, 16, 3, 1] = concat(%a, %b, %d) axis=1\n  %f: f16[1, 16, 3, 1] = tanh(%e)\n  output %f\n";
    assert_eq!(tasks(body), 4);
}

#[test]
fn a_value_whose_slices_are_parts_is_computed_in_its_place() {
    let body = "  %a: f16[1, 4, 3, 1] = tanh(%x)\n  \
                %b: f16[1, 2, 3, 1] = slice(%a) begin=[0, 0, 0, 0] end=[1, 2, 3, 1] stride=[1, 1, 1, 1]\n  \
                %c: f16[1, 2, 3, 1] = slice(%a) begin=[0, 2, 0, 0] end=[1, 4, 3, 1] stride=[1, 1, 1, 1]\n  \
                %d: f16[1, 2, 3, 1] = mul(%b, %c)\n  %e: f16[1, 6, 3, 1] = concat(%d, %b, %c) axis=1\n  \
                %f: f16[1, 6, 3, 1] = tanh(%e)\n  output %f\n";
    assert_eq!(tasks(body), 3);
}
