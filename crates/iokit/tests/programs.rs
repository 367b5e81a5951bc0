//! A C program and a Python script with `ctypes` alone open the device, make a program, send, wait, and destroy.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A linear layer whose matrix is the identity.
fn identity(folder: &Path) -> PathBuf {
    let one = |row: usize, column: usize| if row == column { "[[1.0]]" } else { "[[0.0]]" };
    let row = |row: usize| format!("[{}]", (0..64).map(|column| one(row, column)).collect::<Vec<_>>().join(", "));
    let (ty, rows) = ("tensor<fp16, [64, 64, 1, 1]>", (0..64).map(row).collect::<Vec<_>>().join(", "));
    let text = format!(
        "program(1.0)\n{{\n  func main<ios16>(tensor<fp16, [1, 64, 1, 1]> x) {{\n    \
         {ty} w = const()[name = string(\"w\"), val = {ty}([{rows}])];\n    \
         tensor<fp16, [1, 64, 1, 1]> y = conv(x = x, weight = w)[name = string(\"y\")];\n  }} -> (y);\n}}\n"
    );
    let path = folder.join("identity.mil");
    std::fs::write(&path, text).expect("written");
    path
}

/// Bytes from one channel to the next of a port of one element a channel.
const CHANNEL_BYTES: &str = "64";

fn library() -> PathBuf {
    let own = std::env::current_exe().expect("this test");
    let places = own.ancestors().skip(1).take(2).map(|folder| folder.join("libanemone_iokit.so"));
    places.into_iter().find(|file| file.exists()).expect("the library beside the test")
}

fn output(command: &mut Command) -> String {
    let done = command.output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: no {program}");
    }
    found
}

/// Valgrind does not see writes through the system, so undefined values are not reported.
fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    command.args(["-q", "--undef-value-errors=no", "--error-exitcode=9"]);
    command
}

#[test]
fn a_c_program_opens_the_device() {
    if !cfg!(target_os = "linux") || !has("cc") {
        return;
    }
    let (folder, library) = (tempfile::tempdir().expect("a folder"), library());
    let (model, binary) = (identity(folder.path()), folder.path().join("identity"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut build = Command::new("cc");
    build.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root.join("include"));
    build.arg(root.join("tests/c/identity.c")).arg("-o").arg(&binary).arg(&library);
    output(build.arg(format!("-Wl,-rpath,{}", library.parent().expect("a folder").display())));
    let (bytes, name) = (std::fs::read(&binary).expect("the program"), b"\0libanemone_iokit.so\0");
    assert!(bytes.windows(name.len()).any(|part| part == name), "the library is needed by its name, not its path");
    let told = output(Command::new(&binary).arg(&model).arg(CHANNEL_BYTES));
    assert_eq!(told, "architecture h13g\nengines 1\nat once: 0 of 64 wrong\nwake port: 0 of 64 wrong\n");
    if has("valgrind") {
        let mut checked = valgrind();
        checked.args(["--leak-check=full", "--errors-for-leak-kinds=definite"]);
        assert_eq!(output(checked.arg(&binary).arg(&model).arg(CHANNEL_BYTES)), told);
    }
    // A policy that does not know the program gives it no entitlement, and the device is not opened.
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "").expect("written");
    let refused = Command::new(&binary).arg(&model).arg(CHANNEL_BYTES).env("ANEMONE_POLICY", &policy).output();
    let refused = refused.expect("it starts");
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("0xe00002c1"),
        "{refused:?}"
    );
}

#[test]
fn a_script_with_ctypes_alone_opens_the_device() {
    if !cfg!(target_os = "linux") || !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/identity.py");
    let model = identity(folder.path());
    let numbers: Vec<String> = (0..64).map(|i| i.to_string()).collect();
    let run = |mut command: Command| {
        let told = output(command.arg(&script).arg(library()).arg(&model).arg(CHANNEL_BYTES));
        assert_eq!(told.trim(), format!("[{}]", numbers.join(", ")));
    };
    run(Command::new("python3"));
    if has("valgrind") {
        // The interpreter keeps its memory until the end; `python3` may be a script that starts it.
        let found = output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
        let mut checked = valgrind();
        checked.env("PYTHONMALLOC", "malloc").args(["--leak-check=no", found.trim()]);
        run(checked);
    }
}
