use super::becomes;
use anemone_compile::testing::convolve_tokens;

#[test]
fn a_product_of_tokens_that_become_planes_is_a_convolution() {
    becomes(
        convolve_tokens,
        r#"net "n" {
  input %x: f16[1, 6, 2]
  const %w: f16[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %l: f16[1, 6, 3] = linear(%x, %w)
  %g: f16[1, 6, 3] = relu(%l)
  %t: f16[1, 3, 6] = transpose(%g) perm=[0, 2, 1]
  %y: f16[1, 3, 2, 3] = reshape(%t)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 6, 2]
  %l.turned: f16[1, 2, 6] = transpose(%x) perm=[0, 2, 1] name="l"
  %l.planes: f16[1, 2, 2, 3] = reshape(%l.turned) name="l"
  const %l.weight: f16[3, 2, 1, 1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %l.planes.8: f16[1, 3, 2, 3] = conv(%l.planes, %l.weight) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1 name="l"
  %y: f16[1, 3, 2, 3] = relu(%l.planes.8) name="g"
  output %y
}
"#,
    );
}

#[test]
fn a_product_of_the_pixels_of_planes_is_a_convolution() {
    becomes(
        convolve_tokens,
        r#"net "n" {
  input %x: f16[1, 2, 2, 3]
  const %w: f16[1, 2] = [1.0, 2.0]
  const %b: f16[1] = [3.0]
  %t: f16[1, 2, 3, 2] = transpose(%x) perm=[0, 2, 3, 1]
  %g: f16[1, 2, 3, 2] = relu(%t)
  %y: f16[1, 2, 3, 1] = linear(%g, %w, %b)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 2, 2, 3]
  %t: f16[1, 2, 3, 2] = transpose(%x) perm=[0, 2, 3, 1]
  %g.planes: f16[1, 2, 2, 3] = relu(%x) name="g"
  const %y.weight: f16[1, 2, 1, 1] = [1.0, 2.0]
  const %b: f16[1] = [3.0]
  %y.planes: f16[1, 1, 2, 3] = conv(%g.planes, %y.weight, %b) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1 name="y"
  %y: f16[1, 2, 3, 1] = transpose(%y.planes) perm=[0, 2, 3, 1]
  output %y
}
"#,
    );
}

#[test]
fn products_of_tokens_stay_where_planes_gain_nothing() {
    // Tokens that two operations read, planes of several batches, and a transpose that leads to no planes.
    let linear = |batch: usize, between: &str, end: &str| {
        format!(
            "net \"n\" {{\n  input %x: f16[{batch}, 6, 2]\n  const %w: f16[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n  \
             %l: f16[{batch}, 6, 3] = linear(%x, %w)\n{between}  %t: f16[{batch}, 3, 6] = transpose(%l) perm=[0, 2, 1]\n{end}}}\n"
        )
    };
    for kept in [
        linear(1, "  %z: f16[1, 6, 3] = relu(%l)\n", "  %y: f16[1, 3, 2, 3] = reshape(%t)\n  output %z\n  output %y\n"),
        linear(2, "", "  %y: f16[2, 3, 2, 3] = reshape(%t)\n  output %y\n"),
        linear(1, "", "  %y: f16[1, 3, 6] = relu(%t)\n  output %y\n"),
        linear(1, "", "  %y: f16[1, 1, 3, 6] = reshape(%t)\n  output %y\n"),
    ] {
        becomes(convolve_tokens, &kept, &kept);
    }
}
