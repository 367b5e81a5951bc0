use anemone_compile::native::attention_segments;
use anemone_net::text;

#[test]
fn each_attention_is_a_segment() {
    let net = text::parse(
        r#"net "n" {
  input %q: f16[1, 2, 8, 16]
  input %k: f16[1, 2, 8, 16]
  const %s: f16[1] = [0.25]
  input %v: f16[1, 2, 8, 16]
  %r: f16[1, 2, 8, 16] = relu(%q)
  %p: f16[1, 2, 8, 8] = matmul(%r, %k) transpose_x=false transpose_y=true
  %t: f16[1, 2, 8, 8] = mul(%p, %s)
  %w: f16[1, 2, 8, 8] = softmax(%t) axis=3
  %z: f16[1, 2, 8, 16] = relu(%v)
  %a: f16[1, 2, 8, 16] = matmul(%w, %z) transpose_x=false transpose_y=false
  %y: f16[1, 2, 8, 16] = add(%a, %z)
  output %y
}
"#,
        &[],
    )
    .expect("the text parses");
    let segments = attention_segments(&net);
    let kinds: Vec<Vec<&str>> = segments.iter().map(|net| net.ops.iter().map(|op| op.kind.name()).collect()).collect();
    assert_eq!(kinds, [vec!["relu", "relu"], vec!["matmul", "mul", "softmax", "matmul"], vec!["add"]]);
    // A softmax with other readers is not part of an attention.
    let shared = text::parse(&text::print(&net).0.replace("output %y", "output %w\n  output %y"), &[]);
    assert_eq!(attention_segments(&shared.expect("the text parses")).len(), 1);
}
