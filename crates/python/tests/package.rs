//! The package as Python sees it: the module that cargo built beside the package's own files, and its tests in Python.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The module: cargo puts it beside the tests.
fn module() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let name = format!("{}_anemone{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    test.parent().expect("a folder").join(name)
}

/// An interpreter with numpy; `ANE_PYTHON` names another than `python3`.
fn interpreter() -> Option<String> {
    let python = std::env::var("ANE_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import sys, numpy; assert sys.version_info >= (3, 9)"]).output();
    found.is_ok_and(|o| o.status.success()).then_some(python)
}

#[test]
fn the_package_passes_its_tests_in_python() {
    let Some(python) = interpreter() else {
        eprintln!("skipped: no python3 of version 3.9 with numpy (ANE_PYTHON names another)");
        return;
    };
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let site = tempfile::tempdir().expect("a folder");
    let package = site.path().join("anemone");
    std::fs::create_dir(&package).expect("the package's folder");
    for file in std::fs::read_dir(own.join("python/anemone")).expect("the package's files").flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).expect("a copy");
        }
    }
    std::fs::copy(module(), package.join("_anemone.abi3.so")).expect("the module that cargo built");
    let ran = Command::new(python)
        .args(["-m", "unittest", "-v", "test_anemone", "test_arrays"])
        .current_dir(own.join("tests"))
        .env("PYTHONPATH", site.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("ANE_EXAMPLE", own.join("../../examples/digits"))
        .output()
        .expect("the interpreter starts");
    let text = String::from_utf8_lossy(&ran.stderr);
    eprintln!("{text}");
    assert!(ran.status.success() && text.contains("Ran "), "{text}");
}
