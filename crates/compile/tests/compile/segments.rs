use anemone_compile::segments::*;
use anemone_compile::testing::verify_passes;
use anemone_compile::{Options, compile};
use anemone_facts::chips::CHIPS;
use anemone_net::text;

#[test]
fn a_network_of_integers_that_the_engine_has_no_way_for_is_one_host_segment() {
    let _verified = verify_passes();
    let text = "net \"n\" {\n  input %x: i32[4]\n  %y: i32[4] = arg_sort(%x) axis=0 descending=true\n  output %y\n}\n";
    let net = text::parse(text, &[]).expect("the text parses");
    let cut = cut(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a cut");
    assert!(matches!(cut.segments.as_slice(), [Segment::Host(host)] if host.ops.len() == 1), "{:?}", cut.segments);
    assert_eq!(cut.reasons.len(), 1);
}

#[test]
fn a_network_of_more_ports_than_a_program_has_is_divided() {
    let _verified = verify_passes();
    let lines = (0..40).map(|i| format!("  %y{i}: f16[2] = add(%f, %x)\n")).collect::<String>();
    let outputs = (0..40).map(|i| format!("  output %y{i}\n")).collect::<String>();
    let text = format!("net \"n\" {{\n  input %x: f16[2]\n  %f: f16[2] = floor(%x)\n{lines}{outputs}}}\n");
    let net = text::parse(&text, &[]).expect("the text parses");
    let error = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect_err("too many");
    assert_eq!(error.to_string(), "n: number of inputs and outputs is 41, the limit of h13 is 28");
    let cut = cut(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a cut");
    let made: usize = cut.segments.iter().map(|s| if let Segment::Engine(p) = s { p.ports.len() } else { 0 }).sum();
    assert!(cut.segments.len() == 2 && cut.reasons.is_empty() && made > 41, "{:?}", cut.segments.len());
}

#[test]
fn an_embedding_is_gathered_on_the_host() {
    let _verified = verify_passes();
    // More rows than a look-up on the engine supports.
    let rows = vec!["1.0, 2.0"; 512].join(", ");
    let net = text::parse(
        &r#"net "n" {
  input %i: i32[3]
  const %t: f16[512, 2] = [ROWS]
  const %one: i32[1] = [1]
  %j: i32[3] = sub(%i, %one)
  %e: f16[3, 2] = gather(%t, %j) axis=0
  %y: f16[3, 2] = relu(%e)
  output %y
}
"#
        .replace("ROWS", &rows),
        &[],
    )
    .expect("the text parses");
    let cut = cut(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a cut");
    let [Segment::Host(host), Segment::Engine(engine)] = cut.segments.as_slice() else { panic!("{:?}", cut.segments) };
    assert_eq!(host.ops.iter().map(|op| op.kind.name()).collect::<Vec<_>>(), ["sub", "gather"]);
    assert_eq!(engine.ports.len(), 2);
    assert_eq!(cut.reasons.len(), 1);
}

#[test]
fn outputs_that_are_constants_have_a_segment() {
    let _verified = verify_passes();
    let text = r#"net "n" {
  input %x: f16[4]
  const %c: f16[2] = [1.0, 2.0]
  const %i: i32[1] = [70000]
  const %j: i32[2] = [70001, 70002]
  %s: f16[4] = relu(%x)
  %y: i32[4] = arg_sort(%s) axis=0 descending=true
  %z: f16[2] = neg(%c)
  output %y
  output %c
  output %i
  output %j
  output %z
}
"#;
    let net = text::parse(text, &[]).expect("the text parses");
    let cut = cut(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a cut");
    let mut made: Vec<String> = Vec::new();
    for segment in &cut.segments {
        match segment {
            Segment::Engine(program) => made.extend(program.ports.iter().map(|port| port.name.clone())),
            Segment::Host(host) => made.extend(host.outputs.iter().map(|&id| host.value(id).name.clone())),
            Segment::Loop(_) => panic!("no loop"),
        }
    }
    for name in ["y", "c", "i", "j", "z"] {
        assert!(made.iter().any(|own| own == name), "{name}: {made:?}");
    }
}

/// The kinds of the operations that the host has, and the number of programs.
fn sides(text: &str) -> (Vec<&'static str>, usize) {
    let net = text::parse(text, &[]).expect("the text parses");
    let cut = cut(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a cut");
    let (mut host, mut programs) = (Vec::new(), 0);
    for segment in &cut.segments {
        match segment {
            Segment::Engine(_) => programs += 1,
            Segment::Host(part) => host.extend(part.ops.iter().map(|op| op.kind.name())),
            Segment::Loop(_) => panic!("no loop"),
        }
    }
    (host, programs)
}

#[test]
fn integers_beyond_fp16_are_the_hosts() {
    let _verified = verify_passes();
    let one = |body: &str| format!("net \"n\" {{\n  input %x: i32[4]\n  input %f: f16[4]\n{body}\n  output %y\n}}\n");
    // Sums, products and results of any int32.
    for body in [
        "  %y: i32[4] = mul(%x, %x)",
        "  %y: i32[1] = reduce_sum(%x) axes=[0] keep_dims=true",
        "  %y: i32[4] = abs(%x)",
        "  const %c: i32[1] = [50256]\n  %y: bool[4] = equal(%x, %c)",
        "  %s: i32[4] = sub(%x, %x)\n  %t: f16[4] = cast(%s)\n  %y: f16[4] = mul(%t, %f)",
    ] {
        let (host, _) = sides(&one(body));
        assert!(!host.is_empty(), "{body}");
    }
    // Comparisons with small numbers, numbers within limits, and masks that become floats.
    for body in [
        "  const %c: i32[1] = [0]\n  %y: bool[4] = equal(%x, %c)",
        "  %l: i32[4] = clip(%x) min=0.0 max=31.0\n  %y: i32[4] = mul(%l, %l)",
        "  const %c: i32[1] = [1]\n  %s: i32[4] = sub(%c, %x)\n  %t: f16[4] = cast(%s)\n  %y: f16[4] = mul(%t, %f)",
        "  %s: i32[2, 2] = reshape(%x)\n  %t: f16[2, 2] = cast(%s)\n  %y: f16[2, 2] = relu(%t)",
        "  %i: i32[1] = arg_max(%f) last=false axis=0 keep_dims=true\n  %y: i32[1] = mul(%i, %i)",
        // Positions as converters write them: narrowed, and counted from the start.
        "  const %t: f16[3] = [1.0, 2.0, 3.0]\n  const %z: i16[1] = [0]\n  const %n: i16[1] = [3]\n  %i: i16[4] = cast(%x)\n  \
         %g: bool[4] = greater_equal(%i, %z)\n  %a: i16[4] = add(%i, %n)\n  %p: i16[4] = select(%g, %i, %a)\n  \
         %y: f16[4] = gather(%t, %p) axis=0",
    ] {
        assert_eq!(sides(&one(body)), (Vec::new(), 1), "{body}");
    }
}
