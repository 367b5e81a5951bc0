//! Dispatch descriptors: what is read is written back, checked, explained, listed and assembled.
#![no_main]

use anemone_program::e5::Descriptor;
use anemone_program::text::{Dump, Selection, assemble_descriptor, list_descriptor};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(descriptor) = Descriptor::read(bytes) {
        assert!(descriptor.write() == bytes);
        descriptor.check();
        let _ = Dump::of_descriptor(&descriptor, &Selection::default()).render();
        let again = assemble_descriptor(&list_descriptor(&descriptor)).expect("a listing assembles");
        assert!(again.write() == bytes);
    }
});
