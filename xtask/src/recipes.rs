//! Recipes of `CONTRIBUTING.md`, followed literally on a copy of the repository: each edits the files that its section names, then
//! builds and tests what the section says. Copies share one target folder.

use crate::{Outcome, conclude, repo};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A recipe: its section, edits in order, and the commands that show that they suffice.
struct Recipe {
    section: &'static str,
    /// Its name in the guide's table of files.
    row: &'static str,
    edits: &'static [Edit],
    /// Commands after the edits.
    shown_by: &'static [Shown],
}

/// A command that shows that the edits suffice.
enum Shown {
    /// Cargo in the copy with these arguments succeeds, and prints the text.
    Copy(&'static [&'static str], &'static str),
    /// This test of the repository reads its cases from the copy's folder, and prints the text. It is built here already, and the edits
    /// changed no code.
    Cases { test: &'static [&'static str], variable: &'static str, folder: &'static str, prints: &'static str },
}

/// A change of a file.
struct Edit {
    file: &'static str,
    change: Change,
}

/// Kind of an edit.
enum Change {
    /// Adds a line behind the first one that contains a text.
    Add { behind: &'static str, line: &'static str },
    /// Replaces a text.
    Replace { from: &'static str, to: &'static str },
    /// Replaces the end of every row with a string.
    Rows { from: &'static str, to: &'static str },
    /// Creates the file.
    New { text: &'static str },
}

impl Change {
    /// The file's text after the edit.
    fn applied(&self, text: &str) -> Result<String, String> {
        match *self {
            Change::Add { behind, line } => {
                let at = text.find(behind).ok_or_else(|| format!("no line has {behind:?}"))?;
                let end = at + text[at..].find('\n').unwrap_or(text.len() - at);
                Ok(format!("{}\n{line}{}", &text[..end], &text[end..]))
            }
            Change::Replace { from, .. } if !text.contains(from) => Err(format!("no {from:?}")),
            Change::Replace { from, to } => Ok(text.replace(from, to)),
            Change::Rows { from, to } => {
                let row = |line: &str| match line.strip_suffix(from).filter(|row| row.contains('"')) {
                    Some(row) => format!("{row}{to}\n"),
                    None => format!("{line}\n"),
                };
                Ok(text.lines().map(row).collect())
            }
            Change::New { text } => Ok(text.to_string()),
        }
    }
}

const RECIPES: &[Recipe] = &[
    Recipe {
        section: "### A field of the task descriptor",
        row: "field",
        edits: &[
            Edit {
                file: "crates/facts/src/fields.rs",
                change: Change::Add {
                    behind: "fields! {",
                    line: "    RecipeField: Uint, \"\", \"a field that a recipe adds\";",
                },
            },
            Edit {
                file: "crates/facts/src/layout/h13.rs",
                change: Change::Add {
                    behind: "18..=22 KBase3",
                    line: "                24..=27 RecipeField Claimed \"regmap\",",
                },
            },
            Edit {
                file: "crates/engine/src/field_support.rs",
                change: Change::Add { behind: "    match field {", line: "        RecipeField => NoEffect," },
            },
        ],
        shown_by: &[Shown::Copy(&["check", "--package", "anemone-facts", "--package", "anemone-engine"], "")],
    },
    Recipe {
        section: "### An operation",
        row: "operation: one unary; any other",
        edits: &[
            Edit {
                file: "crates/net/src/ops/unary.rs",
                change: Change::Add { behind: "    Atanh,", line: "    Cube," },
            },
            Edit {
                file: "crates/net/src/ops/unary.rs",
                change: Change::Add {
                    behind: "\"atanh\" \"atanh\" \"Atanh\"",
                    line: "    \"cube\" \"\" \"Cube\" &[], |_| Unary::Cube, |x, _| x * x * x, Some(|x, _| x * x * x);",
                },
            },
            Edit {
                file: "crates/compile/src/lower/unary.rs",
                change: Change::Add {
                    behind: "            Unary::Ceil => self.whole(PlanarOp::Add, Table::positive(), from, to),",
                    line: "            Unary::Cube => {
                let square = self.scratch(\"square\", &from.shape());
                self.planar_two(PlanarOp::Mul, Affine::UNIT, from, from, &square)?;
                self.planar_two(PlanarOp::Mul, Affine::UNIT, &square, from, to)
            }",
                },
            },
            Edit {
                file: "crates/ane/tests/nets/ops.rs",
                change: Change::Add {
                    behind: "        Unary::Threshold { alpha: 0.5 },",
                    line: "        Unary::Cube,",
                },
            },
        ],
        shown_by: &[
            Shown::Copy(
                &["test", "--profile", "dev", "--package", "anemone-net", "--test", "units", "rows_are_distinct"],
                "1 passed",
            ),
            Shown::Copy(&["check", "--package", "anemone-compile"], ""),
        ],
    },
    Recipe {
        section: "### A pass",
        row: "pass",
        edits: &[
            Edit {
                file: "crates/compile/src/rewrite/dead.rs",
                change: Change::Add {
                    behind: "use anemone_net::Net;",
                    line: "
/// Says how many operations there are.
pub(crate) fn count_operations(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    reasons.say(|| format!(\"{} operations\", net.ops.len()));
    Ok(())
}",
                },
            },
            Edit {
                file: "crates/compile/src/pipeline.rs",
                change: Change::Add {
                    behind: "        \"operations whose results are not read are removed\";",
                    line:
                        "    COUNT: 1 true \"0g-count-operations\" Work::Net(rewrite::dead::count_operations), \"ours\",
        \"says how many operations there are\";",
                },
            },
        ],
        shown_by: &[Shown::Copy(&["check", "--package", "anemone-compile"], "")],
    },
    Recipe {
        section: "### A kernel",
        row: "kernel",
        edits: &[
            Edit {
                file: "crates/conv/src/convolution/registry.rs",
                change: Change::Add {
                    behind: "pub static ROWS: &[Row] = &[",
                    line: "    Row {
        name: \"recipe\",
        packing: &[Packing::Rows],
        cost: products,
        scales: false,
        accepts: |q| when(q.ext.plane() == 0, \"the result has elements\"),
        run: super::direct::convolve_nothing,
    },",
                },
            },
            Edit {
                file: "crates/conv/src/convolution/direct.rs",
                change: Change::Add {
                    behind: "use pulp::{Simd, WithSimd};",
                    line: "
/// A result without elements: nothing is stored.
pub(super) fn convolve_nothing(_: super::registry::Work) {}",
                },
            },
        ],
        shown_by: &[Shown::Copy(&["check", "--package", "anemone-conv"], "")],
    },
    Recipe {
        section: "### A chip",
        row: "chip of a known generation",
        edits: &[
            Edit {
                file: "crates/facts/src/chips.rs",
                change: Change::Add {
                    behind: "    \"h19\" \"A18\" 6 11 24",
                    line: "    \"h99\" \"A18\" 6 14 36 \"\" \"\" None;",
                },
            },
            Edit {
                file: "crates/facts/src/hal.rs",
                change: Change::Replace { from: "TARGETS: usize = 30", to: "TARGETS: usize = 31" },
            },
            Edit { file: "crates/facts/src/hal.rs", change: Change::Rows { from: "];", to: ", _; 1];" } },
            Edit {
                file: "crates/facts/src/silicon.rs",
                change: Change::Add {
                    behind: "    \"a20\" [\"a20-pro\"]",
                    line: "    \"recipe-silicon\" [] \"Recipe silicon\" \"\" \"h99\" Inferred \"a recipe\";",
                },
            },
        ],
        shown_by: &[Shown::Copy(
            &["test", "--profile", "dev", "--package", "anemone-facts", "--test", "units"],
            "0 failed",
        )],
    },
    Recipe {
        section: "### A test case",
        row: "test case",
        edits: &[Edit {
            file: "crates/ane/tests/snapshots/recipe.txt",
            change: Change::New {
                text: "net \"recipe\" {\n  input %a: f16[1, 3, 4, 4]\n  %y: f16[1, 3, 4, 4] = relu(%a)\n  output %y\n}\n",
            },
        }],
        // The test finds the file, and requires its sections.
        shown_by: &[Shown::Cases {
            test: &["test", "--workspace", "--test", "nets", "snapshots"],
            variable: "ANE_SNAPSHOTS",
            folder: "crates/ane/tests/snapshots",
            prints: "recipe, line 6",
        }],
    },
];

impl Recipe {
    /// Number of files that its edits touch.
    fn files(&self) -> usize {
        self.edits.iter().map(|edit| edit.file).collect::<BTreeSet<_>>().len()
    }

    fn name(&self) -> &'static str {
        self.section.trim_start_matches('#').trim()
    }
}

/// Follows every recipe, or those whose sections contain one of the given words, each on a fresh copy in `target/recipes`.
pub fn run(words: &[String]) -> Outcome {
    let guide = repo::read("CONTRIBUTING.md").map_err(|e| vec![e])?;
    let copy = repo::root().join("target/recipes");
    let mut findings = Vec::new();
    let asked = |recipe: &&Recipe| words.is_empty() || words.iter().any(|word| recipe.section.contains(word.as_str()));
    let recipes: Vec<&Recipe> = RECIPES.iter().filter(asked).collect();
    if recipes.is_empty() {
        return Err(vec![format!("no recipe has {}", words.join(" or "))]);
    }
    for recipe in &recipes {
        let begun = Instant::now();
        let followed = counted(recipe, &guide).and_then(|()| follow(recipe, &guide, &copy));
        println!("{}: {} files, {} s", recipe.name(), recipe.files(), begun.elapsed().as_secs());
        findings.extend(followed.err().map(|finding| format!("{}: {finding}", recipe.name())));
    }
    conclude(findings, format!("{} recipes do what they say", recipes.len()))
}

/// The guide's table has the number of files of the recipe; where it has two, the first.
fn counted(recipe: &Recipe, guide: &str) -> Result<(), String> {
    let row = guide.lines().find_map(|line| line.strip_prefix(&format!("| {} |", recipe.row)));
    let cell = row.ok_or_else(|| format!("the table of recipes has no row `{}`", recipe.row))?;
    let stated = cell.split([';', '|']).next().unwrap_or_default().trim();
    if stated != recipe.files().to_string() {
        return Err(format!("the table of recipes states {stated} files, the edits touch {}", recipe.files()));
    }
    Ok(())
}

fn follow(recipe: &Recipe, guide: &str, copy: &Path) -> Result<(), String> {
    fresh(copy)?;
    for (file, text) in edited(recipe, guide)? {
        std::fs::write(copy.join(file), text).map_err(|e| format!("{file}: {e}"))?;
    }
    recipe.shown_by.iter().try_for_each(|shown| shown.holds(copy))
}

/// Files of the repository after the recipe's edits. Errors: a file that the section does not name, and an edit that finds no place.
fn edited(recipe: &Recipe, guide: &str) -> Result<BTreeMap<&'static str, String>, String> {
    let section = guide.split_once(recipe.section).ok_or("no such section in CONTRIBUTING.md")?.1;
    let section = section.split("\n### ").next().unwrap_or(section);
    let mut files = BTreeMap::new();
    for edit in recipe.edits {
        let file = edit.file;
        // Whoever adds a file chooses its name; the section names the folder.
        let named = match edit.change {
            Change::New { .. } => file.rsplit_once('/').map_or(file, |(folder, _)| folder),
            _ => file,
        };
        if !section.contains(named) {
            return Err(format!("the section does not name {named}"));
        }
        let text = match (files.remove(file), &edit.change) {
            (Some(text), _) => text,
            (None, Change::New { .. }) => String::new(),
            (None, _) => repo::read(file)?,
        };
        files.insert(file, edit.change.applied(&text).map_err(|e| format!("{file}: {e}"))?);
    }
    Ok(files)
}

impl Shown {
    fn holds(&self, copy: &Path) -> Result<(), String> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let (arguments, prints, succeeds) = match *self {
            Shown::Copy(arguments, prints) => {
                cargo.args(arguments).current_dir(copy);
                (arguments, prints, true)
            }
            Shown::Cases { test, variable, folder, prints } => {
                // The profile that this program was built with has the test's dependencies.
                let built = std::env::current_exe().map_err(|e| e.to_string())?;
                let profile = built.parent().and_then(Path::file_name).unwrap_or_default();
                cargo.args(test.iter().take(1)).arg("--profile").arg(profile).args(test.iter().skip(1));
                cargo.env(variable, copy.join(folder)).current_dir(repo::root());
                (test, prints, false)
            }
        };
        let ran = cargo.output().map_err(|e| e.to_string())?;
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        if said.contains(prints) && (ran.status.success() || !succeeds) {
            return Ok(());
        }
        Err(format!("cargo {}: {}\n{said}", arguments.join(" "), ran.status))
    }
}

/// A copy of the files that are or will be under version control; what cargo made there before stays.
fn fresh(copy: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(repo::root());
    let listed = git.output().map_err(|e| e.to_string())?;
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to): (PathBuf, PathBuf) = (repo::root().join(name), copy.join(name));
        let Ok(bytes) = std::fs::read(&from) else { continue };
        // Unchanged files keep their modification time, so that cargo does not rebuild them.
        if std::fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        let folder = to.parent().unwrap_or(copy);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&to, bytes))
            .map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_finds_its_place() {
        let guide = repo::read("CONTRIBUTING.md").expect("the guide");
        for recipe in RECIPES {
            counted(recipe, &guide).unwrap_or_else(|e| panic!("{}: {e}", recipe.name()));
            let files = edited(recipe, &guide).unwrap_or_else(|e| panic!("{}: {e}", recipe.name()));
            assert_eq!(files.len(), recipe.files(), "{}", recipe.name());
        }
    }

    #[test]
    fn an_edit_without_a_place_is_an_error() {
        let lost = Change::Add { behind: "nowhere", line: "x" };
        assert!(lost.applied("a\nb\n").is_err());
        assert_eq!(Change::Add { behind: "a", line: "x" }.applied("a\nb\n").as_deref(), Ok("a\nx\nb\n"));
        let ends = Change::Rows { from: "];", to: ", 1];" };
        assert_eq!(ends.applied("\"row\" [0];\nlet x = [0];\n").as_deref(), Ok("\"row\" [0, 1];\nlet x = [0];\n"));
    }
}
