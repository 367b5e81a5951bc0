use anemone_net::read::{MemoryFiles, Options, read};
use anemone_net::testing::unpack;

const MAGIC: &[u8] = b"pbze";

const PLIST: &[u8] = b"<?xml version=\"1.0\"?><plist version=\"1.0\"><dict><key>Networks</key><array/></dict></plist>";

fn packed(text: &[u8], compress: bool) -> Vec<u8> {
    let mut stored = Vec::new();
    if compress {
        lzfse_rust::encode_bytes(text, &mut stored).unwrap();
    } else {
        stored.extend(text);
    }
    let sizes = [text.len() as u64, stored.len() as u64].map(u64::to_be_bytes).concat();
    [MAGIC, &(1u64 << 16).to_be_bytes(), &sizes, &stored].concat()
}

#[test]
fn packed_text_comes_out() {
    let long = PLIST.repeat(40);
    assert_eq!(unpack(PLIST).unwrap(), None);
    assert_eq!(unpack(&packed(PLIST, false)).unwrap().unwrap(), PLIST);
    let small = packed(&long, true);
    assert!(small.len() < long.len() / 4, "{}", small.len());
    assert_eq!(unpack(&small).unwrap().unwrap(), long);
    // Two blocks follow each other.
    let both = [packed(PLIST, false), packed(&long, true)[12..].to_vec()].concat();
    assert_eq!(unpack(&both).unwrap().unwrap(), [PLIST, &long].concat());
}

#[test]
fn damage_and_other_content_is_named() {
    let json = unpack(&packed(b"{\"layers\": []}", false)).unwrap_err().to_string();
    assert!(json.contains("JSON"), "{json}");
    let whole = packed(&PLIST.repeat(40), true);
    for end in 4..whole.len() - 1 {
        assert!(unpack(&whole[..end]).is_err(), "{end}");
    }
    let mut more = whole.clone();
    more[19] ^= 1;
    assert!(unpack(&more).unwrap_err().to_string().contains("another size"));
    let mut huge = whole.clone();
    huge[12] = 0x7f;
    assert!(unpack(&huge).unwrap_err().to_string().contains("64 MiB"));
    for at in 28..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        let _ = read(&flipped, &MemoryFiles::default(), &Options::default());
    }
}
