//! Rules for the design of models, over a placed program: what is refused, silently wrong, or slow.

mod ranges;
mod slow;
mod wrong;

use super::legal::Route;
use super::placement::Placement;
use super::verdict::Place;
use anemone_facts::Basis;
use anemone_facts::chips::{CHIPS, Chip};
use anemone_facts::lint::{Lint, by_code};
use anemone_facts::ops::{self, Reach, Sweep};
use anemone_facts::silicon;
use anemone_net::outline::{Outline, OutlineOp};

/// Properties of values and of the host process that no program states, supplied by the caller.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Assumptions {
    /// Largest magnitude of every input.
    pub max_abs: Option<f64>,
    /// True if tensors are bound by the private surface route.
    pub private: bool,
    /// True if image inputs are bound as pixel buffers.
    pub pixel_buffers: bool,
    /// Compiles in one process.
    pub compiles: u32,
    /// Requests queued at once.
    pub queued: u32,
    /// Programs loaded at once.
    pub loaded: u32,
}

/// A rule that fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its code.
    pub code: &'static str,
    /// Position of the operation; none for the program as a whole.
    pub op: Option<usize>,
    /// Finding, in one line.
    pub message: String,
    /// Evidence for the rule on this chip.
    pub basis: Basis,
    /// Suggested fix.
    pub fix: String,
    /// Apple's text, where one is known.
    pub apple: Option<String>,
}

impl Finding {
    fn new(code: &'static str, op: Option<usize>, message: impl Into<String>) -> Finding {
        let row = by_code(code);
        let basis = row.map_or(Basis::Inferred, |l| l.basis);
        let fix = row.map_or(String::new(), |l| l.fix.to_string());
        Finding { code, op, message: message.into(), basis, fix, apple: None }
    }

    /// Its row.
    pub fn lint(&self) -> Option<&'static Lint> {
        by_code(self.code)
    }
}

/// Every rule that fires on a placed program, by operation, then by code.
pub fn check(outline: &Outline, placement: &Placement, assumptions: &Assumptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, verdict) in placement.verdicts.iter().enumerate() {
        if let Some(refusal) = &verdict.refusal {
            findings.push(Finding {
                code: refusal.code,
                op: Some(at),
                message: refusal.message.clone(),
                basis: refusal.basis,
                fix: refusal.fix.clone(),
                apple: refusal.apple.clone(),
            });
        }
        let op = &outline.ops[at];
        if verdict.refusal.is_none() && !op.constant {
            findings.extend(rejected(op, at, placement));
        }
    }
    findings.extend(surroundings(outline, assumptions));
    let bounds = ranges::bounds(outline, assumptions);
    wrong::check(outline, placement, &bounds, &mut findings);
    slow::check(outline, placement, &mut findings);
    findings.sort_by_key(|f| (f.op.unwrap_or(usize::MAX), f.code));
    findings.dedup();
    findings
}

/// Rules for forms that no validator checks.
fn rejected(op: &OutlineOp, at: usize, placement: &Placement) -> Vec<Finding> {
    let mut findings = Vec::new();
    let width = op.outputs.first().and_then(|o| o.ty.extents().last().copied()).unwrap_or(1);
    if op.op == "square" && width % 128 > 64 && placement.route == Route::Direct {
        let message =
            format!("square at width {width}, which is {} past a multiple of 128, before a nonlinearity", width % 128);
        findings.push(Finding::new("E30", Some(at), message));
    }
    if matches!(op.op.as_str(), "instance_norm" | "layer_norm") {
        let plane: usize = op.argument("x").map_or(0, |x| x.ty().extents().iter().skip(2).product());
        if plane > 65536 {
            findings.push(Finding::new(
                "E31",
                Some(at),
                format!("normalization over planes of {plane} elements, at most 65536"),
            ));
        }
    }
    // An operation without work of its own cannot fail.
    if let Some(row) = ops::by_name(&op.op)
        && placement.verdicts[at].place != Place::Folded
        && matches!(row.sweep, Sweep::Missing | Sweep::Walled)
        && super::place::accepted(row).is_none()
        && row.reach_on(placement.chip).is_some_and(|(reach, _)| reach == Reach::Native)
    {
        let message = format!(
            "sources differ: the table of operations has {} as supported, and a sweep of single operations on an M5 failed at it",
            op.op
        );
        findings.push(Finding::new("E18", Some(at), message));
    }
    findings
}

/// Rules for the environment of a program.
fn surroundings(outline: &Outline, assumptions: &Assumptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |code, op, message: String| findings.push(Finding::new(code, op, message));
    if assumptions.pixel_buffers {
        say("E28", None, "an input is bound as a pixel buffer, which needs the entitled route".into());
    }
    if assumptions.compiles > 119 || assumptions.queued > 127 || assumptions.loaded > 128 {
        let Assumptions { compiles, queued, loaded, .. } = assumptions;
        say(
            "E34",
            None,
            format!(
                "{compiles} compiles, {queued} queued and {loaded} loaded programs; about 119, 127 and 128 are taken"
            ),
        );
    }
    if assumptions.private {
        for input in &outline.inputs {
            let width = input.ty.extents().last().copied().unwrap_or(1);
            if width < 32 {
                say("E32", None, format!("input `{}` is {width} wide, at least 32 on the private route", input.name));
            }
            if width * input.ty.element_bytes() % 64 != 0 {
                say("W12", None, format!("rows of input `{}` end before their 64-byte surface rows do", input.name));
            }
        }
        for (at, op) in outline.ops.iter().enumerate() {
            match op.op.as_str() {
                "concat" => say("E33", Some(at), "concat on the private route".into()),
                "scaled_dot_product_attention" if op.argument("attn_mask").is_some() => {
                    say("W11", Some(at), "a mask on the private route is not applied".into());
                }
                _ => {}
            }
        }
    }
    findings
}

/// Rules on results compared between chips.
pub fn across(outline: &Outline, chips: &[&Chip]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let differ = |read: fn(&Chip) -> Option<u64>| {
        let mut known: Vec<u64> = chips.iter().filter_map(|c| read(c)).collect();
        known.sort_unstable();
        known.dedup();
        known.len() > 1
    };
    for (at, op) in outline.ops.iter().enumerate() {
        let resamples = op.op.starts_with("resize") || op.op.starts_with("upsample");
        if resamples && differ(|c| c.hal.texture_engine) {
            findings.push(Finding::new("W13", Some(at), format!("{} rounds differently on the chips named", op.op)));
        }
        if op.op.starts_with("reduce_") && differ(|c| c.hal.reduction_transpose_extent) {
            let extents = op.argument("x").map(|x| x.ty().extents()).unwrap_or_default();
            let longest = super::describe::axes(op).into_iter().filter_map(|a| extents.get(a)).max();
            if let Some(longest) = longest.filter(|&&n| (192..384).contains(&n)) {
                let message = format!("a reduction over {longest} takes different routes on the chips named");
                findings.push(Finding::new("W14", Some(at), message));
            }
        }
    }
    findings
}

/// Rule for target names: finds a name that no target has.
pub fn target(name: &str) -> Option<Finding> {
    let known = silicon::by_name(name).is_some();
    (!known).then(|| Finding::new("W15", None, format!("no target is called {name}; {} are known", CHIPS.len())))
}
