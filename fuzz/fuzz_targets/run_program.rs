//! Any bytes that read as a program: every model, strict and lenient, traced and not, ends in an outcome.
//!
//! A corpus is a folder of raw programs and containers: `cargo +nightly fuzz run run_program GOLDEN/h13/programs`.
#![no_main]

use anemone_engine::{Memory, Options, run};
use anemone_facts::numerics::Model;
use anemone_program::hwx::Container;
use anemone_program::{Direction, Program, raw};

/// More than a fuzzer's run should fill.
const MOST_BYTES: u64 = 1 << 24;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let program = raw::read_bin(bytes).ok().or_else(|| Container::read(bytes).ok()?.program().ok());
    if let Some(program) = program {
        outcomes(&program);
    }
});

fn outcomes(program: &Program) {
    let asked = program.ports.iter().fold(program.scratch_bytes, |all, p| all.saturating_add(p.bytes));
    if asked > MOST_BYTES {
        return;
    }
    for model in Model::ALL {
        for lenient in [false, true] {
            let mut memory = Memory::for_program(program);
            for port in program.ports_of(Direction::Input) {
                if let Some(region) = memory.region_mut(port.bar) {
                    region.bytes_mut();
                }
            }
            let _ = run(program, &mut memory, Options { lenient, model, trace: lenient });
        }
    }
}
