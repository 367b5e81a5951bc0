//! Contradictions between sources about what a chip supports: the statements on each operation side by side.

use super::describe;
use super::legal;
use super::strict;
use super::verdict::Verdict;
use anemone_facts::chips::{CHIPS, Chip};
use anemone_facts::legal::{Quantity as Q, Stage};
use anemone_facts::ops::{self, Reach};
use anemone_facts::silicon;
use anemone_net::outline::OutlineOp;

/// Kernel extents for which both the compiler's table and published compiles have a maximum.
const EXTENTS: [(Q, &str, &str); 2] = [
    (Q::KernelWidth, "max_kernel_width_fp16", "table_kernel_width_fp16_large"),
    (Q::KernelHeight, "max_kernel_height", "table_kernel_height_large"),
];

/// Contradictory statements on an operation, one line each; empty if the sources agree.
pub(super) fn differ(op: &OutlineOp, chip: &Chip, verdict: &Verdict) -> Vec<String> {
    let mut all: Vec<String> = extents(op, chip);
    if let Some(refusal) = verdict.refusal.as_ref().filter(|r| r.stage == Stage::CodeGeneration.name())
        && let Some(row) = ops::by_name(&op.op)
        && let Some((Reach::Native, basis)) = row.reach_on(chip)
    {
        all.push(format!(
            "the table of operations has {} as supported ({}), Apple's code generation fails at it ({})",
            op.op,
            basis.phrase(),
            refusal.basis.phrase()
        ));
    }
    if verdict.place.on_engine() {
        let says = strict::sentences(op, chip).into_iter();
        all.extend(says.map(|says| format!("the validators take it, the book: {}", with_silicon(says))));
    }
    all
}

/// Adds to a sentence of the book the silicon of the family that it names, because the book's A14 is not the A14.
fn with_silicon(says: String) -> String {
    let named = CHIPS.iter().map(|chip| chip.family).find(|family| says.contains(family));
    named.map_or(says.clone(), |family| format!("{says} (its family {family} is {})", silicon::of_family(family)))
}

/// Kernels that either the table or the compiles support, but not both.
fn extents(op: &OutlineOp, chip: &Chip) -> Vec<String> {
    let layers = describe::layers(op);
    let found = |q| layers.iter().filter(|layer| layer.kind == "Conv").find_map(|layer| layer.get(q));
    let told = EXTENTS.iter().filter_map(|&(q, compiles, table)| {
        let found = u64::try_from(found(q)?).ok()?;
        let (compiles, table) = (legal::number(chip, compiles)?, legal::number(chip, table)?);
        let name = q.name();
        ((found <= compiles) != (found <= table)).then(|| {
            format!("the compiler's table has a {name} of at most {table} (decoded), compiles take at most {compiles} (measured)")
        })
    });
    told.collect()
}
