//! Task streams of every descriptor version, and the records and listing of register images.
//!
//! The first byte chooses the version; the rest is the stream, and once more a list of records.
#![no_main]

use anemone_facts::layout;
use anemone_program::task::decode_what_stands;
use anemone_program::task::image::{Descriptor, Image, read_records, write_records};
use anemone_program::text::{assemble, assemble_image, list, list_image};
use anemone_program::{Coverage, Program};

const VERSIONS: [u32; 15] = [4, 5, 6, 7, 8, 10, 11, 17, 19, 20, 24, 26, 28, 31, 36];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [version, first, stream @ ..] = bytes else { return };
    let version = VERSIONS[usize::from(*version) % VERSIONS.len()];
    let layout = layout::of_version(version).expect("every version listed is known");
    let first_task_words = u32::from(*first);
    let (tasks, _) = decode_what_stands(layout, stream, first_task_words);
    for task in &tasks {
        let words: Vec<u8> = task.words().into_iter().flat_map(u32::to_le_bytes).collect();
        assert!(stream[task.offset as usize..].starts_with(&words));
    }
    let program = Program {
        name: "p".into(),
        layout,
        stream: stream.to_vec(),
        first_task_words,
        kernel: Default::default(),
        scratch_bytes: 0,
        ports: Vec::new(),
    };
    assert!(assemble(&list(&program)).expect("a listing assembles").stream == stream);
    let _ = Coverage::of_program(&program).render();
    if let Ok(records) = read_records(stream) {
        assert!(write_records(&records) == stream);
        if let Ok(image) = Image::of_records(&records, 0) {
            let descriptor = Descriptor { image, ..Descriptor::default() };
            assert!(assemble_image(&list_image(&descriptor)).expect("a listing assembles") == descriptor);
        }
    }
});
