//! An overlapping register row must stop the build and name the field.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies this crate, lets `change` edit the H13 rows, and returns what the compiler says.
fn check_with(name: &str, change: impl Fn(&str) -> String) -> (bool, String) {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&copy);
    copy_dir(&crate_dir.join("src"), &copy.join("src"));
    let manifest = "[package]\nname = \"rows\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(copy.join("Cargo.toml"), manifest).expect("writable");
    let rows = copy.join("src/layout/h13.rs");
    let text = fs::read_to_string(&rows).expect("rows");
    fs::write(&rows, change(&text)).expect("writable");
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet"])
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .output()
        .expect("cargo runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("readable").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[test]
fn an_overlap_stops_the_build_by_name() {
    let (ok, text) = check_with("unchanged", str::to_string);
    assert!(ok, "the rows as they are: {text}");
    // Cout's register takes the bits of Cin's.
    let (ok, text) = check_with("overlap", |rows| {
        assert!(rows.contains("16..=30 Hin"));
        rows.replace("16..=30 Hin", "14..=30 Hin")
    });
    assert!(!ok, "two rows claim bit 14");
    assert!(text.contains("register row overlaps or precedes the row before it: h13 Hin"), "{text}");
}
