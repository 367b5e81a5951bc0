//! Programs on the engine linked into this binary: the optimized plan in every number model, first and second run.

use super::networks::Random;
use super::record::Record;
use anemone_engine::{Memory, Options, Plan};
use anemone_facts::numerics::Model;
use anemone_program::hwx::Container;
use anemone_program::{Direction, Element, Program};
use half::f16;

/// Prefix of the names of these items.
pub const PREFIX: &str = "engine ";

/// Largest size of ports and buffers of a program in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Adds results of a container's program, or the errors.
pub fn results(record: &mut Record, name: &str, container: &[u8]) {
    let program =
        Container::read(container).map_err(|e| e.to_string()).and_then(|c| c.program().map_err(|e| e.to_string()));
    let Ok(program) = program else { return };
    let bytes = program.ports.iter().map(|p| p.bytes).fold(program.scratch_bytes, u64::saturating_add);
    let bound = program.ports.iter().all(|p| p.element == Element::Float16);
    if bytes > MAX_BYTES || !bound {
        return;
    }
    for model in [Model::Fast, Model::Fixed, Model::Tiled] {
        let name = format!("{PREFIX}{name} {}", model.name());
        match twice(&program, model) {
            Ok(outputs) => record.fact(&name, &outputs),
            Err(fault) => {
                record.fact(&name, b"fault");
                record.wording(&format!("{name} fault"), fault.as_bytes());
            }
        }
    }
}

/// The bytes of all outputs of two consecutive runs with different inputs.
fn twice(program: &Program, model: Model) -> Result<Vec<u8>, String> {
    let mut plan = Plan::new(program, Options { model, ..Options::default() }).map_err(|e| e.to_string())?;
    let mut memory = plan.memory();
    let mut outputs = Vec::new();
    for seed in 0..2 {
        fill(program, &mut memory, seed)?;
        plan.run(&mut memory).map_err(|e| e.to_string())?;
        for port in program.ports_of(Direction::Output) {
            outputs.extend_from_slice(memory.region(port.bar).ok_or("unbound")?.bytes());
        }
    }
    Ok(outputs)
}

fn fill(program: &Program, memory: &mut Memory, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed + 7);
    for port in program.ports_of(Direction::Input) {
        let bytes = memory.region_mut(port.bar).ok_or("unbound")?.bytes_mut();
        for element in bytes.chunks_exact_mut(2) {
            element.copy_from_slice(&f16::from_f32(random.uniform(-1.0, 1.0)).to_le_bytes());
        }
    }
    Ok(())
}
