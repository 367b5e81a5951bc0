use super::becomes;
use anemone_compile::testing::convolve_means;
use anemone_facts::chips::CHIPS;

fn case(before: &str, after: &str) {
    becomes(|net, options, reasons| convolve_means(net, &CHIPS[0], options, reasons), before, after);
}

const WINDOW: &str = "strides=[1, 1] pads=[[1, 1], [1, 1]]";

/// The product of weight and gain differs from a ninth by less than 1e-6 of it.
#[test]
fn means_of_windows_become_depthwise_convolutions() {
    case(
        &format!(
            "net \"n\" {{\n  input %x: f16[1, 1, 16, 16]\n  %y: f16[1, 1, 16, 16] = avg_pool(%x) kernel=[3, 3] {WINDOW} \
             ceil_mode=false exclude_padding=false\n  output %y\n}}\n"
        ),
        &format!(
            "net \"n\" {{\n  input %x: f16[1, 1, 16, 16]\n  const %y.weight: f16[1, 1, 3, 3] = [{}]\n  \
             %y.sum: f16[1, 1, 16, 16] = conv(%x, %y.weight) {WINDOW} dilations=[1, 1] groups=1 name=\"y\"\n  \
             const %y.gain: f16[] = [1.0791016]\n  %y: f16[1, 1, 16, 16] = mul(%y.sum, %y.gain)\n  output %y\n}}\n",
            ["0.10296631"; 9].join(", ")
        ),
    );
}

#[test]
fn means_beside_the_border_have_factors() {
    let window = "strides=[2] pads=[[1, 0]]";
    case(
        &format!(
            "net \"n\" {{\n  input %x: f16[1, 1, 15]\n  %y: f16[1, 1, 8] = avg_pool(%x) kernel=[2] {window} \
             ceil_mode=false exclude_padding=true\n  output %y\n}}\n"
        ),
        &format!(
            "net \"n\" {{\n  input %x: f16[1, 1, 15]\n  const %y.weight: f16[1, 1, 2] = [0.5, 0.5]\n  \
             %y.sum: f16[1, 1, 8] = conv(%x, %y.weight) {window} dilations=[1] groups=1 name=\"y\"\n  \
             const %y.gain: f16[] = [1.0]\n  %y.whole: f16[1, 1, 8] = mul(%y.sum, %y.gain) name=\"y\"\n  \
             const %y.shares: f16[1, 1, 8] = [2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]\n  \
             %y: f16[1, 1, 8] = mul(%y.whole, %y.shares)\n  output %y\n}}\n"
        ),
    );
}

#[test]
fn means_of_small_elements_stay() {
    let kept = format!(
        "net \"n\" {{\n  input %x: f16[1, 1, 16, 16]\n  const %w: f16[1, 1, 1, 1] = [0.0009765625]\n  \
         %c: f16[1, 1, 16, 16] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  \
         %y: f16[1, 1, 16, 16] = avg_pool(%c) kernel=[3, 3] {WINDOW} ceil_mode=false exclude_padding=false\n  \
         output %y\n}}\n"
    );
    case(&kept, &kept);
}
