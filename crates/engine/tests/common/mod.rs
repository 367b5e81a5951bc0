//! Tasks by hand, and programs of them.
#![allow(dead_code)]

use anemone_engine::{FaultKind, Memory, Options, Outcome, run};
use anemone_facts::Field;
use anemone_facts::Field::*;
use anemone_facts::code::{class, format, residency, second};
use anemone_facts::layout::H13;
use anemone_facts::numerics::Model;
use anemone_program::{Program, Task, task::encode_stream};

pub mod conv;

pub const RESULT: u8 = 4;
pub const SOURCE: u8 = 5;
pub const SECOND: u8 = 6;

/// fp16 elements from one region to another, through a window of one element.
pub const FROM_MEMORY: [(Field, u32); 16] = [
    (RBase0, SOURCE as u32),
    (Rbe0, 1),
    (WBase, RESULT as u32),
    (Wbe, 1),
    (InFmt, format::FP16),
    (OutFmt, format::FP16),
    (Src1MemFmt, format::FP16),
    (DstMemFmt, format::FP16),
    (Kw, 1),
    (Kh, 1),
    (Sx, 1),
    (Sy, 1),
    (NumGroups, 1),
    (SrcType, residency::DMA),
    (ResType, residency::DMA),
    (DstEn, 1),
];

/// A task with these fields, and byte quantities, set.
pub fn task(fields: &[(Field, u32)], bytes: &[(Field, u64)]) -> Task {
    let mut task = Task::full(&H13);
    for &(field, value) in fields {
        task.set(&H13, field, value).unwrap_or_else(|e| panic!("{field:?}: {e}"));
    }
    for &(field, value) in bytes {
        task.set_bytes(&H13, field, value).unwrap_or_else(|e| panic!("{field:?}: {e}"));
    }
    task
}

pub fn with(mut task: Task, fields: &[(Field, u32)]) -> Task {
    fields.iter().for_each(|&(field, value)| task.set(&H13, field, value).expect("fits"));
    task
}

/// What makes a planar task one of two sources.
pub fn two_sources(op: u32) -> [(Field, u32); 8] {
    [
        (TaskClass, class::PLANAR_TWO),
        (PeOp, op),
        (PeSecond, second::SOURCE),
        (RBase1, SECOND as u32),
        (Rbe1, 1),
        (Src2Type, 1),
        (Src2Fmt, format::FP16),
        (Src2MemFmt, format::FP16),
    ]
}

/// A planar task of one source and nothing done, but for its extents and strides.
pub fn planar_task(from: u32, to: u32) -> Task {
    let planar = [
        (TaskClass, class::PLANAR_ONE),
        (InFmt, from),
        (Src1MemFmt, from),
        (OutFmt, to),
        (DstMemFmt, to),
        (PeScale, 0x3c00),
        (PePreScale, 0x3c00),
        (PeFinalScale, 1f32.to_bits()),
    ];
    with(task(&FROM_MEMORY, &[]), &planar)
}

/// The result region after a run.
pub fn execute_in(
    model: Model,
    tasks: Vec<Task>,
    kernel: Vec<u8>,
    inputs: &[(u8, &[u8])],
    out: usize,
) -> Result<Vec<u8>, FaultKind> {
    outcome(Options { model, ..Options::default() }, tasks, kernel, inputs, out).map(|(_, bytes)| bytes)
}

/// What a run says, and the result region after it.
pub fn outcome(
    options: Options,
    mut tasks: Vec<Task>,
    kernel: Vec<u8>,
    inputs: &[(u8, &[u8])],
    out: usize,
) -> Result<(Outcome, Vec<u8>), FaultKind> {
    let first_task_words = tasks[0].word_count();
    let stream = encode_stream(&H13, &mut tasks).expect("encodes");
    let program = Program {
        name: "t".into(),
        layout: &H13,
        stream,
        first_task_words,
        kernel: kernel.into(),
        scratch_bytes: 0,
        ports: vec![],
    };
    let mut memory = Memory::for_program(&program);
    inputs.iter().for_each(|(bar, bytes)| memory.bind(*bar, bytes));
    memory.bind(RESULT, &vec![0; out]);
    let outcome = run(&program, &mut memory, options).map_err(|fault| fault.kind)?;
    Ok((outcome, memory.region(RESULT).expect("bound").bytes().to_vec()))
}

/// As [`execute_in`], in `fast`.
pub fn execute(tasks: Vec<Task>, kernel: Vec<u8>, inputs: &[(u8, &[u8])], out: usize) -> Result<Vec<u8>, FaultKind> {
    execute_in(Model::Fast, tasks, kernel, inputs, out)
}
