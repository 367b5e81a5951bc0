//! Programs made by the vendor's compiler: every byte read is a byte written.
//!
//! Cases are discovered under `ANE_GOLDEN_DIR` (default: `../shared/golden` beside the workspace). Without it the tests
//! say `skipped: no golden data` and pass.

use std::path::{Path, PathBuf};

use anemone_program::hwx::{Container, Options, from_program};
use anemone_program::text::{Dump, Part, Selection};
use anemone_program::{Program, raw, text};

/// Files below a folder of the golden data that have an extension, sorted.
fn golden(folder: &str, extension: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = std::env::var_os("ANE_GOLDEN_DIR")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"));
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push((path.clone(), std::fs::read(&path).expect("a listed file can be read")));
            }
        }
    }
    found.sort();
    if found.is_empty() {
        println!("skipped: no golden data");
    }
    found
}

/// All programs of the first generation: lifted containers and raw streams.
fn programs() -> Vec<(PathBuf, Program)> {
    let containers = golden("h13", "hwx").into_iter().map(|(path, bytes)| {
        let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let program = container.program().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, program)
    });
    let raw = golden("h13", "bin").into_iter().map(|(path, bytes)| {
        let program = raw::read_bin(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, program)
    });
    containers.chain(raw).collect()
}

#[test]
fn containers_are_written_as_read() {
    for folder in ["h13", "h16"] {
        for (path, bytes) in golden(folder, "hwx") {
            let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(container.write() == bytes, "{} changed", path.display());
            assert_eq!(container.residue, [], "{}: bytes without a structure", path.display());
        }
    }
}

/// The container in a file, read in pieces; how many bytes were asked for.
fn outline(file: &[u8]) -> (Option<Container>, usize) {
    let mut fetched = 0;
    let outline = Container::outline(file.len() as u64, |at, into: &mut [u8]| {
        fetched += into.len();
        let from = file.get(at as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or("past the end")?);
        Ok::<(), &str>(())
    });
    (outline.unwrap_or_else(|e| panic!("{e}")), fetched)
}

#[test]
fn outlines_are_containers_without_contents() {
    for folder in ["h13", "h16"] {
        for (path, bytes) in golden(folder, "hwx") {
            let mut whole = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            // Kernel data that is large enough to be left out.
            let section = whole.kernel_section().map(|s| (s.name, s.segment, s.file_offset as usize, s.data.len()));
            for command in &mut whole.commands {
                if let anemone_program::hwx::Command::Segment(s) = command {
                    s.sections.iter_mut().for_each(|x| x.data.clear());
                }
            }
            let (found, fetched) = outline(&bytes);
            assert!(found.as_ref() == Some(&whole), "{}", path.display());
            let left_out = section.map_or(0, |s| if s.3 >= 0x1_0000 { s.3 } else { 0 });
            assert!(fetched <= bytes.len() + 32 - left_out, "{}: {fetched}", path.display());
            // Damage is found by whoever reads the whole; an outline is right or none.
            for at in (0..bytes.len().min(0x800)).step_by(3) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x41;
                if let (Some(found), _) = outline(&damaged) {
                    let whole = Container::read(&damaged).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                    assert_eq!((&found.header, found.residue.len()), (&whole.header, whole.residue.len()), "{at:#x}");
                    assert_eq!(found.symtab(), whole.symtab(), "{at:#x}");
                }
            }
        }
    }
}

#[test]
fn raw_streams_are_written_as_read() {
    for (path, bytes) in golden("h13", "bin") {
        let program = raw::read_bin(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(raw::write_bin(&program) == bytes, "{} changed", path.display());
        println!("{}: {} {:#x} {:?}", path.display(), program.first_task_words, program.scratch_bytes, program.ports);
        let model = raw::write_anec(&program).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let again = raw::read_anec(&model).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(raw::write_anec(&again).as_ref(), Ok(&model), "{}", path.display());
        assert_eq!((again.stream, again.kernel), (program.stream, program.kernel), "{}", path.display());
    }
}

#[test]
fn every_bit_of_a_first_generation_task_has_a_row() {
    for (path, program) in programs() {
        for (i, task) in program.tasks().expect("lifted programs decode").iter().enumerate() {
            assert_eq!(task.unexplained(program.layout), [], "{} task {i}", path.display());
        }
    }
}

#[test]
fn containers_are_rebuilt_from_their_programs() {
    for (path, bytes) in golden("h13/pairs", "hwx") {
        let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let program = container.program().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let built =
            from_program(&program, &Options::of(&container)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(built == container, "{}: {built:#x?} differs from {container:#x?}", path.display());
        assert!(built.write() == bytes, "{} differs", path.display());
    }
}

#[test]
fn every_program_survives_a_container() {
    for (path, program) in programs() {
        let built = from_program(&program, &Options::default()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let bytes = built.write();
        let read = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(read == built, "{}", path.display());
        let again = read.program().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!((again.stream, again.kernel, again.ports), (program.stream, program.kernel, program.ports));
        assert_eq!(again.scratch_bytes, program.scratch_bytes);
    }
}

#[test]
fn programs_are_assembled_from_their_listings() {
    for (path, program) in programs() {
        let listing = text::list(&program);
        let again = text::assemble(&listing).unwrap_or_else(|e| panic!("{}: {e}\n{listing}", path.display()));
        assert!(again.stream == program.stream && again.kernel == program.kernel, "{}", path.display());
        assert_eq!((again.name, again.ports), (program.name, program.ports), "{}", path.display());
        assert_eq!(
            (again.first_task_words, again.scratch_bytes),
            (program.first_task_words, program.scratch_bytes),
            "{}",
            path.display()
        );
        assert!(!listing.contains("data @") || !program.kernel.is_empty(), "{}: stream listed as data", path.display());
    }
}

#[test]
fn containers_are_assembled_from_their_listings() {
    for folder in ["h13", "h16"] {
        for (path, bytes) in golden(folder, "hwx") {
            let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let listing = text::list_container(&container);
            let again = text::assemble_container(&listing).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(again == container, "{}", path.display());
            assert!(again.write() == bytes, "{}", path.display());
            assert!(!listing.contains("\ntail "), "{}: a command is listed as bytes", path.display());
        }
    }
}

#[test]
fn explanations_of_the_first_generation_leave_nothing_open() {
    for (path, bytes) in golden("h13", "hwx") {
        let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let dump = Dump::of_container(&container, &Selection::default());
        assert_eq!(dump.anomalies, [], "{}", path.display());
        let text = dump.render();
        for part in Part::ALL {
            assert!(text.contains(&format!("== {}\n", part.name())), "{}: no {}", path.display(), part.name());
        }
        let json = serde_json::to_value(&dump).expect("a dump is plain data");
        assert_eq!(json["schema"], "anemone.dump/1");
    }
    for (path, program) in programs() {
        let dump = Dump::of_program(&program, &Selection::default());
        assert_eq!(dump.anomalies, [], "{}", path.display());
    }
}

#[test]
fn explanations_of_other_generations_show_their_tasks() {
    let mut counts = (0, 0);
    for (path, bytes) in golden("h16", "hwx") {
        let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let dump = Dump::of_container(&container, &Selection::default());
        assert_eq!(dump.anomalies, [], "{}", path.display());
        let registers = dump.chapters.iter().find(|c| c.part == Part::Regs).map_or(0, |c| c.nodes.len());
        assert!(registers > 0, "{}: no task is shown", path.display());
        // Every kernel stream begins where a symbol of an engine says that its kernel does, every table where its own does.
        let nodes = |part| dump.chapters.iter().filter(move |c| c.part == part).flat_map(|c| &c.nodes);
        let weights: Vec<u64> = nodes(Part::Weights).flat_map(|n| &n.entries).filter_map(|e| e.offset).collect();
        let tables: Vec<u64> = nodes(Part::Lut).filter_map(|n| n.offset).collect();
        let (section, table) = (container.section("__KERN_0", "__kern_0"), container.symtab());
        let places = |what: &str| -> Vec<u64> {
            let (Some(section), Some(table)) = (section, table) else { return Vec::new() };
            let named = table.symbols.iter().filter(|s| table.name(s).contains(what));
            named.map(|s| s.value - section.address + section.file_offset as u64).collect()
        };
        for (what, shown) in [("_ne_", &weights), ("_actlut", &tables)] {
            let named = places(what);
            assert!(shown.iter().all(|at| named.contains(at)), "{}: {shown:x?}, {named:x?}", path.display());
            assert!(named.is_empty() || !shown.is_empty(), "{}: no {what} is shown", path.display());
        }
        counts = (counts.0 + weights.len(), counts.1 + tables.len());
        let error = container.program().expect_err("programs of it are not executed");
        assert!(error.to_string().contains("CPU subtype 7"), "{error}");
    }
    println!("{} kernel streams, {} activation tables", counts.0, counts.1);
}
