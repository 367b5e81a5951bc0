use super::{becomes, decompose};

#[test]
fn a_batch_norm_is_an_affine() {
    becomes(
        decompose,
        r#"net "n" {
  input %x: f16[1, 2, 1, 1]
  const %m: f16[2] = [1.0, 0.0]
  const %v: f16[2] = [1.0, 4.0]
  %y: f16[1, 2, 1, 1] = batch_norm(%x, %m, %v) epsilon=0.0
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 2, 1, 1]
  const %y.scale: f32[1, 2, 1, 1] = [1.0, 0.5]
  %y.scaled: f16[1, 2, 1, 1] = mul(%x, %y.scale) name="y"
  const %y.shift: f32[1, 2, 1, 1] = [-1.0, 0.0]
  %y: f16[1, 2, 1, 1] = add(%y.scaled, %y.shift)
  output %y
}
"#,
    );
}

#[test]
fn a_gather_is_slices_side_by_side() {
    becomes(
        decompose,
        r#"net "n" {
  input %x: f16[4, 2]
  const %i: i32[3] = [3, 0, 1]
  %y: f16[3, 2] = gather(%x, %i) axis=0
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[4, 2]
  %y.part: f16[1, 2] = slice(%x) begin=[3, 0] end=[4, 2] stride=[1, 1] name="y"
  %y.part.4: f16[2, 2] = slice(%x) begin=[0, 0] end=[2, 2] stride=[1, 1] name="y"
  %y.joined: f16[3, 2] = concat(%y.part, %y.part.4) axis=0 name="y"
  %y: f16[3, 2] = reshape(%y.joined)
  output %y
}
"#,
    );
}

#[test]
fn an_axis_beyond_the_limits_is_reduced_in_two_stages() {
    let net = |shape: &str, axis: &str, result: &str| {
        format!(
            "net \"n\" {{\n  input %x: f16{shape}\n  %y: f16{result} = reduce_max(%x) axes=[{axis}] keep_dims=true\n  output %y\n}}\n"
        )
    };
    becomes(
        decompose,
        &net("[3, 20000]", "1", "[3, 1]"),
        r#"net "n" {
  input %x: f16[3, 20000]
  %y.split: f16[480, 125] = reshape(%x) name="y"
  %y.partial: f16[480] = reduce_max(%y.split) axes=[1] keep_dims=false name="y"
  %y.again: f16[3, 160] = reshape(%y.partial) name="y"
  %y.reduced: f16[3] = reduce_max(%y.again) axes=[1] keep_dims=false name="y"
  %y: f16[3, 1] = reshape(%y.reduced)
  output %y
}
"#,
    );
    becomes(
        decompose,
        &net("[1, 65536, 2, 2]", "1", "[1, 1, 2, 2]"),
        r#"net "n" {
  input %x: f16[1, 65536, 2, 2]
  %y.split: f16[256, 256, 2, 2] = reshape(%x) name="y"
  %y.partial: f16[256, 2, 2] = reduce_max(%y.split) axes=[1] keep_dims=false name="y"
  %y.again: f16[1, 256, 2, 2] = reshape(%y.partial) name="y"
  %y.reduced: f16[1, 2, 2] = reduce_max(%y.again) axes=[1] keep_dims=false name="y"
  %y: f16[1, 1, 2, 2] = reshape(%y.reduced)
  output %y
}
"#,
    );
    let both = net("[1, 2, 4, 20000]", "2, 3", "[1, 2, 1, 1]");
    becomes(
        decompose,
        &both,
        r#"net "n" {
  input %x: f16[1, 2, 4, 20000]
  %y.split: f16[640, 250] = reshape(%x) name="y"
  %y.partial: f16[640] = reduce_max(%y.split) axes=[1] keep_dims=false name="y"
  %y.again: f16[2, 320] = reshape(%y.partial) name="y"
  %y.reduced: f16[2] = reduce_max(%y.again) axes=[1] keep_dims=false name="y"
  %y: f16[1, 2, 1, 1] = reshape(%y.reduced)
  output %y
}
"#,
    );
    for kept in [
        net("[3, 16384]", "1", "[3, 1]"),
        net("[2, 4, 16384]", "1, 2", "[2, 1, 1]"),
        // Axes that are no neighbours.
        net("[4, 2, 20000]", "0, 2", "[1, 2, 1]"),
        // A prime number of elements.
        net("[3, 65521]", "1", "[3, 1]"),
        // Channels with planes, as many as one task counts.
        net("[1, 20000, 4, 4]", "1", "[1, 1, 4, 4]"),
    ] {
        becomes(decompose, &kept, &kept);
    }
}

/// Groups of channels have the rows of the planes that they were made of; other rows are divided.
#[test]
fn a_norm_of_long_rows_is_one_of_shorter_rows() {
    let before = |x: &str, inner: &str, y: &str| {
        format!(
            r#"net "n" {{
  input %x: f16{x}
  const %g: f16[2] = [2.0, 3.0]
  const %b: f16[2] = [0.5, 1.0]
  %a: f16{inner} = reshape(%x)
  %n: f16{inner} = instance_norm(%a, %g, %b) epsilon=1e-5
  %y: f16{y} = reshape(%n)
  output %y
}}
"#
        )
    };
    let after = |x: &str, inner: &str, rows: &str, y: &str| {
        format!(
            r#"net "n" {{
  input %x: f16{x}
  %a: f16{inner} = reshape(%x)
  %n.rows: f16{rows} = reshape(%x) name="n"
  %n.normed: f16{rows} = layer_norm(%n.rows) axes=[2, 3] epsilon=1e-5 name="n"
  const %n.gamma: f32[1, 2, 1, 1] = [2.0, 3.0]
  %n.scaled: f16{rows} = mul(%n.normed, %n.gamma) name="n"
  const %n.beta: f32[1, 2, 1, 1] = [0.5, 1.0]
  %n.of_rows: f16{rows} = add(%n.scaled, %n.beta) name="n"
  %n: f16{inner} = reshape(%n.of_rows)
  %y: f16{y} = reshape(%n.of_rows)
  output %y
}}
"#
        )
    };
    let planes = "[1, 4, 128, 96]";
    becomes(
        decompose,
        &before(planes, "[1, 2, 24576]", planes),
        &after(planes, "[1, 2, 24576]", "[1, 2, 256, 96]", planes),
    );
    let long = "[1, 4, 20000]";
    becomes(decompose, &before(long, "[1, 2, 40000]", long), &after(long, "[1, 2, 40000]", "[1, 2, 200, 200]", long));
}
