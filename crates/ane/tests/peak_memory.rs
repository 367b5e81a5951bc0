//! Peak memory of a run, beside the size that the program states.

mod common;

use anemone::connection::{Request, Settings};
use anemone::{Array, Model, Session};
use anemone_compile::compile;
use anemone_engine::Plan;
use anemone_facts::chips;
use anemone_program::{Direction, Program, hwx};
use common::nets::{convolutions, convolutions_net};
use peak_alloc::PeakAlloc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATIONS: PeakAlloc = PeakAlloc;

/// Held by the test that measures: allocations are counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    let _alone = alone();
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

#[test]
fn compiling_and_writing_take_little_more_than_the_weights_once() {
    let _alone = alone();
    // The network's own constants are there before; a model's file is mapped.
    let net = convolutions_net("chain", [512, 8], &[[512, 3, 1]; 4], &[], weight);
    let before = ALLOCATIONS.current_usage();
    ALLOCATIONS.reset_peak_usage();
    let program = compile(&net, &chips::CHIPS[0], &Default::default(), &mut ()).expect("compiles");
    let pieces = hwx::to_file(&program, &hwx::Options::default()).expect("a container");
    let mut plan = Plan::new(&program, anemone_engine::Options { trace: true, ..Default::default() }).expect("a plan");
    let mut memory = plan.memory();
    plan.run(&mut memory).expect_err("inputs are not written");
    let taken = ALLOCATIONS.peak_usage() - before;
    // Places of kernel data are zeros in the frame that nobody touches: address space alone.
    let frame: usize = hwx::from_program(&program, &hwx::Options::default()).expect("a container").file_bytes as usize;
    assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), frame);
    let share = (taken - frame) as f64 / program.kernel.len() as f64;
    println!(
        "{taken} bytes allocated, {frame} of them untouched zeros, for {} of weights: {share:.2}",
        program.kernel.len()
    );
    assert!(share <= 1.3, "{share:.2} times the weights");
    let whole: Vec<u8> = pieces.concat();
    assert!(whole == hwx::from_program(&program, &hwx::Options::default()).expect("a container").write());
}

/// A session's plan holds packed coefficients; the kernel data that they come from lies in a file that is mapped.
#[test]
fn a_session_holds_the_weights_once() {
    let _alone = alone();
    let net = convolutions_net("chain", [512, 8], &[[512, 3, 1]; 4], &[], weight);
    let path = std::path::Path::new("chain");
    let input = net.value(net.inputs[0]).clone();
    let model = Model::Net { net: Box::new(net), notes: Vec::new() };
    let before = ALLOCATIONS.current_usage();
    let executable = model.executable(path, &chips::CHIPS[0], &Default::default(), true).expect("compiles");
    let needed = needed(&executable.chain.programs()[0]);
    let session = Session::new(Arc::new(executable), Default::default(), None);
    let data = vec![0.25; input.ty.elements()];
    let first = session.run(&[(input.name.clone(), Array { shape: input.ty.shape.clone(), data: data.clone() })]);
    let second = session.run(&[(input.name, Array { shape: input.ty.shape, data })]);
    let held = ALLOCATIONS.current_usage() - before;
    assert_eq!(first.expect("runs")[0].1.data, second.expect("runs again")[0].1.data);
    println!("{held} bytes held for {needed} of weights and activations: {:.2}", held as f64 / needed as f64);
    assert!(held as f64 <= 1.3 * needed as f64, "{held} bytes for {needed}");
}

/// Through the runtime, weights are once in memory that is allocated, as a plan packs them: the cache's image is mapped, from its
/// verification to the run, compiled now or before.
#[test]
fn a_run_through_the_runtime_holds_the_weights_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chain.hwx");
    let program = chain(1024, 8, 3, 4);
    std::fs::write(&path, hwx::from_program(&program, &hwx::Options::default()).expect("a container").write())
        .expect("written");
    let needed = needed(&program);
    let ports: Vec<(String, usize)> =
        program.ports_of(Direction::Input).map(|p| (p.name.clone(), p.shape.elements() as usize)).collect();
    drop(program);
    let settings = Settings { cache: Some(folder.path().join("cache")), ..Settings::default() };
    for kept in [false, true] {
        let before = ALLOCATIONS.current_usage();
        ALLOCATIONS.reset_peak_usage();
        let connection = settings.open(&Request::new(&path, "h13")).expect("loads");
        assert_eq!(connection.was_kept(), kept);
        let inputs =
            ports.iter().map(|(name, count)| (name.clone(), Array { shape: vec![*count], data: vec![0.25; *count] }));
        connection.run(&inputs.collect::<Vec<_>>()).expect("runs");
        let taken = ALLOCATIONS.peak_usage() - before;
        println!(
            "kept {kept}: {taken} bytes at most for {needed} of weights and activations: {:.2}",
            taken as f64 / needed as f64
        );
        assert!(taken as f64 <= 1.3 * needed as f64, "kept {kept}: {taken} bytes for {needed}");
    }
}

/// A container's kernel data stay in its file, which is mapped, from loading to the plan that packs them.
#[test]
fn a_container_is_loaded_without_copies() {
    let _alone = alone();
    let program = chain(512, 8, 3, 4);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chain.hwx");
    let file = hwx::from_program(&program, &hwx::Options::default()).expect("a container").write();
    std::fs::write(&path, file).expect("written");
    let needed = needed(&program);
    drop(program);
    let before = ALLOCATIONS.current_usage();
    ALLOCATIONS.reset_peak_usage();
    let model = Model::load(&path).expect("reads");
    let executable = model.executable(&path, &chips::CHIPS[0], &Default::default(), true).expect("a program");
    let port = executable.chain.ports(Direction::Input).next().expect("an input").clone();
    let shape: Vec<usize> = [port.shape.n, port.shape.c, port.shape.h, port.shape.w].map(|n| n as usize).to_vec();
    let data = vec![0.25; shape.iter().product()];
    let session = Session::new(Arc::new(executable), Default::default(), None);
    session.run(&[(port.name, Array { shape, data })]).expect("runs");
    let taken = ALLOCATIONS.peak_usage() - before;
    println!("{taken} bytes at most for {needed} of weights and activations: {:.2}", taken as f64 / needed as f64);
    assert!(taken as f64 <= 1.3 * needed as f64, "{taken} bytes for {needed}");
}
