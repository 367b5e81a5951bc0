use super::becomes;
use anemone_compile::testing::scale_portions;

/// Scores of queries and keys that are channels of one product with these weights, with a factor of the queries.
fn scores(weights: &str, factor: &str, also: &str) -> String {
    format!(
        r#"net "n" {{
  input %x: f32[3, 1]
  const %w: f32[4, 1] = [{weights}]
  %p: f32[3, 4] = linear(%x, %w)
  %r: f32[3, 2, 2] = reshape(%p)
  %t: f32[2, 3, 2] = transpose(%r) perm=[1, 0, 2]
  %q: f32[1, 3, 2] = slice(%t) begin=[0, 0, 0] end=[1, 3, 2] stride=[1, 1, 1]
  %k: f32[1, 3, 2] = slice(%t) begin=[{also}, 0, 0] end=[2, 3, 2] stride=[1, 1, 1]
  const %c: f32[] = [{factor}]
  %s: f32[1, 3, 2] = mul(%q, %c)
  %y: f32[1, 3, 3] = matmul(%s, %k) transpose_x=false transpose_y=true
  output %y
}}
"#
    )
}

/// The same with the factor in the weights.
const SCALED: &str = r#"net "n" {
  input %x: f32[3, 1]
  const %p.weight: f32[4, 1] = [WEIGHTS]
  %p: f32[3, 4] = linear(%x, %p.weight)
  %r: f32[3, 2, 2] = reshape(%p)
  %t: f32[2, 3, 2] = transpose(%r) perm=[1, 0, 2]
  %Q: f32[1, 3, 2] = slice(%t) begin=[0, 0, 0] end=[1, 3, 2] stride=[1, 1, 1] name="q"
  %k: f32[1, 3, 2] = slice(%t) begin=[1, 0, 0] end=[2, 3, 2] stride=[1, 1, 1]
REST  %y: f32[1, 3, 3] = matmul(%s, %k) transpose_x=false transpose_y=true
  output %y
}
"#;

#[test]
fn a_factor_of_some_channels_goes_into_their_weights() {
    let after = SCALED.replace("WEIGHTS", "0.030000001, 0.060000002, 0.3, 0.4").replace("%Q", "%s").replace("REST", "");
    becomes(scale_portions, &scores("0.1, 0.2, 0.3, 0.4", "0.3", "1"), &after);
}

#[test]
fn weights_of_fp16_take_a_power_of_two() {
    let rest = "  const %p.rest: f32[] = [1.2]\n  %s: f32[1, 3, 2] = mul(%q, %p.rest)\n";
    let after = SCALED.replace("WEIGHTS", "0.25, 0.5, 1.0, 2.0").replace("%Q", "%q").replace("REST", rest);
    becomes(scale_portions, &scores("1.0, 2.0, 1.0, 2.0", "0.3", "1"), &after);
}

#[test]
fn a_factor_stays_where_others_read_the_channels_or_tasks_apply_it() {
    for (factor, also) in [("0.3", "0"), ("0.25", "1")] {
        let kept = scores("0.1, 0.2, 0.3, 0.4", factor, also);
        let kept =
            if also == "0" { kept.replace("%k: f32[1", "%k: f32[2").replace("%y: f32[1", "%y: f32[2") } else { kept };
        becomes(scale_portions, &kept, &kept);
    }
}
