//! Output tiles: disjoint parts of a result, each written by one thread, and their subdivision.

use super::*;

/// Output tile: some rows of some channels of a result, or some columns of a result with single rows, written by one thread.
pub struct OutputTile<'a> {
    pub group: usize,
    pub first_channel: usize,
    pub first_row: usize,
    pub rows: usize,
    /// Columns as stored.
    pub columns: Range<usize>,
    pub(super) channels: usize,
    /// One slice per channel, from its first row on; or one per row, from its first channel on.
    pub(super) lines: Vec<&'a mut [f16]>,
    pub(super) rows_outside: bool,
    /// Stride between the rows of a channel, or between the channels of a row.
    pub(super) stride: usize,
}

impl OutputTile<'_> {
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// A row of the tile; both indices are relative to the tile.
    pub fn row(&mut self, channel: usize, row: usize, columns: usize) -> &mut [f16] {
        let (line, at) = if self.rows_outside { (row, channel) } else { (channel, row) };
        &mut self.lines[line][at * self.stride..][..columns]
    }

    /// All rows of a channel of the tile as one slice; `None` if there are gaps between rows.
    pub fn plane(&mut self, channel: usize, columns: usize) -> Option<&mut [f16]> {
        let whole = !self.rows_outside && (self.rows == 1 || self.stride == columns);
        whole.then(|| &mut self.lines[channel][..self.rows * columns])
    }

    /// Channels of one row from a channel, row and column of the tile on, and their stride; `None` if rows are not lines.
    pub fn lines(&mut self, [channel, row, column]: [usize; 3]) -> Option<(&mut [f16], usize)> {
        let line = self.lines.get_mut(row).filter(|_| self.rows_outside)?;
        Some((&mut line[channel * self.stride + column..], self.stride))
    }

    /// Visits the tile in blocks of at most `most` elements, but at least one row of `columns`.
    #[inline(always)]
    pub fn blocks(&mut self, columns: usize, most: usize, mut work: impl FnMut(Block, &mut [f16])) {
        let (lines, beside) = if self.rows_outside { (self.rows, self.channels) } else { (self.channels, self.rows) };
        let at_once = (most / columns.max(1)).clamp(1, beside.max(1));
        for line in 0..lines {
            for first in (0..beside).step_by(at_once) {
                let [c, h] = if self.rows_outside { [first, line] } else { [line, first] };
                let first_row = [self.group, self.first_channel + c, self.first_row + h];
                let count = at_once.min(beside - first);
                let block = Block { first_row, count, columns, channels: self.rows_outside, to_stride: self.stride };
                work(block, &mut self.lines[line][first * self.stride..]);
            }
        }
    }

    /// Stores rows of one channel through `by`, at a channel, row and column of the tile. `rows` is their layout in `from`, which may be
    /// overwritten.
    #[inline(always)]
    pub fn store_channel(
        &mut self,
        [channel, row, column]: [usize; 3],
        from: &mut [f32],
        rows: Rows,
        by: impl Fn(&mut [f32], &mut [f16], Rows),
    ) {
        let to_stride = self.stride;
        if !self.rows_outside {
            let to = &mut self.lines[channel][row * to_stride + column..];
            return by(from, to, Rows { to_stride, ..rows });
        }
        for (line, from) in self.lines[row..].iter_mut().zip(from.chunks_mut(rows.from_stride)).take(rows.count) {
            by(from, &mut line[channel * to_stride + column..], Rows { count: 1, ..rows });
        }
    }

    /// Stores rows of several channels through `by`, at a channel, row and column of the tile. Channels are `stride` apart in `from`, and `rows`
    /// is the layout of their rows there.
    #[inline(always)]
    pub fn store<T>(
        &mut self,
        place: [usize; 3],
        channels: usize,
        from: &[T],
        stride: usize,
        rows: Rows,
        by: impl Fn(&[T], &mut [f16], Rows),
    ) {
        self.store_lines(
            place,
            channels,
            from,
            stride,
            rows,
            #[inline(always)]
            |_, from, to, rows| by(from, to, rows),
        );
    }

    /// Another tensor at this position of the tile, with its strides in the order of the tile: along a line, then between lines.
    #[inline(always)]
    pub fn beside<'a>(&self, [channel, row, column]: [usize; 3], other: TensorView<'a>) -> (&'a [f16], usize, usize) {
        let from = &other.from(self.group, self.first_channel + channel, self.first_row + row)[column..];
        let [_, channel, row] = other.strides;
        if self.rows_outside { (from, channel, row) } else { (from, row, channel) }
    }

    /// [`OutputTile::store`], where `by` gets the index of each line too, relative to the first one that is stored.
    #[inline(always)]
    pub fn store_lines<T>(
        &mut self,
        [first_channel, first_row, first_column]: [usize; 3],
        channels: usize,
        from: &[T],
        stride: usize,
        rows: Rows,
        by: impl Fn(usize, &[T], &mut [f16], Rows),
    ) {
        // `beside`: pieces side by side in a line.
        let (lines, first_line, next, first, beside, from_stride) = match self.rows_outside {
            true => (rows.count, first_row, rows.from_stride, first_channel, channels, stride),
            false => (channels, first_channel, stride, first_row, rows.count, rows.from_stride),
        };
        let to_stride = self.stride;
        for (i, line) in self.lines[first_line..][..lines].iter_mut().enumerate() {
            let to = &mut line[first * to_stride + first_column..];
            by(i, &from[i * next..], to, Rows { count: beside, columns: rows.columns, from_stride, to_stride });
        }
    }
}

/// Block of rows that are processed together: rows of one channel, or the same row of several channels.
#[derive(Clone, Copy)]
pub struct Block {
    /// Group, channel and row of the first one.
    pub first_row: [usize; 3],
    pub count: usize,
    pub columns: usize,
    /// True if the rows belong to several channels.
    pub(super) channels: bool,
    /// Stride of the rows in the result.
    pub(super) to_stride: usize,
}

impl Block {
    /// Block of rows of one channel whose result is not stored.
    pub fn of(first_row: [usize; 3], count: usize, columns: usize) -> Block {
        Block { first_row, count, columns, channels: false, to_stride: 0 }
    }

    pub fn elements(&self) -> usize {
        self.count * self.columns
    }

    pub fn is_of_one_channel(&self) -> bool {
        !self.channels || self.count == 1
    }

    /// Group, channel and row of row `i` of the block.
    pub fn row(&self, i: usize) -> [usize; 3] {
        let [g, c, h] = self.first_row;
        if self.channels { [g, c + i, h] } else { [g, c, h + i] }
    }

    /// A source from the block's first row on, and the stride of its rows there.
    #[inline(always)]
    pub fn of_source<'a>(&self, source: TensorView<'a>) -> (&'a [f16], usize) {
        let [g, c, h] = self.first_row;
        (source.from(g, c, h), source.strides[if self.channels { 1 } else { 2 }])
    }

    /// Layout of the block from a contiguous buffer to the result.
    pub fn stored(&self) -> Rows {
        let &Block { count, columns, to_stride, .. } = self;
        Rows { count, columns, from_stride: columns, to_stride }
    }

    /// Stores the block from a contiguous buffer.
    #[inline(always)]
    pub fn store(&self, from: &[f16], to: &mut [f16]) {
        copy_rows(from, to, self.stored());
    }
}

/// Part of a tile: rows and columns of the outputs of one group, in the coordinates of the result before a transposition.
pub struct Part {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Part {
    /// Splits a tile into parts of at most `most` outputs. `columns` are the stored ones; in a transposed result the channels of the tile are
    /// the columns of the outputs.
    pub fn all(
        share: &OutputTile,
        columns: usize,
        transposed: bool,
        most: usize,
    ) -> impl Iterator<Item = Part> + use<> {
        let (first, across) = if transposed { (share.first_channel, share.channels) } else { (0, columns) };
        let (first_row, rows) = (share.first_row, share.rows);
        let at_once = (most / across.max(1)).clamp(1, rows.max(1));
        (0..rows).step_by(at_once).flat_map(move |row| {
            (0..across).step_by(most).map(move |column| Part {
                rows: first_row + row..first_row + rows.min(row + at_once),
                columns: first + column..first + across.min(column + most),
            })
        })
    }

    pub fn outputs(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Stores `count` channels of this part, `[channel][output]` with channels `stride` apart. `first` is the first channel, relative to the
    /// tile, or to the whole result if it is transposed.
    #[inline(always)]
    pub fn store(
        &self,
        data: &[f16],
        stride: usize,
        share: &mut OutputTile,
        transposed: bool,
        first: usize,
        count: usize,
    ) {
        if transposed {
            let from = Transposed { data, stride, columns: self.columns.len(), first: first - share.columns.start };
            let (row, column) = (self.rows.start - share.first_row, self.columns.start - share.first_channel);
            return from.store(share, row, self.rows.len(), column, count);
        }
        share.store(self.place(share, first), count, data, stride, self.gapless(), copy_rows);
    }

    /// Channel, row and column, relative to the tile, of a channel's first output.
    pub fn place(&self, share: &OutputTile, channel: usize) -> [usize; 3] {
        [channel, self.rows.start - share.first_row, self.columns.start]
    }

    /// Layout of the part's rows in a contiguous buffer.
    pub fn gapless(&self) -> Rows {
        let columns = self.columns.len();
        Rows { count: self.rows.len(), columns, from_stride: columns, to_stride: columns }
    }
}
