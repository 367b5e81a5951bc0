//! Plans of chains: the optimized plan gives the bits of the tasks one by one.

use super::draw::draw_chain;
use super::source::Source;
use crate::common::suite::port_rows;
use anemone_compile::{Activations, Options, compile};
use anemone_engine::{Level, Memory, Options as EngineOptions, run};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_program::{Direction, Program};
use half::f16;

/// Operations of a chain: what shows only if a result is computed in place, moved and read again.
const LENGTH: usize = 6;

/// Elements of every output; NaN has one pattern.
fn outputs(program: &Program, inputs: &[Vec<f32>], model: Model, level: Level) -> Vec<u16> {
    let mut memory = Memory::for_program(program);
    for (port, data) in program.ports_of(Direction::Input).zip(inputs) {
        let bytes = memory.region_mut(port.bar).expect("bound").bytes_mut();
        for (start, row) in port_rows(port).into_iter().zip(data.chunks(port.shape.w as usize)) {
            for (i, x) in row.iter().enumerate() {
                bytes[start + 2 * i..][..2].copy_from_slice(&f16::from_f32(*x).to_le_bytes());
            }
        }
    }
    run(program, &mut memory, EngineOptions { model, level, ..EngineOptions::default() }).expect("runs");
    let elements = |port: &anemone_program::Port| {
        let (bytes, width) = (memory.region(port.bar).expect("bound").bytes(), port.shape.w as usize);
        let rows = port_rows(port).into_iter().flat_map(|start| bytes[start..start + 2 * width].chunks_exact(2));
        let element = |b: &[u8]| f16::from_le_bytes([b[0], b[1]]);
        rows.map(element).map(|x| if x.is_nan() { f16::NAN } else { x }.to_bits()).collect::<Vec<_>>()
    };
    program.ports_of(Direction::Output).flat_map(elements).collect()
}

#[test]
fn plans_of_chains_give_the_bits_of_their_tasks() {
    let (cases, first) = (super::number("ANE_CHAINS", 300), super::number("ANE_CHAINS_SEED", 0));
    let mut compiled = 0;
    for seed in first..first + cases {
        let Some(mut case) = draw_chain(&mut Source::seeded(seed), LENGTH) else { continue };
        // Every result is an output, in a third of the cases.
        if seed % 3 == 0 {
            case.net.outputs = case.net.ops.iter().map(|op| op.outputs[0]).collect();
        }
        let options = Options { activations: Activations::Accurate, ..Options::default() };
        let Ok(program) = compile(&case.net, &chips::CHIPS[0], &options, &mut ()) else { continue };
        let inputs: Vec<Vec<f32>> = case.inputs.iter().map(|t| t.data.to_f32()).collect();
        compiled += 1;
        for model in [Model::Fast, Model::Fixed] {
            let [plan, tasks] =
                [Level::Optimized, Level::Unoptimized].map(|level| outputs(&program, &inputs, model, level));
            assert!(plan == tasks, "seed {seed}, {}:\n{}", model.name(), case.text());
        }
    }
    assert!(compiled as u64 > cases / 2, "{compiled} of {cases} compile");
}
