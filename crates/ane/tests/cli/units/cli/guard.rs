use anemone::Code;
use anemone::testing::guarded;

#[test]
fn panics_become_diagnostics() {
    let diagnostic = guarded(|| panic!("broken at {}", 7)).expect_err("it panics");
    // The hook of `guarded` would hide the messages of other tests that fail in this process.
    drop(std::panic::take_hook());
    assert_eq!((diagnostic.code, diagnostic.code.exit()), (Code::Defect, 3));
    assert!(diagnostic.message.contains("broken at 7"), "{}", diagnostic.message);
    assert!(diagnostic.place.is_some_and(|p| p.contains("guard.rs")));
    assert!(diagnostic.help.is_some_and(|h| h.contains("report")));
}
