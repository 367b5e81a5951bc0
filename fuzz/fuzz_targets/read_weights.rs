//! Any bytes as a weight file, which a fixed program takes constants of every element type from.
#![no_main]

use anemone_net::mil::{Program, parse};
use anemone_net::read::{MemoryFiles, Options, read_program};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let types = ["fp16", "fp32", "int8", "uint8", "int16", "uint16", "int32", "uint4", "int4", "uint1", "uint2", "uint3"];
    let constant = |(i, ty): (usize, &&str)| {
        format!(
            "tensor<{ty}, [9]> c{i} = const()[val = tensor<{ty}, [9]>(BLOBFILE(path = string(\"w\"), offset = uint64({})))];",
            64 * (i + 1)
        )
    };
    let constants: String = types.iter().enumerate().map(constant).collect();
    let text = format!("program(1.0) {{ func main<ios18>(tensor<fp32, [9]> x) {{ {constants} }} -> (c0, c1, c2, c7, x); }}");
    parse(&text).expect("the text is MIL")
});

fuzz_target!(|bytes: &[u8]| {
    let files = MemoryFiles([("w".to_string(), bytes.to_vec().into())].into());
    if let Ok((net, _)) = read_program(&PROGRAM, &files, &Options::default()) {
        net.values.iter().flat_map(|v| &v.data).for_each(|t| drop(t.data.to_f32()));
    }
});
