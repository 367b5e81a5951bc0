//! Any bytes as a model file of this form: an error or a net that checks and prints, never a panic.
#![no_main]

use anemone_net::check::check;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((net, _)) = read_onnx(bytes, &MemoryFiles::default(), &Options::default()) {
        let _ = check(&net);
        let _ = anemone_net::text::print(&net);
    }
});
