use anemone_check::legal::{self, Route};
use anemone_compile::testing::*;
use anemone_compile::{Error, Options, TASKS};
use anemone_facts::chips::CHIPS;
use std::sync::Arc;

fn copy(width: usize) -> Layer {
    let lead = [1, 1, 1].map(|extent| Axis { extent, stride_bytes: 1 << 20 });
    let view = View4 { buffer: BufferId(0), offset_bytes: 0, axes: lead, width };
    Layer {
        name: "y".into(),
        kind: Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None },
        sources: vec![view],
        broadcast: vec![[false; 3]],
        result: view,
        transpose: false,
        interleave: 1,
        source_interleave: 1,
        second_relu: false,
        turned: [false; 2],
    }
}

#[test]
fn a_program_has_as_many_tasks_as_their_numbers_count() {
    let legal = |count| {
        let graph = Graph { layers: vec![copy(1); count], ..Graph::default() };
        legalize(graph, &CHIPS[0], &Options::default(), &mut Remarks::default())
    };
    assert!(legal(65535).is_ok());
    assert!(matches!(legal(65536), Err(Error::Limit { what: TASKS, found: 65536, limit: 65535, .. })));
}

#[test]
fn the_rows_of_the_dry_run_refuse() {
    let chip = &CHIPS[0];
    let most = chip.hal.max_tensor_width.expect("known") as usize;
    let graph = |width| Graph { layers: vec![copy(width)], ..Graph::default() };
    assert!(legalize(graph(most), chip, &Options::default(), &mut Remarks::default()).is_ok());
    let Err(Error::Rule { refusal, .. }) =
        legalize(graph(most + 1), chip, &Options::default(), &mut Remarks::default())
    else {
        panic!("a refusal")
    };
    let same = legal::check(&native(&copy(most + 1)).expect("a native layer"), chip, Route::Direct);
    assert_eq!(Some(&*refusal), same.refusals.first());
    assert_eq!((refusal.code, refusal.found.as_str()), ("E02", (most + 1).to_string().as_str()));
}

#[test]
fn kernels_obey_the_rules_of_convolutions() {
    let chip = &CHIPS[0];
    let window = Window { kernel: [1, 14], ..Window::UNIT };
    let conv = Kind::Conv {
        window,
        connect: Connect::Dense,
        weights: Arc::new(vec![0.0; 14].into()),
        bias: None,
        post_scale: 1.0,
        nonlinear: Nonlinear::None,
    };
    let Err(Error::Rule { refusal, .. }) = fits(&Layer { kind: conv, ..copy(64) }, chip) else { panic!("a refusal") };
    assert_eq!((refusal.code, refusal.quantity), ("E08", "kernel width"));
    assert!(
        anemone_check::own::needs_exchanged_kernel([1, 14], chip)
            && !anemone_check::own::needs_exchanged_kernel([14, 14], chip)
    );
}

/// Rewritings make other extents than the network has; a refusal states its own.
#[test]
fn refusals_are_in_terms_of_the_network() {
    let refused = |width: usize, kernel: usize| {
        let weights = vec!["1.0"; kernel].join(", ");
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 1, 1, {width}]\n  const %w: f16[1, 1, 1, {kernel}] = [{weights}]\n  \
             %y: f16[1, 1, 1, {}] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  \
             output %y\n}}\n",
            width - kernel + 1
        );
        let net = anemone_net::text::parse(&source, &[]).expect("it parses");
        match anemone_compile::compile(&net, &CHIPS[0], &Options::default(), &mut ()) {
            Err(Error::Rule { refusal, .. }) => refusal,
            other => panic!("{:?}", other.map(|program| program.name)),
        }
    };
    let wide = refused(300_000, 65);
    assert!(wide.message.starts_with("extents of [1, 1, 1, 300000]") && wide.apple.is_none(), "{wide:?}");
    assert!(wide.message.contains("16384"), "{wide:?}");
}
