//! Reference of the Python package, from its stubs.

use super::{CLOSE, OPEN};
use crate::repo;
use std::fmt::Write;

const STUBS: &str = "crates/python/python/anemone/__init__.pyi";
pub(super) const PAGE: &str = "docs/python-reference.md";

/// A class, function, method, property or attribute.
#[derive(Default)]
struct Item {
    /// Indentation in columns.
    indent: usize,
    /// Declaration on one line, without its final colon.
    declaration: String,
    property: bool,
    doc: String,
}

/// The page's text.
pub(super) fn reference() -> Result<String, String> {
    page(&repo::read(STUBS)?).map_err(|e| format!("{STUBS}: {e}"))
}

fn page(stubs: &str) -> Result<String, String> {
    let mut out = format!(
        "# Python reference\n\n{OPEN}\n\n\
         This page lists every class and function of the package `anemone` with its signature; [Python](python.md) has examples. \
         Editors and type checkers read the same stubs (`{STUBS}`).\n"
    );
    let items: Vec<Item> = items(stubs).into_iter().filter(Item::is_public).collect();
    if let Some(item) = items.iter().find(|item| item.doc.is_empty()) {
        return Err(format!("`{}` has no docstring", item.declaration));
    }
    let (functions, classes): (Vec<_>, Vec<_>) = items.iter().partition(|item| item.is_function());
    out += "\n## Functions\n\n";
    for item in functions {
        let _ = writeln!(out, "- `{}`: {}", item.signature(), item.doc);
    }
    for item in classes {
        let _ = match item.class() {
            Some((name, base)) => write!(out, "\n## {name}\n\n{}{}\n\n", base, item.doc),
            None => writeln!(out, "- `{}`: {}", item.signature(), item.doc),
        };
    }
    let _ = write!(out, "\n{CLOSE}\n");
    Ok(out)
}

impl Item {
    fn is_public(&self) -> bool {
        let name = self.declaration.trim_start_matches("def ").trim_start_matches("class ");
        !name.starts_with('_')
    }

    fn is_function(&self) -> bool {
        self.indent == 0 && self.declaration.starts_with("def ")
    }

    /// A class's name, and a sentence on its base class.
    fn class(&self) -> Option<(&str, String)> {
        let name = self.declaration.strip_prefix("class ")?;
        Some(match name.trim_end_matches(')').split_once('(') {
            Some((name, base)) => (name, format!("A subclass of `{base}`. ")),
            None => (name, String::new()),
        })
    }

    /// The declaration from a caller's view: no `def`, no `self`; a property is a name with a type.
    fn signature(&self) -> String {
        let call =
            self.declaration.trim_start_matches("def ").replace("( ", "(").replace(", )", ")").replace(" )", ")");
        let call = call.replace("(self, ", "(").replace("(self)", "()");
        if self.property { call.replacen("() -> ", ": ", 1) } else { call }
    }
}

/// Every declaration with its docstring.
fn items(stubs: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut lines = stubs.lines();
    let mut property = false;
    while let Some(line) = lines.next() {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if text == "@property" {
            property = true;
        } else if let Some(doc) = text.strip_prefix("\"\"\"") {
            let mut doc = doc.to_string();
            while !doc.ends_with("\"\"\"") {
                let Some(more) = lines.next() else { break };
                doc = format!("{doc} {}", more.trim());
            }
            if let Some(item) = items.last_mut().filter(|item| item.doc.is_empty()) {
                item.doc = doc.trim_end_matches("\"\"\"").to_string();
            }
        } else if text.starts_with("def ") || text.starts_with("class ") {
            let mut declaration = text.to_string();
            while !declaration.ends_with(':') && !declaration.ends_with("...") {
                let Some(more) = lines.next() else { break };
                declaration = format!("{declaration} {}", more.trim());
            }
            let declaration = declaration.trim_end_matches("...").trim_end().trim_end_matches(':').to_string();
            items.push(Item { indent, declaration, property, doc: String::new() });
            property = false;
        } else if indent > 0
            && text.split_once(": ").is_some_and(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        {
            items.push(Item { indent, declaration: text.into(), ..Item::default() });
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "import x\n\nclass A(Exception):\n    \"\"\"A class.\"\"\"\n\n    size: int\n    \"\"\"Its size.\"\"\"\n    @property\n    \
        def name(self) -> str:\n        \"\"\"Its\n        name.\"\"\"\n\n    def __len__(self) -> int: ...\n\n\
        def f(\n    x: int,\n    *,\n    y: str = \"a\",\n) -> A:\n    \"\"\"Makes one.\"\"\"\n";

    #[test]
    fn members_have_signature_and_docstring() {
        let page = page(SAMPLE).expect("all have docstrings");
        for line in [
            "- `f(x: int, *, y: str = \"a\") -> A`: Makes one.",
            "## A\n\nA subclass of `Exception`. A class.",
            "- `size: int`: Its size.",
            "- `name: str`: Its name.",
        ] {
            assert!(page.contains(line), "{line:?} in {page}");
        }
        assert!(!page.contains("__len__"));
    }

    #[test]
    fn a_member_without_docstring_is_an_error() {
        assert!(page("def f() -> int: ...\n").is_err_and(|e| e.contains("`def f() -> int`")));
    }
}
