//! A program in the container of every dialect, and its kernel data over several sections.

use anemone_facts::formats::dialects::{DIALECTS, ZIN_9509};
use anemone_facts::formats::hwx as rows;
use anemone_facts::{Field, layout};
use anemone_program::hwx::{Container, Options, from_program, name16_text};
use anemone_program::patch::{Part, apply, kernels};
use anemone_program::task::encode_stream;
use anemone_program::{Direction, Element, Nchw, Port, Program, Run, Strides, Task};

/// The descriptor of a planar task as this compiler writes it: registers of idle kernel streams are left out.
fn short() -> Task {
    let layout = &layout::H13;
    let mut task = Task::full(layout);
    let [kernel, ..] = task.runs.as_slice() else { panic!("the layout has blocks") };
    let at = |addr: u32, words: usize| Run::consecutive(addr, vec![0; words]);
    let split = [at(kernel.addr, 18), at(kernel.addr + 0xc8, 12)];
    task.runs.splice(..1, split);
    assert_eq!(task.word_count(), 0x7e);
    task
}

fn write(task: &mut Task, addr: u32, value: u32) {
    let run = task.runs.iter_mut().find(|r| addr >= r.addr && addr < r.addr + 4 * r.words.len() as u32);
    let run = run.expect("the descriptor has the register");
    let at = (addr - run.addr) as usize / 4;
    run.words[at] = value;
}

fn set(task: &mut Task, field: Field, value: u32) {
    task.set(&layout::H13, field, value).expect("it fits");
}

/// A kernel of so many streams, one after another from `base`, `stride` bytes apart.
fn streams(task: &mut Task, count: u32, base: u64, stride: u64) {
    let layout = &layout::H13;
    for i in 0..16 {
        write(task, 0x1f808 + 4 * i, if i < count { 0x81 } else { 0x80 });
        if i < count {
            task.set_bytes_at(layout, Field::CoeffBase, i, base + stride * i as u64).expect("it fits");
            task.set_bytes_at(layout, Field::CoeffSize, i, stride).expect("it fits");
        }
    }
    for (field, value) in [
        (Field::KernelDmaMaster, 1),
        (Field::KernelFmt, 2),
        (Field::Kbe0, 1),
        (Field::KBase0, Program::KERNEL_BAR as u32),
        (Field::ActiveNe, count.trailing_zeros()),
    ] {
        set(task, field, value);
    }
}

fn port(name: &str, direction: Direction, bar: u8, shape: [u32; 4], strides: [u64; 3], bytes: u64) -> Port {
    let [n, c, h, w] = shape;
    let [batch_bytes, plane_bytes, row_bytes] = strides;
    let strides = Strides { batch_bytes, plane_bytes, row_bytes };
    Port {
        name: name.into(),
        direction,
        bar,
        shape: Nchw { n, c, h, w },
        volume_channels: None,
        strides,
        element: Element::Float16,
        bytes,
    }
}

fn identity() -> Program {
    let layout = &layout::H13;
    let (mut convert, mut product) = (short(), Task::full(layout));
    for i in 0..16 {
        write(&mut convert, 0x1f808 + 4 * i, 0x80);
    }
    streams(&mut product, 16, 0, 512);
    for (field, value) in [(Field::Cin, 64), (Field::Cout, 64), (Field::NumGroups, 1), (Field::OcgSize, 2)] {
        set(&mut product, field, value);
    }
    let mut tasks = [convert, product];
    let stream = encode_stream(layout, &mut tasks).expect("two tasks");
    let mut program = Program {
        name: "main_ane".into(),
        layout,
        stream,
        first_task_words: 0x7e,
        kernel: vec![0; 0x2000].into(),
        scratch_bytes: 2 * rows::PAGE,
        ports: vec![
            port("t0", Direction::Input, 4, [1, 1, 1, 64], [128; 3], 0x80),
            port("t2", Direction::Output, 5, [1, 1, 1, 64], [128; 3], 0x80),
        ],
    };
    let diagonal: Vec<u16> = (0..64 * 64).map(|i| if i % 65 == 0 { 0x3c00 } else { 0 }).collect();
    let found = kernels(&program).expect("a chain");
    let kernel = found[0].as_ref().expect("plain fp16");
    assert_eq!((kernel.weights, kernel.stride()), (Some([64, 64, 1, 1]), Some(512)));
    let edits = kernel.edits(&program, Part::Weights, &diagonal).expect("64 by 64");
    program.edit_kernel(|kernel| apply(kernel, 0, &edits));
    program
}

#[test]
fn kernel_data_is_split_at_the_ceiling() {
    let program = identity();
    let mut longer = program.clone();
    longer.edit_kernel(|kernel| kernel.resize(rows::PAGE as usize * 2 + 100, 7));
    let options = Options { dialect: &ZIN_9509, kernel_section_bytes: rows::PAGE, ..Options::default() };
    let container = from_program(&longer, &options).expect("it fits");
    let read = Container::read(&container.write()).expect("it reads");
    let parts = read.kernel_sections();
    let names: Vec<String> = parts.iter().map(|s| name16_text(&s.segment)).collect();
    assert_eq!(names, ["__KERN_0", "__KERN_1", "__KERN_2"]);
    assert_eq!(parts.iter().map(|s| s.bytes).collect::<Vec<_>>(), [rows::PAGE, rows::PAGE, 100]);
    assert_eq!(read.program().expect("it lifts").kernel, longer.kernel);
    // Below the ceiling of the banner there is one section.
    let whole = from_program(&longer, &Options { dialect: &ZIN_9509, ..Options::default() }).expect("it fits");
    assert_eq!(whole.kernel_sections().len(), 1);
}

#[test]
fn every_dialect_holds_a_program() {
    let program = identity();
    for dialect in DIALECTS {
        let options = Options { dialect, ..Options::default() };
        let container = match from_program(&program, &options) {
            Ok(container) if dialect.written => container,
            Err(e) if !dialect.written => {
                assert!(e.to_string().contains(dialect.name), "{e}");
                continue;
            }
            other => panic!("{}: {other:?}", dialect.name),
        };
        let read = Container::read(&container.write()).expect("what is written can be read");
        assert!(read == container, "{}", dialect.name);
        assert_eq!(read.dialect().map(|d| d.name), Some(dialect.name));
        let lifted = read.program().unwrap_or_else(|e| panic!("{}: {e}", dialect.name));
        assert_eq!((&lifted.stream, &lifted.kernel, &lifted.ports), (&program.stream, &program.kernel, &program.ports));
        // Its own options give it back.
        let options = Options { scratch_segments: 1, ..Options::of(&read) };
        assert!(from_program(&lifted, &options).expect("it fits") == read, "{}", dialect.name);
    }
}

#[test]
fn five_axes_survive_a_container_and_a_listing() {
    // 1 x 2 x 3 x 4 x 6: two channels of three planes, joined in memory to six planes.
    let program = |channels: u32, plane_bytes: u64| {
        let volume = |name: &str, direction, bar| Port {
            volume_channels: Some(channels),
            ..port(name, direction, bar, [2, 3, 4, 6], [3 * 0x100, plane_bytes, 0x40], 6 * 0x100)
        };
        let first = Program::FIRST_PORT_BAR;
        let ports = vec![volume("x", Direction::Input, first), volume("y", Direction::Output, first + 1)];
        Program { ports, ..identity() }
    };
    let dense = program(2, 0x100);
    assert_eq!(dense.ports[0].extents(), [1, 2, 3, 4, 6]);
    let back = from_program(&dense, &Options::default()).expect("it fits");
    let read = Container::read(&back.write()).expect("it is read");
    assert_eq!(read.program().expect("it lifts").ports, dense.ports);
    let listing = anemone_program::text::list(&dense);
    assert_eq!(anemone_program::text::assemble(&listing).expect("it assembles").ports, dense.ports);
    // Channels that do not divide what they are joined to are refused, not read as other extents.
    let damaged = listing.replace("volume-channels=2", "volume-channels=4");
    assert!(anemone_program::text::assemble(&damaged).is_err());
    assert!(anemone_program::text::assemble(&listing.replace("volume-channels=2", "volume-channels=0")).is_err());
    // Planes that are apart in depth have no stride in a container: its ports are the joined ones.
    let apart = program(2, 0x200);
    let back = from_program(&apart, &Options::default()).expect("it fits");
    let read = Container::read(&back.write()).expect("it is read");
    assert_eq!(read.program().expect("it lifts").ports[0].extents(), [2, 3, 4, 6]);
}
