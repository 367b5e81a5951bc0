//! Little-endian numbers in bytes, and files written structure by structure.

/// Differing bytes at most this far apart are kept as one residue.
const RESIDUE_JOIN: usize = 16;

/// Bytes at a file offset that no structure explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residue {
    /// Byte offset in the file.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Bytes at an offset, if the buffer is long enough.
pub(crate) fn slice(bytes: &[u8], offset: u64, need: u64) -> Option<&[u8]> {
    let end = offset.checked_add(need)?;
    bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// Little-endian word; 0 past the end, which callers exclude by size checks.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// As [`u32_at`] for 64 bits.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u32_at(bytes, at) as u64 | (u32_at(bytes, at + 4) as u64) << 32
}

pub(crate) fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}

pub(crate) fn put64(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}

/// Writes bytes at an offset, and extends the file if they reach past its end. Empty input changes nothing.
pub(crate) fn place(out: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if end > out.len() {
        out.resize(end, 0);
    }
    out[start..end].copy_from_slice(bytes);
}

/// Ranges in which a file differs from the bytes that its structures give.
pub(crate) fn differences(file: &[u8], written: &[u8]) -> Vec<Residue> {
    let mut out = Vec::new();
    collect(
        file,
        0,
        file.len(),
        &mut out,
        |i| written.get(i).copied(),
        |from, to| written.get(from..to).is_some_and(|w| w == &file[from..to]),
    );
    out
}

/// Bytes of a range that are not zero.
pub(crate) fn nonzero(file: &[u8], from: usize, to: usize) -> Vec<Residue> {
    let mut out = Vec::new();
    collect(file, from, to, &mut out, |_| Some(0), |from, to| file[from..to].iter().all(|&b| b == 0));
    out
}

/// Adds the differences between file and expected bytes in a range. `same` compares a whole block first, since most of a
/// large file is equal.
fn collect(
    file: &[u8],
    from: usize,
    to: usize,
    out: &mut Vec<Residue>,
    expected: impl Fn(usize) -> Option<u8>,
    same: impl Fn(usize, usize) -> bool,
) {
    const BLOCK: usize = 4096;
    let mut start = from;
    while start < to {
        let end = to.min(start + BLOCK);
        for i in if same(start, end) { end..end } else { start..end } {
            if expected(i) == Some(file[i]) {
                continue;
            }
            match out.last_mut() {
                Some(last) if i < last.offset as usize + last.bytes.len() + RESIDUE_JOIN => {
                    let from = last.offset as usize + last.bytes.len();
                    last.bytes.extend_from_slice(&file[from..=i]);
                }
                _ => out.push(Residue { offset: i as u64, bytes: vec![file[i]] }),
            }
        }
        start = end;
    }
}
