use anemone_runtime::broker::service::Service;
use anemone_runtime::e5rt::{CompileOptions, Compiler};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[test]
fn a_service_that_says_nothing_is_ended() {
    let silent = Service::new("/bin/sleep".into(), vec!["60".into()]).within(Duration::from_secs(1));
    let error = silent.compile(Path::new("model.mil"), &CompileOptions::default()).expect_err("no answer");
    assert!(error.contains("no answer within 1 s"), "{error}");
    assert_eq!((silent.starts.load(Relaxed), silent.pid()), (1, None));
}
