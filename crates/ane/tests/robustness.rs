//! Damaged programs: whatever bits are flipped, a run ends in an outcome.

mod common;

use anemone_engine::{Memory, Options, run};
use anemone_program::hwx::Container;
use anemone_program::{Direction, Program, raw};
use common::*;

/// Flips per program; the fuzz targets go on for longer.
const FLIPS: u64 = 24;

fn programs() -> Vec<(String, Program)> {
    let mut all = Vec::new();
    let Some(dir) = golden_dir() else { return all };
    for path in entries(&dir.join("h13/programs")) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        if let Ok(program) = raw::read_bin(&bytes) {
            all.push((stem(&path), program));
        }
    }
    for folder in entries(&dir.join("h13/pairs")) {
        let bytes = std::fs::read(folder.join("model.hwx")).unwrap_or_default();
        if let Ok(program) =
            Container::read(&bytes).map_err(|e| e.to_string()).and_then(|c| c.program().map_err(|e| e.to_string()))
        {
            all.push((stem(&folder), program));
        }
    }
    all
}

#[test]
fn flipped_bits_end_in_an_outcome() {
    let (mut ran, mut refused) = (0, 0);
    for (i, (_, program)) in programs().into_iter().enumerate() {
        let mut random = Random::new(i as u64 + 100);
        for _ in 0..FLIPS {
            let mut damaged = program.clone();
            for _ in 0..1 + random.next() % 3 {
                let bit = (random.next() % (8 * damaged.stream.len() as u64)) as usize;
                damaged.stream[bit / 8] ^= 1 << (bit % 8);
            }
            let mut memory = Memory::for_program(&damaged);
            for port in damaged.ports_of(Direction::Input) {
                if let Some(region) = memory.region_mut(port.bar) {
                    region.bytes_mut();
                }
            }
            let lenient = random.next().is_multiple_of(2);
            match run(&damaged, &mut memory, Options { lenient, ..Options::default() }) {
                Ok(_) => ran += 1,
                Err(fault) => {
                    assert!(!fault.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    println!("{ran} ran, {refused} refused");
}
