//! Parts of a chain: host segments, adapter weights, records of tasks, written outputs.

use crate::cli::Verbosity;
use anemone::adapter::pieces_of;
use anemone::chain::Cut;
use anemone::{Array, Code, Diagnostic, Model, ProgramChain, Result, Run, files, tensor};
use anemone_compile::Options;
use anemone_facts::chips::Chip;
use anemone_net::{DType, Net};
use std::path::{Path, PathBuf};

/// Applies an adapter's weights to the only program of a chain; returns the replaced pieces of kernel data.
pub fn adapt(chain: &mut ProgramChain, path: &Path) -> Result<Vec<(u64, Vec<u8>)>> {
    let arrays = tensor::read_npz(path)?;
    let several = chain.programs().len();
    let Some(program) = chain.only_program_mut() else {
        let message = format!("--adapter: {several} programs, one is expected");
        return Err(Diagnostic::new(Code::Usage, message).at(path.display()));
    };
    let (pieces, kernel) = pieces_of(program, arrays).map_err(|d| d.or_at(path.display()))?;
    program.kernel = kernel.into();
    Ok(pieces)
}

/// Refuses flags that need a single program for several programs or host segments.
pub fn require_single_program(chain: &ProgramChain, asked: bool) -> Result<()> {
    let (programs, hosts) = (chain.programs().len(), chain.hosts().len() + chain.loops().len());
    if !asked || chain.is_single() {
        return Ok(());
    }
    let message =
        format!("{programs} programs, {hosts} host segments and loops: --trace and --profile need a single program");
    Err(Diagnostic::new(Code::Usage, message).help("run its containers one by one"))
}

/// Prints each host segment: its position, operations, inputs and outputs.
pub fn hosts_told(chain: &ProgramChain, verbosity: Verbosity) {
    for (before, part) in chain.hosts() {
        let kinds: Vec<&str> = part.ops.iter().map(|op| op.kind.name()).collect();
        let names = |ids: &[anemone_net::ValueId]| -> String {
            ids.iter().map(|&id| part.value(id).name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (taken, given) = (names(&part.inputs), names(&part.outputs));
        verbosity.detail(format!("host segment after {before} programs: {} ({taken} -> {given})", kinds.join(", ")));
    }
    for repeat in chain.loops() {
        let (carried, scanned) = (repeat.carried.len(), repeat.scanned.len());
        verbosity.detail(format!(
            "loop on the host: {} iterations of {} (carries {carried}, scans {scanned}, collects {})",
            repeat.turns,
            repeat.name,
            repeat.collected.len()
        ));
    }
}

/// A network as programs and host segments; prints the host operations with their reasons.
pub fn segmented(
    model: Model,
    chip: &'static Chip,
    options: &Options,
    verbosity: Verbosity,
) -> Result<(ProgramChain, Option<Box<Net>>)> {
    let Model::Net { net, .. } = model else {
        return Err(Diagnostic::new(Code::Usage, "a compiled program has no host segments"));
    };
    let (chain, reasons) = ProgramChain::whole(&net, chip, options)?;
    reasons.iter().for_each(|reason| verbosity.note(format!("on the host: {reason}")));
    hosts_told(&chain, verbosity);
    Ok((chain, Some(net)))
}

/// A network partitioned around attention: a program for each attention and for the operations between.
pub fn around_attention(net: &Net, chip: &'static Chip, options: &Options) -> Result<ProgramChain> {
    let compile = |part: &Net| anemone::compile::program_of(part, chip, options, &mut ());
    ProgramChain::of_net(net, Cut::Attention, compile)
}

/// Record of the tasks of a run through the driver: the same engine in this process, with the same inputs and bits.
pub fn traced(
    chain: &ProgramChain,
    options: anemone_engine::Options,
    inputs: &[(String, Array)],
    driven: &Run,
) -> Result<Vec<anemone_engine::TaskTrace>> {
    let own = chain.execution(options)?.run(inputs)?;
    let bits = |array: &Array| array.data.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let differs = |(name, array): &&(String, Array)| {
        driven.outputs.iter().find(|(other, _)| other == name).is_none_or(|(_, theirs)| bits(theirs) != bits(array))
    };
    match own.outputs.iter().find(differs) {
        None => Ok(own.trace),
        Some((name, _)) => Err(Diagnostic::new(Code::Defect, format!("--trace: {name} differs from the driver's"))
            .help("the broker may compute with other arithmetic: `ane broker --numerics`")),
    }
}

/// Writes outputs: integers and truth values in the network's own element type, all others as fp32.
pub fn write(targets: &[(String, PathBuf)], outputs: &[(String, Array)], net: Option<&Net>) -> Result<()> {
    let dtype = |output: &str| {
        let value = net.and_then(|net| net.outputs.iter().map(|&id| net.value(id)).find(|v| v.name == output));
        value.map_or(DType::F32, |value| value.ty.dtype)
    };
    let mut encoded = Vec::new();
    for (name, path) in targets {
        if let Some((_, array)) = outputs.iter().find(|(n, _)| n == name) {
            encoded.push((path.as_path(), tensor::npy_bytes_as(array, dtype(name))));
        }
    }
    let files: Vec<(&Path, &[u8])> = encoded.iter().map(|(path, bytes)| (*path, bytes.as_slice())).collect();
    files::write_all(&files)
}
