//! A library without a test program (`[lib] test = false`) has no test in `src`, where it would never run.

use crate::repo;
use crate::tokens::lex;

/// Tests that no program contains.
pub fn check() -> Vec<String> {
    let mut findings = Vec::new();
    for folder in repo::folders("crates") {
        match repo::read(&format!("crates/{folder}/Cargo.toml")) {
            Ok(manifest) if is_without_tests(&manifest) => {
                for path in repo::files(&format!("crates/{folder}/src"), ".rs") {
                    let text = repo::read(&path).unwrap_or_default();
                    findings.extend(tests_in(&text).map(|line| {
                        format!("{path}:{line}: a test that never runs: crates/{folder}/Cargo.toml has `test = false`; put it into crates/{folder}/tests")
                    }));
                }
            }
            Ok(_) => {}
            Err(e) => findings.push(e),
        }
    }
    findings
}

/// True if the library of a manifest has no test program.
fn is_without_tests(manifest: &str) -> bool {
    let lines = manifest.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let library = lines.skip_while(|line| *line != "[lib]").skip(1).take_while(|line| !line.starts_with('['));
    library.into_iter().any(|line| line.split_once('=').is_some_and(|(k, v)| (k.trim(), v.trim()) == ("test", "false")))
}

/// Line of the first test or item for tests.
fn tests_in(text: &str) -> Option<usize> {
    let tokens = lex(text);
    let marks = |before: &str, open: &str| match open {
        "[" => before == "#",
        "(" => matches!(before, "cfg" | "any" | "all"),
        _ => false,
    };
    tokens.windows(3).find(|t| t[2].text == "test" && marks(t[0].text, t[1].text)).map(|t| t[2].line)
}

#[cfg(test)]
mod tests {
    use super::{is_without_tests, tests_in};

    #[test]
    fn a_test_in_a_library_without_tests_is_found() {
        assert!(is_without_tests("[package]\nname = \"a\"\n\n[lib]\n# Reason.\ntest = false\n\n[dependencies]\n"));
        assert!(!is_without_tests("[lib]\ndoctest = false\n\n[[bin]]\nname = \"b\"\ntest = false\n"));
        assert_eq!(tests_in("fn a() {}\n#[test]\nfn b() {}\n"), Some(2));
        assert_eq!(tests_in("#[cfg(test)]\nmod tests;\n"), Some(1));
        assert_eq!(tests_in("/// #[test]\nfn test() { run(test, 1) }\n"), None);
        assert_eq!(tests_in("fn a(test: u8) -> [u8; 1] { b(test); [test] }\n"), None);
    }
}
