//! Streams of every generation: containers and recorded descriptors of later chips are read, listed and written again
//! byte for byte, and how much of them is explained.

use crate::common;

use common::Random;
use std::path::{Path, PathBuf};

use anemone_facts::layout::{self, SAMPLED, Sampled};
use anemone_facts::{Field, Layout};
use anemone_program::hwx::{Command, Container, Section, Segment, Symbol, Symtab, name16};
use anemone_program::task::{Form, Run, Task, decode_stream, encode_stream};
use anemone_program::{Coverage, Program, raw, text};
use serde_json::Value;

/// Largest share of set bits that may lack a field, and largest share that may lack a name.
const UNEXPLAINED: f64 = 0.05;

fn golden() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let path = std::env::var_os("ANE_GOLDEN_DIR").map_or(beside, PathBuf::from);
    path.is_dir().then_some(path)
}

/// Files below a folder of golden data, by extension.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = golden().map(|g| g.join(folder)).into_iter().collect();
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    if found.is_empty() {
        println!("skipped: no golden data in {folder}");
    }
    found.sort();
    found
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn listed(layout: &'static Layout, stream: &[u8], first_task_words: u32) -> Vec<u8> {
    let program = Program {
        name: "p".into(),
        layout,
        stream: stream.to_vec(),
        first_task_words,
        kernel: Default::default(),
        scratch_bytes: 0,
        ports: Vec::new(),
    };
    let listing = text::list(&program);
    text::assemble(&listing).unwrap_or_else(|e| panic!("{e}\n{listing}")).stream
}

/// Samples of one folder, counted together.
struct Tally {
    folder: &'static str,
    files: usize,
    bytes: u64,
    coverage: Coverage,
}

impl Tally {
    fn new(folder: &'static str, layout: &'static Layout) -> Tally {
        Tally { folder, files: 0, bytes: 0, coverage: Coverage::new(layout) }
    }

    fn file(&mut self, bytes: usize) -> &mut Coverage {
        self.files += 1;
        self.bytes += bytes as u64;
        &mut self.coverage
    }

    /// The shares are small enough, and the row that is published for these files says the same.
    fn close(self, most: f64) {
        let Tally { folder, files, bytes, coverage } = self;
        println!("{folder}: {files} files, {bytes} bytes\n{}", coverage.render());
        assert!(coverage.unexplained_share() <= most && coverage.unnamed_share() <= UNEXPLAINED, "{folder}");
        let generation = coverage.generation;
        let same = |s: &&Sampled| (s.generation, s.folder, s.files, s.bytes) == (generation, folder, files, bytes);
        let Some(row) = SAMPLED.iter().find(same) else {
            println!("  other files than those counted in docs/machine/coverage.md");
            return;
        };
        let published = (row.tasks, row.fields_seen, row.set_bits, row.unnamed_bits, row.unexplained_bits);
        let c = &coverage;
        assert_eq!((c.tasks, c.fields_seen, c.set_bits, c.unnamed_bits, c.unexplained_bits), published, "{folder}");
    }
}

#[test]
fn first_generation_tasks_are_covered() {
    let layout = &layout::H13;
    for (folder, extension) in [("h13/pairs", "hwx"), ("h13/programs", "bin")] {
        let mut tally = Tally::new(folder, layout);
        for path in files(folder, extension) {
            let name = path.display();
            let file = std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            let program = match extension {
                "hwx" => Container::read(&file).ok().and_then(|c| c.program().ok()),
                _ => raw::read_bin(&file).ok(),
            };
            let program = program.unwrap_or_else(|| panic!("{name}: no program"));
            let coverage = tally.file(file.len());
            assert_eq!(coverage.stream(layout, &program.stream, program.first_task_words), None, "{name}");
        }
        tally.close(0.0);
    }
}

/// Every task's words are where they were.
fn rewritten(stream: &[u8], tasks: &[Task]) {
    for task in tasks {
        let words = bytes(&task.words());
        assert_eq!(stream[task.offset as usize..][..words.len()], words);
    }
}

#[test]
fn later_containers_are_decoded_listed_and_covered() {
    let paths = files("h16", "hwx");
    let mut tally: Option<Tally> = None;
    for path in &paths {
        let name = path.display();
        let file = std::fs::read(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let container = Container::read(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let layout = container.layout().unwrap_or_else(|| panic!("{name}: no layout"));
        let stream = &container.section("__TEXT", "__text").unwrap_or_else(|| panic!("{name}: no stream")).data;
        let tasks = decode_stream(layout, stream, 0).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tasks.last().and_then(|t| t.get(layout, Field::Eon)), Some(1), "{name}: the last task says so");
        rewritten(stream, &tasks);
        let mut again = tasks.clone();
        assert_eq!(encode_stream(layout, &mut again).as_deref(), Ok(stream.as_ref()), "{name}");
        assert_eq!(again, tasks, "{name}");
        let listing = text::list_container(&container);
        assert!(listing.contains("task 0 @0x10 "), "{name}: tasks are listed by field");
        let assembled = text::assemble_container(&listing).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(assembled.write() == file, "{name}: the listing assembles to the file");
        let total = tally.get_or_insert_with(|| Tally::new("h16", layout)).file(file.len());
        assert_eq!(total.stream(layout, stream, 0), None);
        assert_eq!(Coverage::of_container(&container).map(|c| c.undecoded_bytes), Some(0), "{name}");
    }
    tally.into_iter().for_each(|t| t.close(UNEXPLAINED));
}

fn hex(v: &Value) -> u32 {
    let text = v.as_str().unwrap_or_else(|| panic!("{v} is no text"));
    u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn hexes(v: &Value) -> Vec<u32> {
    v.as_array().unwrap_or_else(|| panic!("{v} is no list")).iter().map(hex).collect()
}

/// Recorded descriptors: header words, then first word and values of each run, as the record has them.
#[test]
fn recorded_descriptors_are_decoded_and_written() {
    for (folder, first_word) in [("oracles/h13", false), ("oracles", true)] {
        let mut tallies: Vec<Tally> = Vec::new();
        for path in files(folder, "json") {
            let name = path.display();
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            let record: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let target = record["target"].as_str().unwrap_or_default();
            if record["status"] != "accepted" || (target == "h13") == first_word {
                continue;
            }
            let layout = layout::by_name(target).unwrap_or_else(|| panic!("{name}: no layout of {target}"));
            let most = if first_word { UNEXPLAINED } else { 0.0 };
            if !tallies.iter().any(|t| t.coverage.generation == layout.generation) {
                tallies.push(Tally::new(folder, layout));
            }
            let tally = tallies.iter_mut().find(|t| t.coverage.generation == layout.generation);
            let total = tally.unwrap_or_else(|| unreachable!("it was pushed")).file(text.len());
            let mut coverage = Coverage::new(layout);
            let mut stream = if first_word { vec![1, 0, 0, 0] } else { Vec::new() };
            for (i, task) in record["tasks"].as_array().into_iter().flatten().enumerate() {
                let mut all = hexes(&task["header"]);
                for run in task["records"].as_array().into_iter().flatten() {
                    let values = hexes(&run[1]);
                    all.push(if first_word {
                        hex(&run[2]["header"])
                    } else {
                        (values.len() as u32 - 1) << 26 | hex(&run[0])
                    });
                    all.extend(values);
                }
                let size = all.len() as u32;
                let decoded = anemone_program::task::decode(layout, &bytes(&all), i, 0, size)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(decoded.words(), all, "{name}");
                if first_word {
                    // The record names the address of every word.
                    let stated: Vec<u32> = task["records"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .flat_map(|r| hexes(&r[2]["addresses"]))
                        .collect();
                    let found: Vec<u32> = decoded.runs.iter().flat_map(Run::addresses).collect();
                    assert_eq!(found, stated, "{name}");
                    stream.resize(stream.len().next_multiple_of(4), 0);
                    stream.extend(&all);
                } else {
                    assert_eq!(listed(layout, &bytes(&all), size), bytes(&all), "{name}");
                }
                for counted in [&mut coverage, &mut *total] {
                    counted.tasks(layout, std::slice::from_ref(&decoded));
                }
            }
            assert!(coverage.unexplained_share() <= most, "{name}\n{}", coverage.render());
            if first_word {
                let stream = bytes(&stream);
                let mut tasks = decode_stream(layout, &stream, 0).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(encode_stream(layout, &mut tasks), Ok(stream.clone()), "{name}");
                assert_eq!(listed(layout, &stream, 0), stream, "{name}");
            }
        }
        let most = if first_word { UNEXPLAINED } else { 0.0 };
        tallies.into_iter().for_each(|t| t.close(most));
    }
}

/// Texts of one word a line, `offset  value`: a stream of version 24, cut inside its first task.
#[test]
fn recorded_words_are_decoded_and_written() {
    for path in files("td", "txt") {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let word = |line: &str| {
            let (at, value) = line.split_once(char::is_whitespace)?;
            let at = u32::from_str_radix(at.strip_prefix("0x")?, 16).ok()?;
            let value = value.trim();
            (value.len() == 8).then_some(())?;
            Some((at, u32::from_str_radix(value, 16).ok()?))
        };
        let dump: Option<Vec<(u32, u32)>> = text.lines().map(word).collect();
        let Some(dump) = dump.filter(|d| !d.is_empty()) else { continue };
        let stream: Vec<u32> = dump.iter().map(|&(_, w)| w).collect();
        let layout = layout::of_version(24).unwrap_or_else(|| panic!("version 24"));
        // As it stands, nothing of it is lost: what does not decode is listed as data.
        assert_eq!(words(&listed(layout, &bytes(&stream), 0)), stream);
        // Its packets, up to the cut.
        let mut rest = &stream[4 + layout.header_words as usize..];
        let mut task = Task { offset: 16, header: stream[4..][..layout.header_words as usize].to_vec(), runs: vec![] };
        while let Some(run) = rest.first().map(|&first| Run::announced(layout, first)) {
            let Some(values) = rest.get(1..1 + run.words.len()) else { break };
            rest = &rest[1 + values.len()..];
            task.runs.push(Run { words: values.to_vec(), ..run });
        }
        assert_eq!([task.words().as_slice(), rest].concat(), stream[4..], "{}", path.display());
        let mut tally = Tally::new("td", layout);
        tally.file(text.len()).tasks(layout, &[task]);
        tally.close(UNEXPLAINED);
    }
}

#[test]
fn any_packets_are_written_read_and_listed() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let versions = [8, 10, 11, 17, 19, 20, 24, 26, 28, 31, 36];
    for round in 0..66 {
        let layout = layout::of_version(versions[round % versions.len()]).unwrap_or_else(|| panic!("no layout"));
        let mut tasks = Vec::new();
        for _ in 0..1 + round % 3 {
            let mut header: Vec<u32> = (0..layout.header_words).map(|_| random.word()).collect();
            if header.last().is_some_and(|w| w & 3 == 3) {
                header.push(random.word());
            }
            let runs = (0..random.word() % 9).map(|_| {
                let addr = 4 * (random.word() & 0x7fff);
                let (form, count) = match random.word() % 3 {
                    0 => {
                        let mask = random.word() as u16;
                        (Form::Masked(mask), 1 + mask.count_ones())
                    }
                    1 => (Form::Packet(0), 1 + random.word() % 64),
                    _ => (Form::Packet(random.word() as u16 & 0x3ff), 1 + random.word() % 64),
                };
                Run { addr, form, words: (0..count).map(|_| random.word()).collect() }
            });
            tasks.push(Task { offset: 0, header, runs: runs.collect() });
        }
        let stream = encode_stream(layout, &mut tasks).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(decode_stream(layout, &stream, 0).as_ref(), Ok(&tasks));
        assert_eq!(listed(layout, &stream, 0), stream);
        // A cut stream keeps every byte.
        let cut = &stream[..stream.len() - 1 - random.word() as usize % (stream.len() / 2)];
        assert_eq!(listed(layout, cut, 0), cut);
        let noise: Vec<u8> = (0..200).map(|_| random.word() as u8).collect();
        assert_eq!(listed(layout, &noise, 0), noise);
    }
}

/// Runs that begin at the last address go on past it; they are listed like any other.
#[test]
fn runs_at_the_last_address_are_listed() {
    let forms = [(7, Form::Run, 0x3ff_ffff), (17, Form::Packet(0), 4 * 0x7fff), (17, Form::Masked(0x8001), 4 * 0x7fff)];
    for (version, form, addr) in forms {
        let layout = layout::of_version(version).unwrap_or_else(|| panic!("version {version}"));
        let runs = vec![Run { addr, form, words: vec![1, 2, 3] }];
        let mut tasks = [Task { offset: 0, header: vec![0; layout.header_words as usize], runs }];
        let stream = encode_stream(layout, &mut tasks).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(decode_stream(layout, &stream, tasks[0].word_count()).as_deref(), Ok(&tasks[..]));
        assert_eq!(listed(layout, &stream, tasks[0].word_count()), stream);
    }
}

/// A container for one engine and for two, as the study describes those of subtype 11: 8 commands, a runtime graph, three
/// streams in one section, each with its prefix, on pages.
fn bonded() -> (Container, Vec<u8>) {
    let layout = layout::of_version(24).unwrap_or_else(|| panic!("version 24"));
    let task = |value: u32| Task {
        offset: 0,
        header: vec![0; layout.header_words as usize],
        runs: vec![Run { addr: 4, form: Form::Packet(0), words: vec![value, value] }],
    };
    const PAGE: usize = 0x4000;
    let mut text = Vec::new();
    for count in [3, 1, 2] {
        text.resize(text.len().next_multiple_of(PAGE), 0);
        let mut tasks: Vec<Task> = (1..=count).map(task).collect();
        text.extend(encode_stream(layout, &mut tasks).unwrap_or_else(|e| panic!("{e}")));
    }
    let base = 0x3000_0000u64;
    let names = [
        ("main", base),
        ("main__nonbonded", base + 0x10),
        ("main__bonded", base + 0x20),
        ("rt_op_map_text__ane0_P_main__nonbonded", base + 0x30),
        ("rt_op_ane_kick_main__nonbonded_bb_0_segment_0_ane_0", base + 0x40),
        ("rt_op_ane_kick_main__bonded_bb_0_segment_0_ane_1", base + 0x50),
        ("text_section_start_for_ane0_nonbonded", base + PAGE as u64),
        ("text_section_start_for_ane0", base + 2 * PAGE as u64),
        ("text_section_start_for_ane1", base + 3 * PAGE as u64),
    ];
    let mut strings = vec![0];
    let symbols = names.map(|(name, value)| {
        let name_offset = strings.len() as u32;
        strings.extend(name.bytes().chain([0]));
        Symbol { name_offset, kind: 0x0f, section: 1, desc: 0, value }
    });
    let segment = |name: &str, section: &str, address: u64, file_offset: usize, data: Vec<u8>| {
        let (segment, bytes) = (name16(name), data.len() as u64);
        Command::Segment(Segment {
            name: segment,
            address,
            bytes: bytes.next_multiple_of(PAGE as u64),
            file_offset: file_offset as u64,
            file_bytes: bytes,
            max_protection: 1,
            protection: 1,
            flags: 4,
            sections: vec![Section {
                name: name16(section),
                segment,
                address,
                bytes,
                file_offset: file_offset as u32,
                align_log2: 14,
                relocations_offset: 0,
                flags: 0,
                reserved: [0; 3],
                data: data.into(),
                relocations: Vec::new(),
            }],
            tail: Vec::new(),
        })
    };
    let text_bytes = text.len();
    let graph: Vec<u8> = (0..0x102c).map(|i| (i * 7) as u8).collect();
    let after = 2 * PAGE + text_bytes.next_multiple_of(16);
    let strings_offset = (after + 16 * symbols.len()) as u32;
    let symtab =
        Symtab { symbols_offset: after as u32, strings_offset, symbols: symbols.to_vec(), strings, tail: Vec::new() };
    let mut container = Container::read(&{
        let mut head = vec![0; 32];
        head[..4].copy_from_slice(&0xbeef_faceu32.to_le_bytes());
        head[4] = 0x80;
        head
    })
    .unwrap_or_else(|e| panic!("{e}"));
    container.header.cpu_subtype = 11;
    container.commands = vec![
        segment("__RUNTIME", "__runtime", base, PAGE, graph),
        segment("__TEXT", "__text", base + PAGE as u64, 2 * PAGE, text.clone()),
        Command::Symtab(symtab),
    ];
    (container, text)
}

#[test]
fn containers_for_two_engines_show_their_graph_and_streams() {
    let (mut container, text) = bonded();
    container.file_bytes = container.write().len() as u64;
    let file = container.write();
    let read = Container::read(&file).unwrap_or_else(|e| panic!("{e}"));
    assert!(read.write() == file && read.residue.is_empty());
    let (layout, tasks, error) = read.tasks().unwrap_or_else(|| panic!("version 24 has a layout"));
    assert_eq!((layout.td_version, tasks.len(), error), (24, 6, None));
    rewritten(&text, &tasks);
    let graph = read.runtime().unwrap_or_else(|| panic!("a graph"));
    let names: Vec<&str> = graph.procedures.iter().map(|p| p.0).collect();
    assert_eq!(names, ["main", "main__nonbonded", "main__bonded"]);
    assert_eq!((graph.operations.len(), graph.kicks().count()), (3, 2));
    let whose = |i: usize| graph.stream_at(0x3000_4000 + tasks[i].offset as u64).unwrap_or_default();
    assert_eq!([0, 2, 3, 4, 5].map(whose), ["ane0_nonbonded", "ane0_nonbonded", "ane0", "ane1", "ane1"]);
    let dump = text::Dump::of_container(&read, &text::Selection::default());
    let shown = dump.render();
    assert!(shown.contains("runtime graph, 2 starts of an engine"), "{shown}");
    for word in ["main__bonded", "rt_op_map_text__ane0", "ane0_nonbonded"] {
        assert!(shown.contains(word), "{word}");
    }
    let streams: Vec<_> = dump.anomalies.iter().filter(|a| a.place == "task stream").collect();
    assert!(streams.is_empty(), "prefixes are no anomaly: {streams:?}");
    let listing = text::list_container(&read);
    assert!(text::assemble_container(&listing).unwrap_or_else(|e| panic!("{e}")).write() == file);
    assert_eq!(Coverage::of_container(&read).map(|c| (c.tasks, c.undecoded_bytes)), Some((6, 0)));
}
