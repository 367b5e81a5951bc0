//! Damaged inputs: readers answer with an error that names a place, or with something that can be written; they never
//! panic.

use std::path::{Path, PathBuf};

use anemone_program::hwx::{Container, Error, LiftError, Options, from_program};
use anemone_program::text::{Dump, Selection};
use anemone_program::{raw, text};

/// One small golden file per kind, or nothing where there is no golden data.
fn samples(folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let root = std::env::var_os("ANE_GOLDEN_DIR")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"));
    let mut files = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(e) if e == extension => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    if files.is_empty() {
        println!("skipped: no golden data");
    }
    files.truncate(12);
    files.iter().map(|f| std::fs::read(f).expect("a listed file can be read")).collect()
}

/// Small deterministic generator.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// Everything that may be done with a file's bytes.
fn exercise_container(bytes: &[u8]) {
    let Ok(container) = Container::read(bytes) else { return };
    assert!(container.write() == bytes, "a container that was read is written as it was");
    let _ = Dump::of_container(&container, &Selection::default()).render();
    let listing = text::list_container(&container);
    let again = text::assemble_container(&listing);
    assert!(again.as_ref() == Ok(&container), "{:?}", again.err());
    if let Ok(program) = container.program() {
        exercise_program(&program);
        let _ = from_program(&program, &Options::of(&container)).map(|c| c.write());
    }
}

fn exercise_program(program: &anemone_program::Program) {
    let listing = text::list(program);
    let again = text::assemble(&listing).unwrap_or_else(|e| panic!("{e}\n{listing}"));
    assert!(again.stream == program.stream && again.kernel == program.kernel, "{listing}");
    let _ = Dump::of_program(program, &Selection::default()).render();
    let _ = raw::write_anec(program).map(|m| raw::read_anec(&m).map(|_| ()));
}

#[test]
fn truncated_containers_are_refused() {
    for bytes in samples("h13/pairs", "hwx").into_iter().chain(samples("h16", "hwx").into_iter().take(2)) {
        for end in (0..bytes.len()).step_by(64) {
            match Container::read(&bytes[..end]) {
                Ok(_) => panic!("read {end:#x} of {:#x} bytes", bytes.len()),
                Err(Error::Truncated { offset, need, have, .. }) => {
                    assert!(have == end as u64 && offset + need > have, "{offset:#x} {need:#x} {have:#x}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn flipped_bits_in_containers_do_no_harm() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let samples = samples("h13/pairs", "hwx").into_iter().chain(samples("h16", "hwx").into_iter().take(3));
    for (sample, bytes) in samples.enumerate() {
        let used = bytes.len().min(0x5000);
        for round in 0..120 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + round % 3 {
                // Most flips go to the structures at the start of the file.
                let range = if round % 2 == 0 { used } else { 0x1400.min(used) };
                damaged[random.next(range)] ^= 1 << random.next(8);
            }
            exercise_container(&damaged);
        }
        for at in (0..0x400.min(bytes.len() - 4)).step_by(4) {
            // Each of the three at every place, over three samples.
            let word = [u32::MAX, 0, bytes.len() as u32][(at / 4 + sample) % 3];
            let mut damaged = bytes.clone();
            damaged[at..at + 4].copy_from_slice(&word.to_le_bytes());
            exercise_container(&damaged);
        }
    }
}

#[test]
fn damaged_streams_do_no_harm() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for bytes in samples("h13/programs", "bin") {
        let whole = raw::read_bin(&bytes).unwrap_or_else(|e| panic!("{e}"));
        for end in (0..whole.stream.len()).step_by(64) {
            // What is left may happen to be a shorter chain; it must not be the same one.
            assert!(raw::read_bin(&bytes[..end]).map_or(true, |p| p.stream != whole.stream));
        }
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            let range = whole.stream.len();
            damaged[random.next(range)] ^= 1 << random.next(8);
            if let Ok(program) = raw::read_bin(&damaged) {
                exercise_program(&program);
                let _ = from_program(&program, &Options::default()).map(|c| c.write());
            }
        }
        let model = raw::write_anec(&whole).unwrap_or_else(|e| panic!("{e}"));
        for end in (0..model.len()).step_by(64) {
            assert!(raw::read_anec(&model[..end]).is_err(), "{end:#x} of {:#x}", model.len());
        }
        for _ in 0..200 {
            let mut damaged = model.clone();
            let range = if random.next(2) == 0 { 0x6a8 } else { model.len() };
            damaged[random.next(range)] ^= 1 << random.next(8);
            if let Ok(program) = raw::read_anec(&damaged) {
                exercise_program(&program);
                let _ = from_program(&program, &Options::default()).map(|c| c.write());
            }
        }
    }
}

#[test]
fn damaged_listings_are_refused_with_a_place() {
    let mut random = Random(0xda94_2042_e4dd_58b5);
    let mut listings = Vec::new();
    for bytes in samples("h13/pairs", "hwx") {
        let container = Container::read(&bytes).unwrap_or_else(|e| panic!("{e}"));
        listings.push(text::list_container(&container));
        listings.push(text::list(&container.program().unwrap_or_else(|e| panic!("{e}"))));
    }
    for listing in listings {
        for _ in 0..300 {
            let mut damaged = listing.clone().into_bytes();
            let at = random.next(damaged.len());
            match random.next(3) {
                0 => damaged.truncate(at),
                1 => damaged[at] = b" \n\"0x=@;9\\"[random.next(10)],
                _ => drop(damaged.splice(at..at, b"99999999999999".iter().copied())),
            }
            let damaged = String::from_utf8_lossy(&damaged);
            let lines = damaged.lines().count();
            let errors = [text::assemble(&damaged).err(), text::assemble_container(&damaged).err()];
            for error in errors.into_iter().flatten() {
                assert!(error.line <= lines + 1 && error.column >= 1, "{error}");
            }
        }
    }
}

#[test]
fn small_wrong_files_are_refused() {
    assert!(matches!(Container::read(&[]), Err(Error::Truncated { offset: 0, need: 32, have: 0, .. })));
    assert!(matches!(Container::read(&[0; 64]), Err(Error::Magic { offset: 0, found: 0, .. })));
    assert!(raw::read_bin(&[]).is_err() && raw::read_bin(&[0xff; 4096]).is_err());
    assert!(raw::read_anec(&[0; 0x2000]).is_err() && raw::read_anec(&[0xff; 0x2000]).is_err());

    // A header that promises four billion commands in no bytes.
    let mut header = vec![0u8; 32];
    header[..4].copy_from_slice(&0xbeef_faceu32.to_le_bytes());
    header[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(Container::read(&header), Err(Error::CommandArea { offset: 32, count: u32::MAX, .. })));

    // No commands at all: readable, but not a program.
    header[16..20].copy_from_slice(&0u32.to_le_bytes());
    let empty = Container::read(&header).expect("a header alone is a container");
    assert!(matches!(empty.program(), Err(LiftError::Subtype { subtype: 0, .. })));

    // Symbol tables that each claim the whole file.
    let mut overlap = header.clone();
    let count = 64u32;
    overlap[16..20].copy_from_slice(&count.to_le_bytes());
    overlap[20..24].copy_from_slice(&(24 * count).to_le_bytes());
    for _ in 0..count {
        for word in [2, 24, 0, 0, 0, 32 + 24 * count] {
            overlap.extend_from_slice(&u32::to_le_bytes(word));
        }
    }
    assert!(matches!(Container::read(&overlap), Err(Error::Overlap { .. })));
}

#[test]
fn listings_that_ask_for_too_much_are_refused() {
    let text = "program \"a\" layout=h13 first-words=157 scratch=0\nstream bytes=0xffffffffffffffff\nkernel bytes=0\n";
    assert!(text::assemble(text).is_err_and(|e| (e.line, e.column) == (2, 14)));
    let text = "program \"a\" layout=h99 first-words=157 scratch=0\n";
    assert!(text::assemble(text).is_err_and(|e| e.expected.contains("h13") && e.column == 20));
    assert!(text::assemble("").is_err_and(|e| e.line == 1));
    let zeros = |size: &str| {
        format!("program \"a\" layout=h13 first-words=157 scratch=0\nstream bytes=0\nkernel bytes={size}\n")
    };
    assert!(text::assemble(&zeros("0x40000000")).is_err_and(|e| (e.line, e.column) == (3, 14)), "1 GiB of zeros");
    assert!(text::assemble(&zeros("0x40000001,sparse")).is_err_and(|e| e.column == 14));
    assert_eq!(text::assemble(&zeros("0x4100000,sparse")).map(|p| p.kernel.len()), Ok(0x410_0000));
}

#[test]
fn blocks_of_zeros_come_back_as_listed() {
    let layout = anemone_facts::layout::by_name("h13").expect("known");
    let mut kernel = vec![0; 65 << 20];
    kernel[12345] = 7;
    let program = anemone_program::Program {
        name: "a".into(),
        layout,
        stream: vec![],
        first_task_words: 157,
        kernel: kernel.into(),
        scratch_bytes: 0,
        ports: vec![],
    };
    let listing = text::list(&program);
    assert!(listing.contains("kernel bytes=0x4100000,sparse\n"), "{listing}");
    assert!(text::assemble(&listing).is_ok_and(|p| p.kernel == program.kernel));
    // A block with data in every line is not called sparse.
    let dense = anemone_program::Program { kernel: vec![1; 2 << 20].into(), ..program };
    let listing = text::list(&dense);
    assert!(listing.contains("kernel bytes=0x200000\n"));
    assert!(text::assemble(&listing).is_ok_and(|p| p.kernel == dense.kernel));
}
