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
