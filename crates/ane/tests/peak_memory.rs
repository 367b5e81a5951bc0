//! Peak memory of a run, beside the size that the program states.

mod common;

use anemone_engine::Plan;
use anemone_facts::chips;
use anemone_program::{Direction, Program};
use common::nets::convolutions;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATIONS: PeakAlloc = PeakAlloc;

/// Weights and the buffers of the program: ports, and where intermediate results live: a region of memory whose size is
/// the peak of them, and tile memory.
fn needed(program: &Program) -> usize {
    let ports: u64 = program.ports.iter().map(|p| p.bytes).sum();
    let tile = chips::CHIPS[0].hal.l2_bytes.unwrap_or(0);
    program.kernel.len() + (program.scratch_bytes + ports + tile) as usize
}

/// Convolutions one after another, of so many channels on so many rows and columns.
fn chain(channels: usize, extent: usize, kernel: usize, layers: usize) -> Program {
    // Each layer has its own: equal constants would be stored once.
    convolutions("chain", [channels, extent], &vec![[channels, kernel, 1]; layers], &[], weight)
}

fn weight(layer: usize, i: usize) -> half::f16 {
    half::f16::from_f32((i % 7 + layer + 1) as f32 / 256.0)
}

#[test]
fn a_run_takes_little_more_than_weights_and_activations() {
    for (name, program) in [
        ("weights prevail", chain(512, 8, 3, 4)),
        ("activations prevail", chain(64, 224, 3, 3)),
        ("both", chain(256, 64, 3, 4)),
        // Six layers, one set of constants: packed once for all of them.
        ("shared weights", convolutions("shared", [1024, 8], &[[1024, 3, 1]; 6], &[], |_, i| weight(0, i))),
    ] {
        let needed = needed(&program);
        let before = ALLOCATIONS.current_usage();
        ALLOCATIONS.reset_peak_usage();
        let mut plan = Plan::new(&program, Default::default()).expect("a plan");
        let mut memory = plan.memory();
        for port in program.ports_of(Direction::Input) {
            memory.region_mut(port.bar).expect("bound").bytes_mut().fill(0x11);
        }
        for _ in 0..3 {
            plan.run(&mut memory).expect("runs");
        }
        let taken = ALLOCATIONS.peak_usage() - before;
        let share = taken as f64 / needed as f64;
        println!("{name}: {taken} bytes allocated for {needed} of weights and activations: {share:.2}");
        assert!(share <= 1.3, "{name}: {taken} bytes for {needed}");
    }
}
