use anemone_compile::testing::{Datum, Graph, verify_passes};
use anemone_compile::{Compat, Options, pipeline};

/// Networks whose layers are of every kind.
const NETS: &[&str] = &[
    r#"net "a" {
  input %x: f16[1, 4, 8, 8]
  const %w: f16[2, 4, 1, 1] = [1.0, -0.5, 0.25, 2.0, 1.0, -0.5, 0.25, 2.0]
  const %b: f16[2] = [0.5, 1.0]
  %c: f16[1, 2, 8, 8] = conv(%x, %w, %b) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
  %g: f16[1, 2, 8, 8] = silu(%c)
  %p: f16[1, 2, 4, 4] = max_pool(%g) kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]] ceil_mode=false
  %s: f16[1, 2, 4, 4] = softmax(%p) axis=3
  output %s
}
"#,
    r#"net "b" {
  input %x: f16[1, 6, 8]
  input %y: f16[1, 8, 5]
  %m: f16[1, 6, 5] = matmul(%x, %y) transpose_x=false transpose_y=false
  %t: f16[1, 5, 6] = transpose(%m) perm=[0, 2, 1]
  %n: f16[1, 5, 6] = layer_norm(%t) axes=[2] epsilon=0.001
  %q: f16[1, 5, 6] = softmax(%n) axis=1
  %a: f16[1, 5, 6] = add(%q, %t)
  output %a
}
"#,
];

fn graphs() -> Vec<Graph> {
    let chip = anemone_facts::chips::CHIPS.iter().find(|c| c.layout.is_some()).expect("a chip");
    let _verified = verify_passes();
    let mut all = Vec::new();
    for (text, compat) in NETS.iter().flat_map(|t| [Compat::Own, Compat::Zin9509, Compat::Zin421].map(|c| (t, c))) {
        let net = anemone_net::text::parse(text, &[]).expect("a network");
        let options = Options { compat, ..Options::default() };
        let placed = pipeline::run(&net, chip, &options, &mut (), None).expect("compiled").expect("to the end");
        all.push(placed.graph);
    }
    all
}

#[test]
fn printed_graphs_are_read_back() {
    let graphs = graphs();
    for graph in &graphs {
        let (text, data) = graph.print();
        let back = Graph::parse(&text, &data).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(format!("{back:?}"), format!("{graph:?}"), "{text}");
    }
    let texts: String = graphs.iter().map(|g| g.to_string()).collect();
    for kind in ["ne.conv", "ne.neuron", "ne.product", "pe.Add", "pe.pool", "pe.reduce", "bias", "lut=", "port="] {
        assert!(texts.contains(kind), "no {kind} in\n{texts}");
    }
}

#[test]
fn damaged_texts_are_refused_with_their_line() {
    let (text, data) = graphs()[0].print();
    let refused = |text: &str, data: &[Datum]| Graph::parse(text, data).expect_err("damaged");
    assert!(refused("graph x", &data).starts_with("line 1:"));
    assert!(refused(&text.replace("ne.conv", "ne.cnv"), &data).contains("no layer kind ne.cnv"));
    assert!(refused(&text.replace(" bias", " biased"), &data).contains("line "));
    assert!(refused(&text, &data[..data.len() - 1]).contains("no datum"));
}
