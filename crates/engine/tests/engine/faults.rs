//! What the engine refuses, and how it says so: one task by hand, one thing wrong at a time.

use crate::common;

use anemone_engine::{FaultKind, Memory, Options, Plan, run};
use anemone_facts::Field::*;
use anemone_facts::code::*;
use anemone_facts::layout::{H13, KNOWN};
use anemone_program::{Program, Task, task::encode_stream};
use common::{FROM_MEMORY, RESULT, SOURCE, task, with};

/// A copy of four channels of 2 x 8 elements.
fn copy() -> Task {
    let strides = [(Src1RowStride, 64), (Src1PlaneStride, 128), (DstRowStride, 64), (DstPlaneStride, 128)];
    let own = [
        (Win, 8),
        (Hin, 2),
        (Cin, 4),
        (Wout, 8),
        (Hout, 2),
        (Cout, 4),
        (Din, 1),
        (Dout, 1),
        (UnicastEn, 1),
        (UnicastCin, 1),
        (NeOpMode, neural::BYPASS),
        (KernelMode, kernel::UNITY),
        (PostScale, 0x3c00),
    ];
    with(task(&FROM_MEMORY, &strides), &own)
}

fn program(mut tasks: Vec<Task>) -> Program {
    let first_task_words = tasks[0].word_count();
    let stream = encode_stream(&H13, &mut tasks).expect("encodes");
    Program {
        name: "t".into(),
        layout: &H13,
        stream,
        first_task_words,
        kernel: Default::default(),
        scratch_bytes: 0,
        ports: vec![],
    }
}

fn memory() -> Memory {
    let mut memory = Memory::new();
    memory.bind(SOURCE, &(0..512u32).map(|i| (i % 60) as u8).collect::<Vec<_>>());
    memory.allocate(RESULT, 512);
    memory
}

fn fault(tasks: Vec<Task>) -> (Option<usize>, FaultKind) {
    let fault = run(&program(tasks), &mut memory(), Options::default()).expect_err("must be refused");
    (fault.task, fault.kind)
}

#[test]
fn a_copy_copies() {
    let mut memory = memory();
    let outcome = run(&program(vec![copy()]), &mut memory, Options::default()).expect("runs");
    assert_eq!(outcome.tasks, 1);
    let (from, to) = (memory.region(SOURCE).expect("bound").bytes(), memory.region(RESULT).expect("bound").bytes());
    for row in 0..8 {
        assert_eq!(from[64 * row..][..16], to[64 * row..][..16]);
    }
    // Bytes between the rows' ends are left alone.
    assert_eq!(to[16..64], [0; 48]);
}

#[test]
fn a_set_field_that_is_not_obeyed_is_named() {
    let mut second = copy();
    second.set(&H13, MatrixBiasEn, 1).expect("fits");
    let (task, kind) = fault(vec![copy(), second.clone()]);
    assert_eq!(task, Some(1));
    assert!(matches!(kind, FaultKind::NotHonoured { field: MatrixBiasEn, value: 1, .. }), "{kind}");
    // Lenient runs pass over it, and say so.
    let outcome = run(&program(vec![copy(), second]), &mut memory(), Options { lenient: true, ..Options::default() })
        .expect("lenient");
    assert_eq!(outcome.skipped.len(), 1);
}

#[test]
fn a_bit_without_a_row_is_named() {
    let mut task = copy();
    // Bit 31 of the output extents has no row.
    task.runs[1].words[5] |= 1 << 31;
    let (_, kind) = fault(vec![task]);
    assert_eq!(kind, FaultKind::Unexplained { space: "register", addr: 0x14, bits: 1 << 31 });
}

#[test]
fn stray_accesses_have_their_address() {
    let mut task = copy();
    task.set_bytes(&H13, Src1PlaneStride, 192).expect("fits");
    let (_, kind) = fault(vec![task]);
    // Channel 2, row 1 ends at 2 * 192 + 64 + 16; channel 3 starts at 576.
    let FaultKind::Stray { field: Src1Base, region, address, bytes, limit } = kind else { panic!("{kind}") };
    assert_eq!((region.as_str(), address, bytes, limit), ("BAR 5", 576, 16, 512));
    let mut task = copy();
    task.set_bytes(&H13, DstBase, 64).expect("fits");
    let (_, kind) = fault(vec![task]);
    assert!(matches!(kind, FaultKind::Stray { field: DstBase, address: 512, limit: 512, .. }), "{kind}");
}

#[test]
fn memory_must_be_bound_and_written() {
    let mut task = copy();
    task.set(&H13, RBase0, 9).expect("fits");
    assert_eq!(fault(vec![task]).1, FaultKind::Unbound { field: RBase0, bar: 9 });
    let mut task = copy();
    task.set(&H13, RBase0, RESULT as u32).expect("fits");
    let (_, kind) = fault(vec![task]);
    assert!(matches!(kind, FaultKind::Unwritten { field: Src1Base, address: 0, bytes: 16, .. }), "{kind}");
    let mut task = copy();
    task.set(&H13, SrcType, residency::L2).expect("fits");
    let (_, kind) = fault(vec![task]);
    assert!(matches!(kind, FaultKind::Unwritten { field: SrcL2Base, .. }), "{kind}");
}

#[test]
fn chains_need_a_producer_of_the_same_shape() {
    let mut consumer = copy();
    consumer.set(&H13, SrcType, residency::CHAIN).expect("fits");
    assert_eq!(fault(vec![consumer.clone()]).1, FaultKind::NothingChained);
    let mut producer = copy();
    producer.set(&H13, ResType, residency::CHAIN).expect("fits");
    for (field, value) in [(Cin, 2), (Cout, 2)] {
        producer.set(&H13, field, value).expect("fits");
    }
    let (task, kind) = fault(vec![producer, consumer]);
    assert_eq!(task, Some(1));
    assert_eq!(kind, FaultKind::ChainShape { found: [1, 2, 2, 8], declared: [1, 4, 2, 8] });
}

#[test]
fn the_chain_of_tasks_goes_forward() {
    let mut p = program(vec![copy(), copy()]);
    // The second task's next pointer leads back to the first.
    let at = 0x300 + 0x1c;
    p.stream[at..at + 4].copy_from_slice(&0u32.to_le_bytes());
    p.stream[0x300 + 6] = 0x9c;
    let fault = run(&p, &mut memory(), Options::default()).expect_err("a cycle");
    assert!(matches!(fault.kind, FaultKind::Stream(_)), "{fault}");
}

#[test]
fn impossible_sizes_are_refused_before_memory_is_taken() {
    let mut task = copy();
    for (field, value) in [(Win, 0x7fff), (Hin, 0x7fff), (Wout, 0x7fff), (Hout, 0x7fff)] {
        task.set(&H13, field, value).expect("fits");
    }
    let (_, kind) = fault(vec![task]);
    assert!(matches!(kind, FaultKind::TooLarge { .. }), "{kind}");
}

#[test]
fn a_plan_runs_again_and_looks_at_other_memory() {
    let mut plan = Plan::new(&program(vec![copy()]), Options::default()).expect("a plan");
    for _ in 0..2 {
        let mut memory = memory();
        plan.run(&mut memory).expect("runs");
        let (from, to) = (memory.region(SOURCE).expect("bound"), memory.region(RESULT).expect("bound"));
        assert_eq!(from.bytes()[448..464], to.bytes()[448..464]);
        // What was written is known after a run that did not look.
        assert!(to.is_written(448, 16) && !to.is_written(464, 2));
    }
    let mut short = memory();
    short.allocate(RESULT, 256);
    let kind = plan.run(&mut short).expect_err("too short").kind;
    assert!(matches!(kind, FaultKind::Stray { field: DstBase, address: 256, limit: 256, .. }), "{kind}");
    plan.run(&mut memory()).expect("runs");
    let mut empty = memory();
    empty.allocate(SOURCE, 512);
    let kind = plan.run(&mut empty).expect_err("nothing written").kind;
    assert!(matches!(kind, FaultKind::Unwritten { field: Src1Base, address: 0, .. }), "{kind}");
}

/// Generations that are listed and not executed are refused by name, before their stream is looked at; strict or not.
#[test]
fn other_generations_are_refused_by_name() {
    for layout in KNOWN.iter().copied().filter(|l| l.generation != H13.generation) {
        let program = Program { layout, ..program(vec![copy()]) };
        for lenient in [false, true] {
            let fault = Plan::new(&program, Options { lenient, ..Options::default() }).err().expect("not executed");
            assert_eq!(
                (fault.task, fault.kind.clone()),
                (None, FaultKind::Generation { generation: layout.generation })
            );
            assert!(fault.to_string().contains(layout.generation), "{fault}");
        }
    }
}
