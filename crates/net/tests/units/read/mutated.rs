//! Seeded mutations of MIL text, weight files and ONNX models: errors or nets that check, never a panic.

use super::*;
use anemone_net::mil::{parse, print};

/// Numbers without pattern, the same every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// One to three edits: a byte changed, a stretch removed, a stretch repeated, or a token put in.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>, tokens: &[&str]) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(24)).min(bytes.len());
        match random.below(4) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => drop(bytes.splice(at..at, tokens[random.below(tokens.len())].bytes())),
        }
    }
}

const TEXT: &str = r#"program(1.3)
[buildInfo = dict<string, string>({{"a", "1"}, {"b", "\"q\""}})]
{
    func main<ios18>(tensor<fp16, [1, 8, 4, 4]> x, state<tensor<fp16, [4]>> s) {
        tensor<fp16, [8, 8, 1, 1]> w = const()[val = tensor<fp16, [8, 8, 1, 1]>(BLOBFILE(path = string("w"), offset = uint64(64)))];
        tensor<fp16, [1, 8, 4, 4]> y = conv(x = x, weight = w, strides = tensor<int32, [2]>([1, 1]))[name = string("y")];
        tensor<fp16, [1, 2, 64]> z = reshape(x = y, shape = tensor<int32, [3]>([1, 2, -1]));
        int32 zero = const()[val = int32(0)];
        int32 n, tensor<fp16, [1, 2, 64]> t = while_loop(loop_vars = (zero, z)) (int32 i, tensor<fp16, [1, 2, 64]> a) {
            bool go = less(x = i, y = int32(3));
        } -> (go), (int32 i, tensor<fp16, [1, 2, 64]> a) {
            int32 next = add(x = i, y = int32(1));
            tensor<fp16, [1, 2, 64]> twice = add(x = a, y = a);
        } -> (next, twice);
        tensor<fp16, [4]> before = read_state(input = s);
        tensor<fp16, [4]> after = mul(x = before, y = fp16(-0x1.8p+0));
        write_state(input = s, data = after);
    } -> (t);
}
"#;

#[test]
fn changed_text_is_read_or_refused() {
    let tokens = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ",",
        "=",
        ";",
        "?",
        "->",
        "\"",
        "4294967295",
        "-9223372036854775808",
        "tensor<",
        "int32(",
        "1e999",
        "0x1p-9999",
        "func",
        "BLOBFILE(",
        "\u{1F600}",
    ];
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let files = MemoryFiles([("w".to_string(), vec![0; 4096].into())].into());
    assert!(parse(TEXT).is_ok());
    let (mut parsed, mut faulty) = (0, 0);
    for _ in 0..6000 {
        let mut bytes = TEXT.as_bytes().to_vec();
        mutate(&mut random, &mut bytes, &tokens);
        let text = String::from_utf8_lossy(&bytes);
        match parse(&text) {
            Ok(program) => {
                parsed += 1;
                let printed = print(&program);
                assert_eq!(parse(&printed).map(|p| print(&p)).as_ref(), Ok(&printed), "{text}");
                if let Ok((net, _)) = read_program(&program, &files, &Options::default()) {
                    let _ = check(&net);
                }
            }
            Err(faults) => {
                faulty += 1;
                assert!(!faults.is_empty() && faults.iter().all(|f| text.get(f.start..f.end).is_some()), "{faults:?}");
            }
        }
    }
    assert!(parsed > 100 && faulty > 1000, "{parsed} parsed, {faulty} faulty");
}

#[test]
fn short_files_ask_for_little() {
    // Every short file of these beginnings, filled up with bytes that make large numbers.
    let starts: [&[u8]; 8] =
        [b"program(", b"<?xml", b"bplist00", b"pbze", &[8, 4, 18], &[8, 8, 0x3a], &[8, 9, 0xb2, 0x1f], b""];
    for start in starts {
        for fill in [0x00, 0x7f, 0x80, 0xff, b'9', b'['] {
            for length in start.len()..=20 {
                let mut bytes = start.to_vec();
                bytes.resize(length, fill);
                let _ = read(&bytes, &MemoryFiles::default(), &Options::default()).map(|(net, _)| check(&net));
            }
        }
    }
    let ty = "tensor<fp16, [65536, 65536, 64]>";
    for text in [
        format!("program(1.0) {{ func main<ios18>({ty} x) {{ }} -> (x); }}"),
        format!(
            "program(1.0) {{ func main<ios18>(int32 x) {{ {ty} y = fill(shape = tensor<int32, [3]>([65536, 65536, 64]), value = fp16(1)); }} -> (y); }}"
        ),
        format!(
            "program(1.0) {{ func main<ios18>(int32 x) {{ {ty} y = const()[val = {ty}(BLOBFILE(path = string(\"w\"), offset = uint64(64)))]; }} -> (y); }}"
        ),
    ] {
        let files = MemoryFiles([("w".to_string(), vec![0xff; 128].into())].into());
        assert!(read_mil(text.as_bytes(), &files, &Options::default()).is_err(), "{text}");
    }
}

#[test]
fn changed_weight_files_are_read_or_refused() {
    let types =
        ["fp16", "fp32", "int8", "uint8", "int16", "uint16", "int32", "uint4", "int4", "uint1", "uint2", "uint3"];
    let constant = |(i, ty): (usize, &&str)| {
        let at = 64 * (i + 1);
        format!(
            "tensor<{ty}, [9]> c{i} = const()[val = tensor<{ty}, [9]>(BLOBFILE(path = string(\"w\"), offset = uint64({at})))];"
        )
    };
    let constants: String = types.iter().enumerate().map(constant).collect();
    let text = format!("program(1.0) {{ func main<ios18>(tensor<fp32, [9]> x) {{ {constants} }} -> (c0, c1, x); }}");
    let program = parse(&text).unwrap();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..3000 {
        let mut bytes: Vec<u8> = (0..1024).map(|_| random.below(256) as u8).collect();
        // Headers of records, mostly right, so that their sizes and places are looked at.
        for record in bytes.chunks_exact_mut(64) {
            if random.below(4) > 0 {
                record[..4].copy_from_slice(&0xdead_beef_u32.to_le_bytes());
                record[4..8].copy_from_slice(&(1 + random.below(20) as u32).to_le_bytes());
                record[8..16].copy_from_slice(&(random.below(64) as u64).to_le_bytes());
                record[16..24].copy_from_slice(&(random.below(1200) as u64).to_le_bytes());
            }
        }
        let files = MemoryFiles([("w".to_string(), bytes.into())].into());
        if let Ok((net, _)) = read_program(&program, &files, &Options::default()) {
            net.values.iter().flat_map(|v| &v.data).for_each(|t| drop(t.data.to_f32()));
        }
    }
}

/// As in `floor_b_1_idx`, whose values happen to be the number of a type.
#[test]
fn a_record_larger_than_its_file_is_read_from_its_offset_alone() {
    let ty = "tensor<fp16, [2]>";
    let text = format!(
        "program(1.0) {{ func main<ios18>(tensor<fp16, [2]> x) {{ {ty} c = const()[val = {ty}(BLOBFILE(path = string(\"w\"), offset = uint64(64)))]; }} -> (c, x); }}"
    );
    let program = parse(&text).unwrap();
    let read = |element: u32, size: u64| {
        let mut bytes = vec![0; 192];
        bytes[64..68].copy_from_slice(&0xdead_beef_u32.to_le_bytes());
        bytes[68..72].copy_from_slice(&element.to_le_bytes());
        bytes[72..80].copy_from_slice(&size.to_le_bytes());
        bytes[80..88].copy_from_slice(&128_u64.to_le_bytes());
        bytes[128..132].copy_from_slice(&[0, 0x3c, 0, 0x40]);
        let files = MemoryFiles([("w".to_string(), bytes.into())].into());
        let (net, _) = read_program(&program, &files, &Options::default()).ok()?;
        net.values.iter().flat_map(|v| &v.data).map(|t| t.data.to_f32().to_vec()).next()
    };
    // Halves, of a known size and of one beyond the file; bytes, of which only a size within the file is a contradiction.
    assert_eq!(read(1, 4), Some(vec![1.0, 2.0]));
    assert_eq!(read(1, 193), Some(vec![1.0, 2.0]));
    assert_eq!(read(3, 193), Some(vec![1.0, 2.0]));
    assert_eq!(read(3, 4), None);
}
