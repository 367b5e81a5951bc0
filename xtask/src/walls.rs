//! What each room may touch, and what its source may not say.
//!
//! Dependencies are asked of `cargo tree`; source is read as tokens, so that comments and texts do not count.

use crate::tokens::{Token, lex, without_tests};
use crate::{Outcome, conclude, repo};
use std::collections::BTreeSet;
use std::process::Command;

/// A room and its one-way order. Every room that is not listed in `may_touch` is forbidden.
pub struct Room {
    /// Folder below `crates`.
    pub name: &'static str,
    /// Cargo package.
    pub package: &'static str,
    may_touch: &'static [&'static str],
    /// Whether packages from outside the workspace may be used.
    outside: bool,
}

/// Every room.
pub const ROOMS: &[Room] = &[
    Room { name: "facts", package: "anemone-facts", may_touch: &[], outside: false },
    Room { name: "net", package: "anemone-net", may_touch: &[], outside: true },
    Room { name: "program", package: "anemone-program", may_touch: &["facts"], outside: true },
    Room { name: "compile", package: "anemone-compile", may_touch: &["facts", "net", "program"], outside: true },
    Room { name: "engine", package: "anemone-engine", may_touch: &["facts", "program"], outside: true },
    Room { name: "runtime", package: "anemone-runtime", may_touch: &["facts", "program", "engine"], outside: true },
    Room {
        name: "ane",
        package: "anemone",
        may_touch: &["facts", "net", "program", "compile", "engine", "runtime"],
        outside: true,
    },
    Room {
        name: "e5rt",
        package: "anemone-e5rt",
        may_touch: &["facts", "net", "program", "compile", "engine", "runtime", "ane"],
        outside: true,
    },
    Room {
        name: "python",
        package: "anemone-python",
        may_touch: &["facts", "net", "program", "compile", "engine", "runtime", "ane"],
        outside: true,
    },
];

/// What a rule looks for.
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
}

/// Something that the source of some rooms does not say.
struct Rule {
    /// Why, as a finding words it.
    reason: &'static str,
    rooms: &'static [&'static str],
    /// Files that may.
    except: &'static [&'static str],
    /// Whether test code is held to it too.
    in_tests: bool,
    pattern: Pattern,
}

const QUIET: &[&str] = &["facts", "net", "program", "compile", "engine", "runtime"];
const EVERY: &[&str] = &["facts", "net", "program", "compile", "engine", "runtime", "ane", "e5rt", "python"];
/// System calls of the runtime: shared memory and sockets, the cache, the broker, and the random bytes of keys.
const SYSTEM: &[&str] = &[
    "crates/runtime/src/os/",
    "crates/runtime/src/cache.rs",
    "crates/runtime/src/broker/",
    "crates/runtime/src/driver/sign.rs",
    "crates/runtime/src/e5rt/device.rs",
];
const GENERATIONS: &[&str] = &["H11", "H12", "H13", "H14", "H15", "H16", "H17", "H18"];

const RULES: &[Rule] = &[
    Rule {
        reason: "this room does no input or output",
        rooms: QUIET,
        except: SYSTEM,
        in_tests: false,
        pattern: Pattern::Std(&["fs", "net", "env", "process"]),
    },
    Rule {
        reason: "this room does no input or output",
        rooms: QUIET,
        except: SYSTEM,
        in_tests: false,
        pattern: Pattern::Call(&["stdin", "stdout", "stderr"]),
    },
    Rule {
        reason: "libraries do not print",
        rooms: QUIET,
        except: &[],
        in_tests: false,
        pattern: Pattern::Macro(&["print", "println", "eprint", "eprintln", "dbg"]),
    },
    Rule {
        reason: "only byte access, shared memory and the C library may be unsafe",
        rooms: EVERY,
        except: &["crates/program/src/bytes.rs", "crates/runtime/src/os/shared.rs", "crates/e5rt/src/"],
        in_tests: true,
        pattern: Pattern::Word(&["unsafe"]),
    },
    Rule {
        reason: "the engine does not panic on any program",
        rooms: &["engine"],
        except: &[],
        in_tests: false,
        pattern: Pattern::Method(&["unwrap", "expect"]),
    },
    Rule {
        reason: "the engine does not panic on any program",
        rooms: &["engine"],
        except: &[],
        in_tests: false,
        pattern: Pattern::Macro(&["panic", "todo", "unimplemented", "unreachable"]),
    },
    Rule {
        reason: "only crates/engine/src/number.rs and its submodules round",
        rooms: &["engine"],
        except: &["crates/engine/src/number.rs", "crates/engine/src/number/"],
        in_tests: false,
        pattern: Pattern::Word(&["from_f32", "from_f64", "convert_from_f32_slice", "convert_from_f64_slice"]),
    },
    Rule {
        reason: "the network knows no hardware",
        rooms: &["net"],
        except: &[],
        in_tests: true,
        pattern: Pattern::Word(&["Chip", "chip", "Hal", "hal"]),
    },
    Rule {
        reason: "ask the chip's row for a capability, not for a generation's name",
        rooms: &["net", "compile", "engine"],
        except: &[],
        in_tests: false,
        pattern: Pattern::Word(GENERATIONS),
    },
];

/// Checks every wall.
pub fn run(_: &[String]) -> Outcome {
    let mut findings = check_folders(&repo::folders("crates"));
    let mut sources = 0;
    for room in ROOMS {
        match tree_of(room) {
            Ok(tree) => findings.extend(check_tree(room, &tree)),
            Err(e) => findings.push(e),
        }
        for path in repo::files(&format!("crates/{}/src", room.name), ".rs") {
            sources += 1;
            match repo::read(&path) {
                Ok(text) => findings.extend(check_source(room, &path, &text)),
                Err(e) => findings.push(e),
            }
        }
    }
    let pairs: usize = ROOMS.iter().map(|r| forbidden(r).count()).sum();
    let closing = format!("{pairs} forbidden pairs absent, {} rules hold in {sources} files", RULES.len());
    conclude(findings, closing)
}

/// What cargo resolves for the room: one package a line.
fn tree_of(room: &Room) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(repo::root())
        .args(["tree", "--package", room.package, "--edges", "normal,build", "--prefix", "none"])
        .output()
        .map_err(|e| format!("cargo tree: {e}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree --package {}: {}", room.package, why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn forbidden(room: &Room) -> impl Iterator<Item = &'static Room> {
    ROOMS.iter().filter(move |other| other.name != room.name && !room.may_touch.contains(&other.name))
}

/// Every folder is a room of the table, and the other way round.
fn check_folders(folders: &[String]) -> Vec<String> {
    let unlisted = folders.iter().filter(|f| !ROOMS.iter().any(|r| r.name == *f));
    let missing = ROOMS.iter().filter(|r| !folders.iter().any(|f| f == r.name));
    unlisted
        .map(|f| format!("crates/{f} is not in the table of rooms: say what it may touch"))
        .chain(missing.map(|r| format!("crates/{} is in the table of rooms and does not exist", r.name)))
        .collect()
}

/// Forbidden edges of a room, in the form of `cargo tree --prefix none`.
fn check_tree(room: &Room, tree: &str) -> Vec<String> {
    let reached: BTreeSet<&str> = tree.lines().filter_map(|l| l.split_whitespace().next()).collect();
    if !reached.contains(room.package) {
        return vec![format!("cargo tree does not show {}", room.package)];
    }
    let mut findings: Vec<String> = forbidden(room)
        .filter(|other| reached.contains(other.package))
        .map(|other| {
            let (from, to) = (room.package, other.package);
            format!("{} must not touch {}: see `cargo tree -p {from} -i {to}`", room.name, other.name)
        })
        .collect();
    if !room.outside {
        let strangers = reached.iter().filter(|p| !ROOMS.iter().any(|r| r.package == **p));
        findings.extend(strangers.map(|p| format!("{} depends on nothing, but reaches {p}", room.name)));
    }
    findings
}

/// Whether an exception names the file, or a folder (with a closing slash) that it lies in.
fn excepted(exception: &str, path: &str) -> bool {
    path == exception || exception.ends_with('/') && path.starts_with(exception)
}

/// Broken rules of one file.
fn check_source(room: &Room, path: &str, text: &str) -> Vec<String> {
    let all = lex(text);
    let is_test_file = path.ends_with("/tests.rs") || path.contains("/tests/");
    let outside_tests = if is_test_file { Vec::new() } else { without_tests(&all) };
    let rules = RULES.iter().filter(|r| r.rooms.contains(&room.name) && !r.except.iter().any(|e| excepted(e, path)));
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

/// Positions of the first word of each entry of a braced list that starts at `from`.
fn list_heads(tokens: &[Token], from: usize) -> Vec<usize> {
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

    fn room(name: &str) -> &'static Room {
        ROOMS.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no room {name}"))
    }

    fn found(name: &str, file: &str, text: &str) -> Vec<String> {
        check_source(room(name), &format!("crates/{name}/src/{file}"), text)
    }

    #[test]
    fn a_forbidden_edge_is_named() {
        let tree = "anemone-engine v0.1.0 (/x)\nanemone-facts v0.1.0 (/x)\nanemone-compile v0.1.0 (/x)\nhalf v2.7.1\n";
        let findings = check_tree(room("engine"), tree);
        assert_eq!(findings, ["engine must not touch compile: see `cargo tree -p anemone-engine -i anemone-compile`"]);
        assert!(check_tree(room("engine"), "anemone-engine v0.1.0\nanemone-program v0.1.0 (*)\n").is_empty());
    }

    #[test]
    fn the_front_door_is_behind_every_wall() {
        for r in ROOMS.iter().filter(|r| r.name != "ane" && !r.may_touch.contains(&"ane")) {
            let tree = format!("{} v0.1.0\nanemone v0.1.0\n", r.package);
            assert!(check_tree(r, &tree).iter().any(|f| f.contains("must not touch ane")), "{}", r.name);
        }
    }

    #[test]
    fn facts_depends_on_nothing() {
        assert_eq!(
            check_tree(room("facts"), "anemone-facts v0.1.0\nhalf v2\n"),
            ["facts depends on nothing, but reaches half"]
        );
        assert_eq!(check_tree(room("facts"), ""), ["cargo tree does not show anemone-facts"]);
    }

    #[test]
    fn rooms_and_folders_agree() {
        let mut folders: Vec<String> = ROOMS.iter().map(|r| r.name.to_string()).collect();
        assert!(check_folders(&folders).is_empty());
        folders[0] = "attic".into();
        assert_eq!(check_folders(&folders).len(), 2);
    }

    #[test]
    fn input_and_output_are_found() {
        assert_eq!(
            found("net", "lib.rs", "//! std::fs\nuse std::{fmt, fs::File};\n"),
            ["crates/net/src/lib.rs:2: `fs`: this room does no input or output"]
        );
        assert_eq!(found("facts", "a.rs", "fn f() { std::env::var(\"X\"); println!(\"x\"); }").len(), 2);
        assert!(found("net", "a.rs", "use std::{fmt, io::{self, ErrorKind}}; // println!()").is_empty());
        assert!(found("program", "a.rs", "#[cfg(test)] mod tests { fn f() { std::fs::read(\"x\"); } }").is_empty());
        assert!(found("ane", "main.rs", "fn main() { println!(\"x\"); }").is_empty());
    }

    #[test]
    fn unsafe_is_found_even_in_tests_and_allowed_where_named() {
        assert_eq!(found("program", "a.rs", "#[cfg(test)] mod tests { fn f() { unsafe { x() } } }").len(), 1);
        assert!(found("program", "bytes.rs", "fn f() { unsafe { x() } }").is_empty());
        assert!(found("engine", "a.rs", "/// No `unsafe`.\n#![deny(unsafe_code)]").is_empty());
    }

    #[test]
    fn the_engine_neither_panics_nor_rounds_twice() {
        assert_eq!(found("engine", "a.rs", "fn f() { x.unwrap(); panic!(\"x\"); f16::from_f32(y); }").len(), 3);
        assert!(found("engine", "number.rs", "fn f() { f16::from_f32(y); x.unwrap_or(1); }").is_empty());
        assert!(found("compile", "a.rs", "fn f() { x.unwrap(); f16::from_f32(y); }").is_empty());
    }

    #[test]
    fn chips_are_not_named_outside_facts() {
        assert_eq!(found("compile", "a.rs", "use anemone_facts::layout::H13;").len(), 1);
        assert_eq!(found("net", "a.rs", "fn f(chip: &str) {}").len(), 1);
        assert!(found("facts", "a.rs", "pub use h13::H13;").is_empty());
    }
}
