//! Netplists and the containers that Apple's compiler made of them: read, explained, rewritten, executed, recompiled.

mod common;

use anemone::{Array, Model, execute};
use anemone_compile::{Compat, Options, compile};
use anemone_facts::chips;
use anemone_net::{Data, Net, OpKind, Tensor, Unary, eval};
use anemone_program::hwx::{self, Container};
use anemone_program::text::{Dump, Selection, assemble_container, list_container};
use anemone_program::{Direction, Program};
use common::*;
use half::f16;
use std::path::Path;

/// Error of the one activation table among the pairs (sigmoid); everything else is exact.
const TABLE_ERROR: f64 = 0.00295;

fn check(folder: &Path) -> Result<String, String> {
    let bytes = std::fs::read(folder.join("model.hwx")).map_err(|e| e.to_string())?;
    let container = Container::read(&bytes).map_err(|e| e.to_string())?;
    if container.write() != bytes {
        return Err("read and written, the container differs".into());
    }
    let dump = Dump::of_container(&container, &Selection::default());
    if let Some(anomaly) = dump.anomalies.first() {
        return Err(format!("unexplained: {anomaly:?}"));
    }
    let again = assemble_container(&list_container(&container)).map_err(|e| e.to_string())?;
    if again.write() != bytes {
        return Err("listed and assembled, the container differs".into());
    }
    let program = container.program().map_err(|e| e.to_string())?;
    let Model::Net { net, .. } = Model::load(&folder.join("net.plist")).map_err(|e| e.to_string())? else {
        return Err("net.plist is not a network".into());
    };
    let note = executes(&program, &net)?;

    let compiled = compile(&net, &chips::CHIPS[0], &Options { compat: Compat::Zin421, ..Options::default() }, &mut ())
        .map_err(|e| e.to_string())?;
    same_words(&program, &compiled)?;
    if compiled.kernel != program.kernel {
        let at = compiled.kernel.iter().zip(&program.kernel).position(|(a, b)| a != b);
        return Err(format!(
            "constants differ at {at:?} ({} for {} bytes)",
            compiled.kernel.len(),
            program.kernel.len()
        ));
    }
    // Kernel names and the banner's paths are inputs that the netplist does not have.
    let built = hwx::from_program(&compiled, &hwx::Options::of(&container)).map_err(|e| e.to_string())?.write();
    if built != bytes {
        let at = built.iter().zip(&bytes).position(|(a, b)| a != b);
        return Err(format!("the compiled container differs at {at:x?} ({} for {} bytes)", built.len(), bytes.len()));
    }
    // And its function is what our own conventions make of the netplist too.
    let ours = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).map_err(|e| e.to_string())?;
    executes(&ours, &net)?;
    Ok(format!("{} bytes identical, {note}", bytes.len()))
}

/// The first field in which two task streams differ.
fn same_words(wanted: &Program, got: &Program) -> Result<(), String> {
    if wanted.stream == got.stream {
        return Ok(());
    }
    let (a, b) = (wanted.tasks().map_err(|e| e.to_string())?, got.tasks().map_err(|e| e.to_string())?);
    if a.len() != b.len() {
        return Err(format!("{} tasks, Apple has {}", b.len(), a.len()));
    }
    let mut differences = Vec::new();
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        for row in wanted.layout.rows {
            for k in 0..row.count as u32 {
                let (x, y) = (a.get_at(wanted.layout, row.field, k), b.get_at(wanted.layout, row.field, k));
                if x != y {
                    differences.push(format!("task {i} {:?}[{k}] {y:x?}, Apple has {x:x?}", row.field));
                }
            }
        }
    }
    Err(format!("task stream differs: {}", differences.join("; ")))
}

/// Runs a program on random inputs and compares with the plain evaluator.
fn executes(program: &Program, net: &Net) -> Result<String, String> {
    let mut random = Random::new(5);
    let inputs: Vec<(String, Array)> = net
        .inputs
        .iter()
        .map(|&id| {
            let value = net.value(id);
            let shape = value.ty.shape.clone();
            let data = (0..value.ty.elements()).map(|_| random.uniform(-8.0, 8.0)).collect();
            (value.name.clone(), Array { shape, data })
        })
        .collect();
    let tensors: Vec<Tensor> =
        inputs.iter().map(|(_, a)| Tensor { shape: a.shape.clone(), data: Data::F32(a.data.clone()) }).collect();
    let wanted = eval::eval(net, &tensors).map_err(|e| e.to_string())?;
    let run = execute(program, &inputs, Default::default()).map_err(|e| e.to_string())?;
    let exact = net.ops.iter().all(|op| !matches!(op.kind, OpKind::Unary(f) if f != Unary::Relu));
    let mut worst = 0f32;
    for (port, wanted) in program.ports_of(Direction::Output).zip(&wanted) {
        let (_, got) = run.outputs.iter().find(|(n, _)| *n == port.name).ok_or("an output is missing")?;
        let Data::F32(wanted) = &wanted.data else { return Err("the evaluator gave no floats".into()) };
        for (&g, &w) in got.data.iter().zip(wanted) {
            worst = worst.max((g - w).abs());
            if exact && g != f16::from_f32(w).to_f32() {
                return Err(format!("{g} computed for {w}, not the nearest fp16"));
            }
        }
    }
    if !exact && three_digits(worst as f64) > TABLE_ERROR {
        return Err(format!("error {worst:.2e}, at most {TABLE_ERROR:.2e} admitted"));
    }
    Ok(if exact { "bit-equal to its function".into() } else { format!("error {worst:.2e}") })
}

#[test]
fn pairs_are_reproduced() {
    let Some(dir) = golden_dir() else { return };
    let mut score = Score::default();
    for folder in entries(&dir.join("h13/pairs")).into_iter().filter(|p| p.join("model.hwx").is_file()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        score.case(&name, check(&folder));
    }
    score.close();
}
