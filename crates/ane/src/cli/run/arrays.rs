//! Arrays of a run: inputs, expected outputs, output files.

use super::{Flags, counted};
use crate::cli::Verbosity;
use anemone::execute::state_at_start;
use anemone::tensor::{self, Array, views};
use anemone::{Code, Diagnostic, ProgramChain, Result, files};
use anemone_net::{DType, Net};
use anemone_program::Direction;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Expected outputs of a run, and output files.
pub struct Wanted {
    /// Expected outputs by name.
    pub expected: Vec<(String, Array)>,
    /// Output files by name of the output.
    pub targets: Vec<(String, PathBuf)>,
    /// Names of classes, one per line.
    pub labels: Option<Vec<u8>>,
}

impl Wanted {
    /// Reads the files given by flags, before anything runs.
    pub fn of(flags: &Flags, chain: &ProgramChain, net: Option<&Net>) -> Result<Wanted> {
        let mut expected = named(&flags.expect, chain, Direction::Output, "--expect")?;
        for (name, wanted) in &mut expected {
            expectation_fits(name, wanted, chain, net)?;
        }
        let targets = destinations(&flags.output, chain)?;
        if let Some(path) = flags.trace.as_deref().filter(|path| targets.iter().any(|(_, target)| target == path)) {
            let message = format!("--trace: {} is also the file of an output", path.display());
            return Err(Diagnostic::new(Code::Usage, message));
        }
        let labels = flags.labels.as_deref().map(files::read).transpose()?;
        Ok(Wanted { expected, targets, labels })
    }
}

/// Refuses an expected array whose extents differ from the output's, before anything runs. An output with a number of real rows may be
/// expected to have these alone; the others are zero.
fn expectation_fits(name: &str, wanted: &mut Array, chain: &ProgramChain, net: Option<&Net>) -> Result<()> {
    let Some(port) = chain.ports(Direction::Output).find(|p| p.name == name) else { return Ok(()) };
    let own = net.and_then(|net| net.outputs.iter().map(|&id| net.value(id)).find(|v| v.name == name));
    let s = port.shape;
    let shape = own.map_or_else(|| port.dims(), |v| v.ty.shape.clone());
    if wanted.data.len() as u64 == s.elements() && wanted.lies_as(&shape) {
        return Ok(());
    }
    if let Some(whole) = counted::whole(name, wanted, &shape, chain.counted()) {
        *wanted = whole;
        return Ok(());
    }
    let message = format!(
        "output {name} has {} elements {shape:?}, {} expected {:?}",
        s.elements(),
        wanted.data.len(),
        wanted.shape
    );
    Err(Diagnostic::new(Code::BadTensor, message))
}

/// Shapes of the input arrays by name, for a model that leaves extents open; a file without a name has the empty one. Unreadable files
/// are left for [`inputs`] to report.
pub fn shapes(inputs: &[String]) -> HashMap<String, Vec<usize>> {
    let mut all = HashMap::new();
    for text in inputs {
        let (name, path) = match text.split_once('=').filter(|_| !Path::new(text).exists()) {
            Some((name, path)) => (name, Path::new(path)),
            None => ("", Path::new(text)),
        };
        if text.ends_with(".npz") {
            let arrays = tensor::read_npz(path).unwrap_or_default();
            all.extend(arrays.into_iter().map(|(name, array)| (name, array.shape)));
        } else if let Some(shape) = tensor::npy_shape(path) {
            all.insert(name.to_string(), shape);
        }
    }
    all
}

/// Refuses duplicate names.
fn once<'a>(names: impl Iterator<Item = &'a str>, flag: &str) -> Result<()> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(Diagnostic::new(Code::Usage, format!("{flag}: {name} is given twice")));
        }
        seen.push(name);
    }
    Ok(())
}

/// Error for a name that no port of the program has.
fn unknown(flag: &str, name: &str, names: &[&str]) -> Diagnostic {
    Diagnostic::new(Code::Usage, format!("{flag}: the program has no {name}"))
        .help(format!("it has: {}", names.join(", ")))
}

/// Input arrays by port name: from files, or random; states are zeros.
pub fn inputs(
    flags: &Flags,
    chain: &ProgramChain,
    net: Option<&Net>,
    verbosity: Verbosity,
) -> Result<Vec<(String, Array)>> {
    // Inputs of the model that no program and no host segment reads.
    let unread = |name: &str| {
        let own = net.is_some_and(|net| net.inputs.iter().any(|&id| net.value(id).name == name));
        own && !chain.ports(Direction::Input).any(|port| port.name == name)
    };
    let no_port = |name: &str| !chain.ports(Direction::Input).any(|port| port.name == name);
    let read = |text: &&String| match text.split_once('=') {
        Some((name, _)) if unread(name) => {
            verbosity.note(format!("input {name} is not read"));
            false
        }
        // Keys before the first step of a decoder, for example.
        Some((name, path)) if no_port(name) && tensor::npy_shape(Path::new(path)).is_some_and(|s| s.contains(&0)) => {
            verbosity.note(format!("input {name} has no elements"));
            false
        }
        _ => true,
    };
    let given: Vec<String> = flags.input.iter().filter(read).cloned().collect();
    let mut all = named(&given, chain, Direction::Input, "--input")?;
    if let Some(net) = net {
        anemone::inputs::all_fit(net, &views(&all))?;
    }
    for (i, port) in chain.ports(Direction::Input).enumerate() {
        if all.iter().any(|(n, _)| *n == port.name) {
            continue;
        }
        let s = port.shape;
        let shape = port.dims();
        if let Some(zeros) = net.and_then(|net| state_at_start(net, port)) {
            all.push((port.name.clone(), zeros));
            continue;
        }
        if chain.states().iter().any(|state| state.input == port.name) {
            all.push((port.name.clone(), Array { shape, data: vec![0.0; s.elements() as usize] }));
            continue;
        }
        if !flags.input.is_empty() {
            return Err(Diagnostic::new(Code::Usage, format!("no data for input {}", port.name))
                .help(format!("--input {}=FILE.npy", port.name)));
        }
        verbosity.note(format!("input {}: random, seed {}", port.name, flags.seed));
        let value = net.and_then(|net| net.inputs.iter().map(|&id| net.value(id)).find(|v| v.name == port.name));
        let dtype = value.map_or(DType::F16, |value| value.ty.dtype);
        let data = tensor::random_as(dtype, flags.seed.wrapping_add(i as u64), s.elements() as usize);
        all.push((port.name.clone(), Array { shape, data }));
    }
    Ok(all)
}

/// Parses `NAME=FILE`, or a file alone for the only port that is not a state.
fn split(text: &str, chain: &ProgramChain, direction: Direction, flag: &str) -> Result<(String, PathBuf)> {
    let names: Vec<&str> = chain.ports(direction).map(|p| p.name.as_str()).collect();
    if let Some((name, path)) = text.split_once('=')
        && !Path::new(text).exists()
    {
        return match names.iter().find(|n| **n == name) {
            Some(n) => Ok((n.to_string(), path.into())),
            None => Err(unknown(flag, name, &names)),
        };
    }
    let state = |name: &str| match direction {
        Direction::Input => chain.states().iter().any(|s| s.input == name),
        Direction::Output => chain.states().iter().any(|s| s.output == name),
    };
    let plain: Vec<&str> =
        names.iter().copied().filter(|name| !state(name) && !counted::counts(name, chain.counted())).collect();
    match plain.as_slice() {
        [name] => Ok((name.to_string(), text.into())),
        _ => Err(Diagnostic::new(Code::Usage, format!("{flag}: which of {}?", names.join(", ")))
            .help(format!("{flag} NAME={text}"))),
    }
}

fn named(flags: &[String], chain: &ProgramChain, direction: Direction, flag: &str) -> Result<Vec<(String, Array)>> {
    let names: Vec<&str> = chain.ports(direction).map(|p| p.name.as_str()).collect();
    let mut all = Vec::new();
    for text in flags {
        if !text.ends_with(".npz") {
            let (name, path) = split(text, chain, direction, flag)?;
            all.push((name, tensor::read_npy(&path)?));
            continue;
        }
        let mut arrays = tensor::read_npz(Path::new(text))?;
        // numpy.savez names an array without a keyword itself.
        if let [(name, _)] = arrays.as_mut_slice()
            && name == "arr_0"
            && let Ok((only, _)) = split(text, chain, direction, flag)
        {
            *name = only;
        }
        for (name, array) in arrays {
            if !names.contains(&name.as_str()) && array.data.is_empty() {
                continue;
            }
            if !names.contains(&name.as_str()) {
                return Err(unknown(flag, &name, &names).at(text));
            }
            all.push((name, array));
        }
    }
    once(all.iter().map(|(n, _)| n.as_str()), flag)?;
    Ok(all)
}

fn destinations(flags: &[String], chain: &ProgramChain) -> Result<Vec<(String, PathBuf)>> {
    let all = flags
        .iter()
        .map(|text| split(text, chain, Direction::Output, "--output"))
        .collect::<Result<Vec<(String, PathBuf)>>>()?;
    once(all.iter().map(|(n, _)| n.as_str()), "--output")?;
    once(all.iter().filter_map(|(_, path)| path.to_str()), "--output")?;
    Ok(all)
}
