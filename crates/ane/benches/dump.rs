//! A container of 100 MB summarized by the command line, read by the library, copied and hashed.
//!
//! The summary should take a tenth of a second: 1 GB/s, the file in the page cache.
//!
//! `cargo bench --bench dump`

use anemone_facts::layout;
use anemone_program::hwx::{Container, Options, from_program};
use anemone_program::task::encode_stream;
use anemone_program::{Program, Task};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sha2::Digest;
use std::hint::black_box;
use std::process::{Command, Stdio};

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

fn benches(c: &mut Criterion) {
    let bytes = container();
    let mut group = c.benchmark_group("100 MB container");
    group.throughput(Throughput::Bytes(bytes.len() as u64)).sample_size(10);
    let file = std::env::temp_dir().join(format!("anemone-dump-{}.hwx", std::process::id()));
    std::fs::write(&file, &bytes).expect("a temporary file");
    group.bench_function("ane dump --summary", |b| {
        b.iter(|| {
            let mut ane = Command::new(env!("CARGO_BIN_EXE_ane"));
            let ran = ane.arg("dump").arg(&file).arg("--summary").stdout(Stdio::null()).status();
            assert!(ran.is_ok_and(|status| status.success()));
        })
    });
    let _ = std::fs::remove_file(&file);
    group.bench_function("read", |b| {
        b.iter(|| {
            let container = Container::read(black_box(&bytes)).expect("a container");
            assert!(container.residue.is_empty());
            container.sections().count()
        })
    });
    group.bench_function("copy", |b| b.iter(|| black_box(&bytes).to_vec().len()));
    group.bench_function("sha-256", |b| b.iter(|| sha2::Sha256::digest(black_box(&bytes))));
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
