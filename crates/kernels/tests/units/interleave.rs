use anemone_kernels::interleave::{interlace, separate};
use anemone_kernels::tensor::{Extents, Tensor};

#[test]
fn channels_stand_side_by_side_and_apart_again() {
    for by in 1..=9 {
        let ext = Extents { g: 2, c: 2 * by, h: 3, w: 5 };
        let plain: Vec<f32> = (0..2 * ext.c * 15).map(|i| i as f32).collect();
        let tensor = Tensor { ext, data: plain };
        let packed = interlace(&tensor, by);
        assert_eq!(packed.ext, Extents { c: 2, w: 5 * by, ..ext });
        for (i, &x) in tensor.data.iter().enumerate() {
            let (w, h, c) = (i % 5, i / 5 % 3, i / 15);
            assert_eq!(packed.data[((c / by) * 3 + h) * 5 * by + w * by + c % by], x, "{by}");
        }
        assert_eq!(separate(&packed, ext, by).data, tensor.data);
    }
}
