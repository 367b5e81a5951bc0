use super::becomes;
use anemone_compile::testing::sum_convolutions;

/// The sum of two convolutions of rows of two channels: weights `[extents] = [data]`, and attributes.
fn sum(one: [&str; 2], other: [&str; 2], read: &str) -> String {
    format!(
        "net \"n\" {{\n  input %x: f16[1, 2, 6]\n  input %z: f16[1, 2, 6]\n  const %v: f16{}\n  const %w: f16{}\n  \
         %a: f16[1, 2, 6] = conv(%x, %v) {}\n  %b: f16[1, 2, 6] = conv(%{read}, %w) {}\n  \
         %y: f16[1, 2, 6] = add(%a, %b)\n  output %y\n}}\n",
        one[0], other[0], one[1], other[1]
    )
}

const THREE: [&str; 2] = [
    "[2, 2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]",
    "strides=[1] pads=[[1, 1]] dilations=[1] groups=1",
];
/// One weight for each channel.
const SCALE: [&str; 2] = ["[2, 1, 1] = [0.5, 0.25]", "strides=[1] pads=[[0, 0]] dilations=[1] groups=2"];

#[test]
fn the_window_and_groups_of_one_enclose_those_of_the_other() {
    let merged = "net \"n\" {\n  input %x: f16[1, 2, 6]\n  input %z: f16[1, 2, 6]\n  \
         const %y.weight: f32[2, 2, 3] = [1.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.25, 12.0]\n  \
         const %y.bias: f32[2] = [0.0, 0.0]\n  \
         %y: f16[1, 2, 6] = conv(%x, %y.weight, %y.bias) strides=[1] pads=[[1, 1]] dilations=[1] groups=1\n  output %y\n}\n";
    becomes(sum_convolutions, &sum(THREE, SCALE, "x"), merged);
    becomes(sum_convolutions, &sum(SCALE, THREE, "x"), merged);
}

#[test]
fn the_operand_itself_is_a_factor_of_one() {
    let sum = sum(THREE, SCALE, "x").replace("add(%a, %b)", "add(%x, %a)");
    let merged = "net \"n\" {\n  input %x: f16[1, 2, 6]\n  input %z: f16[1, 2, 6]\n  const %w: f16[2, 1, 1] = [0.5, 0.25]\n  \
         %b: f16[1, 2, 6] = conv(%x, %w) strides=[1] pads=[[0, 0]] dilations=[1] groups=2\n  \
         const %y.weight: f32[2, 2, 3] = [1.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 12.0]\n  \
         const %y.bias: f32[2] = [0.0, 0.0]\n  \
         %y: f16[1, 2, 6] = conv(%x, %y.weight, %y.bias) strides=[1] pads=[[1, 1]] dilations=[1] groups=1\n  output %y\n}\n";
    becomes(sum_convolutions, &sum, merged);
}

#[test]
fn other_sums_stay() {
    let pairs = "[2, 1, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]";
    for kept in [
        // Another operand.
        sum(THREE, SCALE, "z"),
        // The window is enclosed, more channels are not.
        sum(
            [pairs, "strides=[1] pads=[[1, 1]] dilations=[1] groups=2"],
            ["[2, 2, 1] = [1.0, 2.0, 3.0, 4.0]", "strides=[1] pads=[[0, 0]] dilations=[1] groups=1"],
            "x",
        ),
        // Windows that begin at different elements.
        sum(
            [pairs, "strides=[1] pads=[[0, 2]] dilations=[1] groups=2"],
            [pairs, "strides=[1] pads=[[2, 0]] dilations=[1] groups=2"],
            "x",
        ),
        // A gap between the elements of a window.
        sum(THREE, [pairs, "strides=[1] pads=[[2, 2]] dilations=[2] groups=2"], "x"),
        // A branch with another reader.
        sum(THREE, SCALE, "x").replace("  output %y", "  output %y\n  output %a"),
    ] {
        becomes(sum_convolutions, &kept, &kept);
    }
}
