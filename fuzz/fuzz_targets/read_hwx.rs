//! Containers: what is read is written back, lifted, explained and loaded without a panic.
#![no_main]

use anemone_program::hwx::{Container, Image};
use anemone_program::text::{Dump, Selection};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(container) = Container::read(bytes) {
        assert!(container.write() == bytes);
        let _ = container.program().map(|p| anemone_program::patch::kernels(&p).map(|k| k.len()));
        let _ = Dump::of_container(&container, &Selection::default()).render();
        let _ = Image::map(&container, 0x4000_0000).map(|i| i.check());
    }
});
