//! Planar tasks by form: time of a run, as a share of a plain sum of two sources of the same extents in the same run.
//!
//! `cargo bench -p anemone-engine --bench planar`

#[path = "../tests/common/mod.rs"]
mod common;

use anemone_engine::{Memory, Options, Plan};
use anemone_facts::Field::{self, *};
use anemone_facts::code::{class, condition, format, padding, planar, planar_nonlinear, pool, residency, second};
use anemone_facts::layout::H13;
use anemone_facts::numerics::Model;
use anemone_program::{Program, Task, task::encode_stream};
use common::*;
use half::f16;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A name, extents, and the fields of each task.
type Form = (&'static str, Extents, Vec<Vec<(Field, u32)>>);
/// Groups, channels, rows, columns.
type Extents = [u32; 4];
const ROUNDS: usize = 40;

/// A task of these extents; its rows leave space for the interleave.
fn shaped([g, c, h, w]: Extents, fields: &[(Field, u32)]) -> Task {
    let extents = [(NumGroups, g), (Cin, c), (Cout, c), (Hin, h), (Hout, h), (Win, w), (Wout, w)];
    let mut task = with(with(planar_task(format::FP16, format::FP16), &extents), fields);
    let places = [
        (Src1Interleave, [Src1RowStride, Src1PlaneStride, Src1GroupStride]),
        (Src2Interleave, [Src2RowStride, Src2PlaneStride, Src2GroupStride]),
        (DstInterleave, [DstRowStride, DstPlaneStride, DstGroupStride]),
    ];
    for (interleave, strides) in places {
        let by = u64::from(task.get(&H13, interleave).unwrap_or(0)).max(1);
        let row = (2 * u64::from(w) * by).next_multiple_of(64);
        let plane = row * u64::from(h);
        let bytes = [row, plane, plane * u64::from(c) / by];
        strides.into_iter().zip(bytes).for_each(|(field, bytes)| task.set_bytes(&H13, field, bytes).expect("fits"));
    }
    task
}

struct Case {
    plan: Plan,
    memory: Memory,
    best: Duration,
}

impl Case {
    fn new(mut tasks: Vec<Task>, model: Model, [g, c, h, w]: Extents) -> Case {
        let first_task_words = tasks[0].word_count();
        let stream = encode_stream(&H13, &mut tasks).expect("encodes");
        let (name, kernel, ports) = ("bench".into(), vec![], vec![]);
        let program =
            Program { name, layout: &H13, stream, first_task_words, kernel: kernel.into(), scratch_bytes: 0, ports };
        let plan = Plan::new(&program, Options { model, ..Options::default() }).expect("a plan");
        let bytes = (g * c * h * (2 * w).next_multiple_of(64)) as usize;
        let x: Vec<u8> =
            (0..bytes / 2).flat_map(|i| f16::from_f32((i % 977) as f32 / 300.0 - 1.6).to_le_bytes()).collect();
        let mut memory = Memory::for_program(&program);
        [SOURCE, SECOND, RESULT].into_iter().for_each(|bar| memory.bind(bar, &x));
        Case { plan, memory, best: Duration::MAX }
    }

    fn step(&mut self) {
        let start = Instant::now();
        black_box(self.plan.run(&mut self.memory).expect("runs"));
        self.best = self.best.min(start.elapsed());
    }
}

fn main() {
    let half = |x: f32| u32::from(f16::from_f32(x).to_bits());
    let two = |op, more: &[(Field, u32)]| [&two_sources(op)[..], more].concat();
    let reduce = (TaskClass, class::PLANAR_REDUCE);
    let [rows, scores, maps]: [Extents; 3] = [[256, 12, 1, 256], [1, 12, 256, 256], [1, 64, 56, 56]];
    let difference = [
        (TaskClass, class::PLANAR_REDUCE_TWO),
        (PeSecond, second::NEGATED),
        (Src2BroadcastW, 1),
        (PeFinalScale, (1f32 / 384.0).to_bits()),
    ];
    let less = [(PeSecond, second::NEGATED), (Src2BroadcastW, 1), (PeScale, half(std::f32::consts::LOG2_E))];
    let chained = [vec![(ResType, residency::CHAIN)], vec![(SrcType, residency::CHAIN)]];
    let cases: [Form; 10] = [
        ("sums of rows, then reciprocals", rows, vec![vec![reduce, (PeNonlinear, planar_nonlinear::RECIPROCAL)]]),
        ("maxima of rows", rows, vec![vec![reduce, (PePool, pool::MAX), (PaddingMode, padding::NEGATIVE)]]),
        ("means of 7x7", [1, 512, 7, 7], vec![vec![reduce, (PeFinalScale, (1f32 / 49.0).to_bits())]]),
        ("mean squares of differences", [128, 1, 1, 384], vec![two(planar::SQUARE_SUM, &difference)]),
        ("less a column, scaled", scores, vec![two(planar::ADD, &less)]),
        ("absolute value", maps, vec![vec![(PeCond, condition::ABS)]]),
        ("scale and bias", maps, vec![vec![(PeScale, half(0.5)), (PeBias, half(0.5))]]),
        ("two tasks in a chain", maps, chained.to_vec()),
        ("source interleaved by 8", maps, vec![vec![(Src1Interleave, 8)]]),
        ("result interleaved by 8", maps, vec![vec![(DstInterleave, 8)]]),
    ];
    for (name, extents, tasks) in cases {
        for model in [Model::Fast, Model::Fixed] {
            let tasks = tasks.iter().map(|fields| shaped(extents, fields)).collect();
            let mut case = Case::new(tasks, model, extents);
            let mut sum = Case::new(vec![shaped(extents, &two(planar::ADD, &[]))], model, extents);
            for _ in 0..ROUNDS {
                case.step();
                sum.step();
            }
            let share = case.best.as_secs_f64() / sum.best.as_secs_f64();
            println!("{name:32} {model:6?} {:8.1?} {share:6.2}", case.best);
        }
    }
}
