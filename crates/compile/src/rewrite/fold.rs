//! Constant folding: an operation with constant operands becomes a constant (the book, chapter 22: rewriting of the graph).

use crate::error::{Error, Result};
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Net, Tensor, compress};
use std::sync::Arc;

/// Largest result that is folded, in elements: larger ones would only enlarge the program.
const FOLD_ELEMENTS: usize = 16 << 20;

/// Replaces operations with constant operands by constants.
pub fn fold_constants(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let ops = std::mem::take(&mut net.ops);
    for op in ops {
        let constant = !op.inputs.is_empty() && op.inputs.iter().all(|&i| net.value(i).data.is_some());
        let small = op.outputs.iter().all(|&o| net.value(o).ty.elements() <= FOLD_ELEMENTS);
        let is_output = op.outputs.iter().any(|o| net.outputs.contains(o));
        if !constant || !small || is_output {
            net.ops.push(op);
            continue;
        }
        let operands: Vec<Arc<Tensor>> = op.inputs.iter().filter_map(|&i| net.value(i).data.clone()).collect();
        let operands: Vec<&Tensor> = operands.iter().map(|t| t.as_ref()).collect();
        let Some(&output) = op.outputs.first() else { continue };
        let folded = anemone_net::eval::fold(&op.kind, &operands, Some(&net.value(output).ty))
            .map_err(|e| Error::Net(format!("{}: {e}", op.name)))?;
        let folded = compress::recompressed(folded, operands);
        reasons.say(|| format!("{}: all operands are constants", op.name));
        net.values[output.0 as usize].data = Some(Arc::new(folded));
    }
    Ok(())
}
