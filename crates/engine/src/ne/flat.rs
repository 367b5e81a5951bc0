//! Convolutions over planes of one column (sequences, with time along the rows), executed on planes of one long row. Rows of single elements
//! that are not contiguous are gathered first, and results are scattered. The order of sums is the same.

use anemone_kernels::copy::{self, CopyAxis, NanRule};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, TensorView, TensorViewMut, dense};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Workers, scratch_slice};

/// Fewest rows for which a plane is executed as one row.
const LEAST_ROWS: usize = 8;

/// Returns true if the window slides along rows of one element, at least [`LEAST_ROWS`] of them.
pub(super) fn is_sequence(window: &Window) -> bool {
    let one_column = [window.from[1], window.to[1], window.k[1]] == [1; 3] && window.p[1] == 0;
    one_column && window.to[0] >= LEAST_ROWS
}

/// The window with rows and columns exchanged.
pub(super) fn along_columns(window: &Window) -> Window {
    let exchanged = |[row, column]: [usize; 2]| [column, row];
    let Window { k, s, p, from, to } = *window;
    Window { k: exchanged(k), s: [1, s[0]], p: exchanged(p), from: exchanged(from), to: exchanged(to) }
}

/// Extents of a plane of one column, reshaped to one row.
pub(super) fn one_row(ext: Extents) -> Extents {
    Extents { h: 1, w: ext.h, ..ext }
}

/// Executes `convolve`, planned for planes of one row; the extents are those of planes of one column.
pub(super) fn convolve_sequence(
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

#[cfg(test)]
mod tests {
    use super::super::select::Planned;
    use super::*;
    use anemone_kernels::conv::{Coefficients, Im2col, Kernels, convolve};
    use anemone_kernels::epilogue::{Activation, Epilogue};
    use anemone_kernels::filter::Values;
    use half::f16;

    /// Contiguous and strided rows of sources and results, with channels outside and inside of rows.
    #[test]
    fn sequences_have_the_bits_of_rows_of_one_element() {
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        let finish = Epilogue { bias: 0.25, scale: 0.5, activation: &Activation::Relu };
        let workers = Workers::new();
        for (cin, cout, k, s, p, unicast) in
            [(5, 21, 1, 1, 0, false), (3, 8, 5, 1, 2, false), (4, 6, 3, 2, 1, false), (9, 9, 7, 1, 3, true)]
        {
            let steps = 40;
            let results = (steps + 2 * p - k) / s + 1;
            let window = Window { k: [k, 1], s: [s, 1], p: [p, 0], from: [steps, 1], to: [results, 1] };
            assert!(is_sequence(&window));
            let [input, output] = [(cin, steps), (cout, results)].map(|(c, h)| Extents { g: 1, c, h, w: 1 });
            let per_output = if unicast { 1 } else { cin };
            let rows = Im2col::new(window.clone(), per_output, unicast, output, 1).expect("it is small");
            let row = along_columns(&window);
            let columns = Im2col::new(row, per_output, unicast, one_row(output), 1).expect("it is small");
            let pack = |staging: &Im2col| {
                let weights = Values::Halves((0..cout * per_output * k).map(draw).collect());
                Kernels::pack(staging, false, cout, vec![Coefficients { weights, biases: None }])
            };
            for apart in [1, 8] {
                for inside in [false, true] {
                    let of = |c: usize, h: usize| if inside { [0, apart, c * apart] } else { [0, h * apart, apart] };
                    let x: Vec<f16> = (0..cin * steps * apart).map(|i| draw(i + 3)).collect();
                    let source = TensorView { data: &x, strides: of(cin, steps) };
                    let strides = of(cout, results);
                    let mut wanted = vec![f16::ONE; cout * results * apart];
                    let mut found = wanted.clone();
                    let target = TensorViewMut { data: &mut wanted, strides, transposed: false };
                    convolve(&workers, &rows, &pack(&rows), &finish, source, target, output);
                    let target = TensorViewMut { data: &mut found, strides, transposed: false };
                    let kernels = pack(&columns);
                    let of = Planned { staging: &columns, kernels: &kernels, row: None };
                    let run = |from: TensorView, to: TensorViewMut, ext| of.convolve(&workers, &finish, from, to, ext);
                    convolve_sequence(&workers, run, source, target, [input, output]);
                    let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert!(bits(&found) == bits(&wanted), "{cin} to {cout}, {k} taps, {apart} apart");
                }
            }
        }
    }
}
