//! Compressed network files: blocks of LZFSE behind the letters `pbze`.
//!
//! All numbers are big-endian. The magic number is followed by the size of a full block as 64 bits; then, for each block, by its size
//! and its stored size as 64 bits each and the stored bytes, which are the block itself if both sizes are equal.

use crate::error::Error;
use lzfse_rust::LzfseRingDecoder;
use std::io::Read;

const MAGIC: &[u8] = b"pbze";

/// Largest decompressed file in bytes: descriptions of networks are text without weights.
const LIMIT: usize = 1 << 26;

/// Returns true if the bytes begin with the magic number of a compressed file.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Decompresses a netplist; `None` if the file is not compressed.
///
/// Errors: blocks that are truncated or do not decompress to their size, more than 64 MiB, and content that is not a property
/// list ([`Error::Unsupported`]).
pub fn unpack(bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Ok(None) };
    let syntax = |reason: &str| Error::Syntax { place: "compressed netplist".to_string(), reason: reason.to_string() };
    let mut rest = rest.get(8..).ok_or_else(|| syntax("the size of a block is truncated"))?;
    let mut whole = Vec::new();
    while !rest.is_empty() {
        let (Some(size), Some(stored)) = (number(rest, 0), number(rest, 8)) else {
            return Err(syntax("the sizes of a block are truncated"));
        };
        let data = stored.checked_add(16).and_then(|end| rest.get(16..end));
        let data = data.ok_or_else(|| syntax("a block is truncated"))?;
        rest = &rest[16 + data.len()..];
        let capacity = LIMIT - whole.len();
        if size > capacity {
            return Err(syntax("more than 64 MiB of text"));
        }
        let before = whole.len();
        if size == stored {
            whole.extend_from_slice(data);
        } else {
            // Reading one byte more than announced suffices to detect a wrong size.
            let mut decoder = LzfseRingDecoder::default();
            let mut reader = decoder.reader_bytes(data).take(size as u64 + 1);
            reader.read_to_end(&mut whole).map_err(|e| syntax(&format!("a block does not decompress: {e}")))?;
        }
        if whole.len() - before != size {
            return Err(syntax("a block decompresses to another size than its header states"));
        }
    }
    match super::sniff(&whole) {
        Some(super::Format::Netplist) if !is_packed(&whole) => Ok(Some(whole)),
        _ => {
            let reason = match whole.iter().find(|b| !b.is_ascii_whitespace()) {
                Some(b'{') => {
                    "it holds JSON, the network format of an older runtime; read the model that it was made from"
                }
                _ => "its content is not a property list",
            };
            let (op, output) = ("compressed netplist".to_string(), "content".to_string());
            Err(Error::Unsupported { op, output, reason: reason.to_string() })
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at + 8)?.try_into().ok()?;
    usize::try_from(u64::from_be_bytes(word)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{MemoryFiles, Options, read};

    const PLIST: &[u8] =
        b"<?xml version=\"1.0\"?><plist version=\"1.0\"><dict><key>Networks</key><array/></dict></plist>";

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
}
