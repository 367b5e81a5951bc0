//! Output tiles: the parts of a result that threads write, and parts of those.

use super::*;

/// An output tile: some rows of some channels of a result, or some columns of a result of single rows, written by one thread.
pub struct OutputTile<'a> {
    pub group: usize,
    pub first_channel: usize,
    pub first_row: usize,
    pub rows: usize,
    /// Columns as stored.
    pub columns: Range<usize>,
    pub(super) channels: usize,
    /// By channel, from its first row on; or by row, from its first channel on.
    pub(super) lines: Vec<&'a mut [f16]>,
    pub(super) rows_outside: bool,
    /// Between rows of a channel, or between channels of a row.
    pub(super) stride: usize,
}

impl OutputTile<'_> {
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// A row of the share, both counted from its first.
    pub fn row(&mut self, channel: usize, row: usize, columns: usize) -> &mut [f16] {
        let (line, at) = if self.rows_outside { (row, channel) } else { (channel, row) };
        &mut self.lines[line][at * self.stride..][..columns]
    }

    /// All rows of a channel of the share, where one begins where another ends.
    pub fn plane(&mut self, channel: usize, columns: usize) -> Option<&mut [f16]> {
        let whole = !self.rows_outside && (self.rows == 1 || self.stride == columns);
        whole.then(|| &mut self.lines[channel][..self.rows * columns])
    }

    /// Visits the tile in blocks of at most `most` elements, or one row of `columns`.
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

    /// Stores a channel's rows by `by`, from a channel, row and column of the tile on; `rows` is their layout in `from`, which may be
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

    /// Stores some channels' rows by `by`, from a channel, row and column of the share on; channels are `stride` apart in
    /// `from`, and `rows` says how rows lie there.
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

    /// `other` at this position, with its inner and outer stride.
    #[inline(always)]
    pub fn beside<'a>(&self, [channel, row, column]: [usize; 3], other: TensorView<'a>) -> (&'a [f16], usize, usize) {
        let from = &other.from(self.group, self.first_channel + channel, self.first_row + row)[column..];
        let [_, channel, row] = other.strides;
        if self.rows_outside { (from, channel, row) } else { (from, row, channel) }
    }

    /// As [`OutputTile::store`]; `by` gets the number of each line as well, counted from the first that is stored to.
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
        // Elements side by side in a line.
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

/// Rows that are worked on together: of one channel, or the same row of several channels.
#[derive(Clone, Copy)]
pub struct Block {
    /// Group, channel and row.
    pub first_row: [usize; 3],
    pub count: usize,
    pub columns: usize,
    /// True for rows of several channels.
    pub(super) channels: bool,
    /// Between them in the result.
    pub(super) to_stride: usize,
}

impl Block {
    /// Rows of one channel that are not stored.
    pub fn of(first_row: [usize; 3], count: usize, columns: usize) -> Block {
        Block { first_row, count, columns, channels: false, to_stride: 0 }
    }

    pub fn elements(&self) -> usize {
        self.count * self.columns
    }

    pub fn is_of_one_channel(&self) -> bool {
        !self.channels || self.count == 1
    }

    /// Group, channel and row of one of its rows.
    pub fn row(&self, i: usize) -> [usize; 3] {
        let [g, c, h] = self.first_row;
        if self.channels { [g, c + i, h] } else { [g, c, h + i] }
    }

    /// A source from its first row on, and how far apart its rows are there.
    #[inline(always)]
    pub fn of_source<'a>(&self, source: TensorView<'a>) -> (&'a [f16], usize) {
        let [g, c, h] = self.first_row;
        (source.from(g, c, h), source.strides[if self.channels { 1 } else { 2 }])
    }

    /// Destination of its elements, which have no gaps.
    pub fn stored(&self) -> Rows {
        let &Block { count, columns, to_stride, .. } = self;
        Rows { count, columns, from_stride: columns, to_stride }
    }

    /// Stores its elements, without gaps.
    #[inline(always)]
    pub fn store(&self, from: &[f16], to: &mut [f16]) {
        copy_rows(from, to, self.stored());
    }
}

/// Rows and columns of outputs of one group, before a result is turned.
pub struct Part {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Part {
    /// A share in parts of about so many outputs. `columns` are those stored; in a share of a turned result its channels
    /// are the outputs' columns.
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

    /// Stores `count` channels of this part's results: by channel, `stride` apart, then by output. `first` counts in the
    /// share, or in the whole result where it is turned.
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

    /// Position of a channel's first result in a share, counted from the share's first channel, row and column.
    pub fn place(&self, share: &OutputTile, channel: usize) -> [usize; 3] {
        [channel, self.rows.start - share.first_row, self.columns.start]
    }

    /// Its rows, one behind the other.
    pub fn gapless(&self) -> Rows {
        let columns = self.columns.len();
        Rows { count: self.rows.len(), columns, from_stride: columns, to_stride: columns }
    }
}
