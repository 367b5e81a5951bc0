//! The report as one JSON document.

use super::{Answer, Fallback, Report, reason, route_name, times};
use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_check::lint::Finding;
use anemone_check::{Placement, Verdict, describe};
use anemone_compile::here::Here;
use serde_json::{Value, json};

/// The whole report, schema `anemone.check/1`.
pub fn document(report: &Report) -> Value {
    let ops: Vec<Value> = report
        .outline
        .ops
        .iter()
        .map(|op| {
            let results: Vec<&str> = op.outputs.iter().map(|v| v.name.as_str()).collect();
            let operands: Vec<&str> = op.live().map(|v| v.name.as_str()).collect();
            let outputs: Vec<String> = op.outputs.iter().map(|o| o.ty.to_string()).collect();
            json!({
                "name": op.name, "op": op.op, "operands": operands, "results": results, "outputs": outputs, "constant": op.constant,
                "macs": describe::macs(op),
            })
        })
        .collect();
    let failing: Vec<&str> = report.failing(&[]).iter().map(|(chip, _)| *chip).collect();
    json!({
        "schema": "anemone.check/1",
        "path": report.path,
        "function": report.outline.name,
        "opset": report.outline.opset,
        "conditions": report.outline.conditions,
        "route": route_name(report.route),
        "strict": report.strict,
        "max_fallback": report.max_fallback,
        "ok": failing.is_empty(),
        "failing": failing,
        "operations": ops,
        "chips": report.answers.iter().map(|a| answer(report, a)).collect::<Vec<_>>(),
        "across": report.across.iter().map(|f| finding(report, f)).collect::<Vec<_>>(),
        "fallbacks": report.fallbacks().iter().map(|f| json!({ "target": f.target, "op": f.op, "code": f.code })).collect::<Vec<_>>(),
    })
}

fn answer(report: &Report, answer: &Answer) -> Value {
    json!({
        "chip": answer.chip,
        "target": answer.direct.chip.target,
        "direct": placement(report, &answer.direct, &answer.findings),
        "framework": placement(report, &answer.framework, &answer.framework_findings),
        "here": answer.here.as_ref().map(|made| here(report, answer, made)),
    })
}

/// Result of this compiler: task count and modelled time in nanoseconds, or its refusals.
fn here(report: &Report, answer: &Answer, here: &Here) -> Value {
    match here {
        Here::Compiled { tasks, time_ns, .. } => {
            let time =
                time_ns.map(|[total, least, most]| json!({ "total_ns": total, "least_ns": least, "most_ns": most }));
            let by_op = times::of(&report.outline, answer).map(|times| {
                let whole = |ns: &f64| ns.round() as u64;
                json!({ "operations_ns": times.by_op.iter().map(whole).collect::<Vec<_>>(), "other_ns": whole(&times.other) })
            });
            json!({ "compiles": true, "tasks": tasks, "modelled": time, "engine": by_op, "refusals": [] })
        }
        Here::Refused(refusals) => {
            let refusals: Vec<Value> = refusals.iter().map(|r| json!({ "op": r.op, "message": r.message })).collect();
            json!({ "compiles": false, "tasks": null, "refusals": refusals })
        }
    }
}

fn placement(report: &Report, placement: &Placement, findings: &[Finding]) -> Value {
    let [native, decomposed, folded, cut, host, rejected] = placement.counts();
    let verdicts = (0..placement.verdicts.len()).map(|at| verdict(report, placement, at));
    let segments = placement.segments.iter().map(|s| json!({ "engine": s.engine, "operations": s.ops }));
    json!({
        "operations_on_engine": placement.verdicts.len() - placement.fallbacks(),
        "operations_off_engine": placement.fallbacks(),
        "counts": { "native": native, "decomposed": decomposed, "folded": folded, "cut": cut, "host": host, "rejected": rejected },
        "macs": placement.macs,
        "macs_on_engine": placement.macs_engine,
        "segments": segments.collect::<Vec<_>>(),
        "engine_segments": placement.engine_segments(),
        "hand_overs": placement.hand_overs,
        "segmenter": placement.choice.as_ref().map(|c| json!({
            "cost_relative_to_cpu": if c.host_ms > 0.0 { c.cost_ms / c.host_ms } else { 1.0 },
        })),
        "verdicts": verdicts.collect::<Vec<_>>(),
        "findings": findings.iter().map(|f| finding(report, f)).collect::<Vec<_>>(),
    })
}

fn verdict(report: &Report, placement: &Placement, at: usize) -> Value {
    let Verdict { place, into, refusal, own, basis, source, unknown, fused, differ, notes } = &placement.verdicts[at];
    let backend = placement.choice.as_ref().and_then(|c| c.backends[at]).map(|b| b.name());
    json!({
        "name": report.outline.ops[at].name,
        "op": report.outline.ops[at].op,
        "place": place.name(),
        "on_engine": placement.on_engine(at),
        "supported": place.on_engine(),
        "backend": backend,
        "into": into,
        "fused_into": fused,
        "evidence": basis.name(),
        "source": source,
        "unknown": unknown,
        "compiled_here_as": own,
        "sources_differ": differ,
        "notes": notes,
        "reason": (!placement.on_engine(at)).then(|| reason(placement, at)),
        "refusal": refusal.as_ref().map(|r| json!({
            "code": r.code, "message": r.message, "quantity": r.quantity, "found": r.found, "limit": r.limit,
            "apple": r.apple, "stage": r.stage, "evidence": r.basis.name(), "source": r.source, "fix": r.fix,
        })),
    })
}

fn finding(report: &Report, finding: &Finding) -> Value {
    let row = finding.lint();
    json!({
        "code": finding.code,
        "diagnostic": row.map(|l| l.diagnostic()),
        "name": row.map(|l| l.name),
        "op": finding.op.map(|at| report.outline.ops[at].name.clone()),
        "position": finding.op,
        "message": finding.message,
        "fix": finding.fix,
        "apple": finding.apple,
        "evidence": finding.basis.name(),
    })
}

/// Fallbacks in an earlier report, by model.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    models: Vec<(Option<String>, Vec<Fallback>)>,
}

impl Baseline {
    /// Reads a report of one model (`anemone.check/1`) or of several (`anemone.checks/1`); `place` names it in messages.
    pub fn read(text: &str, place: &str) -> Result<Baseline> {
        let malformed = |what: &str| {
            Diagnostic::new(Code::Malformed, format!("not a report of `ane check --json`: {what}")).at(place)
        };
        let document: Value = serde_json::from_str(text).map_err(|e| malformed(&e.to_string()))?;
        let several = || document["models"].as_array().ok_or_else(|| malformed("it has no `models`"));
        let listed: Vec<&Value> = match document["schema"].as_str() {
            Some("anemone.check/1") => vec![&document],
            // A model that could not be read has no list of operations.
            Some("anemone.checks/1") => several()?.iter().filter(|model| model["error"].is_null()).collect(),
            _ => return Err(malformed("its schema is neither anemone.check/1 nor anemone.checks/1")),
        };
        let model = |model: &Value| {
            let fallbacks = model["fallbacks"].as_array().ok_or_else(|| malformed("it has no `fallbacks`"))?;
            let field = |value: &Value, key: &str| {
                value[key].as_str().map(String::from).ok_or_else(|| malformed(&format!("a fallback has no `{key}`")))
            };
            let fallbacks: Result<Vec<Fallback>> = fallbacks
                .iter()
                .map(|f| Ok(Fallback { target: field(f, "target")?, op: field(f, "op")?, code: field(f, "code")? }))
                .collect();
            Ok((model["path"].as_str().map(String::from), fallbacks?))
        };
        Ok(Baseline { models: listed.into_iter().map(model).collect::<Result<_>>()? })
    }

    /// Fallbacks of a model: from the report with its path, else from the only one with the longest common suffix of path
    /// components. With `alone`, the only report of the baseline is used for the only checked model, whatever its path.
    pub fn of(&self, path: &str, alone: bool) -> &[Fallback] {
        let none = &[];
        if let ([(_, only)], true) = (self.models.as_slice(), alone) {
            return only;
        }
        let names = |path: &str| path.split(['/', '\\']).rev().map(String::from).collect::<Vec<_>>();
        let wanted = names(path);
        let alike = |known: &str| names(known).iter().zip(&wanted).take_while(|(a, b)| a == b).count();
        let scored = self.models.iter().filter_map(|(known, list)| Some((alike(known.as_deref()?), list)));
        let scored: Vec<_> = scored.filter(|(score, _)| *score > 0).collect();
        let best = scored.iter().map(|(score, _)| *score).max().unwrap_or(0);
        match scored.iter().filter(|(score, _)| *score == best).collect::<Vec<_>>()[..] {
            [(_, list)] => list,
            _ => none,
        }
    }

    /// The path of the only report, if its file name differs from the model's, so that it may be of another model.
    pub fn of_another(&self, path: &str) -> Option<&str> {
        let last = |path: &str| path.rsplit(['/', '\\']).next().map(String::from);
        let [(Some(known), _)] = self.models.as_slice() else { return None };
        (last(known) != last(path)).then_some(known)
    }
}
