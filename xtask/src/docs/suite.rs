//! Outcomes of the ONNX node suite by operator, from the data of `scripts/onnx_backend.py --record`.

use super::cell;
use crate::repo;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const RECORD: &str = "docs/data/onnx-node-suite.tsv";
const WRONG: &str = "docs/data/onnx-node-wrong.tsv";
/// Inputs live or constant, each evaluated, compiled `fast` and compiled `exact`.
const COLUMNS: usize = 6;

/// One test.
struct Test<'a> {
    operator: &'a str,
    outcomes: [&'a str; COLUMNS],
    remark: &'a str,
}

fn parse(line: &str) -> Result<Test<'_>, String> {
    let mut cells = line.split('\t').skip(1);
    let mut next = || cells.next().unwrap_or_default();
    let (operator, outcomes) = (next(), std::array::from_fn(|_| next()));
    if outcomes.contains(&"") {
        return Err(format!("{RECORD}: {COLUMNS} outcomes expected in `{line}`"));
    }
    Ok(Test { operator, outcomes, remark: next() })
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
}

/// Counts by path, wrong results, and the tests of every operator.
pub(super) fn tables() -> Result<String, String> {
    let (record, wrong) = (repo::read(RECORD)?, repo::read(WRONG)?);
    let tests = rows(&record).map(parse).collect::<Result<Vec<_>, _>>()?;
    let mut out = totals(&tests);
    out += &known(&wrong);
    out += &refused(&tests);
    out += &operators(&tests);
    Ok(out)
}

fn totals(tests: &[Test]) -> String {
    let mut out = String::from(
        "\n| inputs | computed by | tests | right | wrong | refused | different, with a warning |\n|---|---|---|---|---|---|---|\n",
    );
    let ways = ["`--reference`", "compiled, `fast`", "compiled, `exact`"];
    for column in 0..COLUMNS {
        let count = |of: &str| tests.iter().filter(|t| t.outcomes[column] == of).count();
        let form = if column < ways.len() { "live" } else { "all but the first constant" };
        let [right, wrong, refused, warned] = ["right", "wrong", "refused", "warned"].map(count);
        let all = right + wrong + refused + warned;
        let way = ways[column % ways.len()];
        let _ = writeln!(out, "| {form} | {way} | {all} | {right} | {wrong} | {refused} | {warned} |");
    }
    let excluded = tests.iter().filter(|t| t.outcomes.iter().all(|o| *o == "-")).count();
    let _ = writeln!(out, "\n{excluded} tests are excluded.");
    out
}

fn known(wrong: &str) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in rows(wrong) {
        let mut cells = line.split('\t');
        let (name, reason) = (cells.next().unwrap_or_default(), cells.nth(1).unwrap_or_default());
        by_reason.entry(reason).or_default().push(name);
    }
    if by_reason.is_empty() {
        return "\nNo test has a wrong result.\n".into();
    }
    let mut out = String::from("\nTests with wrong results:\n\n| reason | tests |\n|---|---|\n");
    for (reason, names) in by_reason {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(out, "| {} | {} |", cell(reason), names.join(", "));
    }
    out
}

/// Reasons of refused tests, and of excluded ones, with their operators.
fn refused(tests: &[Test]) -> String {
    let refused = tests.iter().filter(|t| t.outcomes.contains(&"refused"));
    let excluded = tests.iter().filter(|t| t.outcomes.iter().all(|o| *o == "-"));
    let title = "Refused tests by reason. The sentence after the reason states what to do instead";
    by_reason(title, refused) + &by_reason("Excluded tests by reason", excluded)
}

fn by_reason<'a>(title: &str, tests: impl Iterator<Item = &'a Test<'a>>) -> String {
    let mut by_reason: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for test in tests {
        let (count, operators) = by_reason.entry(test.remark).or_default();
        *count += 1;
        operators.insert(test.operator);
    }
    let mut out = format!("\n{title}:\n\n| reason | tests | operators |\n|---|---|---|\n");
    for (reason, (count, operators)) in by_reason {
        let operators: Vec<&str> = operators.into_iter().collect();
        let _ = writeln!(out, "| {} | {count} | {} |", cell(reason), operators.join(", "));
    }
    out
}

/// Number of right results among those that ran, for each column.
fn operators(tests: &[Test]) -> String {
    let mut by_operator: BTreeMap<&str, Vec<&Test>> = BTreeMap::new();
    tests.iter().for_each(|t| by_operator.entry(t.operator).or_default().push(t));
    let mut out = String::from(
        "\nRight results of the tests that ran, by operator. *Live*: all inputs at run time; *constant*: all but the first stored as constants. A cell is \
         empty if no test ran.\n\n\
         | operator | live, evaluated | live, `fast` | live, `exact` | constant, evaluated | constant, `fast` | constant, `exact` | excluded | first reason of a refusal |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (operator, tests) in by_operator {
        let _ = write!(out, "| {operator} |");
        for column in 0..COLUMNS {
            let ran = tests.iter().filter(|t| t.outcomes[column] != "-").count();
            let right = tests.iter().filter(|t| t.outcomes[column] == "right").count();
            match ran {
                0 => out.push_str(" |"),
                _ => {
                    let _ = write!(out, " {right}/{ran} |");
                }
            }
        }
        let excluded = tests.iter().filter(|t| t.outcomes[0] == "-").count();
        let excluded = if excluded == 0 { String::new() } else { excluded.to_string() };
        let reason = tests.iter().find(|t| t.outcomes[0] == "refused").map_or("", |t| t.remark);
        let _ = writeln!(out, " {excluded} | {} |", cell(reason));
    }
    out.push('\n');
    out
}
