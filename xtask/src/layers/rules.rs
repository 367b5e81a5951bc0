//! Source rules: constructs that each crate may not contain.

use crate::tokens::{Token, lex, without_tests};

/// Token sequences that a rule matches.
enum Pattern {
    /// `std::NAME`, also inside a braced list.
    Std(&'static [&'static str]),
    /// `NAME!`.
    Macro(&'static [&'static str]),
    /// `NAME(`.
    Call(&'static [&'static str]),
    /// `.NAME(`.
    Method(&'static [&'static str]),
    /// `NAME`.
    Word(&'static [&'static str]),
    /// `NAME` in conditional compilation: `cfg(..)`, `cfg!(..)`, `cfg_attr(..)`.
    Condition(&'static [&'static str]),
}

/// Conditions on the operating system.
pub const SYSTEMS: &[&str] = &["target_os", "target_family", "target_env", "unix", "windows"];
/// Conditions on the processor.
pub const PROCESSORS: &[&str] = &["target_arch", "target_feature"];

/// A construct that is forbidden in some crates.
pub struct Rule {
    /// Reason, as printed in findings.
    reason: &'static str,
    crates: &'static [&'static str],
    /// Exempt files.
    except: &'static [&'static str],
    /// True if the rule applies to test code too.
    in_tests: bool,
    pattern: Pattern,
}

const QUIET: &[&str] = &["facts", "net", "check", "program", "compile", "kernels", "conv", "engine", "runtime"];
const EVERY: &[&str] = &[
    "facts", "net", "check", "program", "compile", "kernels", "conv", "engine", "runtime", "ane", "e5rt", "iokit",
    "python",
];
/// Files of the runtime with system calls: shared memory and sockets, the cache, the broker, and the random bytes of keys.
const SYSTEM: &[&str] = &[
    "crates/runtime/src/os/",
    "crates/runtime/src/cache.rs",
    "crates/runtime/src/broker/",
    "crates/runtime/src/e5rt/device.rs",
];
const GENERATIONS: &[&str] = &["H11", "H12", "H13", "H14", "H15", "H16", "H17", "H18"];

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        reason: "this crate does no input or output",
        crates: QUIET,
        except: SYSTEM,
        in_tests: false,
        pattern: Pattern::Std(&["fs", "net", "env", "process"]),
    },
    Rule {
        reason: "this crate does no input or output",
        crates: QUIET,
        except: SYSTEM,
        in_tests: false,
        pattern: Pattern::Call(&["stdin", "stdout", "stderr"]),
    },
    Rule {
        reason: "libraries do not print",
        crates: QUIET,
        except: &[],
        in_tests: false,
        pattern: Pattern::Macro(&["print", "println", "eprint", "eprintln", "dbg"]),
    },
    Rule {
        reason: "only host intrinsics, shared memory and the C library may be unsafe",
        crates: EVERY,
        except: &[
            "crates/kernels/src/host.rs",
            "crates/kernels/src/host/",
            "crates/runtime/src/os/shared.rs",
            "crates/e5rt/src/",
            "crates/iokit/src/",
        ],
        in_tests: true,
        pattern: Pattern::Word(&["unsafe"]),
    },
    Rule {
        reason: "the engine does not panic on any program",
        crates: &["engine", "kernels", "conv"],
        except: &[],
        in_tests: false,
        pattern: Pattern::Method(&["unwrap", "expect"]),
    },
    Rule {
        reason: "the engine does not panic on any program",
        crates: &["engine", "kernels", "conv"],
        except: &[],
        in_tests: false,
        pattern: Pattern::Macro(&["panic", "todo", "unimplemented", "unreachable"]),
    },
    Rule {
        reason: "only `num` and `exact` of crates/kernels round",
        crates: &["engine", "kernels", "conv"],
        except: &[
            "crates/kernels/src/num.rs",
            "crates/kernels/src/num/",
            "crates/kernels/src/exact.rs",
            "crates/kernels/src/exact/",
        ],
        in_tests: false,
        pattern: Pattern::Word(&["from_f32", "from_f64", "convert_from_f32_slice", "convert_from_f64_slice"]),
    },
    Rule {
        reason: "kernels know no program: no task, register field or fault",
        crates: &["kernels", "conv"],
        except: &[],
        in_tests: true,
        pattern: Pattern::Word(&["Machine", "Field", "Fault", "FaultKind", "Task", "anemone_facts", "anemone_program"]),
    },
    Rule {
        reason: "the network knows no hardware",
        crates: &["net"],
        except: &[],
        in_tests: true,
        pattern: Pattern::Word(&["Chip", "chip", "Hal", "hal"]),
    },
    Rule {
        reason: "ask the chip's row for a capability, not for a generation's name",
        crates: &["net", "check", "compile", "kernels", "conv", "engine"],
        except: &[],
        in_tests: false,
        pattern: Pattern::Word(GENERATIONS),
    },
    Rule {
        reason: "only the modules `os` ask for the operating system",
        crates: EVERY,
        except: &[
            "crates/ane/src/os/",
            "crates/runtime/src/os/",
            "crates/iokit/src/os/",
            // The width of addresses.
            "crates/program/src/lib.rs",
        ],
        in_tests: false,
        pattern: Pattern::Condition(SYSTEMS),
    },
    Rule {
        reason: "only crates/kernels/src/host.rs asks for the processor",
        crates: EVERY,
        except: &["crates/kernels/src/host.rs"],
        in_tests: true,
        pattern: Pattern::Condition(PROCESSORS),
    },
];

/// Returns true if an exception names the file, or a folder (with a closing slash) that contains it.
fn excepted(exception: &str, path: &str) -> bool {
    path == exception || exception.ends_with('/') && path.starts_with(exception)
}

/// Violated rules of one file.
pub fn check(krate: &str, path: &str, text: &str) -> Vec<String> {
    let all = lex(text);
    let is_test_file = path.ends_with("/tests.rs") || path.contains("/tests/");
    let outside_tests = if is_test_file { Vec::new() } else { without_tests(&all) };
    let rules = RULES.iter().filter(|r| r.crates.contains(&krate) && !r.except.iter().any(|e| excepted(e, path)));
    rules
        .flat_map(|rule| {
            let tokens = if rule.in_tests { &all } else { &outside_tests };
            let places = rule.pattern.places(tokens);
            places.into_iter().map(|t| format!("{path}:{}: `{}`: {}", t.line, t.text, rule.reason))
        })
        .collect()
}

impl Pattern {
    fn places<'a>(&self, tokens: &[Token<'a>]) -> Vec<Token<'a>> {
        let text = |i: usize| tokens.get(i).map_or("", |t| t.text);
        let before = |i: usize| i.checked_sub(1).map_or("", text);
        let positions = 0..tokens.len();
        let at = |i: usize| tokens[i];
        match self {
            Pattern::Word(names) => positions.filter(|&i| names.contains(&text(i))).map(at).collect(),
            Pattern::Condition(names) => {
                conditions(tokens).into_iter().filter(|&i| names.contains(&text(i))).map(at).collect()
            }
            Pattern::Macro(names) => positions
                .filter(|&i| names.contains(&text(i)) && text(i + 1) == "!" && text(i + 2) != "=")
                .map(at)
                .collect(),
            Pattern::Call(names) => {
                positions.filter(|&i| names.contains(&text(i)) && text(i + 1) == "(").map(at).collect()
            }
            Pattern::Method(names) => positions
                .filter(|&i| names.contains(&text(i)) && text(i + 1) == "(" && before(i) == ".")
                .map(at)
                .collect(),
            Pattern::Std(names) => positions
                .filter(|&i| text(i) == "std" && text(i + 1) == ":" && text(i + 2) == ":")
                .flat_map(|i| if text(i + 3) == "{" { list_heads(tokens, i + 4) } else { vec![i + 3] })
                .filter(|&i| names.contains(&text(i)))
                .map(at)
                .collect(),
        }
    }
}

/// Positions inside conditional compilation.
pub fn conditions(tokens: &[Token]) -> Vec<usize> {
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text);
    let (mut inside, mut depth, mut found) = (false, 0usize, Vec::new());
    for i in 0..tokens.len() {
        match text(i) {
            "cfg" | "cfg_attr" if !inside => {
                inside = text(i + 1) == "(" || text(i + 1) == "!" && text(i + 2) == "(";
            }
            "(" if inside => depth += 1,
            ")" if inside => {
                depth -= 1;
                inside = depth > 0;
            }
            _ if inside => found.push(i),
            _ => {}
        }
    }
    found
}

/// Positions of the first word of each entry of a braced list that starts at `from`.
pub fn list_heads(tokens: &[Token], from: usize) -> Vec<usize> {
    let (mut depth, mut heads, mut expected) = (0, Vec::new(), true);
    for (i, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "}" if depth == 0 => break,
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => expected = true,
            _ if expected => {
                heads.push(i);
                expected = false;
            }
            _ => {}
        }
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(krate: &str, file: &str, text: &str) -> Vec<String> {
        check(krate, &format!("crates/{krate}/src/{file}"), text)
    }

    #[test]
    fn input_and_output_are_found() {
        assert_eq!(
            found("net", "lib.rs", "//! std::fs\nuse std::{fmt, fs::File};\n"),
            ["crates/net/src/lib.rs:2: `fs`: this crate does no input or output"]
        );
        assert_eq!(found("facts", "a.rs", "fn f() { std::env::var(\"X\"); println!(\"x\"); }").len(), 2);
        assert!(found("net", "a.rs", "use std::{fmt, io::{self, ErrorKind}}; // println!()").is_empty());
        assert!(found("program", "a.rs", "#[cfg(test)] mod tests { fn f() { std::fs::read(\"x\"); } }").is_empty());
        assert!(found("ane", "main.rs", "fn main() { println!(\"x\"); }").is_empty());
    }

    #[test]
    fn unsafe_is_found_even_in_tests_and_allowed_where_named() {
        assert_eq!(found("program", "a.rs", "#[cfg(test)] mod tests { fn f() { unsafe { x() } } }").len(), 1);
        assert!(found("kernels", "host.rs", "fn f() { unsafe { x() } }").is_empty());
        assert!(found("engine", "a.rs", "/// No `unsafe`.\n#![deny(unsafe_code)]").is_empty());
    }

    #[test]
    fn the_engine_neither_panics_nor_rounds_twice() {
        assert_eq!(found("engine", "a.rs", "fn f() { x.unwrap(); panic!(\"x\"); f16::from_f32(y); }").len(), 3);
        assert_eq!(found("kernels", "a.rs", "fn f() { x.unwrap(); panic!(\"x\"); f16::from_f32(y); }").len(), 3);
        assert!(found("kernels", "num.rs", "fn f() { f16::from_f32(y); x.unwrap_or(1); }").is_empty());
        assert!(found("compile", "a.rs", "fn f() { x.unwrap(); f16::from_f32(y); }").is_empty());
    }

    #[test]
    fn systems_and_processors_are_asked_for_in_their_places() {
        let asks =
            "#[cfg(all(unix, target_arch = \"x86_64\"))]\nfn f(windows: usize) { x.windows(2); if cfg!(windows) {} }";
        assert_eq!(found("net", "a.rs", asks).len(), 3);
        assert_eq!(found("runtime", "os/mod.rs", asks).len(), 1);
        assert_eq!(found("kernels", "host.rs", asks).len(), 2);
        assert!(found("net", "a.rs", "#[cfg(test)]\nfn f(unix: usize) { (windows, target_os) }").is_empty());
    }

    #[test]
    fn kernels_know_no_program() {
        assert_eq!(found("kernels", "conv.rs", "use crate::machine::Machine;\nfn f(field: Field) {}").len(), 2);
        assert!(found("kernels", "conv.rs", "fn f(field: usize) {}").is_empty());
    }

    #[test]
    fn chips_are_not_named_outside_facts() {
        assert_eq!(found("compile", "a.rs", "use anemone_facts::layout::H13;").len(), 1);
        assert_eq!(found("net", "a.rs", "fn f(chip: &str) {}").len(), 1);
        assert!(found("facts", "a.rs", "pub use h13::H13;").is_empty());
    }
}
