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
