//! Containers without the contents of their sections, for summaries of large files.

use crate::order;
use std::ops::Range;

use anemone_facts::formats::hwx as rows;

use super::defs::Container;
use crate::bytes::{u32_at, u64_at};

/// Contents smaller than this are fetched, since skipping them costs more.
const SKIPPED_BYTES: u64 = 1 << 16;

impl Container {
    /// The container in a file of `file_bytes`, without the contents of its sections; `fetch` fills a slice from an offset
    /// of the file. Everything else is equal to [`Container::read`], residue included. Must not be written, since contents are
    /// missing.
    ///
    /// `None` if the whole file is required: the container is damaged, or its structures overlap.
    pub fn outline<E>(
        file_bytes: u64,
        mut fetch: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Option<Container>, E> {
        let mut header = [0; rows::HEADER_BYTES];
        let Ok(size) = usize::try_from(file_bytes) else { return Ok(None) };
        if size < header.len() {
            return Ok(None);
        }
        fetch(0, &mut header)?;
        let end = header.len().saturating_add(u32_at(&header, rows::COMMAND_BYTES_OFFSET) as usize);
        if u32_at(&header, 0) != rows::MAGIC || end > size {
            return Ok(None);
        }
        // Untouched pages take no memory.
        let mut bytes = vec![0; size];
        fetch(0, &mut bytes[..end])?;
        let skipped = contents(&bytes[..end], size as u64);
        let mut at = end as u64;
        for range in &skipped {
            if range.start > at {
                fetch(at, &mut bytes[at as usize..range.start as usize])?;
            }
            at = at.max(range.end);
        }
        if at < file_bytes {
            fetch(at, &mut bytes[at as usize..])?;
        }
        Ok(Container::parse(&bytes, false, None).ok().filter(|(_, apart)| *apart).map(|(container, _)| container))
    }
}

/// Large contents of sections, in file order.
fn contents(head: &[u8], file_bytes: u64) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut rest = head.get(rows::HEADER_BYTES..).unwrap_or(&[]);
    while rest.len() >= 8 {
        let (id, size) = (u32_at(rest, 0), (u32_at(rest, 4) as usize).clamp(8, rest.len()));
        let (command, after) = rest.split_at(size);
        rest = after;
        if id != rows::SEGMENT || command.len() < rows::SEGMENT_BYTES {
            continue;
        }
        for section in command[rows::SEGMENT_BYTES..].chunks_exact(rows::SECTION_BYTES) {
            let (bytes, start) = (u64_at(section, 40), u32_at(section, 48) as u64);
            let end = start.saturating_add(bytes);
            if start >= head.len() as u64 && bytes >= SKIPPED_BYTES && end <= file_bytes {
                found.push(start..end);
            }
        }
    }
    order::by_key(&mut found, |r| r.start);
    found
}
