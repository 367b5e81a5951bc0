//! A container of 100 MB summarized by the command line, read by the library, copied and hashed.
//!
//! The summary should take a tenth of a second: 1 GB/s, the file in the page cache.
//!
//! `cargo bench --bench dump`

use anemone_facts::layout;
use anemone_program::hwx::{Container, Options, from_program};
use anemone_program::task::encode_stream;
use anemone_program::{Program, Task};
use sha2::Digest;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

fn container() -> Vec<u8> {
    let layout = &layout::H13;
    let mut tasks = [Task::full(layout)];
    let stream = encode_stream(layout, &mut tasks).expect("one empty task");
    let program = Program {
        name: "net".into(),
        layout,
        stream,
        first_task_words: tasks[0].word_count(),
        kernel: (0..100u32 << 20).map(|i| ((i * 31) >> 7) as u8).collect(),
        scratch_bytes: 0,
        ports: Vec::new(),
    };
    from_program(&program, &Options::default()).expect("it fits").write()
}

/// Prints the median of nine calls and the rate over `bytes`.
fn report(name: &str, bytes: usize, mut call: impl FnMut()) {
    let mut times: Vec<_> = (0..9)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed()
        })
        .collect();
    times.sort();
    let rate = bytes as f64 / 1e9 / times[4].as_secs_f64();
    println!("{name:<20} median {:>9.1?}, best {:>9.1?}, {rate:.2} GB/s", times[4], times[0]);
}

fn main() {
    let bytes = container();
    let file = std::env::temp_dir().join(format!("anemone-dump-{}.hwx", std::process::id()));
    std::fs::write(&file, &bytes).expect("a temporary file");
    report("ane dump --summary", bytes.len(), || {
        let mut ane = Command::new(env!("CARGO_BIN_EXE_ane"));
        let ran = ane.arg("dump").arg(&file).arg("--summary").stdout(Stdio::null()).status();
        assert!(ran.is_ok_and(|status| status.success()));
    });
    let _ = std::fs::remove_file(&file);
    report("read", bytes.len(), || {
        let container = Container::read(black_box(&bytes)).expect("a container");
        assert!(container.residue.is_empty());
        black_box(container.sections().count());
    });
    report("copy", bytes.len(), || {
        black_box(black_box(&bytes).to_vec());
    });
    report("sha-256", bytes.len(), || {
        black_box(sha2::Sha256::digest(black_box(&bytes)));
    });
}
