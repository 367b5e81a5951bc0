use anemone::tensor::{Array, npy_bytes, parse_npz, random};

/// An archive of one entry, packed as `data` by `method`.
fn archive(name: &str, method: u8, flags: u8, plain: &[u8], data: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(plain);
    let le = |values: &[u32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (sizes, version) = ([data.len() as u32, plain.len() as u32], [20, 0]);
    // Flags, method, time and date; checksum, sizes, lengths of the name and of nothing.
    let shared = [&[flags, 0, method, 0, 0, 0, 0, 0][..], &le(&[crc.sum(), sizes[0], sizes[1], name.len() as u32])];
    let shared = shared.concat();
    let local = [b"PK\x03\x04", &version[..], &shared, name.as_bytes(), data].concat();
    let entry = [b"PK\x01\x02", &version[..], &version, &shared, &[0; 14], name.as_bytes()].concat();
    let end = [le(&[0x0605_4b50, 0, 0x1_0001, entry.len() as u32, local.len() as u32]), vec![0; 2]].concat();
    [local, entry, end].concat()
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("deflates")
}

#[test]
fn archives_stored_and_deflated() {
    let array = Array { shape: vec![100, 3], data: random(1, 300) };
    let plain = npy_bytes(&array);
    for (method, data) in [(0, plain.clone()), (8, deflated(&plain))] {
        let read = parse_npz(&archive("a.npy", method, 0, &plain, &data));
        assert_eq!(read, Ok(vec![("a".to_string(), array.clone())]));
    }
    assert_eq!(parse_npz(&archive("notes.txt", 0, 0, b"x", b"x")), Ok(vec![]));
}

#[test]
fn archives_that_are_refused() {
    let plain = npy_bytes(&Array { shape: vec![3], data: vec![1.0; 3] });
    let packed = deflated(&plain);
    let mut damaged = packed.clone();
    damaged.truncate(packed.len() - 4);
    let cases = [
        (archive("a.npy", 93, 0, &plain, &plain), "array a: it is compressed by 93 (ZSTD)"),
        (archive("a.npy", 12, 0, &plain, &plain), "array a: it is compressed by 12 (BZIP2)"),
        (archive("a.npy", 8, 1, &plain, &packed), "array a: it is encrypted"),
        (archive("a.npy", 8, 0, &plain, &damaged), "array a: "),
        (archive("a.npy", 8, 0, &[], &packed), "array a: "),
        (archive("a.npy", 0, 0, b"text", b"text"), "array a: not a .npy file"),
        (b"PK".to_vec(), "not a .npz file: "),
    ];
    for (bytes, part) in cases {
        let error = parse_npz(&bytes).expect_err(part);
        assert!(error.contains(part), "{part}: {error}");
    }
    let whole = archive("a.npy", 8, 0, &plain, &packed);
    for cut in 0..whole.len() {
        let _ = parse_npz(&whole[..cut]).expect_err("cut short");
    }
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x41;
        let _ = parse_npz(&flipped);
    }
}
