//! Allocation types of buffers and pairs that could run at once, as the placement's text has them.

use anemone_compile::{Log, Options, Stage, compile};
use anemone_facts::chips::{CHIPS, Chip};
use anemone_net::text;

/// Text of the placement.
#[derive(Default)]
struct Placement(String);

impl Log for Placement {
    fn wants(&self) -> bool {
        true
    }

    fn stage(&mut self, stage: Stage) {
        self.0 = stage.text;
    }
}

fn placed(body: &str) -> String {
    placed_on(&CHIPS[0], &(HEAD.to_string() + body))
}

const HEAD: &str = "net \"n\" {\n  input %x: f16[1, 2, 8, 8]\n  input %z: f16[1, 2, 8, 8]\n  const %w: f16[2, 2, 1, 1] = [0.5, 1.0, 0.25, 0.5]\n";

/// Text of the placement of a network without its last brace.
fn placed_on(chip: &'static Chip, open: &str) -> String {
    let source = format!("{open}}}\n");
    let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut log = Placement::default();
    compile(&net, chip, &Options::default(), &mut log).unwrap_or_else(|e| panic!("{e}\n{source}"));
    log.0
}

fn conv(from: &str, to: &str) -> String {
    let window = "strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1";
    format!("  %{to}: f16[1, 2, 8, 8] = conv(%{from}, %w) {window}\n")
}

fn add(a: &str, b: &str, to: &str) -> String {
    format!("  %{to}: f16[1, 2, 8, 8] = add(%{a}, %{b})\n")
}

fn outputs(names: &[&str]) -> String {
    names.iter().map(|name| format!("  output %{name}\n")).collect()
}

/// Each condition alone keeps two neighbours apart; without any, they are a pair.
#[test]
fn every_disqualification_is_told() {
    let cases = [
        ("both run on one engine", conv("x", "a") + &conv("z", "b") + &outputs(&["a", "b"])),
        ("one reads what the other writes", conv("x", "a") + &add("a", "z", "b") + &outputs(&["b"])),
        ("both results are streamed", conv("x", "a") + &add("x", "z", "b") + &outputs(&["a", "b"])),
        (
            "the neural one does not multiply",
            "  %a: f16[1, 2, 8, 8] = tanh(%x)\n".to_string() + &add("x", "z", "b") + &outputs(&["a", "b"]),
        ),
        ("one of them is chained", conv("x", "a") + &conv("a", "b") + &add("x", "z", "c") + &outputs(&["b", "c"])),
    ];
    for (why, body) in cases {
        let text = placed(&body);
        assert!(text.contains(&format!("no pair of neighbours: {why} (")), "{why}\n{text}");
        assert!(!text.contains("could run at once"), "{why}\n{text}");
    }
    let pair = conv("x", "a") + &add("x", "z", "b") + &conv("b", "c") + &add("a", "c", "y") + &outputs(&["y"]);
    let text = placed(&pair);
    assert!(text.contains("could run at once"), "{text}");
}

/// Ring buffers of the families that have such layers: held ones, and those written with what depends on a result in tile memory.
#[test]
fn ring_buffers_have_types_of_their_own() {
    let chip = CHIPS.iter().find(|chip| chip.target == "h14").expect("a chip with ring buffers");
    let head = "net \"n\" {\n  input %state: f16[1, 2, 8, 16]\n  input %x: f16[1, 2, 8, 8]\n  input %z: f16[1, 2, 8, 8]\n  \
                const %w: f16[2, 2, 1, 1] = [0.5, 1.0, 0.25, 0.5]\n";
    let write = |from: &str| {
        format!(
            "  %ring: f16[1, 2, 8, 16] = RingBufferWriter(%state, %{from}) Dimension=Width Offset=13 Circular=true\n"
        )
    };
    let read = "  %y: f16[1, 2, 8, 6] = RingBufferReader(%state) Dimension=Width Offset=13 Size=6 Circular=true\n";
    let kind = |text: &str, code: u32, name: &str| {
        let line = text.lines().find(|line| line.contains(" type ") && line.ends_with(&format!("; {name}")));
        assert!(line.is_some_and(|line| line.contains(&format!("type {code},"))), "{name} {code}\n{text}");
    };
    let direct = placed_on(chip, &(head.to_string() + &write("x") + &outputs(&["ring"])));
    kind(&direct, 6, "state");
    kind(&direct, 6, "ring");
    let read = placed_on(chip, &(head.to_string() + read + &outputs(&["y"])));
    kind(&read, 6, "state");
    kind(&read, 1, "y");
    let one = placed_on(chip, &(head.to_string() + &add("x", "z", "a") + &write("a") + &outputs(&["ring"])));
    kind(&one, 6, "ring");
    let two = add("x", "z", "a") + &conv("a", "b") + &write("b") + &outputs(&["ring"]);
    let two = placed_on(chip, &(head.to_string() + &two));
    kind(&two, 6, "state");
    kind(&two, 7, "ring");
}

/// Each term of the conjunction alone keeps a result from being chained; where all hold, it is.
#[test]
fn every_term_of_chaining_is_told() {
    let sums = |rest: &str| add("x", "z", "a") + rest;
    let last = outputs(&["y"]);
    let chained = sums(&add("a", "x", "y")) + &last;
    let by = |f: &str, a: &str, b: &str, to: &str| format!("  %{to}: f16[1, 2, 8, 8] = {f}(%{a}, %{b})\n");
    let half = |from: &str, to: &str| {
        format!("  %{to}: f16[1, 1, 8, 8] = slice(%{from}) begin=[0, 0, 0, 0] end=[1, 1, 8, 8] stride=[1, 1, 1, 1]\n")
    };
    let halves = half("a", "b") + &half("x", "c") + "  %y: f16[1, 1, 8, 8] = add(%b, %c)\n";
    let cases = [
        (2, "the next layer alone reads it", chained.clone()),
        (0, "not one writer and one reader", sums(&by("mul", "a", "x", "b")) + &by("max", "a", "b", "y") + &last),
        (0, "the other engine reads it", sums(&conv("a", "y")) + &last),
        (0, "another layer comes between", sums(&by("mul", "x", "z", "b")) + &by("max", "a", "b", "y") + &last),
        (0, "it is read in another form", sums(&halves) + &last),
    ];
    for (code, why, body) in cases {
        let text = placed(&body);
        let found = text.lines().any(|l| l.contains(&format!("type {code},")) && l.contains(why));
        assert!(found, "{why}\n{text}");
    }
    let wide = "net \"n\" {\n  input %x: f16[1, 64, 8, 528]\n  input %z: f16[1, 64, 8, 528]\n".to_string();
    let rows = wide + &(sums(&add("a", "x", "y")) + &last).replace("1, 2, 8, 8", "1, 64, 8, 528");
    let text = placed_on(&CHIPS[0], &rows);
    assert!(text.contains("its rows do not cover the reader's first tile"), "{text}");
    let mut chip = CHIPS[0].clone();
    chip.hal.chaining = Some(0);
    let text = placed_on(Box::leak(Box::new(chip)), &(HEAD.to_string() + &chained));
    assert!(text.contains("the chip does not chain"), "{text}");
}
