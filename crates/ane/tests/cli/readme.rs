//! The commands of the README and of the tour: each ends well and prints the lines that stand below it.

use crate::harness::command;
use std::path::Path;

/// Fenced blocks in their order: language and text.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split("```").collect();
    parts.iter().skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect()
}

/// Runs the commands of a page's `sh` blocks that `command` takes, and compares the `text` blocks that follow with what was printed.
/// Returns commands run and lines compared.
fn follow(page: &str, command: impl Fn(&str) -> Option<String>) -> (usize, usize) {
    let (mut printed, mut commands, mut compared) = (String::new(), 0, 0);
    for (language, text) in blocks(page) {
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
        for line in text.lines().filter(|_| language == "sh") {
            if let Some(output) = command(line) {
                printed += &output;
                commands += 1;
            }
        }
    }
    (commands, compared)
}

/// Standard output of `ane`, which must succeed. A check says by its exit code that something is off the engine.
fn ane<'a>(arguments: impl Iterator<Item = &'a str>, folder: &Path) -> String {
    let arguments: Vec<String> = arguments.map(String::from).collect();
    let ran = command(&arguments).current_dir(folder).output().expect("ane starts");
    let answered =
        ran.status.success() || arguments.first().is_some_and(|verb| verb == "check") && ran.status.code() == Some(1);
    assert!(answered, "{arguments:?}: {}\n{}", ran.status, String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn commands_print_what_the_readme_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().display().to_string();
    let (commands, compared) = follow(&readme, |line| {
        let arguments = line.strip_prefix("cargo run --release -- ")?.replace("target/digits", &out);
        Some(ane(arguments.split(' '), &root))
    });
    assert!(commands >= 4 && compared >= 6, "{commands} commands, {compared} lines");
}

#[test]
fn commands_print_what_the_tour_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tour = std::fs::read_to_string(root.join("docs/tour.md")).expect("the tour");
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["edge.mil", "image.npy"] {
        std::fs::copy(root.join("examples/tour").join(file), folder.path().join(file)).expect("copied");
    }
    let (commands, compared) = follow(&tour, |line| match line.split_once(' ')? {
        ("cat", file) => Some(std::fs::read_to_string(folder.path().join(file)).expect("written before")),
        ("ane", arguments) => Some(ane(arguments.split(' '), folder.path())),
        _ => None,
    });
    assert!(commands >= 14 && compared >= 40, "{commands} commands, {compared} lines");
}
