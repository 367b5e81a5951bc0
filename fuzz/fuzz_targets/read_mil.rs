//! Any text as MIL: faults with places inside the text, or a program that prints and parses back to itself.
#![no_main]

use anemone_net::mil::{parse, print};
use anemone_net::read::{MemoryFiles, Options, read_program};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match parse(text) {
    Ok(program) => {
        let printed = print(&program);
        assert_eq!(parse(&printed).map(|p| print(&p)), Ok(printed.clone()), "{printed}");
        let _ = read_program(&program, &MemoryFiles::default(), &Options::default());
    }
    Err(faults) => assert!(faults.iter().all(|f| f.start <= f.end && text.get(f.start..f.end).is_some())),
});
