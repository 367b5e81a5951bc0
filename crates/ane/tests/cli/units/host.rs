use anemone::host::{call_of, net_of};
use anemone_net::text;

#[test]
fn a_segment_comes_back_as_it_was() {
    let net = text::parse(
        "net \"n\" {\n  input %i: i32[3]\n  const %t: f16[2, 2] = [1.0, 2.0, 3.0, 4.5]\n  %e: f16[3, 2] = \
         gather(%t, %i) axis=0\n  output %e\n}\n",
        &[],
    )
    .expect("the text parses");
    let mut call = call_of(&net);
    assert_eq!(text::print(&net_of(&call).expect("the code reads")), text::print(&net));
    call.constants.push(0);
    assert!(net_of(&call).is_err(), "one byte too many");
    call.language = "another".into();
    assert!(net_of(&call).unwrap_err().contains("another"));
}
