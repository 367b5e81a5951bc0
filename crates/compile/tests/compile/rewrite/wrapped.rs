use super::becomes;
use anemone_compile::testing::wrap_narrow;

const BEFORE: &str = r#"net "n" {
  input %x: f16[5, 2]
  input %i: i32[3]
  const %z: i32[] = [0]
  const %n: i32[] = [EXTENT]
  %p: bool[3] = greater_equal(%i, %z)
  %w: i32[3] = add(%i, %n)
  %s: i32[3] = select(%p, %i, %w)
  %u: u16[3] = cast(%s)
  %y: f16[3, 2] = gather(%x, PLACES) axis=0
  output %y
}
"#;

#[test]
fn a_gather_counts_places_from_the_end_itself() {
    let text = |extent: &str, places: &str| BEFORE.replace("EXTENT", extent).replace("PLACES", places);
    becomes(wrap_narrow, &text("5", "%u"), &text("5", "%i"));
    becomes(wrap_narrow, &text("4", "%u"), &text("4", "%u"));
}
