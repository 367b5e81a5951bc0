//! Replacement of weights, biases and table knots of a compiled program.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::tensor::Array;
use anemone_program::Program;
use anemone_program::patch::{Edits, Kernel, Part, PatchError, apply, kernels};
use half::f16;

/// Kernels of a program, or the errors for those that cannot be read.
pub type Found = [std::result::Result<Kernel, PatchError>];

/// Symbols of kernel data: byte offset, name.
pub type Symbols = [(u64, String)];

/// Bytes of kernel data that an adapter replaces: offset, new bytes.
pub type Pieces = Vec<(u64, Vec<u8>)>;

/// Pieces of kernel data that arrays replace in a program, by the names that `ane patch` lists, and the whole kernel data after the change.
///
/// Errors: an unknown name, extents that differ from the weights', values that fp16 does not represent.
pub fn pieces_of(program: &Program, arrays: Vec<(String, Array)>) -> Result<(Pieces, Vec<u8>)> {
    let found = kernels(program).map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()))?;
    let mut kernel = program.kernel.to_vec();
    for (name, array) in arrays {
        let (at, part) = find(&name, &[], &found)?;
        let array = fp16(array, false)?;
        let (edits, _) = edits(program, at, part, &array, false)?;
        apply(&mut kernel, 0, &edits);
    }
    Ok((pieces(&program.kernel, &kernel), kernel))
}

/// Ranges in which kernel data differ: offset and new bytes. Chunks of 64 bytes are compared; adjacent ones are joined.
fn pieces(before: &[u8], after: &[u8]) -> Pieces {
    const LEAST: usize = 64;
    let mut all = Pieces::new();
    for (i, (old, new)) in before.chunks(LEAST).zip(after.chunks(LEAST)).enumerate() {
        let at = (i * LEAST) as u64;
        match all.last_mut() {
            _ if old == new => {}
            Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.extend_from_slice(new),
            _ => all.push((at, new.to_vec())),
        }
    }
    all
}

/// Kernel and part for a name: a task (`td0`) or a prefix of its kernel symbol, then `.bias` or `.lut`.
pub fn find<'a>(name: &str, symbols: &Symbols, found: &'a Found) -> Result<(&'a Kernel, Part)> {
    let (stem, part) = match name.rsplit_once('.') {
        Some((stem, "bias")) => (stem, Part::Bias),
        Some((stem, "lut")) => (stem, Part::Table),
        Some((stem, "weights")) => (stem, Part::Weights),
        _ => (name, Part::Weights),
    };
    let by_symbol = |k: &Kernel| {
        let first = k.streams.iter().flatten().next().map(|s| s.0);
        !stem.is_empty() && symbols.iter().any(|(at, name)| Some(*at) == first && name.starts_with(stem))
    };
    for entry in found {
        match entry {
            Ok(k) if stem == format!("td{}", k.task) || by_symbol(k) => return Ok((k, part)),
            Err(e) if matches!(e, PatchError::Storage { task, .. } if stem == format!("td{task}")) => {
                return Err(Diagnostic::new(Code::UnsupportedOp, e.to_string()));
            }
            _ => {}
        }
    }
    let known: Vec<String> = found.iter().flatten().map(|k| format!("td{}", k.task)).collect();
    let help =
        if known.is_empty() { "no task has kernel data".into() } else { format!("kernels: {}", known.join(", ")) };
    Err(Diagnostic::new(Code::Usage, format!("no kernel is called {stem}")).help(help))
}

/// Refuses values that fp16 does not represent: NaN, and values beyond its range unless they are saturated.
pub fn fp16(mut array: Array, saturate: bool) -> Result<Array> {
    let largest = f16::MAX.to_f32();
    for (at, x) in array.data.iter_mut().enumerate() {
        let beyond = !f16::from_f32(*x).is_finite();
        if x.is_nan() || beyond && !saturate {
            let message = match x.is_nan() {
                true => format!("value {at} is not a number"),
                false => format!("value {at} is {x}; the largest in fp16 is {largest}"),
            };
            let refused = Diagnostic::new(Code::BadTensor, message);
            return Err(if x.is_nan() { refused } else { refused.help("--saturate writes the largest instead") });
        }
        if beyond {
            *x = largest.copysign(*x);
        }
    }
    Ok(array)
}

/// Edits, and the number of values that are rounded to fp16.
pub fn edits(
    program: &Program,
    kernel: &Kernel,
    part: Part,
    array: &Array,
    transposed: bool,
) -> Result<(Edits, usize)> {
    let refused = |message: String| Diagnostic::new(Code::BadTensor, message);
    let count = kernel.count(part).map_err(|e| Diagnostic::new(Code::Usage, e.to_string()))?;
    let extents: Vec<usize> = match (part, kernel.weights) {
        (Part::Weights, Some(extents)) => extents.to_vec(),
        _ => vec![count],
    };
    let mut wanted = extents.clone();
    if transposed && part == Part::Weights {
        wanted.swap(0, 1);
    }
    if array.data.len() != count || !array.lies_as(&wanted) {
        let (found, elements) = (&array.shape, array.data.len());
        return Err(refused(format!(
            "task {}: takes {count} values {wanted:?}, the array has {elements} {found:?}",
            kernel.task
        )));
    }
    let mut values: Vec<f32> = array.data.clone();
    if transposed && part == Part::Weights {
        let [outputs, inputs] = [extents[0], count / extents[0].max(1)];
        if extents[2..] != [1, 1] {
            return Err(refused(format!(
                "task {}: --transposed is for products; its shape is {extents:?}",
                kernel.task
            )));
        }
        values = (0..count).map(|i| array.data[i % inputs * outputs + i / inputs]).collect();
    }
    let bits: Vec<u16> = values.iter().map(|&x| f16::from_f32(x).to_bits()).collect();
    let rounded = values.iter().zip(&bits).filter(|(x, b)| f16::from_bits(**b).to_f32() != **x && !x.is_nan()).count();
    let edits = kernel.edits(program, part, &bits).map_err(|e| Diagnostic::new(Code::ChipLimit, e.to_string()))?;
    Ok((edits, rounded))
}
