//! Extensions of this compiler: rewrites, made by lowering and reported by the dry run, of operations that Apple's compiler
//! refuses.

use super::describe;
use super::layer::Layer;
use super::legal::{self, Refusal, Route};
use anemone_facts::chips::Chip;
use anemone_facts::legal::Quantity as Q;
use anemone_net::outline::OutlineOp;

/// A form that is compiled here although Apple's compiler refuses it.
#[derive(Debug)]
pub struct Rewrite {
    /// Code of the refusal.
    pub code: &'static str,
    /// Quantity that the refusal is about.
    pub quantity: &'static str,
    /// Replacement, in words.
    pub into: &'static str,
    applies: fn(&OutlineOp, &Refusal, &Chip) -> bool,
}

/// Every rewrite.
pub static REWRITES: &[Rewrite] = &[
    Rewrite {
        code: "E08",
        quantity: "kernel width",
        into: "the convolution with rows and columns exchanged",
        applies: |op, _, chip| {
            let kernel = |layer: &Layer| Some([layer.get(Q::KernelHeight)?, layer.get(Q::KernelWidth)?]);
            describe::layers(op).iter().find_map(kernel).is_some_and(|kernel| needs_exchanged_kernel(kernel, chip))
        },
    },
    Rewrite {
        code: "E23",
        quantity: "texture_engine",
        into: "slices and a concat",
        applies: |op, _, _| op.op == "pad",
    },
    Rewrite {
        code: "E33",
        quantity: "operands",
        into: "the operand itself",
        applies: |op, refusal, _| op.op == "concat" && refusal.found == "1",
    },
    Rewrite {
        code: "E16",
        quantity: "element type",
        into: "a product with a triangle of ones",
        applies: |op, _, _| op.op == "cumsum",
    },
    Rewrite {
        code: "E02",
        quantity: "width",
        into: "a product of which every task has a part of the columns",
        applies: |op, _, _| op.op == "linear",
    },
    Rewrite {
        code: "E06",
        quantity: "element type",
        into: "whole numbers as fp16, exact to 2048",
        applies: |_, refusal, _| refusal.found.starts_with("int32"),
    },
];

/// The rewrite for a refused operation.
pub fn rewrite(op: &OutlineOp, refusal: &Refusal, chip: &Chip) -> Option<&'static Rewrite> {
    let named = |r: &&Rewrite| r.code == refusal.code && r.quantity == refusal.quantity;
    REWRITES.iter().filter(named).find(|r| (r.applies)(op, refusal, chip))
}

/// First refusal of a convolution by its kernel extents, rows first; `None` if the chip supports it.
pub fn kernel_refused([rows, columns]: [i64; 2], chip: &Chip) -> Option<Refusal> {
    let layer = Layer::new("Conv", "").with(Q::KernelHeight, rows).with(Q::KernelWidth, columns);
    legal::check(&layer, chip, Route::Direct).refusals.into_iter().next()
}

/// First refusal of a pooling by its window, rows first; `None` if the chip supports it.
pub fn pool_refused([rows, columns]: [i64; 2], max: bool, chip: &Chip) -> Option<Refusal> {
    let extents = [1, 1, rows.max(1) as usize, columns.max(1) as usize];
    let layer =
        Layer::new("Pool", "").bottom(&extents, "fp16").with(Q::KernelHeight, rows).with(Q::KernelWidth, columns);
    legal::check(&layer.with(Q::MaxPool, i64::from(max)), chip, Route::Direct).refusals.into_iter().next()
}

/// Returns true if a kernel is supported only with rows and columns exchanged; the limit for rows is the larger one.
pub fn needs_exchanged_kernel([rows, columns]: [i64; 2], chip: &Chip) -> bool {
    kernel_refused([rows, columns], chip).is_some() && kernel_refused([columns, rows], chip).is_none()
}
