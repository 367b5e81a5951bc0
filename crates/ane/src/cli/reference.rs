//! `ane run --reference`: the network itself, evaluated in fp32, without compiling it.

use super::Verbosity;
use anemone::convert::random_inputs;
use anemone::tensor::{self, Array};
use anemone::warnings::{self, Warning};
use anemone::{Code, Diagnostic, Result};
use anemone_net::{Data, Net, Tensor, ValueId, eval};
use std::path::{Path, PathBuf};

/// Names of inputs or outputs.
pub fn names(net: &Net, ids: &[ValueId]) -> Vec<String> {
    ids.iter().map(|&id| net.value(id).name.clone()).collect()
}

/// Parses `NAME=FILE` pairs; a file alone is for the only name that is needed.
pub fn pairs(flags: &[String], names: &[String], needed: &[usize], flag: &str) -> Result<Vec<(usize, PathBuf)>> {
    let mut all: Vec<(usize, PathBuf)> = Vec::new();
    for text in flags {
        let pair = match text.split_once('=').filter(|_| !Path::new(text).exists()) {
            Some((name, path)) => {
                let at = names.iter().position(|n| n == name);
                let at = at.ok_or_else(|| {
                    Diagnostic::new(Code::Usage, format!("{flag}: the network has no {name}"))
                        .help(format!("it has: {}", names.join(", ")))
                })?;
                (at, PathBuf::from(path))
            }
            None if needed.len() == 1 => (needed[0], PathBuf::from(text)),
            None => {
                return Err(Diagnostic::new(Code::Usage, format!("{flag}: which of {}?", names.join(", ")))
                    .help(format!("{flag} NAME={text}")));
            }
        };
        if all.iter().any(|(at, _)| *at == pair.0) {
            return Err(Diagnostic::new(Code::Usage, format!("{flag}: {} is given twice", names[pair.0])));
        }
        all.push(pair);
    }
    Ok(all)
}

/// Outputs by name, and warnings about them.
type Evaluated = (Vec<(String, Array)>, Vec<Warning>);

/// Evaluates on inputs from files; missing inputs are random, states zeros.
pub fn evaluate(net: &Net, flags: &[String], seed: u64, verbosity: Verbosity) -> Result<Evaluated> {
    let names_in = names(net, &net.inputs);
    let states = |at: usize| net.states.iter().any(|s| s.input == net.inputs[at]);
    let needed: Vec<usize> = (0..names_in.len()).filter(|&i| !states(i)).collect();
    // Inputs without elements are constants of the network.
    let nothing = |text: &&String| {
        let own = |name: &str| names_in.iter().any(|own| own == name);
        let path = text.split_once('=').filter(|(name, _)| !own(name)).map(|(_, path)| Path::new(path));
        path.and_then(tensor::npy_shape).is_none_or(|shape| !shape.contains(&0))
    };
    let flags: Vec<String> = flags.iter().filter(nothing).cloned().collect();
    let given = pairs(&flags, &names_in, &needed, "--input")?;
    let mut inputs = random_inputs(net, seed);
    for (at, tensor) in inputs.iter_mut().enumerate() {
        let Some((_, path)) = given.iter().find(|(i, _)| *i == at) else {
            if states(at) {
                continue;
            }
            if !given.is_empty() {
                return Err(Diagnostic::new(Code::Usage, format!("no data for input {}", names_in[at]))
                    .help(format!("--input {}=FILE.npy", names_in[at])));
            }
            verbosity.note(format!("input {}: random, seed {seed}", names_in[at]));
            continue;
        };
        let (array, ty) = (tensor::read_npy(path)?, &net.value(net.inputs[at]).ty);
        if array.data.len() != ty.elements() || !array.lies_as(&ty.shape) {
            let message = format!("input {} is {ty}, the array is {:?}", names_in[at], array.shape);
            return Err(Diagnostic::new(Code::BadTensor, message).at(path.display()));
        }
        tensor::fits(&names_in[at], ty.dtype, &array.data).map_err(|e| e.at(path.display()))?;
        let data = if ty.dtype.is_float() { Data::F32(array.data) } else { Data::from_f32(ty.dtype, &array.data) };
        *tensor = Tensor { shape: ty.shape.clone(), data };
    }
    let outputs = eval::eval(net, &inputs).map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?;
    let warnings = warnings::of_reference(net, &inputs, &outputs);
    let array = |tensor: Tensor| Array { shape: tensor.shape.clone(), data: tensor.data.to_f32() };
    Ok((names(net, &net.outputs).into_iter().zip(outputs.into_iter().map(array)).collect(), warnings))
}
