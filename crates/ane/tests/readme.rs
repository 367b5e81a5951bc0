//! The commands of the README: each ends well and prints the lines that stand below it.

use std::path::Path;
use std::process::Command;

/// Fenced blocks in their order: language and text.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split("```").collect();
    parts.iter().skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect()
}

#[test]
fn commands_print_what_the_readme_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().display().to_string();
    let (mut printed, mut commands, mut compared) = (String::new(), 0, 0);
    for (language, text) in blocks(&readme) {
        match language {
            "sh" => printed.clear(),
            "text" => {
                for line in text.lines() {
                    assert!(printed.contains(line.trim_end()), "not printed: {line}\n{printed}");
                    compared += 1;
                }
            }
            _ => {}
        }
        let ours = |line: &&str| language == "sh" && line.starts_with("cargo run --release -- ");
        for line in text.lines().filter(ours) {
            let line = line.replace("target/digits", &out);
            let arguments = line.split(' ').skip(4);
            let ran = Command::new(env!("CARGO_BIN_EXE_ane")).args(arguments).current_dir(&root).output();
            let ran = ran.expect("ane starts");
            printed += &String::from_utf8_lossy(&ran.stdout);
            // A check says by its exit code that something is off the engine.
            let answered = ran.status.success() || line.contains(" check ") && ran.status.code() == Some(1);
            assert!(answered, "{line}: {}\n{}", ran.status, String::from_utf8_lossy(&ran.stderr));
            commands += 1;
        }
    }
    assert!(commands >= 4 && compared >= 6, "{commands} commands, {compared} lines");
}
