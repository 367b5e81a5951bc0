//! Containers: what is read is written back, lifted, explained, listed, assembled, counted and loaded without a panic.
#![no_main]

use anemone_program::Coverage;
use anemone_program::hwx::{Container, Image};
use anemone_program::text::{Dump, Selection, assemble_container, list_container};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(container) = Container::read(bytes) {
        assert!(container.write() == bytes);
        let _ = container.program().map(|p| anemone_program::patch::kernels(&p).map(|k| k.len()));
        let _ = Dump::of_container(&container, &Selection::default()).render();
        let _ = Coverage::of_container(&container).map(|c| c.render());
        let _ = container.runtime().map(|g| g.kicks().count());
        let again = assemble_container(&list_container(&container)).expect("a listing assembles");
        assert!(again.write() == bytes);
        let _ = Image::map(&container, 0x4000_0000).map(|i| i.check());
    }
});
