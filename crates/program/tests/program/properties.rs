//! Properties over drawn programs, made smaller where one fails; what failed once stands in `proptest-regressions` and runs first.

use anemone_facts::layout::H13;
use anemone_program::hwx::{Container, Options, from_program};
use anemone_program::task::encode_stream;
use anemone_program::text::{self, Dump, Selection};
use anemone_program::{Direction, Element, Nchw, Port, Program, Run, Strides, Task};
use proptest::prelude::*;

/// A task with any words: long or short, and with a mark for itself in the header.
fn task() -> impl Strategy<Value = Task> {
    let words = prop::collection::vec(1u32.., 512);
    (words, any::<bool>(), prop::option::weighted(0.2, any::<u32>())).prop_map(|(words, short, mark)| {
        let mut task = Task::full(&H13);
        if short {
            // The form in which later compilers leave out kernel registers without effect.
            let kernel = task.runs.remove(0);
            let tail = Run::consecutive(0x1f8c8, kernel.words[50..].to_vec());
            task.runs.splice(0..0, [Run::consecutive(kernel.addr, kernel.words[..18].to_vec()), tail]);
        }
        // Registers outside of every block.
        task.runs.push(Run::consecutive(0x3ff_fff0, vec![0; 2]));
        let slots = task.runs.iter_mut().flat_map(|run| &mut run.words).chain(&mut task.header);
        slots.zip(words.iter().cycle()).for_each(|(slot, &word)| *slot = word);
        task.header[9] &= !3;
        if let Some(mark) = mark {
            task.header[9] |= 3;
            task.header.push(mark);
        }
        task
    })
}

fn program(tasks: &mut [Task], kernel: Vec<u8>, ports: Vec<Port>) -> Program {
    let stream = encode_stream(&H13, tasks).expect("tasks fit");
    Program {
        name: "a \"name\"; with\nblanks".into(),
        layout: &H13,
        stream,
        first_task_words: tasks[0].word_count(),
        kernel: kernel.into(),
        scratch_bytes: 0x4000,
        ports,
    }
}

/// Ports with any extents: inputs, then outputs.
fn ports() -> impl Strategy<Value = Vec<Port>> {
    let port = ("[a-z][a-z0-9_]{0,12}", 1u32..=64, 1u32..=16, 1u32..=64);
    (prop::collection::vec(port, 2..6), 1usize..5).prop_map(|(drawn, inputs)| {
        let inputs = inputs.min(drawn.len() - 1);
        let named = drawn.into_iter().enumerate();
        named
            .map(|(at, (name, c, h, w))| {
                let shape = Nchw { n: 1, c, h, w };
                let row_bytes = (2 * u64::from(w)).next_multiple_of(64);
                let plane_bytes = row_bytes * u64::from(h);
                let strides = Strides { batch_bytes: plane_bytes * u64::from(c), plane_bytes, row_bytes };
                Port {
                    name: format!("{name}{at}"),
                    direction: if at < inputs { Direction::Input } else { Direction::Output },
                    bar: Program::FIRST_PORT_BAR + at as u8,
                    shape,
                    volume_channels: None,
                    strides,
                    element: Element::Float16,
                    bytes: strides.batch_bytes,
                }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_register_values_are_listed_and_assembled(
        mut tasks in prop::collection::vec(task(), 1..4),
        kernel in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        // Kernel data is listed at its own offsets: zeros first, so that no line of it looks like one of the stream.
        let kernel = [vec![0; 64], kernel].concat();
        let program = program(&mut tasks, kernel, Vec::new());
        let decoded = program.tasks().expect("what is encoded can be decoded");
        prop_assert_eq!(&decoded, &tasks);
        let listing = text::list(&program);
        let again = text::assemble(&listing).map_err(|e| TestCaseError::fail(format!("{e}\n{listing}")))?;
        prop_assert!(again.stream == program.stream && again.kernel == program.kernel && again.name == program.name);
        prop_assert!(!listing.lines().any(|l| l.starts_with("data @0x20 ")), "the stream is listed by field");
        let open: usize = decoded.iter().map(|t| t.unexplained(&H13).len()).sum();
        let dump = Dump::of_program(&program, &Selection::default());
        prop_assert_eq!(dump.anomalies.iter().filter(|a| a.bits.is_some()).count(), open);
    }

    #[test]
    fn containers_are_read_as_they_are_written(
        count in 1usize..4,
        kernel in prop::collection::vec(any::<u8>(), 0..2000),
        ports in ports(),
    ) {
        let mut tasks: Vec<Task> = (0..count).map(|_| Task::full(&H13)).collect();
        let program = Program { name: "main".into(), ..program(&mut tasks, kernel, ports) };
        let container = from_program(&program, &Options::default()).expect("it fits");
        let bytes = container.write();
        let read = Container::read(&bytes).expect("what is written can be read");
        prop_assert!(read.write() == bytes);
        let lifted = read.program().expect("a program");
        prop_assert!(lifted.stream == program.stream);
        let named = |program: &Program| -> Vec<(String, Nchw)> {
            program.ports.iter().map(|p| (p.name.clone(), p.shape)).collect()
        };
        prop_assert_eq!(named(&lifted), named(&program));
    }
}
