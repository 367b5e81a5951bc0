use super::becomes;
use anemone_compile::testing::{self, Remarks};
use anemone_compile::{Options, Result};
use anemone_net::Net;

/// [`testing::select_columns`] for the M1.
fn select_columns(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    let chip = anemone_facts::chips::CHIPS.iter().find(|chip| chip.target == "h13").expect("the M1 is known");
    testing::select_columns(net, chip, options, reasons)
}

#[test]
fn exchanged_neighbours_are_a_product_before_the_transpose() {
    becomes(
        select_columns,
        r#"net "n" {
  input %x: f16[1, 3, 2, 4]
  input %g: f16[1]
  const %s: f16[1, 1, 1, 4] = [1.0, 2.0, 3.0, 4.0]
  %p: f16[1, 3, 2, 4] = mul(%x, %g)
  %q: f16[1, 2, 3, 4] = transpose(%p) perm=[0, 2, 1, 3]
  %a: f16[1, 2, 3, 2] = slice(%q) begin=[0, 0, 0, 0] end=[1, 2, 3, 3] stride=[1, 1, 1, 2]
  %b: f16[1, 2, 3, 2] = slice(%q) begin=[0, 0, 0, 1] end=[1, 2, 3, 4] stride=[1, 1, 1, 2]
  %n: f16[1, 2, 3, 2] = neg(%b)
  %c: f16[1, 2, 3, 2, 1] = reshape(%n)
  %d: f16[1, 2, 3, 2, 1] = reshape(%a)
  %j: f16[1, 2, 3, 2, 2] = concat(%c, %d) axis=4
  %r: f16[1, 2, 3, 4] = reshape(%j)
  %y: f16[1, 2, 3, 4] = mul(%r, %s)
  output %y
}
"#,
        r#"net "n" {
  input %x: f16[1, 3, 2, 4]
  input %g: f16[1]
  %p: f16[1, 3, 2, 4] = mul(%x, %g)
  const %r.signs: f32[4, 4] = [0.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0]
  %r.selected: f16[1, 3, 2, 4] = linear(%p, %r.signs) name="r"
  %r.rows: f16[1, 2, 3, 4] = transpose(%r.selected) perm=[0, 2, 1, 3] name="r"
  %r: f16[1, 2, 3, 4] = reshape(%r.rows)
  const %s: f16[1, 1, 1, 4] = [1.0, 2.0, 3.0, 4.0]
  %y: f16[1, 2, 3, 4] = mul(%r, %s)
  output %y
}
"#,
    );
}

/// Halves of a number of columns of a value, exchanged, and what reads them.
fn halves(made: &str, columns: usize, reader: &str) -> String {
    let half = columns / 2;
    format!(
        "net \"n\" {{\n  input %x: f16[3, {columns}]\n  %p: f16[3, {columns}] = {made}\n  \
         %a: f16[3, {half}] = slice(%p) begin=[0, 0] end=[3, {half}] stride=[1, 1]\n  \
         %b: f16[3, {half}] = slice(%p) begin=[0, {half}] end=[3, {columns}] stride=[1, 1]\n  \
         %r: f16[3, {columns}] = concat(%b, %a) axis=1\n  %y: f16[3, {columns}] = {reader}\n  output %y\n}}\n"
    )
}

#[test]
fn a_product_takes_multiplied_columns_of_finite_values_within_rows() {
    let product = |text: &str| {
        let mut net = anemone_net::text::parse(text, &[]).expect("the case parses");
        select_columns(&mut net, &Options::default(), &mut Remarks::default()).expect("the pass succeeds");
        anemone_net::text::print(&net).0.contains("signs")
    };
    assert!(product(&halves("mul(%x, %x)", 16, "mul(%r, %x)")));
    // Halves that begin at rows of memory are multiplied in their places.
    assert!(!product(&halves("mul(%x, %x)", 64, "mul(%r, %x)")));
    // Zero times infinity is no number, and a sum behind an input may be infinite.
    assert!(!product(&halves("add(%x, %x)", 16, "mul(%r, %x)")));
    // A divisor shows the sign of zero.
    assert!(!product(&halves("mul(%x, %x)", 16, "div(%x, %r)")));
    // Each column costs a multiplication for all others.
    assert!(!product(&halves("mul(%x, %x)", 272, "mul(%r, %x)")));
}
