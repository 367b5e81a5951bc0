//! Recipes of `CONTRIBUTING.md`, followed literally on a copy of the repository: each edits the files that its section names, then
//! builds and tests what the section says.

use crate::{Outcome, conclude, repo};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A recipe: its section, edits in order, and what shows that they are enough.
struct Recipe {
    section: &'static str,
    edits: &'static [Edit],
    /// Arguments of cargo, and a text of its output; `None` for success alone.
    shown_by: &'static [(&'static [&'static str], Option<&'static str>)],
}

/// A change of a file.
struct Edit {
    file: &'static str,
    change: Change,
}

/// Kind of an edit.
enum Change {
    /// A line is put behind the first one that contains a text.
    Add { behind: &'static str, line: &'static str },
    /// A text is replaced.
    Replace { from: &'static str, to: &'static str },
    /// The end of every row with a text in quotes is replaced.
    Rows { from: &'static str, to: &'static str },
    /// The file is new.
    New { text: &'static str },
}

impl Change {
    /// The file's text after it.
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
                file: "crates/engine/src/honours.rs",
                change: Change::Add { behind: "    match field {", line: "        RecipeField => NoEffect," },
            },
        ],
        shown_by: &[(&["check", "--package", "anemone-facts", "--package", "anemone-engine"], None)],
    },
    Recipe {
        section: "### An operation",
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
                    behind: "            Unary::Ceil => self.ceil(1.0, from, to),",
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
            (&["test", "--package", "anemone-net", "--lib", "rows_are_distinct"], Some("1 passed")),
            (&["check", "--package", "anemone-compile"], None),
        ],
    },
    Recipe {
        section: "### A pass",
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
        shown_by: &[(&["check", "--package", "anemone-compile"], None)],
    },
    Recipe {
        section: "### A kernel",
        edits: &[
            Edit {
                file: "crates/kernels/src/conv/registry.rs",
                change: Change::Add {
                    behind: "pub static ROWS: &[Row] = &[",
                    line: "    Row {
        name: \"recipe\",
        packing: &[Packing::Rows],
        cost: products,
        accepts: |q| when(q.ext.plane() == 0, \"the result has elements\"),
        run: super::direct::convolve_nothing,
    },",
                },
            },
            Edit {
                file: "crates/kernels/src/conv/direct.rs",
                change: Change::Add {
                    behind: "use pulp::{Simd, WithSimd};",
                    line: "
/// A result without elements: nothing is stored.
pub(super) fn convolve_nothing(_: super::registry::Work) {}",
                },
            },
        ],
        shown_by: &[(&["check", "--package", "anemone-kernels"], None)],
    },
    Recipe {
        section: "### A chip",
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
        shown_by: &[(&["test", "--package", "anemone-facts", "--lib"], Some("0 failed"))],
    },
    Recipe {
        section: "### A test case",
        edits: &[Edit {
            file: "crates/ane/tests/snapshots/recipe.txt",
            change: Change::New {
                text: "net \"recipe\" {\n  input %a: f16[1, 3, 4, 4]\n  %y: f16[1, 3, 4, 4] = relu(%a)\n  output %y\n}\n",
            },
        }],
        // The test finds the file, and asks for its sections.
        shown_by: &[(
            &["test", "--profile", "quick", "--workspace", "--test", "nets", "snapshots"],
            Some("recipe, line 6"),
        )],
    },
];

/// Follows every recipe, or those whose sections contain one of the words given, each on a fresh copy in `target/recipes`.
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
        if let Err(finding) = follow(recipe, &guide, &copy) {
            findings.push(format!("{}: {finding}", recipe.section.trim_start_matches('#').trim()));
        }
    }
    conclude(findings, format!("{} recipes do what they say", recipes.len()))
}

fn follow(recipe: &Recipe, guide: &str, copy: &Path) -> Result<(), String> {
    let section = guide.split_once(recipe.section).ok_or("no such section in CONTRIBUTING.md")?.1;
    let section = section.split("\n### ").next().unwrap_or(section);
    fresh(copy)?;
    for edit in recipe.edits {
        // The name of a new file is whoever's adds it.
        let named = match edit.change {
            Change::New { .. } => edit.file.rsplit_once('/').map_or(edit.file, |(folder, _)| folder),
            _ => edit.file,
        };
        if !section.contains(named) {
            return Err(format!("the section does not name {named}"));
        }
        let path = copy.join(edit.file);
        let text = match edit.change {
            Change::New { .. } => String::new(),
            _ => std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", edit.file))?,
        };
        let edited = edit.change.applied(&text).map_err(|e| format!("{}: {e}", edit.file))?;
        std::fs::write(&path, edited).map_err(|e| format!("{}: {e}", edit.file))?;
    }
    for (arguments, wanted) in recipe.shown_by {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let ran = Command::new(cargo).args(*arguments).current_dir(copy).output().map_err(|e| e.to_string())?;
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let as_wanted = wanted.map_or(ran.status.success(), |text| said.contains(text));
        if !as_wanted {
            return Err(format!("cargo {}: {}\n{said}", arguments.join(" "), ran.status));
        }
    }
    Ok(())
}

/// A copy of the files under version control; what cargo made there before stays.
fn fresh(copy: &Path) -> Result<(), String> {
    let listed = Command::new("git").arg("ls-files").current_dir(repo::root()).output().map_err(|e| e.to_string())?;
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to): (PathBuf, PathBuf) = (repo::root().join(name), copy.join(name));
        let Ok(bytes) = std::fs::read(&from) else { continue };
        // Unchanged files keep their time, so that cargo builds nothing again for them.
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
