//! Raw streams and the open driver's model files.
#![no_main]

use anemone_program::raw;
use anemone_program::text::{Dump, Selection};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for program in [raw::read_bin(bytes), raw::read_anec(bytes)].into_iter().flatten() {
        let _ = Dump::of_program(&program, &Selection::default()).render();
        let _ = raw::write_anec(&program);
    }
});
