//! Fixes for refused operations, computed from their own numbers: the chip accepts an operation after its fix is applied.

use super::describe;
use super::legal::Refusal;
use anemone_facts::chips::Chip;
use anemone_facts::legal::Quantity as Q;
use anemone_net::outline::{Argument, OutlineOp};

/// The suggestion, if it can be more specific than that of the rule's row.
pub fn of(op: &OutlineOp, refusal: &Refusal, chip: &Chip) -> Option<String> {
    match (op.op.as_str(), refusal.code) {
        ("conv", "E08") => kernel(op, chip),
        ("concat", "E33") if refusal.quantity == Q::Operands.name() => concat(op),
        ("cumsum", _) => {
            let n = *axis_extent(op)?;
            Some(format!("multiply by an upper triangle of ones: matmul with a constant [{n}, {n}] along that axis"))
        }
        ("pad", "E23") => pad(op),
        ("reshape" | "transpose", "E01") => merged(op),
        ("topk" | "argsort" | "non_maximum_suppression" | "affine", "E16" | "E17" | "E18" | "E19") => {
            Some("end the model before it, and run it on the CPU on that output: the rest stays in one piece".into())
        }
        (_, "E02") => tiles(refusal),
        (_, "E27") => {
            Some("fix the shape, or give one enumerated shape for each size: each is compiled by itself".into())
        }
        _ => None,
    }
}

/// Fix for a kernel that is too large: by its stride, transposed, or in parts.
fn kernel(op: &OutlineOp, chip: &Chip) -> Option<String> {
    let layers = describe::layers(op);
    let layer = layers.first()?;
    let (rows, columns) = (layer.get(Q::KernelHeight)?, layer.get(Q::KernelWidth)?);
    let limit = |n: Option<u64>| n.and_then(|n| i64::try_from(n).ok());
    let (most_rows, most_columns) = (limit(chip.hal.max_kernel_height)?, limit(chip.hal.max_kernel_width_fp16)?);
    let fits = |rows: i64, columns: i64| rows <= most_rows && columns <= most_columns;
    if let Some(by_stride) = by_stride(op, [rows, columns], &fits) {
        return Some(by_stride);
    }
    if fits(columns, rows) {
        return Some(format!(
            "exchange rows and columns: transpose the input, use a kernel of {columns}x{rows}, transpose the result"
        ));
    }
    let parts = |n: i64, most: i64| (n + most - 1) / most;
    let (down, across) = (parts(rows, most_rows), parts(columns, most_columns));
    let size = [parts(rows, down), parts(columns, across)];
    Some(format!(
        "split the kernel into {} of at most {}x{}, each on a slice of the padded input, and add their results",
        down * across,
        size[0],
        size[1]
    ))
}

/// Fix for a strided convolution: space to depth makes the positions of a stride channels, and shrinks the kernel.
fn by_stride(op: &OutlineOp, [rows, columns]: [i64; 2], fits: &dyn Fn(i64, i64) -> bool) -> Option<String> {
    let dilated = op.numbers("dilations").is_some_and(|d| d.iter().any(|&d| d != 1.0));
    let groups = op.number("groups").unwrap_or(1.0);
    let given: Vec<i64> = op.numbers("strides").unwrap_or_default().iter().map(|&s| s as i64).collect();
    let strides = match given[..] {
        [across] => [1, across],
        [down, across] => [down, across],
        _ => return None,
    };
    let smaller = [rows, columns].iter().zip(strides).map(|(k, s)| (k + s - 1) / s.max(1)).collect::<Vec<_>>();
    if dilated || groups != 1.0 || strides == [1, 1] || !fits(smaller[0], smaller[1]) {
        return None;
    }
    let channels = op.argument("x")?.ty().extents().get(1).copied()? as i64;
    let deep = channels * strides[0] * strides[1];
    let what = if rows == strides[0] && columns == strides[1] { " (a patch embedding)" } else { "" };
    Some(format!(
        "space-to-depth by the stride{what}: reshape and transpose {channels} channels to {deep}, then a convolution of \
         {}x{} with stride 1; pad the input to a multiple of {}x{} first",
        smaller[0], smaller[1], strides[0], strides[1]
    ))
}

fn concat(op: &OutlineOp) -> Option<String> {
    let operands = op.arguments.iter().filter(|(name, _)| name == "values").count();
    match operands {
        0 => None,
        1 => Some("remove it: the concat of one operand is that operand".into()),
        n => Some(format!("concatenate in {} groups of at most 255, then their results", n.div_ceil(255))),
    }
}

fn axis_extent(op: &OutlineOp) -> Option<&usize> {
    let ty = op.argument("x")?.ty();
    let rank = ty.shape.len() as i64;
    let axis = op.number("axis").unwrap_or(0.0) as i64;
    let axis = if axis < 0 { axis + rank } else { axis };
    ty.shape.get(usize::try_from(axis).ok()?)?.as_ref()
}

fn pad(op: &OutlineOp) -> Option<String> {
    let widths: Vec<i64> = op.numbers("pad")?.iter().map(|&n| n as i64).collect();
    let rank = op.argument("x")?.ty().shape.len();
    let first = rank.checked_sub(widths.len() / 2)?;
    let sides = |axis: usize| [widths[2 * axis], widths[2 * axis + 1]];
    let padded: Vec<(usize, [i64; 2])> =
        (0..widths.len() / 2).map(|a| (first + a, sides(a))).filter(|(_, w)| *w != [0, 0]).collect();
    let told: Vec<String> = padded.iter().map(|(axis, [a, b])| format!("{a} and {b} along axis {axis}")).collect();
    let mode = op.text("mode").unwrap_or("constant");
    Some(match mode {
        "constant" => format!("concatenate constants: {}", told.join(", ")),
        "replicate" | "edge" => format!("concatenate slices of the first and last element: {}", told.join(", ")),
        _ => format!("concatenate slices of the border, one element each in reverse order: {}", told.join(", ")),
    })
}

/// Fix for a shape of more than five axes: unit axes dropped, and axes merged that the operation keeps together.
fn merged(op: &OutlineOp) -> Option<String> {
    let before = op.outputs.first()?.ty.extents();
    let operand = op.argument("x").map(|x| x.ty().extents()).unwrap_or_default();
    if before.len() <= MOST_AXES {
        return (operand.len() > MOST_AXES).then(|| {
            "reshape from what has five axes at most: let the transpose before it exchange blocks of axes, four at a time".into()
        });
    }
    let perm: Option<Vec<usize>> = op.numbers("perm").map(|perm| perm.iter().map(|&axis| axis as usize).collect());
    // Result positions of axes that follow the same axis as in the operand.
    let follows = |at: usize| perm.as_ref().is_some_and(|perm| at > 0 && perm[at] == perm[at - 1] + 1);
    let mut shape: Vec<usize> = Vec::new();
    for (at, &extent) in before.iter().enumerate().filter(|(_, extent)| **extent != 1) {
        match shape.last_mut() {
            Some(last) if follows(at) => *last *= extent,
            _ => shape.push(extent),
        }
    }
    Some(match (op.op.as_str(), shape.len() <= MOST_AXES) {
        (_, true) => {
            format!("leave out unit axes and merge those that stay together: {shape:?} in place of {before:?}")
        }
        ("transpose", false) => {
            "write it as transposes of four axes, each the exchange of two neighbouring blocks of axes (`ane fix` does)"
                .into()
        }
        (_, false) => "let the transposes that read it exchange blocks of axes, four at a time (`ane fix` does)".into(),
    })
}

/// Most axes of a value.
const MOST_AXES: usize = 5;

/// An extent beyond the limit, in equal parts.
fn tiles(refusal: &Refusal) -> Option<String> {
    let found: u64 = refusal.found.parse().ok()?;
    let most: u64 = refusal.limit.rsplit(' ').next()?.parse().ok()?;
    let parts = found.div_ceil(most.max(1));
    (parts > 1).then(|| {
        let each = found.div_ceil(parts);
        format!(
            "keep it in {parts} tensors of at most {each} along it, from the model's inputs to its outputs: a slice or a concat of the \
             whole is beyond the limit too"
        )
    })
}

/// Returns true for a patch embedding: a 2-D convolution whose strides equal its kernel, so that windows do not overlap.
pub fn patch_embedding(op: &OutlineOp) -> bool {
    let Some(Argument::Constant(weight)) = op.argument("weight") else { return false };
    let kernel: Vec<f64> = weight.ty.extents().iter().skip(2).map(|&d| d as f64).collect();
    op.op == "conv"
        && kernel.len() == 2
        && kernel.iter().all(|&k| k > 1.0)
        && op.numbers("strides") == Some(&kernel[..])
}
