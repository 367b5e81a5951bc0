//! Firmware containers: what is read is written back, checked, explained, listed and assembled.
#![no_main]

use anemone_program::firmware::Package;
use anemone_program::text::{Dump, Selection, assemble_package, list_package};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(package) = Package::read(bytes) {
        assert!(package.write() == bytes);
        package.check();
        let _ = Dump::of_package(&package, &Selection::default()).render();
        assert!(assemble_package(&list_package(&package)).expect("a listing assembles") == package);
    }
});
