//! Parts of a chain that a run tells of or changes: host segments and adapter weights.

use crate::cli::{Voice, patch};
use anemone::{Chain, Code, Diagnostic, Result, tensor};
use std::path::Path;

/// Puts an adapter's weights into the one program of a chain; returns the pieces of kernel data that they replace.
pub fn adapt(chain: &mut Chain, path: &Path) -> Result<Vec<(u64, Vec<u8>)>> {
    let arrays = tensor::read_npz(path)?;
    let several = chain.programs().len();
    let Some(program) = chain.only_program_mut() else {
        let message = format!("--adapter: {several} programs, one is expected");
        return Err(Diagnostic::new(Code::Usage, message).at(path.display()));
    };
    let kernel = patch::adapted(program, arrays).map_err(|d| d.or_at(path.display()))?;
    let pieces = patch::pieces(&program.kernel, &kernel);
    program.kernel = kernel;
    Ok(pieces)
}

/// Prints each host segment: its position, operations, inputs and outputs.
pub fn hosts_told(chain: &Chain, voice: Voice) {
    for (before, part) in chain.hosts() {
        let kinds: Vec<&str> = part.ops.iter().map(|op| op.kind.name()).collect();
        let names = |ids: &[anemone_net::ValueId]| -> String {
            ids.iter().map(|&id| part.value(id).name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (taken, given) = (names(&part.inputs), names(&part.outputs));
        voice.detail(format!("host segment after {before} programs: {} ({taken} -> {given})", kinds.join(", ")));
    }
}
