//! The report as SARIF 2.1.0, for code scanning.

use super::{Report, reason};
use anemone_facts::lint::{LINTS, Lint, Severity};
use serde_json::{Value, json};

/// The log of one or several models: one run, one result for each operation off the engine and each matching rule.
pub fn document(reports: &[&Report]) -> Value {
    let mut results: Vec<Value> = reports.iter().flat_map(|report| results(report)).collect();
    let mut rules: Vec<Value> = LINTS.iter().map(rule).collect();
    let text = |text: &str| json!({ "text": text });
    rules.push(json!({
        "id": "segmenter",
        "name": "segmenter-choice",
        "shortDescription": text("The engine supports the operation, but the framework's segmenter does not select it"),
        "fullDescription": text("Core ML gives each operation to the back end with the least estimated cost, starting the engine \
            included; the estimate is modelled from recorded decisions."),
        "help": text("Bring more work into one segment: remove the operations around it that fall back to the CPU."),
        "helpUri": documents("checking", "two-answers"),
    }));
    for result in &mut results {
        let index = rules.iter().position(|r| r["id"] == result["ruleId"]);
        result["ruleIndex"] = json!(index);
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ane",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// Results of one model.
fn results(report: &Report) -> Vec<Value> {
    let mut results = Vec::new();
    for answer in &report.answers {
        let placement = answer.by(report.route);
        let chip = &answer.chip;
        for finding in answer.findings(report.route) {
            let level = match finding.lint().map(Lint::severity) {
                Some(Severity::Rejected) => "error",
                Some(Severity::Wrong) => "warning",
                _ => "note",
            };
            let apple = finding.apple.as_ref().map_or(String::new(), |a| format!(" (apple: {a})"));
            let text = format!("{chip}: {}{apple}. Fix: {}", finding.message, finding.fix);
            results.push(result(
                report,
                finding.code,
                level,
                &text,
                finding.op,
                placement.chip.target,
                finding.basis.name(),
            ));
        }
        let unchosen = |at: &usize| !placement.on_engine(*at) && placement.verdicts[*at].refusal.is_none();
        for at in (0..placement.verdicts.len()).filter(unchosen) {
            let text = format!("{chip}: {}", reason(placement, at));
            results.push(result(report, "segmenter", "note", &text, Some(at), placement.chip.target, "inferred"));
        }
    }
    for finding in &report.across {
        results.push(result(
            report,
            finding.code,
            "warning",
            &finding.message,
            finding.op,
            "all",
            finding.basis.name(),
        ));
    }
    results
}

/// Address of a place in the documentation: under the site in `ANE_DOCS`, else by name.
fn documents(page: &str, anchor: &str) -> String {
    match std::env::var("ANE_DOCS").ok().filter(|site| site.starts_with("http")) {
        Some(site) => format!("{}/{page}.html#{anchor}", site.trim_end_matches('/')),
        None => format!("urn:anemone:docs:{page}#{anchor}"),
    }
}

fn rule(row: &Lint) -> Value {
    json!({
        "id": row.code,
        "name": row.name,
        "shortDescription": { "text": row.condition },
        "fullDescription": { "text": if row.why.is_empty() { row.condition } else { row.why } },
        "help": { "text": if row.fix.is_empty() { row.condition } else { row.fix } },
        "helpUri": documents("machine/lint", row.code),
        "properties": { "evidence": row.basis.name(), "source": row.source },
    })
}

fn result(
    report: &Report,
    code: &str,
    level: &str,
    text: &str,
    op: Option<usize>,
    target: &str,
    evidence: &str,
) -> Value {
    let name = op.map_or(report.outline.name.as_str(), |at| report.outline.ops[at].name.as_str());
    let logical =
        json!({ "name": name, "fullyQualifiedName": format!("{}.{name}", report.outline.name), "kind": "function" });
    json!({
        "ruleId": code,
        "level": level,
        "message": { "text": text },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": uri(&report.path) } },
            "logicalLocations": [logical],
        }],
        "partialFingerprints": { "anemone/v1": format!("{code}:{target}:{name}") },
        "properties": { "chip": target, "evidence": evidence },
    })
}

/// A path as a relative URI.
fn uri(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    path.bytes().map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}
