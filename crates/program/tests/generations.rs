//! Streams of every generation: containers and recorded descriptors of later chips are read, listed and written again
//! byte for byte, and how much of them is explained.

use std::path::{Path, PathBuf};

use anemone_facts::{Field, Layout, layout};
use anemone_program::hwx::Container;
use anemone_program::task::{Form, Run, Task, decode_stream, encode_stream};
use anemone_program::{Coverage, Program, text};
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
        kernel: Vec::new(),
        scratch_bytes: 0,
        ports: Vec::new(),
    };
    let listing = text::list(&program);
    text::assemble(&listing).unwrap_or_else(|e| panic!("{e}\n{listing}")).stream
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
    let mut total: Option<Coverage> = None;
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
        assert_eq!(encode_stream(layout, &mut again).as_deref(), Ok(stream.as_slice()), "{name}");
        assert_eq!(again, tasks, "{name}");
        let listing = text::list_container(&container);
        assert!(listing.contains("task 0 @0x10 "), "{name}: tasks are listed by field");
        let assembled = text::assemble_container(&listing).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(assembled.write() == file, "{name}: the listing assembles to the file");
        let total = total.get_or_insert_with(|| Coverage::new(layout));
        assert_eq!(total.stream(layout, stream, 0), None);
    }
    if let Some(total) = total {
        println!("{} containers\n{}", paths.len(), total.render());
        assert!(total.unexplained_share() <= UNEXPLAINED && total.unnamed_share() <= UNEXPLAINED);
    }
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
        for path in files(folder, "json") {
            let name = path.display();
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            let record: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let target = record["target"].as_str().unwrap_or_default();
            if record["status"] != "accepted" || (target == "h13") == first_word {
                continue;
            }
            let layout = layout::by_name(target).unwrap_or_else(|| panic!("{name}: no layout of {target}"));
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
                    coverage.tasks(layout, &[decoded]);
                } else {
                    assert_eq!(listed(layout, &bytes(&all), size), bytes(&all), "{name}");
                    coverage.tasks(layout, &[decoded]);
                }
            }
            let most = if first_word { UNEXPLAINED } else { 0.0 };
            println!("{name}: {:.2} % of set bits unexplained", 100.0 * coverage.unexplained_share());
            assert!(coverage.unexplained_share() <= most, "{name}\n{}", coverage.render());
            if first_word {
                let stream = bytes(&stream);
                let mut tasks = decode_stream(layout, &stream, 0).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(encode_stream(layout, &mut tasks), Ok(stream.clone()), "{name}");
                assert_eq!(listed(layout, &stream, 0), stream, "{name}");
            }
        }
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
        let mut coverage = Coverage::new(layout);
        coverage.tasks(layout, &[task]);
        println!("{}: {}", path.display(), coverage.render());
        assert!(coverage.unexplained_share() <= UNEXPLAINED);
    }
}

/// Small deterministic generator.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
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
