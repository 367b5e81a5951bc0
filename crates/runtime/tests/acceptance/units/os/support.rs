use anemone_runtime::os::support::{FEATURES, Support};
use anemone_runtime::os::{NAME, socket};

#[test]
fn rows_agree_with_the_calls_of_this_system() {
    let broker = FEATURES.iter().find(|f| f.name == "broker").and_then(|f| f.on(NAME));
    let pair = socket::pair();
    assert_eq!(broker.is_some_and(Support::works), pair.is_ok());
    if let Err(error) = pair {
        assert!(error.to_string().contains(NAME), "{error}");
    }
}
