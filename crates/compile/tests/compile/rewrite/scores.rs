use super::{becomes, transpose_scores};

/// Two products with steps between: the extents of all scores, what is between, and its last result.
fn attention(rows: usize, columns: usize, between: &str, left: &str) -> String {
    format!(
        "net \"n\" {{\n  input %q: f16[2, {rows}, 4]\n  input %k: f16[2, 4, {columns}]\n  input %v: f16[2, {columns}, 8]\n  \
         input %m: f16[2, {rows}, 1]\n  input %n: f16[{rows}, {columns}]\n  const %t: f16[2] = [0.5, 0.25]\n  const %c: f16[] = [0.5]\n  \
         %s: f16[2, {rows}, {columns}] = matmul(%q, %k) transpose_x=false transpose_y=false\n{between}  \
         %y: f16[2, {rows}, 8] = matmul(%{left}, %v) transpose_x=false transpose_y=false\n  output %y\n}}\n"
    )
}

/// The second product of the transposed matrix.
const PRODUCT: &str = "%y.across: f16[2, 8, 300] = matmul(%v, %p.across) transpose_x=true transpose_y=false name=\"y\"\n  \
    %y: f16[2, 300, 8] = transpose(%y.across) perm=[0, 2, 1]\n  output %y\n}\n";

fn stays(net: &str) {
    becomes(transpose_scores, net, net);
}

#[test]
fn steps_between_products_are_transposed() {
    let steps = "  %a: f16[2, 300, 2] = mul(%c, %s)\n  %b: f16[2, 300, 2] = add(%m, %a)\n  %d: f16[2, 300, 2] = sub(%b, %t)\n  \
                 %e: f16[2, 300, 2] = softmax(%d) axis=2\n  %f: f16[2, 300, 2] = softmax(%e) axis=1\n  %p: f16[2, 300, 2] = relu(%f)\n";
    let before = attention(300, 2, steps, "p");
    let (inputs, _) = before.split_once("  %s:").expect("the first product");
    let after = format!(
        "{inputs}  %s.across: f16[2, 2, 300] = matmul(%k, %q) transpose_x=true transpose_y=true name=\"s\"\n  \
         %a.across: f16[2, 2, 300] = mul(%c, %s.across) name=\"a\"\n  %b.exchanged: f16[2, 1, 300] = reshape(%m) name=\"b\"\n  \
         %b.across: f16[2, 2, 300] = add(%b.exchanged, %a.across) name=\"b\"\n  const %d.exchanged: f32[2, 1] = [0.5, 0.25]\n  \
         %d.across: f16[2, 2, 300] = sub(%b.across, %d.exchanged) name=\"d\"\n  \
         %e.across: f16[2, 2, 300] = softmax(%d.across) axis=1 name=\"e\"\n  \
         %f.across: f16[2, 2, 300] = softmax(%e.across) axis=2 name=\"f\"\n  \
         %p.across: f16[2, 2, 300] = relu(%f.across) name=\"p\"\n  {PRODUCT}"
    );
    becomes(transpose_scores, &before, &after);
}

#[test]
fn rows_and_columns_of_a_constant_are_exchanged() {
    let numbers: Vec<String> = (0..600).map(|at| format!("{at}.0")).collect();
    let exchanged: Vec<String> = (0..600).map(|at| format!("{}.0", at % 300 * 2 + at / 300)).collect();
    let bias = "  %p: f16[2, 300, 2] = add(%s, %w)\n";
    let given = format!("  const %w: f16[300, 2] = [{}]\n", numbers.join(", "));
    let before = attention(300, 2, &format!("{given}{bias}"), "p");
    let (inputs, _) = before.split_once("  %s:").expect("the first product");
    let after = format!(
        "{inputs}  %s.across: f16[2, 2, 300] = matmul(%k, %q) transpose_x=true transpose_y=true name=\"s\"\n  \
         const %p.exchanged: f32[2, 300] = [{}]\n  %p.across: f16[2, 2, 300] = add(%s.across, %p.exchanged) name=\"p\"\n  {PRODUCT}",
        exchanged.join(", ")
    );
    becomes(transpose_scores, &before, &after);
}

#[test]
fn other_scores_stay() {
    let softmax = |rows: usize, columns: usize| format!("  %p: f16[2, {rows}, {columns}] = softmax(%s) axis=2\n");
    // No fewer tasks, fewer than two rows for each column, more columns than the engine computes fast, more rows than a tensor has columns.
    for (rows, columns) in [(16, 2), (300, 200), (4096, 520), (16385, 8)] {
        stays(&attention(rows, columns, &softmax(rows, columns), "p"));
    }
    // Scores that another operation reads, or that are a result of the network.
    let read = "  %p: f16[2, 300, 2] = softmax(%s) axis=2\n  %z: f16[2, 300, 2] = relu(%s)\n";
    stays(&attention(300, 2, read, "p").replace("  output", "  output %z\n  output"));
    stays(&attention(300, 2, &softmax(300, 2), "p").replace("  output", "  output %p\n  output"));
    // A computed operand of both rows and columns, and another operation between.
    stays(&attention(300, 2, "  %p: f16[2, 300, 2] = add(%s, %n)\n", "p"));
    let sorted = "  %x: f16[2, 2, 300] = transpose(%s) perm=[0, 2, 1]\n  %p: f16[2, 300, 2] = reshape(%x)\n";
    stays(&attention(300, 2, sorted, "p"));
}
