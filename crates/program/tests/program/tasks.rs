//! Streams made by hand: short descriptors, ports from descriptors, and listings of bits that no field explains.

use anemone_facts::{Field, layout::H13};
use anemone_program::task::encode_stream;
use anemone_program::{Direction, Nchw, Program, Run, Task, hwx, raw, text};

fn set(task: &mut Task, fields: &[(Field, u32)]) {
    for &(field, value) in fields {
        task.set(&H13, field, value).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A copy of `[1, c, h, w]` half precision elements from one base register to another.
fn copy(source: u32, destination: u32, [c, h, w]: [u32; 3]) -> Task {
    use Field::*;
    let mut task = Task::full(&H13);
    set(&mut task, &[(Win, w), (Hin, h), (Cin, c), (Wout, w), (Hout, h), (Cout, c), (NumGroups, 1), (Kw, 1), (Kh, 1)]);
    set(&mut task, &[(RBase0, source), (Rbe0, 1), (WBase, destination), (Wbe, 1), (Src1MemFmt, 2), (DstMemFmt, 2)]);
    let row = (2 * w as u64).next_multiple_of(64);
    for (field, bytes) in
        [(Src1RowStride, row), (Src1PlaneStride, row * h as u64), (DstRowStride, row), (DstPlaneStride, row * h as u64)]
    {
        task.set_bytes(&H13, field, bytes).unwrap_or_else(|e| panic!("{e}"));
    }
    task
}

fn stream(mut tasks: Vec<Task>) -> Vec<u8> {
    encode_stream(&H13, &mut tasks).unwrap_or_else(|e| panic!("{e}"))
}

fn read(bytes: &[u8]) -> Program {
    raw::read_bin(bytes).unwrap_or_else(|e| panic!("{e}"))
}

/// The form in which later compilers leave out kernel registers without effect.
fn short(mut task: Task) -> Task {
    let kernel = task.runs.remove(0);
    let tail = Run::consecutive(0x1f8c8, kernel.words[50..].to_vec());
    task.runs.splice(0..0, [Run::consecutive(kernel.addr, kernel.words[..18].to_vec()), tail]);
    task
}

#[test]
fn first_descriptor_size_is_found() {
    let bytes = stream(vec![copy(5, 4, [3, 2, 8]), copy(5, 4, [3, 2, 8])]);
    assert_eq!(read(&bytes).first_task_words, 157);
    let bytes = stream(vec![short(copy(5, 4, [3, 2, 8])), copy(5, 4, [3, 2, 8])]);
    assert_eq!(read(&bytes).first_task_words, 126);
    assert_eq!(read(&bytes).stream, bytes);
    let mut odd = copy(5, 4, [3, 2, 8]);
    odd.runs.remove(4);
    let bytes = stream(vec![odd]);
    assert_eq!(read(&bytes).first_task_words, 152);
}

#[test]
fn kernel_data_follows_on_the_next_sixteen_bytes() {
    let mut bytes = stream(vec![copy(5, 4, [1, 1, 8])]);
    assert!(read(&bytes).kernel.is_empty());
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes.extend_from_slice(&[7; 33]);
    assert_eq!(read(&bytes).kernel, [7; 33][..]);
    assert_eq!(raw::write_bin(&read(&bytes)), bytes);
}

#[test]
fn channels_written_one_after_another_are_one_port() {
    let mut second = copy(6, 4, [5, 2, 8]);
    second.set_bytes(&H13, Field::DstBase, 3 * 128).unwrap_or_else(|e| panic!("{e}"));
    let program = read(&stream(vec![copy(5, 4, [3, 2, 8]), second]));
    let output: Vec<_> = program.ports_of(Direction::Output).collect();
    assert_eq!(output.len(), 1);
    assert_eq!((output[0].shape, output[0].bytes), (Nchw { n: 1, c: 8, h: 2, w: 8 }, 8 * 128));
    assert_eq!(program.ports_of(Direction::Input).map(|p| (p.bar, p.shape.c)).collect::<Vec<_>>(), [(5, 3), (6, 5)]);
}

#[test]
fn rows_as_groups_do_not_hide_the_shape() {
    use Field::*;
    let mut reduction = copy(5, 3, [1, 1, 8]);
    set(&mut reduction, &[(NumGroups, 4), (TaskClass, 5), (PeOp, 0)]);
    reduction.set_bytes(&H13, Src1GroupStride, 64).unwrap_or_else(|e| panic!("{e}"));
    reduction.set_bytes(&H13, DstGroupStride, 64).unwrap_or_else(|e| panic!("{e}"));
    let program = read(&stream(vec![reduction, copy(5, 4, [1, 4, 8])]));
    let input: Vec<_> = program.ports_of(Direction::Input).collect();
    assert_eq!(input[0].shape, Nchw { n: 1, c: 1, h: 4, w: 8 });
    // Four groups of one element each, 64 bytes apart.
    assert_eq!(program.scratch_bytes, 256);
}

#[test]
fn listing_errors_name_what_is_wrong() {
    let program = read(&stream(vec![copy(5, 4, [3, 2, 8])]));
    let listing = text::list(&program);
    for (from, to, expected) in [
        ("0x0 Win = 8", "0x4 Win = 8", "0x0, the address of Win"),
        ("0x0 Win = 8", "0x0 Wim = 8", "a field of h13, or `?`"),
        ("0x0 Win = 8", "0x0 Win = 0x8000", "a number of at most 0x7fff"),
        ("0x0 Win = 8", "0x0 ? = 8", "bits without a field (fields have 0x7fff7fff)"),
        ("0x1380c Src1RowStride = 0x40", "0x1380c Src1RowStride = 0x41", "a multiple of 0x40"),
        ("Src1MemFmt = fp16", "Src1MemFmt = fp17", "a number or one of uint8, int8, fp16"),
        ("@0x0 words=157", "@0x0 words=158", "words=157, the size of header and runs"),
        ("task 0 @0x0", "task 0 @0x4", "a task inside 0x274 bytes"),
        ("header words=10", "header words=11", "10 words, as the header's last word states"),
    ] {
        assert!(listing.contains(from), "{from}");
        let error = text::assemble(&listing.replacen(from, to, 1)).err().map(|e| e.expected);
        assert_eq!(error.as_deref(), Some(expected), "{to}");
    }
}

#[test]
fn containers_of_later_compilers_are_lifted() {
    use hwx::{Command, Container, Options, from_program};
    let program = read(&stream(vec![copy(5, 3, [3, 2, 8]), copy(3, 4, [3, 2, 8])]));
    let mut later = from_program(&program, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut windows = Vec::new();
    for command in &mut later.commands {
        match command {
            // 64-bit window addresses.
            Command::Port(p) => {
                p.wide = true;
                p.name_offset += 4;
                windows.push(p.name());
            }
            // Longer tensor records; an output's first name has a suffix that its window's name lacks.
            Command::Thread(t) if t.tensor().is_some() => {
                let output = t.tensor().is_some_and(|r| r.direction() == 2);
                let name = t.tensor().map_or(String::new(), |r| r.names()[1].clone());
                t.words.resize(0x34a, 0);
                let first = if output { format!("{name}@output") } else { name.clone() };
                let at = 16 + 4 * 0x34a;
                (t.words[2], t.words[4], t.words[27]) = (at, at + 4, at + 5 + first.len() as u32);
                t.tail = format!("net\0{first}\0{name}\0").into_bytes();
            }
            _ => {}
        }
    }
    assert_eq!(windows, ["input0", "output0"]);
    // Everything after the commands moves; the file stays as long as its last page.
    let grown: u64 = later.commands.iter().map(Command::bytes).sum();
    for command in &mut later.commands {
        if let Command::Symtab(t) = command {
            t.symbols_offset = 32 + grown as u32;
            t.strings_offset = t.symbols_offset + 16 * t.symbols.len() as u32;
        }
    }
    let bytes = later.write();
    let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(container.write(), bytes);
    assert_eq!(container.residue, []);
    let lifted = container.program().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((lifted.ports, lifted.scratch_bytes), (program.ports, program.scratch_bytes));
    let listing = text::list_container(&container);
    assert_eq!(text::assemble_container(&listing).as_ref(), Ok(&container));
}
