//! Networks of any size are compared with fp32, and the report says which are.

use crate::ane;
use crate::harness::*;

/// Reciprocals of sums of 256 products.
const LARGE: &str = r#"program(1.3)
{
  func main<ios18>(tensor<fp16, [256, 256]> x) {
    tensor<fp16, [256, 256]> p = matmul(x = x, y = x, transpose_x = bool(false), transpose_y = bool(false))[name = string("p")];
    tensor<fp16, [256, 256]> y = inverse(x = p, epsilon = fp16(0))[name = string("y")];
  } -> (y);
}
"#;

#[test]
fn values_beyond_fp16_that_become_finite_are_told_in_large_networks() {
    let scratch = Scratch::new();
    let model = scratch.file("model.mil", LARGE);
    let filled = |value: f32| {
        let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), 256 * 256).flatten().collect();
        scratch.file("x.npy", npy("<f4", false, "(256, 256)", &bytes))
    };
    let told = |value: f32| {
        let ran = ane!("run", model, "--json", "--input", filled(value)).fine();
        let report = ran.json("anemone.run/1");
        assert_eq!(report["compared_with_fp32"], true);
        report["warnings"].to_string()
    };
    assert_eq!(told(1.0), "[]");
    // 102400 is infinite, and its reciprocal is 0.
    let warnings = told(20.0);
    assert!(warnings.contains("\"saturated\"") && warnings.contains("\"p\""), "{warnings}");
}
