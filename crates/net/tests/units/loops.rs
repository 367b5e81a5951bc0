use anemone_net::OpKind;
use anemone_net::check::check;
use anemone_net::loops::{any, grouped, unrolled};
use anemone_net::{Data, Tensor, eval, text};

/// Adds the parts of a sequence one by one, from the last to the first, and scales each sum: twelve turns.
const SUMS: &str = r#"net "n" {
  input %x: f32[2, 12]
  input %k: f32[2, 1]
  const %zero: f32[2, 1] = [0.0, 0.5]
  %last: f32[2, 1], %all: f32[2, 12] = loop(%zero, %x, %k) turns=12 carried=1 scanned=[[1, 1]] collected=[[1, 1]] body="net \"turn\" {
    input %now: f32[2, 1]
    input %part: f32[2, 1]
    input %factor: f32[2, 1]
    %sum: f32[2, 1] = add(%now, %part)
    %scaled: f32[2, 1] = mul(%sum, %factor)
    output %sum
    output %scaled
  }"
  %y: f32[2, 1] = relu(%last)
  output %y
  output %all
}
"#;

fn inputs() -> Vec<Tensor> {
    let x = (0..24).map(|i| i as f32 * 0.25 - 2.0).collect();
    vec![
        Tensor { shape: vec![2, 12], data: Data::F32(x) },
        Tensor { shape: vec![2, 1], data: Data::F32(vec![2.0, -1.0]) },
    ]
}

#[test]
fn a_loop_is_its_turns_however_many_are_taken_at_once() {
    let net = text::parse(SUMS, &[]).expect("the text parses");
    check(&net).expect("a sound net");
    let (again, blobs) = text::print(&net);
    assert_eq!(text::parse(&again, &blobs).expect("its own text"), net);
    let expected = eval::eval(&net, &inputs()).expect("a result");
    // Row 0 of x is -2.0, -1.75, ... 0.75: its sum from the end is -7.5; the last turn's part stands first.
    assert_eq!(expected[1].data.to_f32()[0], -15.0);
    assert_eq!(expected[1].data.to_f32()[11], 1.5);
    let flat = unrolled(&net).expect("unrolled");
    assert!(!any(&flat));
    assert_eq!(eval::eval(&flat, &inputs()).expect("a result"), expected);
    // Two operations a turn: by 5 turns and 2 before them, by 4, and all at once.
    for (most, turns) in [(10, 3), (8, 3), (100, 1), (1, 12)] {
        let grouped = grouped(&net, most).expect("grouped");
        check(&grouped).expect("a sound net");
        let found = grouped.ops.iter().find_map(|op| if let OpKind::Loop(l) = &op.kind { Some(l.turns) } else { None });
        assert_eq!(found, Some(turns), "{most}");
        assert_eq!(eval::eval(&grouped, &inputs()).expect("a result"), expected, "{most}");
    }
}

#[test]
fn turns_that_are_left_over_come_before_the_loop() {
    let net = text::parse(&SUMS.replace("12", "11"), &[]).expect("the text parses");
    let mut inputs = inputs();
    inputs[0] = Tensor { shape: vec![2, 11], data: Data::F32((0..22).map(|i| i as f32).collect()) };
    let expected = eval::eval(&net, &inputs).expect("a result");
    let grouped = grouped(&net, 8).expect("grouped");
    assert_eq!(grouped.ops.iter().filter(|op| op.kind.name() == "add").count(), 3);
    assert_eq!(eval::eval(&grouped, &inputs).expect("a result"), expected);
}

#[test]
fn a_body_that_does_not_fit_is_refused() {
    for (from, to, says) in [
        ("turns=12", "turns=11", "operand"),
        ("turns=12", "turns=0", "turns is 0"),
        ("carried=1", "carried=2", "results"),
        ("scanned=[[1, 1]]", "scanned=[[2, 1]]", "axis is 2"),
        ("input %factor: f32[2, 1]", "input %factor: f32[1, 1]", "factor"),
    ] {
        let net = text::parse(&SUMS.replace(from, to), &[]).expect("the text parses");
        let errors = check(&net).expect_err(to);
        let told = errors.iter().map(|e| e.to_string()).collect::<Vec<_>>().join("; ");
        assert!(told.contains(says) || told.contains("but loop gives"), "{to}: {told}");
    }
}
