use anemone_kernels::host;
use anemone_kernels::isa::{available, force, name};

#[test]
fn an_instruction_set_is_forced_once() {
    assert_eq!(name(), available().last().unwrap().0);
    let elsewhere = if host::IS_X86 { "neon" } else { "v3" };
    let missing = force(elsewhere).map_err(|e| e.to_string());
    assert!(missing.is_err_and(|e| e.contains("this host has no instruction set") && e.contains("scalar")));
    assert!(force("sse9").is_err_and(|e| e.to_string().contains("is no instruction set")));
    let best = name();
    assert_eq!(force(best), Ok(()));
    assert_eq!(force(best), Ok(()));
    if best != "scalar" {
        assert!(force("scalar").is_err_and(|e| e.in_use == Some(best)));
    }
    assert_eq!(name(), best);
}
