//! Weights of generations whose programs are listed but not executed: values in storage order.

use super::super::{Verbosity, print};
use super::{Flags, fp16};
use anemone::tensor::read_npy;
use anemone::{Code, Diagnostic, Result, files};
use anemone_facts::chips::{SUBTYPES, Subtype};
use anemone_program::hwx::Container;
use anemone_program::text::StoredKernel;
use half::f16;
use serde_json::{Value, json};
use std::path::Path;

/// Lists the streams, or writes new values to them.
pub fn run(flags: &Flags, container: &Container, kernels: &[StoredKernel], verbosity: Verbosity) -> Result<u8> {
    if flags.weights.is_empty() {
        return list(container, kernels, verbosity).map(|()| 0);
    }
    if flags.transposed.is_some() {
        return Err(Diagnostic::new(Code::Usage, "--transposed needs a generation whose storage order is known"));
    }
    let Some(output) = &flags.output else {
        return Err(Diagnostic::new(Code::Usage, "--weights needs a file to write: -o FILE"));
    };
    let mut bytes = files::read(&flags.file)?;
    let mut changes: Vec<Value> = Vec::new();
    for argument in &flags.weights {
        let (name, file) = argument
            .split_once('=')
            .ok_or_else(|| Diagnostic::new(Code::Usage, format!("--weights {argument}: NAME=FILE expected")))?;
        let kernel = kernels.iter().find(|k| name == format!("td{}", k.task)).ok_or_else(|| {
            let known: Vec<String> = kernels.iter().map(|k| format!("td{}", k.task)).collect();
            Diagnostic::new(Code::Usage, format!("no kernel is called {name}"))
                .help(format!("kernels: {}", known.join(", ")))
        })?;
        let (changed, rounded) = write(&mut bytes, kernel, Path::new(file), flags.saturate)?;
        let rounding = if rounded > 0 { format!(", {rounded} rounded to fp16") } else { String::new() };
        if !verbosity.json {
            verbosity.note(format!("{name}: {changed} values changed{rounding}, in storage order"));
        }
        changes.push(json!({
            "name": name, "task": kernel.task, "part": "weights", "order": "stored", "values_changed": changed,
            "values_rounded": rounded,
        }));
    }
    files::write(output, &bytes)?;
    if verbosity.json {
        let path = output.display().to_string();
        print(&format!("{}\n", json!({ "schema": "anemone.patch/1", "path": path, "changes": changes })))?;
    }
    Ok(0)
}

/// Writes an array to the streams of a task; returns the numbers of changed and of rounded values.
fn write(bytes: &mut [u8], kernel: &StoredKernel, file: &Path, saturate: bool) -> Result<(usize, usize)> {
    if let Err(why) = kernel.format {
        let message = format!("task {}: it has {why}; only fp16 is written", kernel.task);
        return Err(Diagnostic::new(Code::UnsupportedOp, message));
    }
    let array = fp16(read_npy(file)?, saturate).map_err(|d| d.or_at(file.display()))?;
    let count: u64 = kernel.streams.iter().map(|(.., bytes)| bytes / 2).sum();
    if array.data.len() as u64 != count {
        let message = format!(
            "task {}: takes {count} values, {} streams one after the other; the array has {} {:?}",
            kernel.task,
            kernel.streams.len(),
            array.data.len(),
            array.shape
        );
        return Err(Diagnostic::new(Code::BadTensor, message).at(file.display()));
    }
    let places = kernel.streams.iter().flat_map(|&(_, at, bytes)| (0..bytes / 2).map(move |i| (at + 2 * i) as usize));
    let (mut changed, mut rounded) = (0, 0);
    for (at, &value) in places.zip(&array.data) {
        let half = f16::from_f32(value);
        let Some(place) = bytes.get_mut(at..at + 2) else { continue };
        changed += usize::from(place != half.to_le_bytes());
        rounded += usize::from(half.to_f32() != value);
        place.copy_from_slice(&half.to_le_bytes());
    }
    Ok((changed, rounded))
}

fn list(container: &Container, kernels: &[StoredKernel], verbosity: Verbosity) -> Result<()> {
    let values = |k: &StoredKernel| k.streams.iter().map(|(.., bytes)| bytes / 2).sum::<u64>();
    if verbosity.json {
        let all: Vec<Value> = kernels
            .iter()
            .map(|k| {
                json!({ "name": format!("td{}", k.task), "order": "stored", "streams": k.streams.len(),
                        "values": k.format.is_ok().then(|| values(k)), "format": k.format.unwrap_or_else(|why| why) })
            })
            .collect();
        return print(&format!("{}\n", json!({ "schema": "anemone.patch/1", "kernels": all })));
    }
    let subtype = SUBTYPES.iter().find(|s| s.subtype == container.header.cpu_subtype);
    let mut text = format!(
        "a program for {}: listed, not executed; values are in storage order\n",
        subtype.map(Subtype::describe).unwrap_or_default()
    );
    for kernel in kernels {
        text += &match kernel.format {
            Ok(format) => {
                format!("td{} {} values of {format}, {} streams\n", kernel.task, values(kernel), kernel.streams.len())
            }
            Err(why) => format!("td{} {why}: not written\n", kernel.task),
        };
    }
    print(&text)
}
