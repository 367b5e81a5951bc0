use anemone_compile::testing::{Graph, lower, verify_passes};
use anemone_compile::{Log, Options, Stage, compile, pipeline};

const TEXT: &str = "net \"n\" {\n  input %x: f16[1, 2, 3, 4]\n  %y: f16[1, 2, 3, 4] = relu(%x)\n  output %y\n}\n";

/// The graph after lowering of `relu` on a small tensor.
fn graph() -> Graph {
    let net = anemone_net::text::parse(TEXT, &[]).expect("a network");
    let chip = anemone_facts::chips::CHIPS.iter().find(|c| c.layout.is_some()).expect("a chip");
    lower(&net, chip, &Options::default()).expect("lowered")
}

#[test]
fn lowered_graphs_are_well_formed_and_damaged_ones_are_not() {
    let whole = graph();
    assert_eq!(whole.verify(), Vec::<String>::new());
    let mut short = whole.clone();
    short.buffers[0].bytes = 1;
    assert_eq!(short.verify().len(), 1);
    let mut unbound = whole.clone();
    unbound.layers[0].result.buffer.0 = 99;
    assert!(unbound.verify()[0].contains("buffer 99"), "{:?}", unbound.verify());
    let mut backwards = whole;
    backwards.layers[0].result = backwards.layers[0].sources[0];
    assert!(backwards.verify()[0].contains("writes an input"));
}

#[test]
fn every_stage_of_a_compilation_has_a_text() {
    struct Names(Vec<&'static str>);
    impl Log for Names {
        fn wants(&self) -> bool {
            true
        }
        fn stage(&mut self, stage: Stage) {
            assert!(!stage.text.is_empty() && !stage.dot.is_empty(), "{}", stage.name);
            self.0.push(stage.name);
        }
    }
    let net = anemone_net::text::parse(TEXT, &[]).expect("a network");
    let chip = anemone_facts::chips::CHIPS.iter().find(|c| c.layout.is_some()).expect("a chip");
    let mut names = Names(Vec::new());
    let _verified = verify_passes();
    compile(&net, chip, &Options::default(), &mut names).expect("compiled");
    assert_eq!(names.0, pipeline::ALL.iter().map(|p| p.dump).collect::<Vec<_>>());
}
