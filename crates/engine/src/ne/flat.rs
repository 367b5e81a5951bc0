//! Convolutions over planes of one column (sequences, with time along the rows), executed on planes of one long row. Rows of single elements
//! that are not contiguous are gathered first, and results are scattered. The order of sums is the same.

use anemone_kernels::copy::{self, CopyAxis, NanRule};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, TensorView, TensorViewMut, dense};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Workers, scratch_slice};

/// Fewest rows for which a plane is executed as one row.
const LEAST_ROWS: usize = 8;

/// Returns true if the window slides along rows of one element, at least `LEAST_ROWS` of them.
pub fn is_sequence(window: &Window) -> bool {
    let one_column = [window.from[1], window.to[1], window.k[1]] == [1; 3] && window.p[1] == 0;
    one_column && window.to[0] >= LEAST_ROWS
}

/// The window with rows and columns exchanged.
pub fn along_columns(window: &Window) -> Window {
    let exchanged = |[row, column]: [usize; 2]| [column, row];
    let Window { k, s, p, from, to } = *window;
    Window { k: exchanged(k), s: [1, s[0]], p: exchanged(p), from: exchanged(from), to: exchanged(to) }
}

/// Extents of a plane of one column, reshaped to one row.
pub fn one_row(ext: Extents) -> Extents {
    Extents { h: 1, w: ext.h, ..ext }
}

/// Executes `convolve`, planned for planes of one row; the extents are those of planes of one column.
pub fn convolve_sequence(
    workers: &Workers,
    convolve: impl FnOnce(TensorView, TensorViewMut, Extents),
    source: TensorView,
    target: TensorViewMut,
    [input, output]: [Extents; 2],
) {
    let target = target.in_columns(output);
    let [gathers, scatters] = [source.strides[2] != 1, target.strides[2] != 1];
    let elements = |needed: bool, ext: Extents| if needed { ext.g * ext.c * ext.h } else { 0 };
    let counts = [elements(gathers, input), elements(scatters, output)];
    let mut blocks = workers.blocks();
    let (gathered, results) = scratch_slice(&mut blocks, counts[0] + counts[1]).split_at_mut(counts[0]);
    let source = if gathers {
        let axes = axes(input, dense(input), source.strides);
        copy::strided(workers, NanRule::Quiet, source.data, gathered, &axes);
        TensorView { data: gathered, strides: dense(one_row(input)) }
    } else {
        source
    };
    let ext = one_row(output);
    if !scatters {
        return convolve(source, target, ext);
    }
    let row = TensorViewMut { data: &mut *results, strides: dense(ext), transposed: false };
    convolve(source, row, ext);
    copy::strided(workers, NanRule::Quiet, results, target.data, &axes(output, target.strides, dense(output)));
}

/// Copy axes between two layouts of planes of one column.
fn axes(ext: Extents, to: Strides, from: Strides) -> Vec<CopyAxis> {
    let counts = [ext.g, ext.c, ext.h].into_iter().zip(to.into_iter().zip(from));
    let all: Vec<CopyAxis> = counts.map(|(count, (to, from))| CopyAxis { count, to, from }).collect();
    copy::normalized(&all)
}
