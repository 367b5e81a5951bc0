//! Edits of sample programs: the input says which program of `ANE_GOLDEN_DIR/h13/programs` and which bits are flipped, so
//! that every run begins with a program that nearly works.
#![no_main]

use anemone_engine::{Memory, Options, run};
use anemone_facts::numerics::Model;
use anemone_program::{Direction, Program, raw};
use std::path::Path;
use std::sync::LazyLock;

/// Larger programs are slow to run, and no different in their words.
const MOST_BYTES: u64 = 1 << 24;

static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let dir = std::env::var("ANE_GOLDEN_DIR").unwrap_or_else(|_| "../../shared/golden".into());
    let mut paths: Vec<_> = std::fs::read_dir(Path::new(&dir).join("h13/programs"))
        .map(|all| all.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default();
    paths.sort();
    let read = |path: &std::path::PathBuf| raw::read_bin(&std::fs::read(path).ok()?).ok();
    let all: Vec<Program> = paths.iter().filter_map(read).filter(|p| bytes(p) <= MOST_BYTES).collect();
    assert!(!all.is_empty(), "no programs below {dir}: set ANE_GOLDEN_DIR");
    all
});

fn bytes(program: &Program) -> u64 {
    program.ports.iter().fold(program.scratch_bytes, |all, p| all.saturating_add(p.bytes))
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let [which, mode, edits @ ..] = input else { return };
    let mut program = PROGRAMS[usize::from(*which) % PROGRAMS.len()].clone();
    for edit in edits.chunks_exact(4).take(8) {
        let bit = u32::from_le_bytes([edit[0], edit[1], edit[2], edit[3]]) as usize % (8 * program.stream.len());
        program.stream[bit / 8] ^= 1 << (bit % 8);
    }
    let mut memory = Memory::for_program(&program);
    for port in program.ports_of(Direction::Input) {
        if let Some(region) = memory.region_mut(port.bar) {
            region.bytes_mut();
        }
    }
    let model = Model::ALL[usize::from(mode >> 2) % Model::ALL.len()];
    let _ = run(&program, &mut memory, Options { lenient: mode & 1 != 0, model, trace: mode & 2 != 0 });
});
