use anemone_kernels::axes::{Elementwise, OperandAxes};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::Strides;

fn places<const N: usize>(of: &Elementwise<N>) -> Vec<(usize, [usize; N])> {
    let Extents { g, c, h, w } = of.ext;
    let mut all = Vec::new();
    for i in 0..g * c * h * w {
        let [gi, ci, hi, wi] = [i / (c * h * w), i / (h * w) % c, i / w % h, i % w];
        let at = |s: &Strides, column: usize| gi * s[0] + ci * s[1] + hi * s[2] + wi * column;
        all.push((at(&of.to, 1), of.operands.each_ref().map(|o| at(&o.strides, usize::from(!o.one_column)))));
    }
    all.sort_unstable();
    all
}

#[test]
fn joined_axes_visit_the_same_places() {
    let operand = |strides, one_column| OperandAxes { strides, one_column };
    let ext = Extents { g: 2, c: 12, h: 16, w: 20 };
    let cases = [
        ([4000, 320, 20], [operand([3840, 320, 20], false), operand([0; 3], true)]),
        ([4000, 20, 250], [operand([4000, 20, 250], false), operand([12, 1, 0], true)]),
        ([3840, 320, 20], [operand([3840, 320, 20], false), operand([3840, 320, 20], false)]),
        ([3840, 320, 20], [operand([3840, 320, 20], false), operand([0, 0, 20], false)]),
        ([16384, 1024, 32], [operand([3840, 320, 20], false), operand([0, 320, 0], false)]),
    ];
    for (to, operands) in cases {
        let of = Elementwise { ext, to, operands };
        assert_eq!(places(&of.joined()), places(&of), "{:?}", of.joined());
    }
    let dense = Elementwise { ext, to: [3840, 320, 20], operands: [operand([3840, 320, 20], false)] }.joined();
    assert_eq!((dense.ext.h, dense.ext.w), (8, 960));
    // A column of single elements that is contiguous along another axis.
    let column =
        Elementwise { ext: Extents { g: 1, c: 40, h: 1, w: 1 }, to: [0, 1, 9], operands: [operand([0, 1, 7], true)] };
    assert_eq!((column.joined().ext.w, column.joined().operands[0].one_column), (40, false));
}
