//! Damaged programs: a run with flipped bits ends in an outcome.
//!
//! A short run samples and keeps to its time. `ANE_FLIPS=1000000` sets the number of damaged programs, without a limit of
//! time; small programs have the larger share. The fuzz targets in `fuzz/` go on for as long as they are let.

use crate::common;

use anemone_engine::{Memory, Options, Plan, run};
use anemone_facts::Field::{DstBase, DstGroupStride, DstPlaneStride, WBase};
use anemone_facts::numerics::Model;
use anemone_program::hwx::Container;
use anemone_program::task::encode_stream;
use anemone_program::{Direction, Program, raw};
use common::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Damaged programs of a short run, and its time.
const FLIPS: u64 = 20_000;
const TIME: Duration = Duration::from_secs(15);
/// Columns whose rows begin at every line of memory.
const HALF: usize = 32;
/// Bytes that a program costs beside its buffers.
const OVERHEAD_BYTES: u64 = 1 << 14;

/// Programs with the bytes that a run of them binds, small ones first.
fn programs() -> Vec<(String, Program, u64)> {
    let mut all = Vec::new();
    let Some(dir) = golden_dir() else { return all };
    let mut add = |name: String, program: Program| {
        let bytes = program.ports.iter().map(|p| p.bytes).sum::<u64>() + program.scratch_bytes;
        all.push((name, program, bytes + OVERHEAD_BYTES));
    };
    for path in entries(&dir.join("h13/programs")) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        if let Ok(program) = raw::read_bin(&bytes) {
            add(stem(&path), program);
        }
    }
    for folder in entries(&dir.join("h13/pairs")) {
        let bytes = std::fs::read(folder.join("model.hwx")).unwrap_or_default();
        if let Ok(program) =
            Container::read(&bytes).map_err(|e| e.to_string()).and_then(|c| c.program().map_err(|e| e.to_string()))
        {
            add(stem(&folder), program);
        }
    }
    all.sort_by_key(|(_, _, bytes)| *bytes);
    all
}

/// One to three bits of the stream, or one time in eight of the kernel data.
fn damage(program: &mut Program, random: &mut Random) {
    for _ in 0..1 + random.next() % 3 {
        let kernel = random.next().is_multiple_of(8) && !program.kernel.is_empty();
        let mut flip = |bytes: &mut Vec<u8>| {
            let bit = (random.next() % (8 * bytes.len() as u64)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        };
        if kernel { program.edit_kernel(flip) } else { flip(&mut program.stream) }
    }
}

/// Number of programs to damage, from `ANE_FLIPS`.
fn asked() -> Option<u64> {
    std::env::var("ANE_FLIPS").ok().and_then(|n| n.parse().ok())
}

#[test]
fn flipped_bits_end_in_an_outcome() {
    let asked = asked();
    let flips = asked.unwrap_or(FLIPS);
    let started = Instant::now();
    let all = programs();
    let shares: f64 = all.iter().map(|(_, _, bytes)| 1.0 / *bytes as f64).sum();
    let (mut ran, mut refused) = (0u64, 0u64);
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    let mut slowest = Duration::ZERO;
    'all: for (i, (_, program, bytes)) in all.iter().enumerate() {
        let mut random = Random::new(i as u64 + 100);
        let share = (flips as f64 / *bytes as f64 / shares).ceil() as u64;
        for _ in 0..share {
            if asked.is_none() && started.elapsed() > TIME {
                println!("stopped after {TIME:?}");
                break 'all;
            }
            let mut damaged = program.clone();
            damage(&mut damaged, &mut random);
            let mut memory = Memory::for_program(&damaged);
            for port in damaged.ports_of(Direction::Input) {
                if let Some(region) = memory.region_mut(port.bar) {
                    region.bytes_mut();
                }
            }
            let options = Options {
                lenient: random.next().is_multiple_of(2),
                model: Model::ALL[(random.next() % 3) as usize],
                trace: random.next().is_multiple_of(4),
                ..Options::default()
            };
            let one = Instant::now();
            match run(&damaged, &mut memory, options) {
                Ok(_) => ran += 1,
                Err(fault) => {
                    assert!(!fault.to_string().is_empty());
                    let kind = format!("{:?}", fault.kind);
                    *reasons.entry(kind.split([' ', '(']).next().unwrap_or_default().into()).or_default() += 1;
                    refused += 1;
                }
            }
            slowest = slowest.max(one.elapsed());
        }
    }
    let seconds = started.elapsed().as_secs_f32();
    println!("{ran} ran, {refused} refused, {seconds:.1} s, the slowest run {:.2} s", slowest.as_secs_f32());
    reasons.iter().for_each(|(reason, n)| println!("  {n} {reason}"));
    assert!(all.is_empty() || ran > 0 && refused > 0, "no program ran, or none was refused");
}

/// Two times an expansion of channels, a convolution in which every channel reads itself, and a projection: to a few channels, and to
/// a block of them, which the engine computes otherwise, and adds to what was before.
fn expansions() -> Program {
    let layers = [[16, 1, 1], [16, 1, 1], [16, 3, 16], [4, 1, 1], [16, 1, 1], [16, 3, 16], [16, 1, 1]];
    let weight = |layer: usize, i: usize| half::f16::from_f32((i * 7919 % 101 + layer) as f32 / 64.0 - 0.8);
    nets::convolutions("expansions", [4, 6], &layers, &[[6, 0]], weight)
}

/// Three products of one matrix, the last two of which write the halves of the rows that the first one wrote.
fn halves_of_a_product() -> Program {
    let weight = |layer: usize, i: usize| half::f16::from_f32((i * 7919 % 101 + layer) as f32 / 128.0 - 0.4);
    let mut program = nets::products("halves", [9, 40], &[2 * HALF, HALF, HALF], weight);
    let (layout, mut tasks) = (program.layout, program.tasks().expect("tasks"));
    let [.., whole, left, right] = &mut tasks[..] else { panic!("a task for each product") };
    for (i, half) in [left, right].into_iter().enumerate() {
        for field in [WBase, DstPlaneStride, DstGroupStride] {
            half.set(layout, field, whole.get(layout, field).expect("it is set")).expect("it fits");
        }
        half.set_bytes(layout, DstBase, whole.bytes(layout, DstBase) + (i * 2 * HALF) as u64).expect("it fits");
    }
    program.stream = encode_stream(layout, &mut tasks).expect("it fits");
    program
}

/// Later runs of a plan, which do tasks together, have the results of a first run: of damaged programs too.
#[test]
fn damaged_programs_run_again_as_they_run_first() {
    for (program, seed) in [(expansions(), 7), (halves_of_a_product(), 11)] {
        damaged_programs_run_again(&program, seed);
    }
}

fn damaged_programs_run_again(program: &Program, seed: u64) {
    let asked = asked();
    let (mut random, started) = (Random::new(seed), Instant::now());
    let (mut ran, mut others) = (0, 0);
    let memory = |program: &Program, factor: usize| {
        let mut memory = Memory::for_program(program);
        for region in program.ports_of(Direction::Input).map(|port| port.bar) {
            let Some(region) = memory.region_mut(region) else { continue };
            let halves = region.bytes_mut().chunks_exact_mut(2).enumerate();
            halves.for_each(|(i, half)| half.copy_from_slice(&[(factor * i) as u8, 0x3b]));
        }
        memory
    };
    let results = |program: &Program, memory: &Memory| -> Vec<Vec<u8>> {
        let regions = program.ports_of(Direction::Output).filter_map(|port| memory.region(port.bar));
        regions.map(|region| region.bytes().to_vec()).collect()
    };
    // Those that do tasks together.
    let models = [Model::Fast, Model::Fixed];
    let undamaged = models.map(|model| {
        let mut first = memory(program, 3);
        run(program, &mut first, Options { model, ..Options::default() }).expect("runs");
        results(program, &first)
    });
    for _ in 0..asked.unwrap_or(FLIPS) / 8 {
        if asked.is_none() && started.elapsed() > TIME / 2 {
            println!("stopped after {:?}", TIME / 2);
            break;
        }
        let mut damaged = program.clone();
        damage(&mut damaged, &mut random);
        let which = (random.next() % 2) as usize;
        let (lenient, model) = (random.next().is_multiple_of(2), models[which]);
        let options = Options { lenient, model, ..Options::default() };
        let Ok(mut plan) = Plan::new(&damaged, options) else { continue };
        if plan.run(&mut memory(&damaged, 1)).is_err() {
            continue;
        }
        let (mut later, mut first) = (memory(&damaged, 3), memory(&damaged, 3));
        plan.run(&mut later).expect("what ran once runs again");
        run(&damaged, &mut first, options).expect("what ran once runs again");
        let wanted = results(&damaged, &first);
        assert!(results(&damaged, &later) == wanted);
        (ran, others) = (ran + 1, others + usize::from(wanted != undamaged[which]));
    }
    let name = &program.name;
    println!("{name}: {ran} ran, {others} of them with other results, {:.1} s", started.elapsed().as_secs_f32());
    assert!(ran > 100 && others > 20, "{name}: {ran} {others}");
}
