//! Every pass that may be left out has an effect: a network whose program is another without it.

use anemone_compile::{Error, Log, Options, Stage, compile, pipeline};
use anemone_facts::chips::CHIPS;
use anemone_net::text;

/// Passes whose cases stand elsewhere: fusions in `fuse.rs`, forms of weights in `stream/form.rs`, copies behind attention in the
/// packages.
const FUSIONS: &[&str] = &[
    "eliminate-elementwise-copies",
    "collapse-transpose",
    "deduplicate-standalone-dequant-gocs-across-concat",
    "fold-padding",
    "functions-into-tables",
    "fold-scale",
    "scaled-ew-or-ew-with-const-in-to-goc",
    "simple-activation",
    "merge-fusable-activation-pairs",
    "scale-of-operand",
    "stream-weights",
    "copies-into-producer",
];

/// Pass and a network whose program it changes.
const OTHERS: &[(&str, &str)] = &[
    (
        "scale-whole-sums",
        "net \"n\" {\n  input %q: u8[1, 3, 1, 2]\n  const %w: f32[1, 2] = [100.0, -100.0]\n  const %s: f32[1] = [0.0078125]\n  \
         %x: f32[1, 3, 1, 2] = cast(%q)\n  %p: f32[1, 3, 1, 1] = linear(%x, %w)\n  %c: i32[1, 3, 1, 1] = cast(%p)\n  \
         %f: f32[1, 3, 1, 1] = cast(%c)\n  %y: f32[1, 3, 1, 1] = mul(%f, %s)\n  output %y\n}\n",
    ),
    (
        "collapse-quant-dequant",
        "net \"n\" {\n  input %x: f32[1, 4, 8, 8]\n  const %s: f32[1] = [0.5]\n  const %z: f32[1] = [3.0]\n  \
         %a: f32[1, 4, 8, 8] = div(%x, %s)\n  %b: f32[1, 4, 8, 8] = round(%a)\n  %c: f32[1, 4, 8, 8] = add(%b, %z)\n  \
         %d: f32[1, 4, 8, 8] = clip(%c) min=0.0 max=255.0\n  %q: u8[1, 4, 8, 8] = cast(%d)\n  \
         %h: f32[1, 4, 8, 8] = cast(%q)\n  %e: f32[1, 4, 8, 8] = sub(%h, %z)\n  %y: f32[1, 4, 8, 8] = mul(%e, %s)\n  output %y\n}\n",
    ),
    (
        "bound-values",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  const %zero: f16[1] = [0.0]\n  %r: f16[1, 4, 8, 8] = relu(%x)\n  \
         %m: f16[1, 4, 1, 1] = reduce_min(%r) axes=[2, 3] keep_dims=true\n  %l: f16[1, 4, 1, 1] = min(%m, %zero)\n  \
         %q: f16[1, 4, 8, 8] = sub(%r, %l)\n  %y: f16[1, 4, 8, 8] = tanh(%q)\n  output %y\n}\n",
    ),
    (
        "replace-matmul",
        "net \"n\" {\n  input %x: f16[3, 2]\n  const %w: f16[2, 2] = [1.0, 2.0, 0.5, 0.25]\n  const %b: f16[2] = [1.0, 2.0]\n  \
         %p: f16[3, 2] = matmul(%x, %w) transpose_x=false transpose_y=false\n  %y: f16[3, 2] = add(%p, %b)\n  output %y\n}\n",
    ),
    (
        "recognize",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  const %c: f16[1] = [-3.0]\n  const %z: f16[1] = [0.0]\n  \
         %p: bool[1, 4, 8, 8] = greater_equal(%x, %c)\n  %t: f16[1, 4, 8, 8] = select(%p, %x, %z)\n  \
         %h: f16[1, 4, 8, 8] = sigmoid_hard(%x) alpha=0.25 beta=0.5\n  %y: f16[1, 4, 8, 8] = mul(%t, %h)\n  output %y\n}\n",
    ),
    (
        "recognize-norms",
        "net \"n\" {\n  input %x: f16[2, 3, 4]\n  const %e: f16[] = [0.001]\n  \
         %m: f16[2, 1, 1] = reduce_mean(%x) axes=[1, 2] keep_dims=true\n  %d: f16[2, 3, 4] = sub(%x, %m)\n  \
         %q: f16[2, 3, 4] = mul(%d, %d)\n  %v: f16[2, 1, 1] = reduce_mean(%q) axes=[1, 2] keep_dims=true\n  \
         %a: f16[2, 1, 1] = add(%v, %e)\n  %s: f16[2, 1, 1] = sqrt(%a)\n  %y: f16[2, 3, 4] = div(%d, %s)\n  output %y\n}\n",
    ),
    (
        "forward-slices",
        "net \"n\" {\n  input %x: f16[1, 2, 8, 8]\n  input %z: f16[1, 2, 8, 8]\n  %a: f16[1, 2, 8, 8] = relu(%x)\n  \
         %l: f16[1, 4, 8, 8] = concat(%a, %z) axis=1\n  \
         %f: f16[1, 2, 8, 8] = slice(%l) begin=[0, 2, 0, 0] end=[1, 4, 8, 8] stride=[1, 1, 1, 1]\n  \
         %y: f16[1, 2, 8, 8] = tanh(%f)\n  output %y\n}\n",
    ),
    (
        "absorb-affines",
        "net \"n\" {\n  input %x: f16[3, 2]\n  const %w: f16[2, 2] = [1.0, 2.0, 0.5, 0.25]\n  const %g: f16[2] = [2.0, 3.0]\n  \
         %p: f16[3, 2] = linear(%x, %w)\n  %y: f16[3, 2] = mul(%p, %g)\n  output %y\n}\n",
    ),
    (
        // Terms of 2^-9 at most.
        "scale-small-terms",
        "net \"n\" {\n  input %x: f16[3, 2]\n  const %w: f16[2, 2] = [0.001953125, 0.001953125, 0.0, 0.001953125]\n  \
         %t: f16[3, 2] = tanh(%x)\n  %y: f16[3, 2] = linear(%t, %w)\n  output %y\n}\n",
    ),
    (
        // A convolution beside a maximum that does not need it: the maximum goes before what reads the convolution.
        "co-issue",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  input %z: f16[1, 4, 8, 8]\n  \
         const %w: f16[4, 4, 1, 1] = [1.0, 2.0, 0.5, 0.25, 1.0, 2.0, 0.5, 0.25, 1.0, 2.0, 0.5, 0.25, 1.0, 2.0, 0.5, 0.25]\n  \
         %a: f16[1, 4, 8, 8] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  \
         %n: f16[1, 4, 8, 8] = max(%a, %z)\n  %p: f16[1, 4, 8, 8] = max(%z, %x)\n  \
         %q: f16[1, 4, 8, 8] = add(%n, %p)\n  %r: f16[1, 4, 8, 8] = mul(%n, %p)\n  \
         %y: f16[1, 4, 8, 8] = add(%q, %r)\n  output %y\n}\n",
    ),
    (
        "forward-affines",
        "net \"n\" {\n  input %x: f16[3, 2]\n  const %g: f16[2] = [2.0, 3.0]\n  const %w: f16[1, 2] = [1.0, 2.0]\n  \
         %s: f16[3, 2] = mul(%x, %g)\n  %y: f16[3, 1] = linear(%s, %w)\n  output %y\n}\n",
    ),
    (
        "transpose-scores",
        "net \"n\" {\n  input %q: f16[1, 1024, 16]\n  input %k: f16[1, 16, 64]\n  input %v: f16[1, 64, 32]\n  \
         %s: f16[1, 1024, 64] = matmul(%q, %k) transpose_x=false transpose_y=false\n  %p: f16[1, 1024, 64] = softmax(%s) axis=2\n  \
         %y: f16[1, 1024, 32] = matmul(%p, %v) transpose_x=false transpose_y=false\n  output %y\n}\n",
    ),
    (
        "convolve-affines",
        "net \"n\" {\n  input %x: f16[1, 2, 8, 8]\n  const %g: f16[1, 2, 1, 1] = [2.0, 3.0]\n  const %t: f16[1, 2, 1, 1] = [0.5, 0.25]\n  \
         %s: f16[1, 2, 8, 8] = mul(%x, %g)\n  %y: f16[1, 2, 8, 8] = add(%s, %t)\n  output %y\n}\n",
    ),
    (
        "convolve-means",
        "net \"n\" {\n  input %x: f16[1, 2, 16, 16]\n  %y: f16[1, 2, 16, 16] = avg_pool(%x) kernel=[5, 5] strides=[1, 1] \
         pads=[[2, 2], [2, 2]] exclude_padding=false ceil_mode=false\n  output %y\n}\n",
    ),
    (
        "convolve-tokens",
        "net \"n\" {\n  input %x: f16[1, 6, 2]\n  const %w: f16[2, 2] = [1.0, 2.0, 0.5, 0.25]\n  %e: f16[1, 6, 2] = exp(%x)\n  \
         %l: f16[1, 6, 2] = linear(%e, %w)\n  %t: f16[1, 2, 6] = transpose(%l) perm=[0, 2, 1]\n  \
         %r: f16[1, 2, 3, 2] = reshape(%t)\n  %y: f16[1, 2, 3, 2] = sigmoid(%r)\n  output %y\n}\n",
    ),
    (
        "sum-convolutions",
        "net \"n\" {\n  input %x: f16[1, 1, 8, 8]\n  const %v: f16[2, 1, 1, 1] = [2.0, 3.0]\n  const %w: f16[2, 1, 1, 1] = [0.5, 0.25]\n  \
         %a: f16[1, 2, 8, 8] = conv(%x, %v) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  \
         %b: f16[1, 2, 8, 8] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  \
         %y: f16[1, 2, 8, 8] = add(%a, %b)\n  output %y\n}\n",
    ),
    (
        "join-lookups",
        "net \"n\" {\n  input %x: i32[3]\n  input %z: i32[3]\n  const %t: f16[2, 2] = [1.0, 2.0, 3.0, 4.0]\n  \
         const %u: f16[2, 2] = [5.0, 6.0, 7.0, 8.0]\n  %a: f16[3, 2] = gather(%t, %x) axis=0\n  \
         %b: f16[3, 2] = gather(%u, %z) axis=0\n  %y: f16[3, 2] = add(%a, %b)\n  output %y\n}\n",
    ),
    (
        // Queries and keys as channels of one product, and a factor of the queries that is no fp16 number.
        "scale-portions",
        "net \"n\" {\n  input %x: f32[3, 1]\n  const %w: f32[4, 1] = [0.1, 0.2, 0.3, 0.4]\n  const %c: f32[] = [0.3]\n  \
         %p: f32[3, 4] = linear(%x, %w)\n  %q: f32[3, 2] = slice(%p) begin=[0, 0] end=[3, 2] stride=[1, 1]\n  \
         %k: f32[3, 2] = slice(%p) begin=[0, 2] end=[3, 4] stride=[1, 1]\n  %s: f32[3, 2] = mul(%q, %c)\n  \
         %y: f32[3, 3] = matmul(%s, %k) transpose_x=false transpose_y=true\n  output %y\n}\n",
    ),
    (
        "join-addends",
        "net \"n\" {\n  input %x: f16[2, 2]\n  const %a: f16[2] = [1.0, 2.0]\n  const %b: f16[2, 1] = [3.0, 4.0]\n  \
         %s: f16[2, 2] = add(%x, %a)\n  %y: f16[2, 2] = add(%s, %b)\n  output %y\n}\n",
    ),
    (
        "select-columns",
        "net \"n\" {\n  input %x: f16[3, 4]\n  %p: f16[3, 4] = mul(%x, %x)\n  \
         %a: f16[3, 2] = slice(%p) begin=[0, 0] end=[3, 2] stride=[1, 1]\n  \
         %b: f16[3, 2] = slice(%p) begin=[0, 2] end=[3, 4] stride=[1, 1]\n  %r: f16[3, 4] = concat(%b, %a) axis=1\n  \
         %y: f16[3, 4] = mul(%r, %x)\n  output %y\n}\n",
    ),
    (
        // Columns within a row of memory, exchanged with rows.
        "share-copies",
        "net \"n\" {\n  input %x: f16[3, 4]\n  %a: f16[3, 1] = slice(%x) begin=[0, 1] end=[3, 2] stride=[1, 1]\n  \
         %b: f16[3, 1] = slice(%x) begin=[0, 2] end=[3, 3] stride=[1, 1]\n  %y: f16[3, 1] = mul(%a, %b)\n  output %y\n}\n",
    ),
    (
        "join-parts",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  %a: f16[1, 2, 8, 8] = slice(%x) begin=[0, 0, 0, 0] end=[1, 2, 8, 8] stride=[1, 1, 1, 1]\n  \
         %b: f16[1, 2, 8, 8] = slice(%x) begin=[0, 2, 0, 0] end=[1, 4, 8, 8] stride=[1, 1, 1, 1]\n  \
         %s: f16[1, 2, 8, 8] = sigmoid(%a)\n  %t: f16[1, 2, 8, 8] = sigmoid(%b)\n  %y: f16[1, 2, 8, 8] = mul(%s, %t)\n  output %y\n}\n",
    ),
    (
        "hoist-goc-or-activation-for-conv-fusion",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  input %z: f16[1, 4, 8, 8]\n  %a: f16[1, 4, 8, 8] = add(%x, %z)\n  \
         %b: f16[1, 4, 8, 8] = mul(%x, %z)\n  %l: f16[1, 8, 8, 8] = concat(%a, %b) axis=1\n  %y: f16[1, 8, 8, 8] = relu(%l)\n  output %y\n}\n",
    ),
    (
        "ne-transpose-fusion",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  %a: f16[1, 4, 8, 8] = tanh(%x)\n  \
         %y: f16[1, 8, 8, 4] = transpose(%a) perm=[0, 3, 2, 1]\n  output %y\n}\n",
    ),
    (
        "relu-of-source",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  input %z: f16[1, 4, 8, 8]\n  %a: f16[1, 4, 8, 8] = relu(%x)\n  \
         %y: f16[1, 4, 8, 8] = max(%a, %z)\n  output %y\n}\n",
    ),
    (
        "allocate",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  input %z: f16[1, 4, 8, 8]\n  %a: f16[1, 4, 8, 8] = add(%x, %z)\n  \
         %y: f16[1, 4, 8, 8] = mul(%a, %x)\n  output %y\n}\n",
    ),
    (
        "width-concat",
        // A part that another layer reads too: without the pass a copy makes it.
        "net \"n\" {\n  input %x: f16[1, 4, 8, 32]\n  input %z: f16[1, 4, 8, 32]\n  %a: f16[1, 4, 8, 32] = tanh(%x)\n  \
         %b: f16[1, 4, 8, 32] = mul(%a, %z)\n  %y: f16[1, 4, 8, 64] = concat(%a, %b) axis=3\n  output %y\n}\n",
    ),
    (
        // Six results of 9/16 of a megabyte live at once, and more than the three megabytes of a partition with what is made of them.
        "partition-emission",
        "net \"n\" {\n  input %x: f16[1, 72, 64, 64]\n  \
         %a: f16[1, 72, 64, 64] = tanh(%x)\n  %b: f16[1, 72, 64, 64] = sigmoid(%x)\n  \
         %c: f16[1, 72, 64, 64] = exp(%x)\n  %d: f16[1, 72, 64, 64] = relu(%x)\n  \
         %e: f16[1, 72, 64, 64] = sqrt(%x)\n  %g: f16[1, 72, 64, 64] = abs(%x)\n  \
         %p: f16[1, 72, 64, 64] = mul(%a, %b)\n  %q: f16[1, 72, 64, 64] = mul(%c, %d)\n  \
         %r: f16[1, 72, 64, 64] = mul(%e, %g)\n  %s: f16[1, 72, 64, 64] = mul(%a, %c)\n  \
         %t: f16[1, 72, 64, 64] = mul(%b, %e)\n  %u: f16[1, 72, 64, 64] = mul(%d, %g)\n  \
         %v: f16[1, 72, 64, 64] = max(%p, %q)\n  %w: f16[1, 72, 64, 64] = max(%r, %s)\n  \
         %k: f16[1, 72, 64, 64] = max(%t, %u)\n  %l: f16[1, 72, 64, 64] = max(%v, %w)\n  \
         %y: f16[1, 72, 64, 64] = max(%l, %k)\n  output %y\n}\n",
    ),
    (
        "bank-conflicts",
        "net \"n\" {\n  input %x: f16[1, 64, 8, 8]\n  input %z: f16[1, 64, 8, 8]\n  %y: f16[1, 64, 8, 8] = max(%x, %z)\n  output %y\n}\n",
    ),
    (
        "reside",
        "net \"n\" {\n  input %x: f16[1, 4, 8, 8]\n  input %z: f16[1, 4, 8, 8]\n  %a: f16[1, 4, 8, 8] = add(%x, %z)\n  \
         %y: f16[1, 4, 8, 8] = mul(%a, %x)\n  output %y\n}\n",
    ),
];

/// Program of a network's text; `pass` is left out. Errors in the compiler's words: some networks need the pass.
fn program(source: &str, pass: Option<&str>) -> Result<(Vec<u8>, Vec<u8>), String> {
    let net = text::parse(source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut options = Options::default();
    if let Some(pass) = pass.and_then(pipeline::by_name) {
        pass.disable(&mut options).expect("it may be left out");
    }
    let program = compile(&net, &CHIPS[0], &options, &mut ()).map_err(|e| e.to_string())?;
    Ok((program.stream, program.kernel.to_vec()))
}

#[test]
fn every_pass_that_may_be_left_out_changes_a_program() {
    // Builds without debug assertions verify nothing otherwise.
    let _verified = anemone_compile::testing::verify_passes();
    let heads = {
        let weights = vec!["0.5"; 96].join(", ");
        format!(
            "net \"n\" {{\n  input %x: f16[3, 2]\n  const %w: f16[48, 2] = [{weights}]\n  %p: f16[3, 48] = linear(%x, %w)\n  \
             %h: f16[3, 2, 24] = reshape(%p)\n  %t: f16[2, 3, 24] = transpose(%h) perm=[1, 0, 2]\n  output %t\n}}\n"
        )
    };
    let channels = {
        let weights = vec!["0.5"; 32].join(", ");
        format!(
            "net \"n\" {{\n  input %x: f16[1, 2, 4, 4]\n  const %w: f16[16, 2, 1, 1] = [{weights}]\n  \
             %c: f16[1, 16, 4, 4] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  \
             %r: f16[2, 2, 2, 2, 4, 4] = reshape(%c)\n  %y: f16[4, 4, 2, 2, 2, 2] = transpose(%r) perm=[4, 5, 1, 3, 0, 2]\n  \
             output %y\n}}\n"
        )
    };
    let made = [("align-heads", heads.as_str()), ("order-channels", channels.as_str())];
    let known: Vec<&str> = OTHERS.iter().chain(&made).map(|(pass, _)| *pass).chain(FUSIONS.iter().copied()).collect();
    for pass in pipeline::ALL.iter().filter(|pass| pass.optional) {
        assert!(known.contains(&pass.name), "{} has no network that shows it", pass.name);
    }
    let mut idle = Vec::new();
    for (pass, source) in OTHERS.iter().chain(&made).copied() {
        assert!(pipeline::by_name(pass).is_some(), "{pass}");
        let with = program(source, None).unwrap_or_else(|e| panic!("{pass}: {e}\n{source}"));
        if program(source, Some(pass)).as_ref() == Ok(&with) {
            idle.push(pass);
        }
    }
    assert!(idle.is_empty(), "without effect: {}", idle.join(", "));
}

/// Asks for the end of a compilation at one of its questions.
struct Stops {
    at: usize,
    asked: std::cell::Cell<usize>,
    told: usize,
}

impl Log for Stops {
    fn wants(&self) -> bool {
        false
    }

    fn stage(&mut self, _: Stage) {}

    fn progress(&mut self, _: anemone_compile::Progress) {
        self.told += 1;
    }

    fn stopped(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() >= self.at
    }
}

#[test]
fn a_compilation_ends_at_the_first_question_that_stops_it() {
    let window = "strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1";
    let source = format!(
        "net \"n\" {{\n  input %x: f16[1, 2, 8, 8]\n  const %w: f16[2, 2, 1, 1] = [0.5, 1.0, 0.25, 0.5]\n  \
         %a: f16[1, 2, 8, 8] = conv(%x, %w) {window}\n  %b: f16[1, 2, 8, 8] = conv(%a, %w) {window}\n  output %b\n}}\n"
    );
    let net = text::parse(&source, &[]).expect("a network");
    let stopped_at = |at: usize| {
        let mut log = Stops { at, asked: Default::default(), told: 0 };
        let result = compile(&net, &CHIPS[0], &Options::default(), &mut log);
        (result.map(|_| ()), log.asked.get(), log.told)
    };
    let (result, questions, told) = stopped_at(usize::MAX);
    assert_eq!((result, told), (Ok(()), 2));
    // One before each pass, one after the weights of each layer.
    assert_eq!(questions, pipeline::ALL.len() + 2);
    for at in 1..=questions {
        let (result, asked, told) = stopped_at(at);
        assert_eq!((result, asked), (Err(Error::Stopped), at));
        assert_eq!(told, at.saturating_sub(pipeline::ALL.len()), "nothing is told after it");
    }
}
