//! Sources that differ in what a chip accepts: for each operation, the statement of one beside that of the other.

use super::describe;
use super::legal;
use super::place::Verdict;
use super::strict;
use anemone_facts::chips::{CHIPS, Chip};
use anemone_facts::legal::{Quantity as Q, Stage};
use anemone_facts::ops::{self, Reach};
use anemone_facts::silicon;
use anemone_net::outline::OutlineOp;

/// Extents of kernels of which the compiler's own table and published compiles have a greatest one each.
const EXTENTS: [(Q, &str, &str); 2] = [
    (Q::KernelWidth, "max_kernel_width_fp16", "table_kernel_width_fp16_large"),
    (Q::KernelHeight, "max_kernel_height", "table_kernel_height_large"),
];

/// Statements on an operation that differ between sources, each in a line; empty where they agree.
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

/// A sentence of the book, with the silicon of the family that it names: the book's A14 is no A14.
fn with_silicon(says: String) -> String {
    let named = CHIPS.iter().map(|chip| chip.family).find(|family| says.contains(family));
    named.map_or(says.clone(), |family| format!("{says} (its family {family} is {})", silicon::of_family(family)))
}

/// Kernels that one of table and compiles takes and the other does not.
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
