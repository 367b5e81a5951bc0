use crate::samples::{nothing, used};
use anemone_conv::elementwise::{Binary, Combine};
use anemone_kernels::num;
use anemone_kernels::params::BinaryOp;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, partition, reach};
use anemone_kernels::workers::arches;
use half::f16;

/// Rows of every width, on every instruction set, out of place and in place; elements outside of the rows are not changed.
#[test]
fn rows_of_two_sources_are_combined_where_they_are() {
    for (arch, columns) in arches().into_iter().flat_map(|arch| (1..=40).map(move |columns| (arch, columns))) {
        let ext = Extents { g: 2, c: 3, h: 4, w: columns };
        let (wide, line) = (columns + 3, 3 * (columns + 3));
        for strides in [[4 * line, 4 * wide, wide], [4 * line, wide, line]] {
            let reach = reach(ext, strides);
            let numbers = |by: usize| (0..reach).map(|i| f16::from_f32((i * by % 509) as f32 / 7.0 - 30.0)).collect();
            let [a, b]: [Vec<f16>; 2] = [numbers(31), numbers(97)];
            for (op, of, relu) in [
                (BinaryOp::Add, (|a, b| a + b) as fn(f32, f32) -> f32, false),
                (BinaryOp::Mul, |a, b| a * b, false),
                (BinaryOp::Add, |a, b| a.max(0.0) + b, true),
            ] {
                let source = |data| TensorView { data, strides };
                for (before, one, other, is_second) in [
                    (vec![f16::NAN; reach], source(&a), Some(source(&b)), false),
                    (a.clone(), source(&b), None, true),
                    (b.clone(), source(&a), None, false),
                ] {
                    let mut expected = before.clone();
                    for (g, c, h) in (0..24).map(|i| (i / 12, i / 4 % 3, i % 4)) {
                        let at = g * strides[0] + c * strides[1] + h * strides[2];
                        for i in at..at + columns {
                            expected[i] = num::round(of(a[i].to_f32(), b[i].to_f32()));
                        }
                    }
                    let mut result = before;
                    let (ending, workers, relus) = (nothing(), used(arch), [relu, false]);
                    workers.each(partition(&mut result, ext, strides, 3, 2), false, |share, scratch| {
                        let (ending, rules) = (&ending, None);
                        let of = Binary { op, ending, rules, one, other, is_second, relus };
                        arch.dispatch(Combine { of, columns, share, scratch });
                    });
                    let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&result), bits(&expected), "{columns} columns, {strides:?}, {arch:?}");
                }
            }
        }
    }
}
