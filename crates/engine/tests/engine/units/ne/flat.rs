use anemone_conv::{Coefficients, Im2col, Kernels, convolve};
use anemone_engine::testing::{Planned, along_columns, convolve_sequence, is_sequence, one_row};
use anemone_kernels::epilogue::{Activation, Epilogue};
use anemone_kernels::filter::Values;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut};
use anemone_kernels::window::Window;
use anemone_kernels::workers::Workers;
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
                let of = Planned { staging: &columns, kernels: &kernels, row: None, factors: None };
                let run = |from: TensorView, to: TensorViewMut, ext| of.convolve(&workers, &finish, from, to, ext);
                convolve_sequence(&workers, run, source, target, [input, output]);
                let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert!(bits(&found) == bits(&wanted), "{cin} to {cout}, {k} taps, {apart} apart");
            }
        }
    }
}
