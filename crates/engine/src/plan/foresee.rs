//! Static check of a program's memory accesses, from its fields and the written state before a run. A program that passes needs no checks of
//! single accesses in its first run.

use super::access::Accesses;
use crate::memory::{Home, Memory, Snapshot, words_of};
use crate::operand::MemRef;

/// Written state before and after a run; `None` unless every access is known to be within its region and to read written memory.
/// A run that checks every row then reports the fault, if there is one.
pub(super) fn foresee(
    accesses: &[Option<Accesses>],
    memory: &Memory,
    tile_bytes: usize,
) -> Option<(Snapshot, Snapshot)> {
    let before = memory.snapshot();
    let mut after = before.clone();
    let mut tile = (tile_bytes, Some(vec![0; tile_bytes.div_ceil(128)]));
    for of in accesses {
        let Accesses { reads, writes } = of.as_ref()?;
        for read in reads.iter().filter(|read| !read.is_empty()) {
            let (bytes, bits) = region(&mut after, &mut tile, read.home)?;
            let written = match bits {
                None => true,
                Some(bits) => read.rows().all(|row| {
                    let (first, last) = halfwords(row, read.row_bytes);
                    words_of(first, last).all(|(word, mask)| bits.get(word).is_some_and(|w| w & mask == mask))
                }),
            };
            if !written || !fits(read, *bytes) {
                return None;
            }
        }
        for write in writes.iter().filter(|write| !write.is_empty()) {
            let (bytes, bits) = region(&mut after, &mut tile, write.home)?;
            if !write.exact || !fits(write, *bytes) {
                return None;
            }
            for row in write.rows() {
                let (first, last) = halfwords(row, write.row_bytes);
                let Some(bits) = bits else { break };
                words_of(first, last).for_each(|(word, mask)| {
                    if let Some(bits) = bits.get_mut(word) {
                        *bits |= mask;
                    }
                });
            }
        }
    }
    Some((before, after))
}

type State = (usize, Option<Vec<u64>>);

fn region<'a>(of: &'a mut Snapshot, tile: &'a mut State, home: Home) -> Option<&'a mut State> {
    match home {
        Home::Bar(bar) => of.region(bar),
        Home::Tile => Some(tile),
    }
}

fn fits(of: &MemRef, bytes: usize) -> bool {
    of.end() <= bytes as u64
}

fn halfwords(address: u64, bytes: u64) -> (usize, usize) {
    (address as usize / 2, (address + bytes).div_ceil(2) as usize)
}
