//! Damaged and hostile files: an error, never a panic, never memory without bound.

use super::*;
use anemone_net::text::print;

/// Numbers without pattern, the same every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// The model file of a package and its weights, under the names that the model asks for.
fn package(dir: &Path) -> (Vec<u8>, MemoryFiles) {
    let data = dir.join("model.mlpackage/Data/com.apple.CoreML");
    let weights = std::fs::read(data.join("weights/weight.bin")).unwrap();
    let files = MemoryFiles([("weights/weight.bin".to_string(), weights.into())].into());
    (std::fs::read(data.join("model.mlmodel")).unwrap(), files)
}

fn small_packages() -> Vec<(Vec<u8>, MemoryFiles)> {
    let packages = models().into_iter().map(|dir| package(&dir));
    packages.filter(|(spec, files)| spec.len() < 21_000 && files.0.values().all(|w| w.len() < 500_000)).collect()
}

/// Reads, checks and prints a model, none of which may panic. Returns true if the model is read.
fn try_model(spec: &[u8], files: &MemoryFiles) -> bool {
    let Ok((net, _)) = read_mlmodel(spec, files, &Options::default()) else { return false };
    let _ = check(&net);
    let _ = print(&net);
    true
}

#[test]
fn truncated_and_flipped_models_do_not_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (spec, files) in small_packages() {
        for _ in 0..60 {
            let end = random.next(spec.len());
            try_model(&spec[..end], &files);
        }
        let mut read = 0;
        for _ in 0..250 {
            let mut flipped = spec.clone();
            for _ in 0..1 + random.next(3) {
                let at = random.next(flipped.len());
                flipped[at] ^= 1 << random.next(8);
            }
            read += usize::from(try_model(&flipped, &files));
        }
        println!("{read} of 250 flipped models still read");
    }
}

#[test]
fn damaged_weights_are_found_or_harmless() {
    let mut random = Random(7);
    for (spec, files) in small_packages() {
        let weights = &files.0["weights/weight.bin"];
        for _ in 0..20 {
            let mut flipped = weights.to_vec();
            let end = random.next(flipped.len());
            flipped.truncate(end);
            let error = read_mlmodel(
                &spec,
                &MemoryFiles([("weights/weight.bin".to_string(), flipped.into())].into()),
                &Options::default(),
            );
            let named = |e: &Error| matches!(e, Error::OutOfBounds { .. } | Error::Unsupported { .. });
            assert!(error.as_ref().is_err_and(named), "{error:?}");
        }
        for _ in 0..60 {
            let mut flipped = weights.to_vec();
            // Records stand at the start and between the data, so low positions meet one more often.
            let at = if random.next(2) == 0 { random.next(flipped.len()) } else { 64 + random.next(64) };
            flipped[at] ^= 1 << random.next(8);
            try_model(&spec, &MemoryFiles([("weights/weight.bin".to_string(), flipped.into())].into()));
        }
        let none = read_mlmodel(&spec, &MemoryFiles::default(), &Options::default());
        assert!(matches!(none, Err(Error::File { .. } | Error::Unsupported { .. })));
    }
}

#[test]
fn packages_need_their_manifest() {
    let package = |manifest: &str| {
        let files = [("Manifest.json".to_string(), manifest.as_bytes().to_vec().into())];
        read_package(&MemoryFiles(files.into()), &Options::default()).unwrap_err()
    };
    assert!(matches!(read_package(&MemoryFiles::default(), &Options::default()), Err(Error::File { .. })));
    assert!(matches!(package("{"), Error::Syntax { .. }));
    assert!(matches!(package("[]"), Error::Missing { .. }));
    let manifest = r#"{"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "x/model.mlmodel"}}}"#;
    assert!(matches!(package(manifest), Error::File { path, .. } if path == "Data/x/model.mlmodel"));
    // A neural network: field 500, empty.
    let error = read_mlmodel(&[8, 4, 0xa2, 0x1f, 0], &MemoryFiles::default(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::ModelKind { .. }) && error.to_string().contains("a neural network, not"), "{error}");
}

#[test]
fn damaged_netplists_do_not_panic() {
    let mut random = Random(99);
    for path in netplists() {
        let bytes = std::fs::read(&path).unwrap();
        let files = Disk(path.parent().unwrap().to_path_buf());
        let value = plist::Value::from_reader_xml(&bytes[..]).unwrap();
        let mut binary = Vec::new();
        value.to_writer_binary(&mut binary).unwrap();
        // The binary form reads as the XML form does.
        let (xml, bin) =
            (read_netplist(&bytes, &files, &Options::default()), read_netplist(&binary, &files, &Options::default()));
        assert_eq!(xml.map(|r| r.0), bin.map(|r| r.0), "{}", path.display());
        for original in [bytes, binary] {
            for _ in 0..100 {
                let mut damaged = original.clone();
                let at = random.next(damaged.len());
                match random.next(3) {
                    0 => damaged.truncate(at),
                    1 => damaged[at] ^= 1 << random.next(8),
                    _ => damaged[at] = b"0123456789<>/"[random.next(13)],
                }
                if let Ok((net, _)) = read_netplist(&damaged, &files, &Options::default()) {
                    let _ = check(&net);
                    let _ = print(&net);
                }
            }
        }
    }
}

#[test]
fn property_lists_are_bounded() {
    let deep = format!("<?xml version=\"1.0\"?><plist>{}", "<array>".repeat(100_000));
    let error = read_netplist(deep.as_bytes(), &MemoryFiles::default(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::TooDeep { found: 65, limit: 64, .. }), "{error}");
    // Each array names the next one fifteen times over: 15^12 objects in a few bytes.
    let mut bytes = b"bplist00".to_vec();
    let mut offsets = Vec::new();
    for i in 0u8..12 {
        offsets.push(bytes.len() as u8);
        bytes.push(0xae);
        bytes.extend([i + 1; 14]);
    }
    offsets.push(bytes.len() as u8);
    bytes.push(0x09);
    let table = bytes.len() as u64;
    bytes.extend(&offsets);
    bytes.extend([0, 0, 0, 0, 0, 0, 1, 1]);
    for word in [offsets.len() as u64, 0, table] {
        bytes.extend(word.to_be_bytes());
    }
    let error = read_netplist(&bytes, &MemoryFiles::default(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    // The last array names the first: a cycle.
    let last = offsets[11] as usize + 1;
    bytes[last] = 0;
    let error = read_netplist(&bytes, &MemoryFiles::default(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::TooDeep { .. }), "{error}");
}
