//! Tiles: the part of an operand that is in tile memory at a time, and row strides without bank conflicts.

mod banks;
mod zin9509;

pub use banks::spread;
pub(crate) use banks::spread_all;
pub(crate) use zin9509::{
    apart, apart_in_unit, computed, continues_product, cut_columns, fitting_rows, halved_tile, input, kept_bytes,
    kept_tile, result_tile, row_bytes, rows_of_units, rows_of_windows, rows_that_fill, rows_turned, shared_rows,
    small_source, source_tile, staging, turned_rows, turns_few_channels, turns_matrices, unit_banks, unit_rows,
};

use crate::ir::*;
use anemone_facts::staging::{BANKS, TILE_BYTES, UNIT_BYTES};
use std::collections::HashSet;

/// A tile of one operand in tile memory.
pub(crate) struct Tile {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) channel_bytes: u64,
    /// All channels of one row, without padding between rows.
    pub(crate) row_bytes: u64,
}

impl Tile {
    pub(crate) fn of(channels: usize, height: usize, width: usize, columns: usize, rows: usize) -> Tile {
        Tile::within(TILE_BYTES, [channels, height, width], columns, rows)
    }

    /// A tile of at most `columns` by `rows`, halved until it takes no more than `most` bytes.
    pub(crate) fn within(most: u64, [channels, height, width]: [usize; 3], columns: usize, rows: usize) -> Tile {
        let (mut columns, mut rows) = (width.min(columns), height.min(rows));
        let channel = |columns: usize| (columns as u64 * ELEMENT_BYTES).next_multiple_of(UNIT_BYTES);
        let row = |columns: usize| channel(columns) * channels as u64;
        while rows > 1 && row(columns) * rows as u64 > most {
            rows = rows.div_ceil(2);
        }
        while columns > 8 && row(columns) > most {
            columns = columns.div_ceil(2);
        }
        Tile { columns, rows, channel_bytes: channel(columns), row_bytes: row(columns) }
    }

    /// Row stride that puts rows into different banks.
    pub(crate) fn spread(&self, by: u64) -> u64 {
        self.row_bytes + if self.row_bytes.is_multiple_of(BANKS * UNIT_BYTES) { by } else { 0 }
    }
}

/// Tile memory that a layer stages; only a source that is staged whole can be kept.
#[derive(Clone, Copy, Debug)]
pub struct Staging {
    /// All operands, when all are streamed.
    pub bytes: u64,
    /// Bytes of each source and of the result.
    pub each: ([u64; 2], u64),
    /// Bytes of the first source in a tile of half the columns, for a result that stays.
    pub halved: Option<u64>,
    /// The first source and its strides, where it is staged whole.
    pub source: Option<(u64, [u64; 4])>,
}

impl Staging {
    /// Bytes of the operands that are not resident.
    pub(crate) fn beside(&self, layer: &Layer, stays: &HashSet<usize>) -> u64 {
        let moves = |view: &View4| !stays.contains(&(view.buffer.0 as usize));
        let (mut sources, result) = self.each;
        if let Some(halved) = self.halved.filter(|_| !moves(&layer.result)) {
            sources[0] = sources[0].min(halved);
        }
        let sources = layer.sources.iter().zip(sources).filter(|(view, _)| moves(view)).map(|(_, bytes)| bytes);
        sources.sum::<u64>() + if moves(&layer.result) { result } else { 0 }
    }
}

/// Returns true for a plain copy by the neural engine, without interleaving: no addend, factor or function.
pub(crate) fn copies(layer: &Layer) -> bool {
    layer.kind.is_copy() && layer.interleave == 1
}
