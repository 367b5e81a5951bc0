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

#[test]
fn the_table_of_compressed_weights_is_what_convert_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/frontends.md")).expect("the page");
    let (head, rows) =
        page.split_once("of `examples/digits/digits.mlpackage` | bytes of constants, from ").expect("the table");
    assert!(head.contains("--palettize BITS"), "the table stands below its options");
    let before: u64 = rows.split(' ').next().and_then(|n| n.parse().ok()).expect("bytes before");
    let folder = tempfile::tempdir().expect("a folder");
    let mut compared = 0;
    for row in rows.lines().skip(2).take_while(|row| row.starts_with("| `--")) {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [options, bytes, change] = cells[..] else { panic!("three cells: {row}") };
        let words = options.trim_matches('`').split(' ');
        let out = folder.path().join("out.mlpackage").display().to_string();
        let arguments = ["convert", "examples/digits/digits.mlpackage", "--json", "-o", &out];
        let printed = ane(arguments.into_iter().chain(words), &root);
        let report: serde_json::Value = serde_json::from_str(&printed).expect("a report");
        let of = |key: &str| report["compression"][key].as_f64().expect("a number");
        assert_eq!(of("bytes_before"), before as f64, "{row}");
        assert_eq!(of("bytes_after"), bytes.parse::<f64>().expect("bytes"), "{row}");
        let change: f64 = change.trim_end_matches(" %").parse().expect("percent");
        assert!((100.0 * of("relative_error") - change).abs() < 0.051, "{row}: {}", of("relative_error"));
        compared += 1;
    }
    assert_eq!(compared, 5);
}

#[test]
fn the_page_of_errors_has_every_code() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md")).expect("the page");
    for code in anemone::Code::ALL {
        let (meaning, fix) = code.meaning();
        let row = format!("| {} | {} | {meaning} | {fix} |\n", code.text(), code.exit());
        assert!(page.contains(&row), "no row {row}");
    }
    assert_eq!(page.matches("\n| ANE").count(), anemone::Code::ALL.len());
}
