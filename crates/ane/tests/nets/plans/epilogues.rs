//! Convolutions that compute the chains around them.

use super::*;
use anemone_engine::kernels::isa;

/// A constant of small numbers.
fn constant(name: &str, shape: [usize; 4]) -> String {
    let count: usize = shape.iter().product();
    let values: Vec<String> = (0..count).map(|i| format!("{}", ((i * 29 + 7) % 23) as f32 / 64.0 - 0.1)).collect();
    format!("const %{name}: f16{shape:?} = [{}] ", values.join(", "))
}

/// A convolution from `from` to `to` of some channels.
fn conv(to: &str, from: &str, [channels, side, pad, groups]: [usize; 4]) -> String {
    format!(
        "%{to}: f16[1, {channels}, {side}, {side}] = conv(%{from}, %w{to}) strides=[1, 1] pads=[[{pad}, {pad}], [{pad}, {pad}]] \
         dilations=[1, 1] groups={groups} "
    )
}

/// Inverted residuals with a SiLU behind three convolutions, the last of which is added to something, and factors before it, on planes of several widths: where tables are
/// computed in vectors, the convolutions compute them, with the bits of their tasks.
#[test]
fn convolutions_compute_the_tables_behind_them() {
    for side in [7, 14, 24] {
        let silu = |to: &str, from: &str, c: usize| format!("%{to}: f16[1, {c}, {side}, {side}] = silu(%{from}) ");
        let body = constant("wa", [96, 24, 1, 1])
            + &constant("wb", [96, 1, 5, 5])
            + &constant("wc", [24, 96, 1, 1])
            + &conv("a", "x", [96, side, 0, 1])
            + &silu("sa", "a", 96)
            + &conv("b", "sa", [96, side, 2, 96])
            + &silu("sb", "b", 96)
            + &format!("%m: f16[1, 96, {side}, {side}] = mul(%sb, %s) ")
            + &conv("c", "m", [24, side, 0, 1])
            + &silu("sc", "c", 24)
            + &format!("%y: f16[1, 24, {side}, {side}] = add(%sc, %x) ");
        let source =
            format!("net \"n\" {{ input %x: f16[1, 24, {side}, {side}] input %s: f16[1, 96, 1, 1] {body} output %y }}");
        let net = text::parse(&source, &[]).expect("a network");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("compiles");
        let plan = Plan::new(&program, EngineOptions::default()).expect("a plan");
        let passes = plan.passes();
        let text = |name: &str| passes.iter().find(|pass| pass.name == name).map_or("", |pass| &pass.text);
        let factors = text("factors").matches(" with factors").count();
        assert_eq!(factors, 1, "{side}: {}", text("factors"));
        // The last chain is as short as a table is long where planes are small.
        let all = if side > 7 { 3 } else { 2 };
        let (tables, wanted) =
            (text("epilogues").matches(", table ; ").count(), if isa::name() == "v4" { all } else { 0 });
        assert_eq!(tables, wanted, "{side}: {}", text("epilogues"));
        assert_eq!(
            text("inverted").matches("fused convolutions").count(),
            wanted.min(1),
            "{side}: {}",
            text("inverted")
        );
        same_on_threads(&format!("tables behind {side}"), &program);
    }
}

/// Depthwise and pointwise convolutions by turns, with a SiLU behind each: the compiler places results alternately, and the engine moves those
/// that the next convolution would overwrite. Linear layers have rows of tokens in place of planes.
#[test]
fn tables_are_computed_where_memory_is_reused() {
    let (c, side) = (64, 40);
    let mut planes = String::new();
    for (i, k) in [1, 3, 1, 3, 1].into_iter().enumerate() {
        let from = if i == 0 { "x".into() } else { format!("s{}", i - 1) };
        let (per_group, groups) = if k == 1 { (c, 1) } else { (1, c) };
        planes += &constant(&format!("wc{i}"), [c, per_group, k, k]);
        planes += &conv(&format!("c{i}"), &from, [c, side, k / 2, groups]);
        planes += &format!("%s{i}: f16[1, {c}, {side}, {side}] = silu(%c{i}) ");
    }
    let planes = format!("input %x: f16[1, {c}, {side}, {side}] {planes} output %s4");
    let linear = |name: &str, shape: [usize; 2]| constant(name, [1, 1, shape[0], shape[1]]).replace("[1, 1, ", "[");
    let tokens = format!(
        "input %x: f16[1, 100, 48] {} {} %a: f16[1, 100, 96] = linear(%x, %wa) %g: f16[1, 100, 96] = gelu(%a) mode=exact \
         %y: f16[1, 100, 48] = linear(%g, %wb) output %y",
        linear("wa", [96, 48]),
        linear("wb", [48, 96])
    );
    for (body, all) in [(planes, 5), (tokens, 1)] {
        let net = text::parse(&format!("net \"n\" {{ {body} }}"), &[]).expect("a network");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("compiles");
        let plan = Plan::new(&program, EngineOptions::default()).expect("a plan");
        let passes = plan.passes();
        let text = passes.iter().find(|pass| pass.name == "epilogues").map_or("", |pass| &pass.text);
        let wanted = if isa::name() == "v4" { all } else { 0 };
        assert_eq!(text.matches(", table ; ").count(), wanted, "{text} {}", passes[0].text);
        same_on_threads("tables where memory is reused", &program);
    }
}
