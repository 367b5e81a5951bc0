use super::becomes;
use anemone_compile::Options;
use anemone_compile::testing::{Remarks, scale_small_terms};
use anemone_net::{OpKind, compress, text};
use std::sync::Arc;

#[test]
fn small_terms_grow_and_the_result_is_divided() {
    becomes(
        scale_small_terms,
        r#"net "n" {
  input %x: f16[1, 4]
  const %w: f16[2, 4] = [0.001953125, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.001953125]
  const %b: f16[2] = [0.0, 0.5]
  %t: f16[1, 4] = tanh(%x)
  %y: f16[1, 2] = linear(%t, %w, %b)
  %z: f16[1, 2] = relu(%y)
  output %z
}
"#,
        r#"net "n" {
  input %x: f16[1, 4]
  %t: f16[1, 4] = tanh(%x)
  const %y.weight: f16[2, 4] = [0.03125, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03125]
  const %y.bias: f32[2] = [0.0, 8.0]
  %y.scaled: f16[1, 2] = linear(%t, %y.weight, %y.bias) name="y"
  const %y.unscale: f16[] = [0.0625]
  %y: f16[1, 2] = mul(%y.scaled, %y.unscale)
  %z: f16[1, 2] = relu(%y)
  output %z
}
"#,
    );
}

#[test]
fn a_product_between_products_stays_scaled() {
    becomes(
        scale_small_terms,
        r#"net "n" {
  input %x: f16[1, 2]
  const %w: f16[2, 2] = [0.0078125, 0.0, 0.0, 0.0078125]
  const %v: f16[2, 2] = [0.5, 0.0, 0.0, 0.5]
  %t: f16[1, 2] = tanh(%x)
  %y: f16[1, 2] = linear(%t, %w)
  %z: f16[1, 2] = linear(%y, %v)
  output %z
}
"#,
        r#"net "n" {
  input %x: f16[1, 2]
  %t: f16[1, 2] = tanh(%x)
  const %y.weight: f16[2, 2] = [0.03125, 0.0, 0.0, 0.03125]
  %y: f16[1, 2] = linear(%t, %y.weight)
  const %v: f16[2, 2] = [0.5, 0.0, 0.0, 0.5]
  %z.scaled: f16[1, 2] = linear(%y, %v) name="z"
  const %z.unscale: f16[] = [0.25]
  %z: f16[1, 2] = mul(%z.scaled, %z.unscale)
  output %z
}
"#,
    );
}

#[test]
fn a_small_token_beside_others_makes_terms_grow() {
    becomes(
        scale_small_terms,
        r#"net "n" {
  input %x: f16[1, 3, 4]
  const %c: f16[1, 1, 4] = [0.000001, -0.000001, 0.000001, -0.000001]
  const %w: f16[2, 4] = [0.0625, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0625]
  %t: f16[1, 4, 4] = concat(%c, %x) axis=1
  %n: f16[1, 4, 4] = layer_norm(%t) axes=[2] epsilon=1e-6
  %y: f16[1, 4, 2] = linear(%n, %w)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 3, 4]
  const %c: f16[1, 1, 4] = [0.000001013279, -0.000001013279, 0.000001013279, -0.000001013279]
  %t: f16[1, 4, 4] = concat(%c, %x) axis=1
  %n: f16[1, 4, 4] = layer_norm(%t) axes=[2] epsilon=1e-6
  const %y.weight: f16[2, 4] = [32.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 32.0]
  %y.scaled: f16[1, 4, 2] = linear(%n, %y.weight) name="y"
  const %y.unscale: f16[] = [0.001953125]
  %y: f16[1, 4, 2] = mul(%y.scaled, %y.unscale)
  output %y
}
"#,
    );
}

/// The mean of 64 elements is an eighth of their usual size if their signs differ.
#[test]
fn means_of_many_elements_are_small() {
    becomes(
        scale_small_terms,
        r#"net "n" {
  input %x: f16[1, 64, 4]
  const %w: f16[2, 4] = [0.0625, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0625]
  %t: f16[1, 64, 4] = tanh(%x)
  %m: f16[1, 4] = reduce_mean(%t) axes=[1] keep_dims=false
  %y: f16[1, 2] = linear(%m, %w)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 64, 4]
  %t: f16[1, 64, 4] = tanh(%x)
  %m: f16[1, 4] = reduce_mean(%t) axes=[1] keep_dims=false
  const %y.weight: f16[2, 4] = [0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25]
  %y.scaled: f16[1, 2] = linear(%m, %y.weight) name="y"
  const %y.unscale: f16[] = [0.25]
  %y: f16[1, 2] = mul(%y.scaled, %y.unscale)
  output %y
}
"#,
    );
}

/// Sums of 64 terms of 2^-9 and operands up to 65504 overflow if they are scaled.
#[test]
fn operands_without_a_bound_stay() {
    let weights = ["0.001953125"; 64].join(", ");
    let net = format!(
        r#"net "n" {{
  input %x: f16[5, 64]
  const %w: f16[1, 64] = [{weights}]
  %y: f16[5, 1] = linear(%x, %w)
  output %y
}}
"#
    );
    becomes(scale_small_terms, &net, &net);
}

#[test]
fn weights_too_small_for_any_operand_to_overflow_grow() {
    let before = r#"net "n" {
  input %x: f16[5, 2]
  const %w: f16[2, 2] = [0.0009765625, 0.0, 0.0, 0.0009765625]
  %y: f16[5, 2] = linear(%x, %w)
  output %y
}
"#;
    let after = r#"net "n" {
  input %x: f16[5, 2]
  const %y.weight: f16[2, 2] = [0.03125, 0.0, 0.0, 0.03125]
  %y.scaled: f16[5, 2] = linear(%x, %y.weight) name="y"
  const %y.unscale: f16[] = [0.03125]
  %y: f16[5, 2] = mul(%y.scaled, %y.unscale)
  output %y
}
"#;
    becomes(scale_small_terms, before, after);
}

#[test]
fn integers_with_scales_stay_integers() {
    let text = "net \"n\" {\n  input %x: f16[1, 4]\n  const %w: f16[2, 4] = [0.001953125, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.001953125]\n  \
                %t: f16[1, 4] = tanh(%x)\n  %y: f16[1, 2] = linear(%t, %w)\n  output %y\n}\n";
    let mut net = text::parse(text, &[]).expect("the text parses");
    let weights = net.values.iter_mut().find_map(|value| value.data.as_mut()).expect("weights");
    *weights = Arc::new(compress::int8(weights).expect("integers"));
    let before = weights.data.to_f32();
    scale_small_terms(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
    let product = net.ops.iter().find(|op| op.kind == OpKind::Linear).expect("a product");
    let after = net.value(product.inputs[1]).data.as_ref().expect("weights");
    assert!(compress::Compression::of(&after.data).scaled.is_some());
    assert_eq!(after.data.to_f32(), before.iter().map(|w| w * 32.0).collect::<Vec<_>>());
}

#[test]
fn few_rows_with_small_terms_are_computed_twice() {
    let [weights, grown] = ["0.000244140625", "0.015625"].map(|weight| [weight; 512].join(", "));
    let before = format!(
        r#"net "n" {{
  input %x: f16[1, 512]
  const %w: f16[1, 512] = [{weights}]
  const %b: f16[1] = [0.5]
  %r: f16[1, 512] = relu(%x)
  %y: f16[1, 1] = linear(%r, %w, %b)
  output %y
}}
"#
    );
    let after = format!(
        r#"net "n" {{
  input %x: f16[1, 512]
  %r: f16[1, 512] = relu(%x)
  const %w: f16[1, 512] = [{weights}]
  const %b: f16[1] = [0.5]
  %y.plain: f16[1, 1] = linear(%r, %w, %b) name="y"
  const %y.weight: f16[1, 512] = [{grown}]
  const %y.bias: f32[1] = [32.0]
  %y.scaled: f16[1, 1] = linear(%r, %y.weight, %y.bias) name="y"
  const %y.unscale: f16[] = [0.015625]
  %y.fine: f16[1, 1] = mul(%y.scaled, %y.unscale) name="y"
  const %y.error: f16[] = [0.015655517578125]
  %y.above: f16[1, 1] = add(%y.plain, %y.error) name="y"
  %y.less: f16[1, 1] = min(%y.fine, %y.above) name="y"
  %y.below: f16[1, 1] = sub(%y.plain, %y.error) name="y"
  %y: f16[1, 1] = max(%y.less, %y.below)
  output %y
}}
"#
    );
    becomes(scale_small_terms, &before, &after);
    // A selection is a function of elements too.
    let chosen = |net: &str| {
        net.replace(
            "  output %y\n",
            "  const %c: bool[1, 1] = [true]\n  %z: f16[1, 1] = select(%c, %y, %y)\n  output %z\n",
        )
    };
    becomes(scale_small_terms, &chosen(&before), &chosen(&after));
    // An input of the network.
    let of_input = before.replace("linear(%r", "linear(%x");
    becomes(scale_small_terms, &of_input, &of_input);
}

#[test]
fn a_scale_stays_below_the_bound_of_sums() {
    let net = r#"net "n" {
  input %x: f16[1, 2]
  const %w: f16[2, 2] = [0.001, 0.0, 0.0, 0.001]
  const %b: f16[2] = [0.0, 8192.0]
  %t: f16[1, 2] = tanh(%x)
  %y: f16[1, 2] = linear(%t, %w, %b)
  output %y
}
"#;
    becomes(scale_small_terms, net, net);
}

#[test]
fn terms_grow_where_bounds_do_and_values_do_not() {
    let weight = |name: &str, value: &str| format!("  const %{name}: f16[4, 4] = [{}]\n", vec![value; 16].join(", "));
    let scaled = |first: &str| {
        let mut source = format!("net \"n\" {{\n  input %x: f16[1, 4]\n{}", weight("v", "0.5"));
        source += &weight("w", "0.00048828125");
        source += &format!("  %a0: f16[1, 4] = {first}\n");
        for i in 0..24 {
            source += &format!("  %a{}: f16[1, 4] = linear(%a{i}, %v)\n", i + 1);
        }
        source += "  %y: f16[1, 4] = linear(%a24, %w)\n  output %y\n}\n";
        let mut net = anemone_net::text::parse(&source, &[]).expect("the case parses");
        scale_small_terms(&mut net, &Default::default(), &mut Default::default()).expect("it succeeds");
        anemone_net::text::print(&net).0.contains("unscale")
    };
    // Bounds double in every layer, usual values stay.
    assert!(scaled("tanh(%x)"));
}

/// A network's input may have any size, and so may all that follows from it but products.
#[test]
fn the_usual_size_behind_a_product_bounds_a_scale() {
    let diagonal: Vec<&str> = (0..64 * 64).map(|at| if at % 65 == 0 { "0.5" } else { "0.0" }).collect();
    let (diagonal, weights) = (diagonal.join(", "), ["0.001953125"; 64].join(", "));
    let source = |first: &str, rest: &str| {
        format!(
            r#"net "n" {{
  input %x: f16[1, 64]
  const %v: f16[64, 64] = [{diagonal}]
  const %w: f16[1, 64] = [{weights}]
  %a: f16[1, 64] = {first}
  %y: f16[1, 1] = linear(%a, %w)
{rest}  output %z
}}
"#
        )
    };
    let scale = |first: &str, rest: &str| {
        let mut net = text::parse(&source(first, rest), &[]).expect("the case parses");
        scale_small_terms(&mut net, &Options::default(), &mut Remarks::default()).expect("it succeeds");
        let unscale = net.values.iter().find(|value| value.name.ends_with("unscale"));
        unscale.and_then(|value| value.data.as_ref()).map_or(1.0, |t| 1.0 / t.data.to_f32()[0])
    };
    let relu = "  %z: f16[1, 1] = relu(%y)\n";
    assert_eq!(scale("silu(%x)", relu), 1.0);
    assert_eq!(scale("linear(%x, %v)", relu), 16.0);
    // The gain has both factors, and is a normal number.
    let small = |factor: &str| format!("  const %s: f16[1, 1] = [{factor}]\n  %z: f16[1, 1] = mul(%y, %s)\n");
    assert_eq!(scale("linear(%x, %v)", &small("0.00390625")), 16.0);
    assert_eq!(scale("linear(%x, %v)", &small("0.0009765625")), 16.0);
    assert_eq!(scale("linear(%x, %v)", &small("0.0001")), 1.0);
}

/// A limit beyond zero, as the parts of a hard swish have it, does not make values greater.
#[test]
fn limits_beyond_zero_keep_sizes() {
    let weights = |middle: &str| {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 4]\n  const %c: f16[] = [-3.0]\n  const %w: f16[1, 4] = [0.001953125, 0.0, 0.0, 0.0]\n  \
             %t: f16[1, 4] = tanh(%x)\n  %m: f16[1, 4] = {middle}\n  %y: f16[1, 1] = linear(%m, %w)\n  output %y\n}}\n"
        );
        let mut net = anemone_net::text::parse(&source, &[]).expect("the case parses");
        scale_small_terms(&mut net, &Default::default(), &mut Default::default()).expect("it succeeds");
        let text = anemone_net::text::print(&net).0;
        text.lines().filter(|line| line.contains("const %y")).map(String::from).collect::<Vec<_>>()
    };
    let plain = weights("abs(%t)");
    assert!(!plain.is_empty());
    assert_eq!(weights("max(%t, %c)"), plain);
    assert_eq!(weights("max(%c, %t)"), plain);
    assert_ne!(weights("min(%t, %c)"), plain);
}

#[test]
fn a_later_factor_bounds_the_sums_of_an_unbounded_operand() {
    becomes(
        scale_small_terms,
        r#"net "n" {
  input %x: f16[1, 4]
  const %w: f16[2, 4] = [0.001953125, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.001953125]
  const %s: f16[1] = [64.0]
  %y: f16[1, 2] = linear(%x, %w)
  %z: f16[1, 2] = mul(%y, %s)
  output %z
}
"#,
        r#"net "n" {
  input %x: f16[1, 4]
  const %y.weight: f16[2, 4] = [0.03125, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03125]
  %y.scaled: f16[1, 2] = linear(%x, %y.weight) name="y"
  const %y.unscale: f16[] = [0.0625]
  %y: f16[1, 2] = mul(%y.scaled, %y.unscale)
  const %s: f16[1] = [64.0]
  %z: f16[1, 2] = mul(%y, %s)
  output %z
}
"#,
    );
}

/// Directions of unit length, and their squares, are small where they have many elements.
#[test]
fn quotients_by_their_own_norms_are_small() {
    let text = |norm: &str| {
        format!(
            "net \"n\" {{\n  input %x: f16[1, 4, 2, 2]\n  const %tiny: f16[] = [0.0000001]\n  const %two: f16[] = [2.0]\n  \
             const %w: f16[1, 4, 1, 1] = [0.02, 0.02, 0.04, 0.02]\n{norm}  %d: f16[1, 4, 2, 2] = div(%x, %n)\n  \
             %p: f16[1, 4, 2, 2] = pow(%d, %two)\n  \
             %y: f16[1, 1, 2, 2] = conv(%p, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  output %y\n}}\n"
        )
    };
    let squares = "  %s: f16[1, 4, 2, 2] = square(%x)\n";
    let norms = [
        "  %n: f16[1, 1, 2, 2] = reduce_l2(%x) axes=[1] keep_dims=true\n".to_string(),
        format!(
            "{squares}  %q: f16[1, 1, 2, 2] = reduce_sum(%s) axes=[1] keep_dims=true\n  %r: f16[1, 1, 2, 2] = sqrt(%q)\n  \
             %n: f16[1, 1, 2, 2] = add(%r, %tiny)\n"
        ),
        "  %q: f16[1, 1, 2, 2] = reduce_sum_square(%x) axes=[1] keep_dims=true\n  %r: f16[1, 1, 2, 2] = sqrt(%q)\n  \
         %n: f16[1, 1, 2, 2] = max(%r, %tiny)\n"
            .to_string(),
    ];
    for norm in norms {
        let mut net = text::parse(&text(&norm), &[]).expect("the text parses");
        scale_small_terms(&mut net, &Options::default(), &mut Remarks::default()).expect("scaled");
        assert!(text::print(&net).0.contains("%y.unscale"), "{norm}");
    }
    // The quotient by the norm of another value may be of any size.
    let other = "  %r: f16[1, 4, 2, 2] = relu(%x)\n  %n: f16[1, 1, 2, 2] = reduce_l2(%r) axes=[1] keep_dims=true\n";
    let mut net = text::parse(&text(other), &[]).expect("the text parses");
    scale_small_terms(&mut net, &Options::default(), &mut Remarks::default()).expect("unchanged");
    assert!(!text::print(&net).0.contains("%y.unscale"));
}
