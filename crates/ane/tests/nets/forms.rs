//! Compiled files patched and converted, then executed: numbers change as the weights did, and not by the form.

use crate::common;

use anemone::forms::{Form, WriteOptions, encode};
use anemone::{Array, Model, execute};
use anemone_engine::Options;
use anemone_facts::chips::CHIPS;
use anemone_facts::formats::dialects::{DIALECTS, ZIN_9509};
use anemone_program::e5::Descriptor;
use anemone_program::hwx::{self, Container};
use anemone_program::patch::{Part, apply, kernels};
use anemone_program::{Coverage, Direction, Program, firmware::Package, raw, text};
use half::f16;

/// Containers of compiler 4.2.1, by name.
fn containers() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let folders = common::golden_dir().map_or(Vec::new(), |dir| common::entries(&dir.join("h13/pairs")));
    for folder in folders {
        if let Ok(bytes) = std::fs::read(folder.join("model.hwx")) {
            all.push((folder.display().to_string(), bytes));
        }
    }
    if all.is_empty() {
        println!("skipped: no golden data");
    }
    all
}

fn inputs(program: &Program) -> Vec<(String, Array)> {
    let array = |p: &anemone_program::Port| {
        let s = p.shape;
        let data = (0..s.elements()).map(|i| f16::from_f32(((i * 37 + 11) % 29) as f32 / 8.0 - 1.5).to_f32()).collect();
        Array { shape: [s.n, s.c, s.h, s.w].map(|n| n as usize).to_vec(), data }
    };
    program.ports_of(Direction::Input).map(|p| (p.name.clone(), array(p))).collect()
}

fn outputs(program: &Program, inputs: &[(String, Array)]) -> Vec<Vec<f32>> {
    let run = execute(program, inputs, Options::default()).unwrap_or_else(|e| panic!("{e}"));
    run.outputs.into_iter().map(|(_, array)| array.data).collect()
}

fn program(bytes: &[u8]) -> Program {
    Container::read(bytes).expect("a container").program().expect("a program")
}

#[test]
fn a_changed_weight_changes_its_channel_only() {
    for (name, bytes) in containers() {
        let before = program(&bytes);
        for kernel in kernels(&before).expect("a chain").into_iter().flatten() {
            let Some([out, inputs_per_output, 1, 1]) = kernel.weights else { continue };
            let mut values = kernel.read(&before, Part::Weights).expect("coefficients");
            let (channel, input) = (out - 1, inputs_per_output - 1);
            let at = channel * inputs_per_output + input;
            let new = f16::from_f32(f16::from_bits(values[at]).to_f32() + 1.0);
            let change = new.to_f32() - f16::from_bits(values[at]).to_f32();
            values[at] = new.to_bits();
            let edits = kernel.edits(&before, Part::Weights, &values).expect("it fits");
            assert_eq!(edits.len(), 1, "{name}");

            let mut patched = bytes.clone();
            let start = Container::read(&bytes).expect("it reads").kernel_section().expect("kernels").file_offset;
            apply(&mut patched, start as u64, &edits);
            let after = program(&patched);
            assert!(after.stream == before.stream, "{name}: the task stream is untouched");
            assert_eq!(bytes.iter().zip(&patched).filter(|(a, b)| a != b).count().div_ceil(2), 1, "{name}");

            let given = inputs(&before);
            let (a, b) = (outputs(&before, &given), outputs(&after, &given));
            let plane = a[0].len() / out;
            let x = &given[0].1.data[input * plane..][..plane];
            for (i, (old, new)) in a[0].iter().zip(&b[0]).enumerate() {
                let expected = if i / plane == channel { change * x[i % plane] } else { 0.0 };
                // Both results are rounded to fp16.
                let slack = (old.abs() + new.abs()) / 1024.0;
                assert!((new - old - expected).abs() <= slack, "{name}: {i}: {old} {new}, expected {expected} more");
            }
            println!("{name}: task {} channel {channel} changed by {change} x input {input}", kernel.task);
        }
    }
}

#[test]
fn every_form_computes_the_same() {
    for (name, bytes) in containers() {
        let original = program(&bytes);
        let given = inputs(&original);
        let expected = outputs(&original, &given);
        let by_order = |program: &Program| {
            // Raw forms name ports by position.
            let names = program.ports_of(Direction::Input).map(|p| p.name.clone());
            let renamed: Vec<_> = names.zip(&given).map(|(n, (_, a))| (n, a.clone())).collect();
            outputs(program, &renamed)
        };
        for dialect in DIALECTS.iter().copied().filter(|d| d.written) {
            let container = hwx::Options { dialect, ..hwx::Options::default() };
            let around = WriteOptions { container, ..WriteOptions::default() };
            let made = encode(&original, Form::Hwx, &around).expect("it fits");
            assert_eq!(by_order(&program(&made)), expected, "{name} as {}", dialect.name);
        }
        let around = WriteOptions::default();
        let package = Package::read(&encode(&original, Form::Firmware, &around).expect("it fits")).expect("it reads");
        assert_eq!(by_order(&package.programs[0].program().expect("a program")), expected, "{name} as firmware");
        for offset in [0x800, 0x1000] {
            // From inputs first to outputs first: base registers are given anew.
            let container = hwx::Options { dialect: &ZIN_9509, ..hwx::Options::default() };
            let later =
                program(&encode(&original, Form::Hwx, &WriteOptions { container, ..around.clone() }).expect("it fits"));
            let around = WriteOptions { anec_data: Some(offset), ..around.clone() };
            let made = encode(&later, Form::Anec, &around).expect("it fits");
            loads(&made, offset);
            let back = raw::read_anec(&made).unwrap_or_else(|e| panic!("{name}: {e}"));
            if back.ports_of(Direction::Input).count() == 1 {
                assert_eq!(by_order(&back), expected, "{name} as anec at {offset:#x}");
            }
            assert_eq!(raw::write_anec_at(&back, offset).as_ref(), Ok(&made), "{name}");
        }
    }
}

/// Our own example, and every sample package that compiles.
fn compiled() -> Vec<(String, Program)> {
    let mut packages =
        vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.mlpackage")];
    let folders = common::models_dir().map_or(Vec::new(), |dir| common::entries(&dir));
    packages.extend(folders.iter().map(|f| f.join("model.mlpackage")).filter(|p| p.is_dir()));
    let mut all = Vec::new();
    for path in packages {
        let compiled =
            Model::load(&path).and_then(|m| m.compile(&CHIPS[0], &anemone_compile::Options::default(), &mut ()));
        match compiled {
            Ok(compiled) => all.push((path.display().to_string(), compiled.program)),
            // Refusals are covered by the tests of packages.
            Err(e) => println!("skip {}: {e}", path.display()),
        }
    }
    all
}

/// Programs of packages in every form: read and written again, listed and assembled again, byte for byte. Containers are listed in one dialect for each
/// program, in turn, because listings of large programs are long.
#[test]
fn everything_compiled_survives_every_form() {
    let all = compiled();
    assert!(!all.is_empty(), "our own example compiles");
    for (turn, (name, program)) in all.into_iter().enumerate() {
        let coverage = Coverage::of_program(&program);
        assert_eq!((coverage.unexplained_bits, coverage.undecoded_bytes), (0, 0), "{name}: {}", coverage.render());
        let again = text::assemble(&text::list(&program)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            (&again.stream, &again.kernel, &again.ports) == (&program.stream, &program.kernel, &program.ports),
            "{name}"
        );
        let mut sizes = Vec::new();
        let written: Vec<_> = DIALECTS.iter().copied().filter(|d| d.written).collect();
        for (at, &dialect) in written.iter().enumerate() {
            let container = hwx::Options { dialect, ..hwx::Options::default() };
            let around = WriteOptions { container, ..WriteOptions::default() };
            let bytes = encode(&program, Form::Hwx, &around).unwrap_or_else(|e| panic!("{name}: {e}"));
            let read = Container::read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(read.write() == bytes && read.residue.is_empty(), "{name} as {}", dialect.name);
            if at == turn % written.len() {
                let listed =
                    text::assemble_container(&text::list_container(&read)).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(listed.write() == bytes, "{name} as {}", dialect.name);
            }
            let lifted = read.program().unwrap_or_else(|e| panic!("{name} as {}: {e}", dialect.name));
            assert!(lifted.kernel == program.kernel, "{name} as {}", dialect.name);
            assert_eq!(lifted.tasks().map(|t| t.len()), program.tasks().map(|t| t.len()), "{name}");
            assert_eq!(Coverage::of_container(&read).map(|c| c.unexplained_bits), Some(0), "{name}");
            sizes.push(bytes.len());
        }
        let around = WriteOptions::default();
        let form = |form| encode(&program, form, &around).unwrap_or_else(|e| panic!("{name} as {form:?}: {e}"));
        let bytes = form(Form::Firmware);
        let read = Package::read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(read.write() == bytes && read.check().is_empty(), "{name}");
        let listed = text::assemble_package(&text::list_package(&read)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(listed.write() == bytes, "{name}");
        let bytes = form(Form::E5);
        let read = Descriptor::read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(read.write() == bytes && read.is_canonical() && read.check().is_empty(), "{name}");
        let listed = text::assemble_descriptor(&text::list_descriptor(&read)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(listed.write() == bytes, "{name}");
        for data in [0x800, 0x1000] {
            let around = WriteOptions { anec_data: Some(data), ..WriteOptions::default() };
            let bytes = encode(&program, Form::Anec, &around).unwrap_or_else(|e| panic!("{name}: {e}"));
            let read = raw::read_anec(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(raw::write_anec_at(&read, data).as_ref(), Ok(&bytes), "{name} at {data:#x}");
        }
        match encode(&program, Form::Bin, &around) {
            Ok(bytes) => {
                let read = raw::read_bin(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(raw::write_bin(&read) == bytes, "{name}");
            }
            // A raw stream has no place for ports; a program whose ports do not follow from its tasks is refused.
            Err(e) => assert!(e.to_string().contains("a raw stream does not state its ports"), "{name} as bin: {e}"),
        }
        println!("ok   {name}: {} tasks, containers of {sizes:?} bytes", coverage.tasks);
    }
}

/// Checks a model file against the demands of the open driver's loaders, as their sources state them.
fn loads(file: &[u8], data: usize) {
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("8 bytes"));
    let (size, td_size, td_count) = (u64_at(0), u32_at(8), u32_at(12));
    let (stream, kernel, sources, results) = (u64_at(16), u64_at(24), u32_at(32), u32_at(36));
    assert_eq!(file.len() as u64, data as u64 + size, "the file ends with its data");
    assert!(td_size > 0 && td_size <= 0x400 && td_size % 4 == 0, "the queue's slots have 1 KB");
    assert!(td_count > 0 && td_count <= 0xffff && stream > 0);
    assert!(4 + sources + results <= 32);
    let tiles = |bar: usize| u32_at(40 + 4 * bar) as u64 * 0x4000;
    assert!(tiles(0) >= size && tiles(0) > stream && tiles(1) == 0, "kernel data lies behind the stream");
    assert!(stream.next_multiple_of(16) + kernel <= size);
    assert!((4..4 + (sources + results) as usize).all(|bar| tiles(bar) > 0));
}
