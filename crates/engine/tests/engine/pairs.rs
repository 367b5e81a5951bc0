//! Two tasks done at once, in the later runs of a plan: results are those of a first run, and what is read elsewhere is stored.

use crate::common;

use anemone_engine::{Memory, Options, Plan};
use anemone_facts::Field::{self, *};
use anemone_facts::code::*;
use anemone_facts::layout::H13;
use anemone_facts::numerics::Model;
use anemone_program::task::encode_stream;
use anemone_program::{Direction, Element, Nchw, Port, Program, Strides, Task};
use common::conv::*;
use common::*;

const SIDE: usize = 6;
const CHANNELS: usize = 12;
const SCRATCH: u32 = Program::SCRATCH_BAR as u32;
/// Bytes of a tensor between tasks, and of one at the end.
const BETWEEN: usize = CHANNELS * SIDE * ROW as usize;

/// Every output channel reads all of these.
const FIRST: Conv = Conv { cin: 3, cout: CHANNELS, side: SIDE, kernel: [1, 1], ..PLAIN };
/// Every output channel reads its own.
const SECOND_ONE: Conv = Conv { cin: CHANNELS, cout: CHANNELS, side: SIDE, kernel: [3, 3], unicast: true, ..PLAIN };

/// Where a task's result goes, or its source comes from.
#[derive(Clone, Copy)]
enum At {
    Tile(u64),
    Memory(u32, u64),
}

/// Fields of an operand: its kind and its base register; then base and strides in tile memory, and in memory.
type Operand = ([Field; 2], [Field; 3], [Field; 3]);

const SENT: Operand =
    ([ResType, WBase], [ResL2Base, ResL2RowStride, ResL2ChannelStride], [DstBase, DstRowStride, DstPlaneStride]);
const READ: Operand =
    ([SrcType, RBase0], [SrcL2Base, SrcL2RowStride, SrcL2ChannelStride], [Src1Base, Src1RowStride, Src1PlaneStride]);

fn lies(task: Task, ([kind, bar], tile, memory): Operand, at: At) -> Task {
    let (field, value, fields, base) = match at {
        At::Tile(base) => (kind, residency::L2, tile, base),
        At::Memory(register, base) => (bar, register, memory, base),
    };
    let mut task = with(task, &[(field, value)]);
    place(&mut task, fields, base);
    task
}

fn sends(task: Task, at: At) -> Task {
    lies(task, SENT, at)
}

fn reads(task: Task, at: At) -> Task {
    lies(task, READ, at)
}

/// Rows of 64 bytes; a result of fewer rows lies as its source did.
fn place(task: &mut Task, [base, row, channel]: [Field; 3], at: u64) {
    for (field, bytes) in [(base, at), (row, ROW), (channel, SIDE as u64 * ROW)] {
        task.set_bytes(&H13, field, bytes).expect("fits");
    }
}

/// All channels between the tasks, copied.
fn copy() -> Task {
    let extents = [(Win, SIDE), (Hin, SIDE), (Wout, SIDE), (Hout, SIDE), (Cin, CHANNELS), (Cout, CHANNELS)];
    with(planar_task(format::FP16, format::FP16), &extents.map(|(field, n)| (field, n as u32)))
}

fn program(convolutions: &[(Conv, usize)], mut tasks: Vec<Task>) -> Program {
    let mut kernel = Vec::new();
    for &(conv, at) in convolutions {
        let weights = conv.weights();
        let rows = |g, first| conv.rows(&weights, g, first).into_iter().flat_map(half).collect();
        for (i, mut stream) in conv.streams(&[], rows).into_iter().enumerate() {
            stream.resize(stream.len().next_multiple_of(64), 0);
            for (field, value) in [(CoeffBase, kernel.len()), (CoeffSize, stream.len())] {
                tasks[at].set_bytes_at(&H13, field, i as u32, value as u64).expect("fits");
            }
            tasks[at].set_at(&H13, CoeffEn, i as u32, 1).expect("fits");
            kernel.extend(stream);
        }
    }
    let first_task_words = tasks[0].word_count();
    let stream = encode_stream(&H13, &mut tasks).expect("encodes");
    let scratch_bytes = 2 * BETWEEN as u64;
    let source_bytes = FIRST.cin * SIDE * ROW as usize;
    let ports =
        vec![port(Direction::Input, SOURCE, source_bytes as u64), port(Direction::Output, RESULT, 2 * BETWEEN as u64)];
    Program { name: "t".into(), layout: &H13, stream, first_task_words, kernel: kernel.into(), scratch_bytes, ports }
}

/// What the caller binds there, as far as a plan looks at it.
fn port(direction: Direction, bar: u8, bytes: u64) -> Port {
    let (shape, strides) = (Nchw { n: 1, c: 1, h: 1, w: 1 }, Strides { batch_bytes: 0, plane_bytes: 0, row_bytes: 0 });
    Port {
        name: format!("port{bar}"),
        direction,
        bar,
        shape,
        volume_channels: None,
        strides,
        element: Element::Float16,
        bytes,
    }
}

/// The source's values times a factor.
fn memory(program: &Program, factor: f32) -> Memory {
    let mut memory = Memory::for_program(program);
    let source: Vec<f32> = FIRST.source().iter().map(|x| factor * x).collect();
    memory.bind(SOURCE, &rows_of(&source, SIDE));
    memory.bind(RESULT, &vec![0; 2 * BETWEEN]);
    memory
}

/// The result, and the program's own memory, of the second run of a plan, on another input than the first one's; after comparing
/// the result with a new plan's. The exact array's are the same: all numbers are small integers.
fn second_run(program: &Program) -> Vec<u8> {
    let [(fast, scratch), (exact, _)] = [Model::Fast, Model::Fixed].map(|model| second_run_in(program, model));
    assert!(fast == exact);
    scratch
}

fn second_run_in(program: &Program, model: Model) -> (Vec<u8>, Vec<u8>) {
    let plan = || Plan::new(program, Options { model, ..Options::default() }).expect("a plan");
    let mut known = plan();
    known.run(&mut memory(program, 1.0)).expect("runs");
    let (mut again, mut fresh) = (memory(program, 2.0), memory(program, 2.0));
    known.run(&mut again).expect("runs");
    plan().run(&mut fresh).expect("runs");
    let bytes = |memory: &Memory, bar| memory.region(bar).expect("bound").bytes().to_vec();
    assert_eq!(bytes(&again, RESULT), bytes(&fresh, RESULT));
    assert!(bytes(&again, RESULT).iter().any(|&b| b != 0));
    (bytes(&again, RESULT), bytes(&again, Program::SCRATCH_BAR))
}

/// Whether the first bytes of the program's own memory were written.
fn is_stored(scratch: &[u8]) -> bool {
    scratch[..BETWEEN].iter().any(|&b| b != 0)
}

const FROM: At = At::Memory(SOURCE as u32, 0);
const X: At = At::Memory(SCRATCH, 0);
const RESULT_AT: [At; 2] = [At::Memory(RESULT as u32, 0), At::Memory(RESULT as u32, BETWEEN as u64)];

fn pair(at: At) -> Vec<Task> {
    vec![sends(reads(FIRST.task(), FROM), at), sends(reads(SECOND_ONE.task(), at), RESULT_AT[0])]
}

const BOTH: [(Conv, usize); 2] = [(FIRST, 0), (SECOND_ONE, 1)];

#[test]
fn what_the_next_task_alone_reads_is_not_stored() {
    assert!(!is_stored(&second_run(&program(&BOTH, pair(X)))));
    second_run(&program(&BOTH, pair(At::Tile(0))));
    // Of few taps, as a network begins.
    let few = Conv { cin: 2, side: SIDE + 2, kernel: [3, 3], ..FIRST };
    let tasks = vec![sends(reads(few.task(), FROM), X), sends(reads(SECOND_ONE.task(), X), RESULT_AT[0])];
    assert!(!is_stored(&second_run(&program(&[(few, 0), (SECOND_ONE, 1)], tasks))));
    // What lies beside it may be read.
    let beside = At::Memory(SCRATCH, BETWEEN as u64);
    let mut tasks = vec![sends(reads(FIRST.task(), FROM), beside)];
    tasks.extend(pair(X));
    tasks.push(sends(reads(copy(), beside), RESULT_AT[1]));
    assert!(!is_stored(&second_run(&program(&[(FIRST, 0), (FIRST, 1), (SECOND_ONE, 2)], tasks))));
}

#[test]
fn what_a_later_task_reads_is_stored() {
    for at in [X, At::Tile(0)] {
        let mut tasks = pair(at);
        tasks.push(sends(reads(copy(), at), RESULT_AT[1]));
        let scratch = second_run(&program(&BOTH, tasks));
        assert!(matches!(at, At::Tile(_)) || is_stored(&scratch));
    }
    // A part of it, and as the second operand.
    let mut tasks = pair(X);
    let part = with(copy(), &[(Cin, 2), (Cout, 2)]);
    tasks.push(sends(reads(part, At::Memory(SCRATCH, 3 * SIDE as u64 * ROW)), RESULT_AT[1]));
    assert!(is_stored(&second_run(&program(&BOTH, tasks))));
    let mut tasks = pair(X);
    let mut sum = with(with(copy(), &two_sources(planar::ADD)), &[(RBase1, SCRATCH)]);
    place(&mut sum, [Src2Base, Src2RowStride, Src2PlaneStride], 0);
    tasks.push(sends(reads(sum, At::Memory(RESULT as u32, 0)), RESULT_AT[1]));
    assert!(is_stored(&second_run(&program(&BOTH, tasks))));
}

#[test]
fn what_is_written_again_is_read_as_it_was_then() {
    // All of it, or all but one channel: that one is the pair's.
    for channels in [CHANNELS, CHANNELS - 1] {
        let other = At::Memory(SCRATCH, BETWEEN as u64);
        let twice = with(copy(), &[(PeScale, 0x4000), (Cin, channels as u32), (Cout, channels as u32)]);
        let mut tasks = vec![sends(reads(FIRST.task(), FROM), other)];
        tasks.extend(pair(X));
        tasks.push(sends(reads(twice, other), X));
        tasks.push(sends(reads(copy(), X), RESULT_AT[1]));
        second_run(&program(&[(FIRST, 0), (FIRST, 1), (SECOND_ONE, 2)], tasks));
    }
}

/// A trace sees every task.
#[test]
fn a_trace_has_every_task() {
    let program = program(&BOTH, pair(X));
    let mut plan = Plan::new(&program, Options { trace: true, ..Options::default() }).expect("a plan");
    for _ in 0..2 {
        let mut memory = memory(&program, 1.0);
        assert_eq!(plan.run(&mut memory).expect("runs").trace.len(), 2);
        assert!(is_stored(memory.region(Program::SCRATCH_BAR).expect("bound").bytes()));
    }
}
