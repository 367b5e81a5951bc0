//! Every fusion pass has an effect: without it a network has more tasks. Barriers keep what must not be fused.

mod functions;
mod layouts;

use anemone_compile::testing::verify_passes;
use anemone_compile::{Compat, Options, compile, pipeline};
use anemone_facts::chips::CHIPS;
use anemone_net::text;

const HEAD: &str = r#"net "n" {
  input %x: f16[1, 4, 8, 8]
  input %z: f16[1, 4, 8, 8]
  const %half: f16[1] = [0.5]
  const %one: f16[1] = [1.0]
  const %w: f16[4, 1, 3, 3] = [0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0, 0.25]
"#;
const CONV: &str =
    "  %c: f16[1, 4, 8, 8] = conv(%x, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=4\n";
const PADDED: &str = "  %p: f16[1, 4, 10, 10] = pad(%x) pads=[[0, 0], [0, 0], [1, 1], [1, 1]] value=0.0\n\
    %y: f16[1, 4, 8, 8] = conv(%p, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=4\n";
const SUM: &str = "  %s: f16[1, 4, 8, 8] = add(%x, %z)\n";

/// Tasks of a network; `pass` is left out.
fn tasks(body: &str, pass: Option<&str>, compat: Compat) -> usize {
    let _verified = verify_passes();
    let source = format!("{HEAD}{body}  output %y\n}}\n");
    let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut options = Options { compat, ..Options::default() };
    if let Some(pass) = pass.and_then(pipeline::by_name) {
        pass.disable(&mut options).expect("it may be left out");
    }
    let program = compile(&net, &CHIPS[0], &options, &mut ()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    program.tasks().expect("a stream").len()
}

/// Pass, network, tasks with it, tasks without.
fn cases() -> Vec<(&'static str, String, usize, usize)> {
    let unary = |f: &str, from: &str, to: &str| format!("  %{to}: f16[1, 4, 8, 8] = {f}(%{from})\n");
    let with = |f: &str, from: &str, by: &str, to: &str| format!("  %{to}: f16[1, 4, 8, 8] = {f}(%{from}, %{by})\n");
    let turned =
        |from: &str, to: &str, perm: &str| format!("  %{to}: f16[1, 8, 8, 4] = transpose(%{from}) perm={perm}\n");
    let back =
        |from: &str, to: &str, perm: &str| format!("  %{to}: f16[1, 4, 8, 8] = transpose(%{from}) perm={perm}\n");
    vec![
        ("eliminate-elementwise-copies", with("mul", "x", "one", "a") + &with("max", "a", "z", "y"), 1, 2),
        (
            "collapse-transpose",
            turned("x", "a", "[0, 2, 3, 1]") + "  %b: f16[1, 8, 8, 4] = tanh(%a)\n" + &back("b", "y", "[0, 3, 1, 2]"),
            1,
            2,
        ),
        (
            "deduplicate-standalone-dequant-gocs-across-concat",
            with("max", "x", "z", "q")
                + &with("min", "x", "z", "r")
                + &with("mul", "q", "half", "a")
                + &with("mul", "r", "half", "b")
                + "  %j: f16[1, 8, 8, 8] = concat(%a, %b) axis=1\n  %y: f16[1, 8, 8, 8] = tanh(%j)\n"
                + &with("add", "q", "r", "t")
                + "  output %t\n",
            4,
            5,
        ),
        ("fold-padding", PADDED.to_string(), 1, 2),
        ("functions-into-tables", CONV.to_string() + &unary("sigmoid", "c", "y"), 1, 2),
        ("fold-scale", SUM.to_string() + &with("mul", "s", "half", "y"), 1, 2),
        ("scaled-ew-or-ew-with-const-in-to-goc", SUM.to_string() + &with("add", "s", "half", "y"), 1, 2),
        ("simple-activation", CONV.to_string() + &unary("tanh", "c", "y"), 1, 2),
        (
            "merge-fusable-activation-pairs",
            SUM.to_string() + &unary("relu", "s", "a") + &with("mul", "a", "half", "y"),
            1,
            2,
        ),
        ("scale-of-operand", with("mul", "x", "half", "a") + &with("add", "a", "z", "y"), 1, 2),
        (
            "relu-of-source",
            SUM.to_string() + &unary("relu", "s", "a") + &unary("tanh", "s", "b") + &with("add", "b", "a", "y"),
            3,
            4,
        ),
        (
            // The factor, which fp16 does not represent, becomes that of differences.
            "scale-of-operand",
            "  const %third: f32[1] = [0.33333334]\n  \
             %p: f16[1, 4, 8, 8] = matmul(%x, %z) transpose_x=false transpose_y=false\n  \
             %q: f32[1, 4, 8, 8] = cast(%p)\n  %s: f32[1, 4, 8, 8] = mul(%q, %third)\n  \
             %y: f32[1, 4, 8, 8] = softmax(%s) axis=3\n"
                .to_string(),
            7,
            8,
        ),
    ]
}

#[test]
fn every_pass_has_an_effect() {
    for (pass, body, with, without) in cases() {
        assert!(pipeline::by_name(pass).is_some(), "{pass}");
        let got = (tasks(&body, None, Compat::Own), tasks(&body, Some(pass), Compat::Own));
        assert_eq!(got, (with, without), "{pass}\n{body}");
    }
}

#[test]
fn a_whole_epilogue_is_one_task() {
    let chain = "  %a: f16[1, 4, 8, 8] = mul(%s, %half)\n  %b: f16[1, 4, 8, 8] = add(%a, %half)\n  %y: f16[1, 4, 8, 8] = relu(%b)\n";
    assert_eq!(tasks(&format!("{SUM}{chain}"), None, Compat::Own), 1);
    assert!(tasks(&format!("{SUM}{chain}"), None, Compat::Zin9509) > 1, "Apple's compilers take one step");
}

#[test]
fn barriers_hold() {
    // Others read the value between; an unequal order; two live operands.
    let shared = format!("{SUM}  %a: f16[1, 4, 8, 8] = mul(%s, %half)\n  %y: f16[1, 4, 8, 8] = max(%a, %s)\n");
    assert_eq!(tasks(&shared, None, Compat::Own), 2);
    let live = format!("{CONV}  %y: f16[1, 4, 8, 8] = add(%c, %z)\n");
    assert_eq!(tasks(&live, None, Compat::Own), 2);
    // The planar engine has no tables, and the neural engine no maxima over windows.
    let pool = |kind: &str, rest: &str| {
        let window = "kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]]";
        format!("  %m: f16[1, 4, 4, 4] = {kind}(%x) {window}{rest} ceil_mode=false\n  %y: f16[1, 4, 4, 4] = tanh(%m)\n")
    };
    assert_eq!(tasks(&pool("max_pool", ""), None, Compat::Own), 2);
    assert_eq!(tasks(&pool("avg_pool", " exclude_padding=true"), None, Compat::Own), 1);
    assert_eq!(tasks(&pool("avg_pool", " exclude_padding=true"), None, Compat::Zin9509), 2);
    // Nor kernels as wide as the planar engine's windows.
    for (window, side, wanted) in [(13, 4, 1), (14, 3, 2), (16, 1, 2)] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 4, 16, 16]\n  %m: f16[1, 4, {side}, {side}] = avg_pool(%x) \
             kernel=[{window}, {window}] strides=[1, 1] pads=[[0, 0], [0, 0]] exclude_padding=true ceil_mode=false\n  \
             %y: f16[1, 4, {side}, {side}] = tanh(%m)\n  output %y\n}}\n"
        );
        let net = text::parse(&source, &[]).expect("well formed");
        let program =
            compile(&net, &CHIPS[0], &Options::default(), &mut ()).unwrap_or_else(|e| panic!("{window}: {e}"));
        assert_eq!(program.tasks().expect("a stream").len(), wanted, "{window}");
    }
    assert_eq!(tasks(&format!("{SUM}  %y: f16[1, 4, 8, 8] = tanh(%s)\n"), None, Compat::Own), 2);
    // Padding as wide as the window would leave windows of padding alone.
    let wide = PADDED.replace("[1, 1], [1, 1]] value", "[3, 3], [3, 3]] value").replace("10, 10]", "14, 14]");
    let wide = wide.replace("%y: f16[1, 4, 8, 8]", "%y: f16[1, 4, 12, 12]");
    assert_eq!(tasks(&wide, None, Compat::Own), 2);
}
