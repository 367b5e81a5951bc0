//! Tables of `docs/compiler.md`, from the data that `scripts/compiler_tables.py --write` records.

use crate::repo;
use anemone_compile::pipeline;
use std::fmt::Write;

const EFFECTS: &str = "docs/data/passes.tsv";

/// Cells of each row of a file, without the header.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| line.split('\t').collect())
}

/// One measurement of the models, with all passes or without one.
struct Effect<'a> {
    pass: &'a str,
    changed: u64,
    refused: u64,
    tasks: u64,
    kernel_bytes: u64,
    scratch_bytes: u64,
    engine_ns: u64,
}

fn effect<'a>(row: &[&'a str]) -> Result<Effect<'a>, String> {
    let &[pass, changed, refused, tasks, kernel_bytes, scratch_bytes, engine_ns] = row else {
        return Err(format!("{EFFECTS}: seven cells expected in `{}`", row.join(" ")));
    };
    let number = |cell: &str| cell.parse().map_err(|e| format!("{EFFECTS}: {cell}: {e}"));
    Ok(Effect {
        pass,
        changed: number(changed)?,
        refused: number(refused)?,
        tasks: number(tasks)?,
        kernel_bytes: number(kernel_bytes)?,
        scratch_bytes: number(scratch_bytes)?,
        engine_ns: number(engine_ns)?,
    })
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}

/// The models with every pass, then without each, then the optional passes without a row. Errors: a row without an optional pass.
pub(super) fn effects() -> Result<String, String> {
    let record = repo::read(EFFECTS)?;
    let all = rows(&record).map(|row| effect(&row)).collect::<Result<Vec<_>, _>>()?;
    let Some((whole, without)) = all.split_first() else { return Err(format!("{EFFECTS}: empty")) };
    let optional: Vec<&str> = pipeline::ALL.iter().filter(|pass| pass.optional).map(|pass| pass.name).collect();
    let recorded: Vec<&str> = without.iter().map(|row| row.pass).collect();
    if let Some(unknown) = recorded.iter().find(|&name| !optional.contains(name)) {
        return Err(format!("{EFFECTS}: {unknown} is no optional pass of `ane passes`: remove its row"));
    }
    let mut out = format!(
        "\n| pass left out | packages whose program changes | tasks | kernel data, MB | scratch, MB | modelled time, us |\n|---|---|---|---|---|---|\n\
         | nothing | | {} | {} | {} | {} |\n",
        whole.tasks,
        megabytes(whole.kernel_bytes),
        megabytes(whole.scratch_bytes),
        whole.engine_ns / 1000
    );
    for row in without.iter().filter(|row| row.changed + row.refused > 0) {
        let refused = if row.refused > 0 { format!(", {} refused", row.refused) } else { String::new() };
        let more = row.engine_ns.div_euclid(1000) as i64 - (whole.engine_ns / 1000) as i64;
        let _ = writeln!(
            out,
            "| `{}` | {}{refused} | {} | {} | {} | {more:+} |",
            row.pass,
            row.changed,
            row.tasks,
            megabytes(row.kernel_bytes),
            megabytes(row.scratch_bytes)
        );
    }
    let idle: Vec<String> =
        without.iter().filter(|row| row.changed + row.refused == 0).map(|row| format!("`{}`", row.pass)).collect();
    if !idle.is_empty() {
        let _ = writeln!(out, "\nNo program changes without {}.", idle.join(", "));
    }
    let new: Vec<String> = optional.iter().filter(|name| !recorded.contains(name)).map(|n| format!("`{n}`")).collect();
    if !new.is_empty() {
        let _ = writeln!(out, "\nNot measured: {}.", new.join(", "));
    }
    out.push('\n');
    Ok(out)
}

/// A table from a file whose first row is its header, below the text in its lines of `#:`.
pub(super) fn table(name: &str) -> Result<String, String> {
    let path = format!("docs/data/{name}.tsv");
    let record = repo::read(&path)?;
    let mut rows = rows(&record);
    let head = rows.next().ok_or_else(|| format!("{path}: empty"))?;
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let said = record
        .lines()
        .filter_map(|line| line.strip_prefix("#: "))
        .fold(String::new(), |all, line| all + "\n" + line + "\n");
    let mut out = format!("{said}\n{}|{}\n", line(&head), "---|".repeat(head.len()));
    for row in rows {
        if row.len() != head.len() {
            return Err(format!("{path}: {} cells expected in `{}`", head.len(), row.join(" ")));
        }
        out += &line(&row);
    }
    out.push('\n');
    Ok(out)
}
