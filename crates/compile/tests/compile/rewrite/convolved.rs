use anemone_compile::testing::convolve_affines;

fn becomes(source: &str, expected: &str) {
    super::becomes(
        |net, options, reasons| convolve_affines(net, &anemone_facts::chips::CHIPS[0], options, reasons),
        source,
        expected,
    );
}

/// `x * %g - %t` of two channels, in `batches` of `side` x 8 planes; with `factor_first` the product comes before the difference.
fn affine([batches, side]: [usize; 2], g: &str, t: &str, factor_first: bool) -> String {
    let shape = format!("[{batches}, 2, {side}, 8]");
    let (first, second) = if factor_first { ("mul(%x, %g)", "sub(%s, %t)") } else { ("sub(%x, %t)", "mul(%s, %g)") };
    format!(
        "net \"n\" {{\n  input %x: f16{shape}\n  const %g: f16[1, 2, 1, 1] = {g}\n  const %t: f16[2, 1, 1] = {t}\n  \
         %s: f16{shape} = {first}\n  %y: f16{shape} = {second}\n  output %y\n}}\n"
    )
}

#[test]
fn a_factor_and_an_addend_per_channel_become_one_convolution() {
    becomes(
        &affine([1, 8], "[2.0, 3.0]", "[0.5, 0.25]", true),
        r#"net "n" {
  input %x: f16[1, 2, 8, 8]
  const %s.weight: f32[2, 1, 1, 1] = [1.0, 1.5]
  const %s.bias: f32[2] = [-0.25, -0.125]
  %s: f16[1, 2, 8, 8] = conv(%x, %s.weight, %s.bias) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=2
  const %s.whole: f32[] = [2.0]
  %y: f16[1, 2, 8, 8] = mul(%s, %s.whole)
  output %y
}
"#,
    );
}

#[test]
fn an_affine_stays_where_a_convolution_costs_tasks_or_digits() {
    for kept in [
        // Several batches would be a task each.
        affine([2, 8], "[2.0, 3.0]", "[0.5, 0.25]", true),
        // Planes of one element.
        affine([1, 1], "[2.0, 3.0]", "[0.5, 0.25]", true).replace("1, 8]", "1, 1]"),
        // A difference of close numbers is exact, its factor comes later.
        affine([1, 8], "[2.0, 3.0]", "[0.5, 0.25]", false),
        // The array's resolution is coarser than results near 2^-6.
        affine([1, 8], "[2.0, 3.0]", "[0.015625, 0.0]", true),
        // A subnormal factor.
        affine([1, 8], "[2.0, 3.0517578e-5]", "[0.5, 0.25]", true),
    ] {
        becomes(&kept, &kept);
    }
}

/// The affine of means of windows with this padding, whose number of taps excludes it or not.
fn means(pads: &str, exclude_padding: bool) -> String {
    format!(
        "net \"n\" {{\n  input %x: f16[1, 2, 6, 4]\n  const %g: f16[1, 2, 1, 1] = [2.0, 3.0]\n  const %t: f16[2, 1, 1] = [0.5, 0.25]\n  \
         %m: f16[1, 2, 3, 2] = avg_pool(%x) kernel=[2, 2] strides=[2, 2] pads={pads} exclude_padding={exclude_padding} ceil_mode=false\n  \
         %s: f16[1, 2, 3, 2] = mul(%m, %g)\n  %y: f16[1, 2, 3, 2] = add(%s, %t)\n  output %y\n}}\n"
    )
}

#[test]
fn means_with_a_factor_and_an_addend_per_channel_become_one_convolution() {
    becomes(
        &means("[[0, 0], [0, 0]]", true),
        r#"net "n" {
  input %x: f16[1, 2, 6, 4]
  const %s.weight: f32[2, 1, 2, 2] = [0.25, 0.25, 0.25, 0.25, 0.375, 0.375, 0.375, 0.375]
  const %s.bias: f32[2] = [0.25, 0.125]
  %s: f16[1, 2, 3, 2] = conv(%x, %s.weight, %s.bias) strides=[2, 2] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=2
  const %s.whole: f32[] = [2.0]
  %y: f16[1, 2, 3, 2] = mul(%s, %s.whole)
  output %y
}
"#,
    );
}
