//! What a plan says of outputs that are not wholly written, in later runs on the same memory and on others.

use crate::common;

use anemone_engine::{Memory, Plan};
use anemone_facts::Field::*;
use anemone_facts::code::format;
use anemone_facts::layout::H13;
use anemone_program::task::encode_stream;
use anemone_program::{Direction, Element, Nchw, Port, Program, Strides};
use common::*;

const ROW: u64 = 64;
const CHANNELS: u32 = 4;

/// Copies all channels of a port but so many.
fn program(missing: u32) -> Program {
    let extents = [(Cin, CHANNELS - missing), (Cout, CHANNELS - missing), (Hin, 1), (Hout, 1), (Win, 8), (Wout, 8)];
    let mut task = with(planar_task(format::FP16, format::FP16), &extents);
    for field in [Src1RowStride, Src1PlaneStride, DstRowStride, DstPlaneStride] {
        task.set_bytes(&H13, field, ROW).expect("fits");
    }
    let mut tasks = vec![task];
    let stream = encode_stream(&H13, &mut tasks).expect("encodes");
    let port = |name: &str, bar, direction| Port {
        name: name.into(),
        bar,
        direction,
        shape: Nchw { n: 1, c: CHANNELS, h: 1, w: 8 },
        volume_channels: None,
        strides: Strides { batch_bytes: ROW * u64::from(CHANNELS), plane_bytes: ROW, row_bytes: ROW },
        bytes: ROW * u64::from(CHANNELS),
        element: Element::Float16,
    };
    let ports = vec![port("x", SOURCE, Direction::Input), port("y", RESULT, Direction::Output)];
    let first_task_words = tasks[0].word_count();
    Program {
        name: "t".into(),
        layout: &H13,
        stream,
        first_task_words,
        kernel: Default::default(),
        scratch_bytes: 0,
        ports,
    }
}

fn memory(program: &Program) -> Memory {
    let mut memory = Memory::for_program(program);
    memory.region_mut(SOURCE).expect("bound").bytes_mut().fill(0x3c);
    memory
}

#[test]
fn later_runs_know_what_is_incomplete() {
    for (missing, wanted) in [(0, vec![]), (1, vec!["y".to_string()])] {
        let program = program(missing);
        let mut plan = Plan::new(&program, Default::default()).expect("a plan");
        let (mut one, mut other) = (memory(&program), memory(&program));
        let mut copy = one.clone();
        let mut run = |memory: &mut Memory| plan.run(memory).expect("runs").incomplete;
        for memory in [&mut one, &mut other] {
            assert_eq!([run(memory), run(memory)], [wanted.clone(), wanted.clone()]);
        }
        assert_eq!(run(&mut one), wanted);
        assert_eq!([run(&mut copy), run(&mut one)], [wanted.clone(), wanted.clone()]);
        // Written from outside: all of it counts.
        one.region_mut(RESULT).expect("bound").bytes_mut()[0] = 1;
        assert_eq!([run(&mut one), run(&mut one)], [vec![], Vec::<String>::new()]);
        // Another region, of which nothing is written.
        let bytes = program.ports[1].bytes as usize;
        one.allocate(RESULT, bytes);
        assert_eq!([run(&mut one), run(&mut one)], [wanted.clone(), wanted.clone()]);
        // By another plan.
        let whole = self::program(0);
        Plan::new(&whole, Default::default()).expect("a plan").run(&mut one).expect("runs");
        assert_eq!(run(&mut one), Vec::<String>::new());
    }
}

#[test]
fn a_run_on_memory_that_lacks_its_source_fails_again() {
    let program = program(0);
    let mut plan = Plan::new(&program, Default::default()).expect("a plan");
    let mut memory = memory(&program);
    for _ in 0..2 {
        plan.run(&mut memory).expect("runs");
    }
    memory.allocate(SOURCE, program.ports[0].bytes as usize);
    assert!(plan.run(&mut memory).is_err());
    assert!(plan.run(&mut memory).is_err());
    memory.region_mut(SOURCE).expect("bound").bytes_mut().fill(0x3c);
    plan.run(&mut memory).expect("runs");
}
