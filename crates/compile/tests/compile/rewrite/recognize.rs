use super::becomes;
use anemone_compile::testing::recognize;

const BEFORE: &str = r#"net "n" {
  input %x: f16[4]
  const %c: f16[1] = [-3.0]
  const %z: f16[1] = [0.0]
  %p: bool[4] = greater_equal(%x, %c)
  %t: f16[4] = select(%p, %x, %z)
  %h: f16[4] = sigmoid_hard(%x) alpha=ALPHA beta=0.5
  %y: f16[4] = mul(%t, %h)
  output %y
}
"#;

#[test]
fn the_logarithm_of_a_softmax_is_a_difference() {
    let before = "net \"n\" {\n  input %x: f16[2, 4]\n  %p: f16[2, 4] = softmax(%x) axis=1\n  %y: f16[2, 4] = log(%p) epsilon=1e-45\n  output %y\n}\n";
    let after = "  %p: f16[2, 4] = softmax(%x) axis=1\n  %y.sum: f16[2, 1] = reduce_log_sum_exp(%x) axes=[1] keep_dims=true name=\"y\"\n  \
                 %y.difference: f16[2, 4] = sub(%x, %y.sum) name=\"y\"\n  %y: f16[2, 4] = clip(%y.difference) min=-103.27893 max=inf\n";
    let start = before.find("  %p").expect("a softmax");
    let end = before.find("  output").expect("an output");
    becomes(recognize, before, &format!("{}{after}{}", &before[..start], &before[end..]));
    // An epsilon that fp16 holds is part of the result.
    let kept = before.replace("1e-45", "0.00001");
    becomes(recognize, &kept, &kept);
}

#[test]
fn hard_swish_needs_no_threshold() {
    let before = BEFORE.replace("ALPHA", "0.125");
    becomes(recognize, &before, &before);
    // A sixth in fp16 is zero up to -3.0007.
    let before = BEFORE.replace("ALPHA", "0.16662598");
    let limited = "  %y.limited: f16[4] = max(%x, %c) name=\"y\"\n  %y: f16[4] = mul(%y.limited";
    becomes(recognize, &before, &before.replace("  %y: f16[4] = mul(%t", limited));
    let of_choice = before.replace("sigmoid_hard(%x)", "sigmoid_hard(%t)");
    let after = of_choice.replace("select(%p, %x, %z)", "max(%x, %c)");
    becomes(recognize, &of_choice, &after);
}

/// A GELU by the error function and one by the hyperbolic tangent, with constants in fp16 and operations in other orders.
#[test]
fn a_gelu_that_is_spelled_out_is_one_operation() {
    let net =
        |constants: &str, ops: &str| format!("net \"n\" {{\n  input %x: f16[4]\n{constants}{ops}  output %y\n}}\n");
    let by_erf = net(
        "  const %r: f16[] = [1.4140625]\n  const %one: f16[] = [1.0]\n  const %half: f16[] = [0.5]\n",
        "  %d: f16[4] = div(%x, %r)\n  %e: f16[4] = erf(%d)\n  %s: f16[4] = add(%e, %one)\n  %m: f16[4] = mul(%x, %s)\n  %y: f16[4] = mul(%m, %half)\n",
    );
    let gelu = |before: &str, mode: &str| {
        let start = before.find("  %").expect("operations");
        format!("{}  %y: f16[4] = gelu(%x) mode={mode}\n  output %y\n}}\n", &before[..start])
    };
    becomes(recognize, &by_erf, &gelu(&by_erf, "exact"));
    let by_tanh = net(
        "  const %c: f16[] = [0.044708252]\n  const %k: f16[] = [0.7978516]\n  const %one: f16[] = [1.0]\n  const %half: f16[] = [0.5]\n  const %three: f16[] = [3.0]\n",
        "  %p: f16[4] = pow(%x, %three)\n  %q: f16[4] = mul(%p, %c)\n  %a: f16[4] = add(%x, %q)\n  %b: f16[4] = mul(%a, %k)\n  %t: f16[4] = tanh(%b)\n  \
         %s: f16[4] = add(%t, %one)\n  %h: f16[4] = mul(%half, %x)\n  %y: f16[4] = mul(%h, %s)\n",
    );
    becomes(recognize, &by_tanh, &gelu(&by_tanh, "tanh"));
    // Another function, and one whose parts are read elsewhere, stay.
    let other = by_erf.replace("[1.4140625]", "[1.5]");
    becomes(recognize, &other, &other);
    let read = by_erf.replace("  output %y", "  output %y\n  output %e");
    becomes(recognize, &read, &read);
}

#[test]
fn the_logarithm_of_a_sum_is_relative_to_its_greater_term() {
    let net = |first: &str, rest: &str| {
        format!(
            "net \"n\" {{\n  input %a: f16[4]\n  input %b: f16[4]\n{first}  %e: f16[4] = exp(%p)\n  %f: f16[4] = exp(%b)\n  %s: f16[4] = add(%e, %f)\n{rest}  output %y\n}}\n"
        )
    };
    let log = "  %y: f16[4] = log(%s) epsilon=0.0\n";
    let after = "  %y.most: f16[4] = max(%p, %b) name=\"y\"\n  %y.least: f16[4] = min(%p, %b) name=\"y\"\n  \
                 %y.apart: f16[4] = sub(%y.least, %y.most) name=\"y\"\n  %y.held: f16[4] = clip(%y.apart) min=-32.0 max=0.0 name=\"y\"\n  \
                 %y.rest: f16[4] = softplus(%y.held) name=\"y\"\n  %y: f16[4] = add(%y.most, %y.rest)\n";
    let plain = "  %p: f16[4] = mul(%a, %b)\n";
    becomes(recognize, &net(plain, log), &net(plain, after));
    // An exponent that is relative to the maximum already, and a sum that an epsilon is added to.
    let shifted = "  %m: f16[4] = max(%a, %b)\n  %p: f16[4] = sub(%a, %m)\n";
    becomes(recognize, &net(shifted, log), &net(shifted, log));
    let held = log.replace("0.0", "0.001");
    becomes(recognize, &net(plain, &held), &net(plain, &held));
}

#[test]
fn the_logarithm_of_a_value_with_a_small_lower_bound_keeps_it() {
    let net = |rest: &str| format!("net \"n\" {{\n  input %a: f16[4]\n{rest}  output %y\n}}\n");
    let bounded = |rest: &str, least: &str| {
        let inner = rest
            .replace("  %y: f16[4] = log", "  %y.log: f16[4] = log")
            .replace("epsilon=0.0\n", "epsilon=0.0 name=\"y\"\n");
        net(&format!("{inner}  %y: f16[4] = clip(%y.log) min={least} max=inf\n"))
    };
    let log = "  %y: f16[4] = log(%s) epsilon=0.0\n";
    let held = format!("  %s: f16[4] = clip(%a) min=1e-9 max=1000000.0\n{log}");
    becomes(recognize, &net(&held), &bounded(&held, "-20.723267"));
    let square = "  const %c: f16[1] = [1e-7]\n  %q: f16[4] = square(%a)\n";
    let added = format!("{square}  %s: f16[4] = add(%q, %c)\n{log}");
    becomes(recognize, &net(&added), &bounded(&added, "-15.942385"));
    // A value of any sign, and a limit that is a normal number.
    let any = added.replace("add(%q, %c)", "add(%a, %c)");
    becomes(recognize, &net(&any), &net(&any));
    let large = held.replace("1e-9", "0.001");
    becomes(recognize, &net(&large), &net(&large));
}
