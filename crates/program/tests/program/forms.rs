//! Dispatch descriptors, firmware containers and loaded images: sizes, round trips, conversions, damage.
//!
//! Programs come from the golden data where it is there, and are made up here otherwise.

use anemone_facts::formats::{e5 as rows, firmware as package_rows, hwx as hwx_rows};
use anemone_facts::{Field, layout};
use anemone_program::e5::{Call, Counted, Descriptor, Info, State, Value, from_calls};
use anemone_program::firmware::{self, Package};
use anemone_program::hwx::{Container, Image, Options, from_program};
use anemone_program::task::encode_stream;
use anemone_program::text::{self, Dump, Selection};
use anemone_program::{Direction, Element, Nchw, Port, Program, Strides, Task};

fn port(name: &str, direction: Direction, bar: u8) -> Port {
    let shape = Nchw { n: 1, c: 64, h: 1, w: 32 };
    let strides = Strides::dense(shape, 2);
    let bytes = strides.batch_bytes;
    Port { name: name.into(), direction, bar, shape, volume_channels: None, strides, element: Element::Float16, bytes }
}

/// A program of so many tasks with these inputs and outputs.
fn program(tasks: usize, inputs: &[&str], outputs: &[&str]) -> Program {
    let layout = &layout::H13;
    let mut all: Vec<Task> = (0..tasks).map(|_| Task::full(layout)).collect();
    let stream = encode_stream(layout, &mut all).expect("empty tasks fit");
    let mut bar = Program::FIRST_PORT_BAR - 1;
    let mut next = |name: &&str, direction| {
        bar += 1;
        port(name, direction, bar)
    };
    let mut ports: Vec<Port> = inputs.iter().map(|n| next(n, Direction::Input)).collect();
    ports.extend(outputs.iter().map(|n| next(n, Direction::Output)));
    Program {
        name: "main".into(),
        layout,
        stream,
        first_task_words: all[0].word_count(),
        kernel: (0..640u32).flat_map(|i| (i as u16).to_le_bytes()).collect(),
        scratch_bytes: 0x4000,
        ports,
    }
}

fn info() -> Info {
    let entries = vec![("input-file-path".to_string(), "model.mil".to_string())];
    Info { function: "main".into(), entries, options: "-t h13".into(), ..Info::default() }
}

fn descriptor(calls: &[&Program], states: &[State]) -> Descriptor {
    let calls: Vec<Call> = calls.iter().map(|p| Call { program: p, container: &p.stream }).collect();
    from_calls(&calls, states, &info())
}

fn kinds(d: &Descriptor) -> Vec<u64> {
    d.operations().map(|op| op.number("op_type")).collect()
}

const CAST: u64 = rows::CAST as u64;
const INFERENCE: u64 = rows::ANE_INFERENCE as u64;

#[test]
fn a_fused_graph_is_cast_inference_cast() {
    let d = descriptor(&[&program(1, &["x"], &["y"])], &[]);
    assert_eq!(kinds(&d), [CAST, INFERENCE, CAST]);
    let names: Vec<&str> = d.operations().map(|op| op.text("name")).collect();
    assert_eq!(names, ["Op0_Cast", "Op1_AneInference", "Op2_Cast"]);
    // Two sections an operation: six, as in the sample of the book.
    assert_eq!(d.root.list("sections").len(), 6);
    assert_eq!(d.check(), []);
}

#[test]
fn the_size_does_not_follow_the_depth() {
    let sizes: Vec<usize> = [1, 6, 40].map(|n| descriptor(&[&program(n, &["x"], &["y"])], &[]).write().len()).to_vec();
    assert_eq!(sizes, [sizes[0]; 3]);
}

#[test]
fn the_size_follows_the_dispatches() {
    let one = descriptor(&[&program(3, &["x"], &["y"])], &[]);
    let (a, b, c) = (program(1, &["x"], &["p"]), program(1, &["p"], &["q"]), program(1, &["q"], &["y"]));
    let three = descriptor(&[&a, &b, &c], &[]);
    assert_eq!(kinds(&three), [CAST, INFERENCE, INFERENCE, INFERENCE, CAST]);
    assert_eq!(three.check(), []);
    assert!(three.write().len() > one.write().len());
}

#[test]
fn held_states_share_their_windows() {
    let inputs = ["x", "s0", "s1", "s2", "s3", "s4"];
    let outputs = ["y", "t0", "t1", "t2", "t3", "t4"];
    let states: Vec<State> = (1..6).map(|i| State { input: inputs[i].into(), output: outputs[i].into() }).collect();
    let d = descriptor(&[&program(4, &inputs, &outputs)], &states);
    assert_eq!(kinds(&d), [[CAST; 6].as_slice(), &[INFERENCE], &[CAST; 6]].concat());
    assert_eq!(d.check(), []);
    let frame = d.frames().nth(6).expect("the inference has a frame");
    let address = |name: &str| {
        let port = frame.records("ports").find(|p| p.text("name") == format!("{name}_ane"));
        port.expect("every port has a window").number("aperture_va")
    };
    for i in 1..6 {
        assert_eq!(address(inputs[i]), address(outputs[i]));
        assert_eq!(address(inputs[i]), hwx_rows::VM_BASE + i as u64 * rows::STATE_STRIDE);
    }
    assert_eq!(frame.records("aliases").count(), 5);
}

#[test]
fn descriptors_are_written_and_assembled_as_read() {
    let (a, b) = (program(2, &["x", "z"], &["p"]), program(1, &["p"], &["y"]));
    for d in [descriptor(&[&a], &[]), descriptor(&[&a, &b], &[])] {
        let bytes = d.write();
        let read = Descriptor::read(&bytes).expect("what is written can be read");
        assert_eq!(read.root, d.root);
        assert!(read.is_canonical() && read.write() == bytes);
        let listing = text::list_descriptor(&read);
        let again = text::assemble_descriptor(&listing).unwrap_or_else(|e| panic!("{e}\n{listing}"));
        assert!(again.write() == bytes);
        assert_eq!(Dump::of_descriptor(&read, &Selection::default()).anomalies, []);
    }
}

/// Files of other writers order their parts otherwise; they come back byte for byte, through the listing too.
#[test]
fn descriptors_in_another_order_keep_their_bytes() {
    let d = descriptor(&[&program(1, &["x"], &["y"])], &[]);
    let mut bytes = d.write();
    bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    let read = Descriptor::read(&bytes).expect("trailing bytes are no error");
    assert!(!read.is_canonical() && read.root == d.root && read.write() == bytes);
    let again = text::assemble_descriptor(&text::list_descriptor(&read)).expect("the listing assembles");
    assert!(again.write() == bytes);
}

#[test]
fn counted_outputs_are_kept() {
    let program = program(1, &["x"], &["rows", "n"]);
    let calls = [Call { program: &program, container: &program.stream }];
    let with = |count: &str| {
        let counted = vec![Counted { rows: "rows".into(), count: count.into(), axis: 1 }];
        from_calls(&calls, &[], &Info { counted, ..info() })
    };
    let read = Descriptor::read(&with("n").write()).expect("it reads");
    assert_eq!(read.check(), []);
    assert_eq!(read.sequence().expect("calls").counted, [Counted { rows: "rows".into(), count: "n".into(), axis: 1 }]);
    let error = with("x").sequence().unwrap_err();
    assert!(error.what.contains("x counts the rows of rows"), "{error}");
}

/// The library that made the buffer also finds its tables where they should be.
#[test]
fn the_flatbuffers_library_verifies_what_is_written() {
    use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, Vector, Verifiable, Verifier, VerifierOptions};
    struct Root;
    impl Verifiable for Root {
        fn run_verifier(v: &mut Verifier, pos: usize) -> Result<(), InvalidFlatbuffer> {
            v.visit_table(pos)?
                .visit_field::<ForwardsUOffset<Vector<ForwardsUOffset<&str>>>>("symbol_names", 4, true)?
                .visit_field::<ForwardsUOffset<Info>>("build_info", 6, true)?
                .visit_field::<ForwardsUOffset<Vector<ForwardsUOffset<Section>>>>("sections", 8, true)?
                .visit_field::<i32>("format_version", 10, true)?
                .finish();
            Ok(())
        }
    }
    struct Info;
    impl Verifiable for Info {
        fn run_verifier(v: &mut Verifier, pos: usize) -> Result<(), InvalidFlatbuffer> {
            v.visit_table(pos)?.finish();
            Ok(())
        }
    }
    struct Section;
    impl Verifiable for Section {
        fn run_verifier(v: &mut Verifier, pos: usize) -> Result<(), InvalidFlatbuffer> {
            v.visit_table(pos)?
                .visit_field::<ForwardsUOffset<&str>>("name", 4, true)?
                .visit_field::<i32>("kind", 6, true)?
                .visit_field::<ForwardsUOffset<Vector<u8>>>("data", 8, true)?
                .finish();
            Ok(())
        }
    }
    let bytes = descriptor(&[&program(1, &["x"], &["y"])], &[]).write();
    let options = VerifierOptions::default();
    ForwardsUOffset::<Root>::run_verifier(&mut Verifier::new(&options, &bytes), 0).expect("a sound buffer");
}

#[test]
fn damaged_descriptors_end_in_an_error_or_read() {
    let bytes = descriptor(&[&program(1, &["x"], &["y"])], &[]).write();
    for cut in 0..bytes.len() {
        let _ = Descriptor::read(&bytes[..cut]);
    }
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(d) = Descriptor::read(&damaged) {
                assert!(d.write() == damaged, "byte {at} bit {bit}");
                d.check();
            }
        }
    }
    let error = Descriptor::read(&bytes[..0x10]).expect_err("cut short");
    assert!(error.to_string().contains("0x"), "{error}");
}

/// A vector whose entries all lead to the same table must not multiply it.
#[test]
fn shared_tables_do_not_multiply() {
    let entries = 4000u32;
    let d = descriptor(&[&program(1, &["x"], &["y"])], &[]);
    let mut bytes = d.canonical();
    let sections_field = 0x14 + 0x0c;
    let vector = bytes.len();
    let mut tail = entries.to_le_bytes().to_vec();
    // Behind the vector an empty vtable that states a large table, and that table: all entries lead to it.
    let table = vector + 4 + 4 * entries as usize + 4;
    for i in 0..entries as usize {
        tail.extend(((table - (vector + 4 + 4 * i)) as u32).to_le_bytes());
    }
    tail.extend([4, 0, 0, 0x10]);
    tail.extend(4u32.to_le_bytes());
    tail.extend([0; 0x1000]);
    bytes[sections_field..sections_field + 4].copy_from_slice(&((vector - sections_field) as u32).to_le_bytes());
    bytes.extend(tail);
    let error = Descriptor::read(&bytes).expect_err("4000 tables of 4 KB in 24 KB");
    assert!(matches!(error, anemone_program::e5::Error::Shared { .. }), "{error}");
}

#[test]
fn packages_hold_programs_and_give_them_back() {
    let (a, b) = (program(3, &["x"], &["y"]), program(1, &["y", "z"], &["w"]));
    let package = firmware::from_programs(&[&a, &b]).expect("the streams are chains");
    assert_eq!(package.check(), []);
    let bytes = package.write();
    assert_eq!(bytes[..4], *b"HENA");
    let read = Package::read(&bytes).expect("what is written can be read");
    assert!(read == package && read.write() == bytes);
    for (entry, program) in read.programs.iter().zip([&a, &b]) {
        let lifted = entry.program().expect("it was a program");
        assert_eq!((&lifted.name, &lifted.ports), (&program.name, &program.ports));
        assert_eq!((&lifted.stream, &lifted.kernel), (&program.stream, &program.kernel));
        assert_eq!(lifted.first_task_words, program.first_task_words);
        assert_eq!(lifted.scratch_bytes, program.scratch_bytes);
    }
    let listing = text::list_package(&read);
    let again = text::assemble_package(&listing).unwrap_or_else(|e| panic!("{e}\n{listing}"));
    assert!(again == read);
    assert_eq!(Dump::of_package(&read, &Selection::default()).anomalies, []);
}

#[test]
fn packages_state_partitions_as_the_headers_do() {
    let layout = &layout::H13;
    let mut tasks: Vec<Task> = (0..6).map(|_| Task::full(layout)).collect();
    for last in [0, 2, 4] {
        tasks[last].set(layout, Field::Tsr, 1).expect("one bit");
    }
    let stream = encode_stream(layout, &mut tasks).expect("a chain");
    let program = Program { stream, first_task_words: tasks[0].word_count(), ..program(1, &["x"], &["y"]) };
    let expected = [0..1, 1..3, 3..5, 5..6];
    assert_eq!(program.partitions().expect("a chain"), expected);
    let mut package = firmware::from_programs(&[&program]).expect("a chain");
    assert_eq!(package.programs[0].partitions().expect("stated"), expected);
    assert_eq!(package.programs[0].program().expect("a program").ports, program.ports);
    let dump = Dump::of_package(&package, &Selection::default());
    assert_eq!(dump.anomalies, []);
    assert!(format!("{dump:?}").contains("partition 3"), "{dump:?}");

    // The second of the four entries, in front of the names.
    let section =
        package.programs[0].sections.iter_mut().find(|s| s.kind == package_rows::PROCEDURE).expect("a procedure");
    let mut data = section.data.to_vec();
    let at = 4
        * (package_rows::words(package_rows::PROCEDURE_ROWS)
            + 2 * package_rows::words(package_rows::PORT_ROWS)
            + package_rows::words(package_rows::PARTITION_ROWS));
    assert_eq!(data[at..at + 8], [1, 0, 0, 0, 2, 0, 0, 0]);
    data[at + 4] = 3;
    section.data = data.into();
    let error = package.programs[0].program().expect_err("another partition").to_string();
    assert!(error.contains("partition 1 is operations 1..4, the headers have 1..3"), "{error}");

    // A number of entries beyond the section is refused, not read.
    let section =
        package.programs[0].sections.iter_mut().find(|s| s.kind == package_rows::PROCEDURE).expect("a procedure");
    let mut data = section.data.to_vec();
    data[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    section.data = data.into();
    assert!(package.programs[0].partitions().is_err() && package.programs[0].program().is_err());
}

#[test]
fn damaged_packages_end_in_an_error_or_come_back() {
    let bytes = firmware::from_programs(&[&program(1, &["x"], &["y"])]).expect("a chain").write();
    for cut in (0..bytes.len()).step_by(7) {
        assert!(Package::read(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..0x200 {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(p) = Package::read(&damaged) {
                assert!(p.write() == damaged, "byte {at:#x} bit {bit}");
                p.check();
            }
        }
    }
}

#[test]
fn images_move_every_address_and_no_word_of_the_stream() {
    let program = program(2, &["x"], &["y"]);
    let container = from_program(&program, &Options::default()).expect("it fits");
    let home = Image::map(&container, hwx_rows::VM_BASE).expect("where it stands");
    assert_eq!(home.container, container);
    assert_eq!(home.check(), []);
    let base = 0x4800_0000;
    let image = Image::map(&container, base).expect("32-bit windows reach there");
    assert_eq!(image.check(), []);
    assert!(image.apertures.iter().all(|a| a.address >= base));
    let again = Container::read(&image.write()).expect("an image is a container");
    assert!(again == image.container);
    let moved = again.section("__TEXT", "__text").expect("it has a stream");
    assert_eq!((moved.address, moved.data.as_ref()), (base, program.stream.as_slice()));
    assert_eq!(again.run_state().map(|(_, r)| (r.entry(), r.base(0))), Some((base, base)));
    let lifted = again.program().expect("it lifts as before");
    assert_eq!(lifted.ports, program.ports);
    assert!(Image::map(&container, base + 1).is_err());
    assert!(Image::map(&container, 0xffff_c000).is_err_and(|e| e.to_string().contains("0xffffc000")));
}

#[test]
fn values_are_found_by_name() {
    let d = descriptor(&[&program(1, &["x"], &["y"])], &[]);
    assert_eq!(d.root.get("no such field"), &Value::Absent);
    assert_eq!(d.root.number("format_version"), 4);
}

/// Any register values, ports, kernel data and scratch: every form gives the program and its own bytes back.
#[test]
fn random_programs_survive_every_form() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let layout = &layout::H13;
    for round in 0..60 {
        let mut tasks: Vec<Task> = (0..1 + next() % 5).map(|_| Task::full(layout)).collect();
        for task in &mut tasks {
            let words = task.header.iter_mut().chain(task.runs.iter_mut().flat_map(|r| &mut r.words));
            // Any bits, but no kernel streams that lie nowhere and no word that makes the header longer.
            words.for_each(|w| *w = if next() % 3 == 0 { next() as u32 & !3 } else { 0 });
            for (field, i) in (0..16).map(|i| (anemone_facts::Field::CoeffEn, i)) {
                task.set_at(layout, field, i, 0).expect("a flag");
            }
        }
        let stream = encode_stream(layout, &mut tasks).expect("offsets fit");
        let names: Vec<String> = (0..2 + next() % 6).map(|i| format!("tensor {i} \"{}\"", next() % 100)).collect();
        let mut ports: Vec<Port> = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let direction = if i == 0 || next() % 2 == 0 { Direction::Input } else { Direction::Output };
            let mut p = port(name, direction, Program::FIRST_PORT_BAR + i as u8);
            p.shape =
                Nchw { n: 1, c: 1 + (next() % 70) as u32, h: 1 + (next() % 9) as u32, w: 1 + (next() % 99) as u32 };
            p.strides = Strides::dense(p.shape, 2);
            p.bytes = p.strides.batch_bytes;
            ports.push(p);
        }
        ports.sort_by_key(|p| p.direction == Direction::Output);
        let program = Program {
            name: "main".into(),
            layout,
            stream,
            first_task_words: tasks[0].word_count(),
            kernel: (0..64 * (next() % 20)).map(|_| next() as u8).collect(),
            scratch_bytes: (next() % 3) * 0x4000,
            ports,
        };
        for dialect in anemone_facts::formats::dialects::DIALECTS.iter().filter(|d| d.written) {
            let options = Options { dialect, ..Options::default() };
            let built = from_program(&program, &options).unwrap_or_else(|e| panic!("round {round}: {e}"));
            let bytes = built.write();
            let read = Container::read(&bytes).unwrap_or_else(|e| panic!("round {round}: {e}"));
            assert!(read == built && read.write() == bytes, "round {round}, {}", dialect.name);
            let listing = text::list_container(&read);
            let again = text::assemble_container(&listing).unwrap_or_else(|e| panic!("round {round}: {e}"));
            assert!(again.write() == bytes, "round {round}, {}", dialect.name);
            assert_eq!(Image::map(&read, 0x5000_0000).map(|i| i.check()), Ok(Vec::new()), "round {round}");
        }
        let package = firmware::from_programs(&[&program]).expect("a chain");
        let bytes = package.write();
        let read = Package::read(&bytes).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let lifted = read.programs[0].program().unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert!(
            read.write() == bytes && (lifted.stream, lifted.kernel) == (program.stream.clone(), program.kernel.clone())
        );
        assert_eq!(lifted.ports, program.ports);
        let d = descriptor(&[&program], &[]);
        let bytes = d.write();
        let read = Descriptor::read(&bytes).unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert!(read.is_canonical() && read.root == d.root && read.check().is_empty(), "round {round}");
        assert!(text::assemble_descriptor(&text::list_descriptor(&read)).expect("a listing").write() == bytes);
    }
}
