use super::some_windows;
use crate::samples::{nothing, used};
use anemone_conv::depthwise::{Job, WindowOp};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, dense, partition};
use anemone_kernels::window::Window;
use anemone_kernels::workers::arches;
use half::f16;

/// Maxima, and sums in the order of the taps, on every instruction set, in buffers that held NaN. Convolutions are covered by the tests
/// that compare all kernels.
#[test]
fn pooling_takes_what_lies_in_a_window() {
    let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
    let (ending, mut tried) = (nothing(), 0);
    for (mut window, [cin, _], _) in some_windows() {
        if window.k[0] > 3 {
            continue;
        }
        window.k[1] = window.k[0];
        window.s[1] = window.s[0];
        window.p = window.p.map(|p| p.min(window.k[0] - 1));
        window.to = [0, 1].map(|a| (window.from[a] + window.p[a]).saturating_sub(window.k[a]) / window.s[a] + 1);
        let Window { k, s, p, from, to } = window;
        let (ext, strides) = (Extents { g: 1, c: cin, h: to[0], w: to[1] }, [0, from[0] * from[1], from[1]]);
        for max in [true, false] {
            // Maxima skip NaN.
            let draw = |i: usize| if max && i.is_multiple_of(5) { f16::NAN } else { draw(i) };
            let x: Vec<f16> = (0..cin * strides[1]).map(draw).collect();
            let of = WindowOp::Pool(max, &ending);
            if !of.executes(&window) {
                continue;
            }
            let one = |c: usize, h: usize, w: usize| {
                let places = (0..k[0]).flat_map(|kh| (0..k[1]).map(move |kw| [h * s[0] + kh, w * s[1] + kw]));
                let inside = places.filter_map(|[h, w]| {
                    let (h, w) = (h.checked_sub(p[0])?, w.checked_sub(p[1])?);
                    (h < from[0] && w < from[1]).then(|| x[c * strides[1] + h * strides[2] + w].to_f32())
                });
                f16::from_f32(if max {
                    inside.fold(f32::NEG_INFINITY, f32::max)
                } else {
                    inside.fold(0.0, |a, b| a + b)
                })
            };
            let wanted: Vec<f16> = (0..cin)
                .flat_map(|c| (0..to[0]).flat_map(move |h| (0..to[1]).map(move |w| (c, h, w))))
                .map(|(c, h, w)| one(c, h, w))
                .collect();
            for arch in arches() {
                let mut data = vec![f16::NAN; wanted.len()];
                used(arch).each(partition(&mut data, ext, dense(ext), 3, 5), false, |share, scratch| {
                    let from = TensorView { data: &x, strides };
                    arch.dispatch(Job { of, window: &window, from, columns: to[1], share, scratch });
                });
                let wrong = (0..data.len()).find(|&n| data[n] != wanted[n]);
                assert_eq!(wrong, None, "{window:?}, {cin} channels, {arch:?}, {max}");
            }
            tried += 1;
        }
    }
    assert!(tried > 100);
}
