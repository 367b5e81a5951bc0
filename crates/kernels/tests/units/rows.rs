use crate::samples::nothing;
use anemone_kernels::line::Line;
use anemone_kernels::num::wide::Exact;
use anemone_kernels::num::wide::Wide;
use anemone_kernels::params::{BinaryOp, Rounding};
use anemone_kernels::reduce::{ElementwiseEpilogue, Fold, Operation};
use anemone_kernels::rows::transposed::reduce;
use anemone_kernels::rows::{Form, Operand, RowKernel, RowNumber, reduce as one_by_one};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, TensorView};
use anemone_kernels::workers::Workers;
use half::f16;

/// Extents of planes in two groups, and their strides: with and without gaps between planes, channels outside of groups, and gaps between short rows.
fn shapes() -> impl Iterator<Item = (Extents, Strides)> {
    let sizes = [(37, 1, 5), (70, 1, 64), (9, 3, 33), (33, 1, 200), (4, 1, 100), (5, 2, 50), (40, 5, 7), (33, 3, 14)];
    sizes.into_iter().flat_map(|(c, h, w)| {
        let ext = Extents { g: 2, c, h, w };
        let strides = move |plane: usize, row: usize| [[c * plane, plane, row], [plane, 2 * plane, row]];
        let dense = [0, 3].into_iter().flat_map(move |gap| strides(h * w + gap, w));
        let short = c >= 32 && w < 16;
        let gaps = short.then(|| strides(h * (w + 2), w + 2)).into_iter().flatten();
        dense.chain(gaps).map(move |strides| (ext, strides))
    })
}

/// Every form, for plane counts and lengths that are not multiples of a vector; NaN and zeros of both
/// signs included.
#[test]
fn turned_planes_have_the_numbers_of_planes_one_by_one() {
    let mixed: Vec<f16> = (0..60_000u32)
        .map(|i| match i * 7919 % 1009 {
            0..20 if i % 2 == 0 => f16::from_f32(-0.0),
            10..20 => f16::ZERO,
            1 if i % 5 == 0 => f16::NAN,
            x => f16::from_f32(x as f32 / 504.5 - 1.0),
        })
        .collect();
    // Zero is the largest number of most planes.
    let lowered: Vec<f16> = mixed.iter().map(|x| if *x > f16::ZERO { -*x } else { *x }).collect();
    let (workers, ending) = (Workers::new(), nothing());
    for (data, (ext, strides)) in
        [&mixed, &lowered].into_iter().flat_map(|data| shapes().map(move |shape| (data, shape)))
    {
        let [group, plane, _] = strides;
        let rows = |first: usize| TensorView { data: &data[first..], strides };
        let operand = |first, one_column| Operand {
            source: TensorView { strides: [group, plane, 0], ..rows(first) },
            one_column,
            relu: false,
            pairs_turned: false,
            one_pair: false,
        };
        let whole = |first| Operand { source: rows(first), ..operand(first, false) };
        let ops = [BinaryOp::Add, BinaryOp::Mul, BinaryOp::SquareOfSum];
        for (form, op, second) in ops
            .into_iter()
            .flat_map(|op| [(Form::One, op, whole(7)), (Form::Two, op, whole(7)), (Form::Two, op, operand(11, true))])
        {
            let operation = Operation { op, first: 1.0, sign: -1.0 };
            let operands = [whole(0), second];
            let (pre, rules, columns) = (Some((0.75, false)), None, ext.w);
            let lines = RowKernel { form, operands, pre, operation, ending: &ending, rules, columns };
            for fold in [Fold::Sum(None), Fold::Max] {
                let bits = |of: Vec<f16>| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let wanted = bits(one_by_one(&workers, &lines, &fold, ext));
                match reduce(&workers, &lines, &fold, ext) {
                    Some(found) => assert_eq!(bits(found), wanted, "{ext:?} {strides:?} {op:?}"),
                    None => assert!(!workers.converts()),
                }
            }
        }
    }
}

/// Planes with numbers of all magnitudes, infinities, NaN, zeros of one sign or of both, and numbers that cancel.
#[test]
fn exact_planes_have_the_numbers_of_planes_one_by_one() {
    let workers = Workers::new();
    let one = Exact::canonicalize(1.0);
    let ending = ElementwiseEpilogue {
        plain: false,
        last: Exact::canonicalize(0.25),
        scale: one,
        bias: Exact::canonicalize(-0.0),
        epsilon: one,
        function: None,
        relu: false,
    };
    let kinds: [fn(u32) -> u16; 6] = [
        |x| (x >> 16) as u16 & 0xbfff,
        |x| if x % 997 == 3 { 0x7c00 } else { (x >> 18) as u16 },
        |x| if x % 997 == 3 { 0x7c00 | (x >> 16) as u16 & 0x83ff } else { (x >> 18) as u16 },
        |x| (x >> 16) as u16 & 0x8000,
        |_| 0x8000,
        |x| (x >> 16) as u16 | 0x8000,
    ];
    for kind in kinds {
        let random = |i: u32| i.wrapping_mul(2_654_435_761) ^ i.wrapping_mul(40_503) << 13;
        let data: Vec<f16> = (0..60_000u32).map(|i| f16::from_bits(kind(random(i)))).collect();
        for (ext, strides) in shapes().chain([(Extents { g: 1, c: 5, h: 1, w: 9000 }, [0, 9001, 0])]) {
            let source = TensorView { data: &data, strides };
            let operand = Operand { source, one_column: false, relu: false, pairs_turned: false, one_pair: false };
            let operation = Operation { op: BinaryOp::Add, first: one, sign: one };
            let (form, operands, rules) = (Form::One, [operand; 2], Some(&Rounding::AWAY));
            let lines = RowKernel { form, operands, pre: None, operation, ending: &ending, rules, columns: ext.w };
            for fold in [Fold::Sum(None), Fold::Max] {
                let bits = |of: Vec<f16>| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let plane = |i: usize| {
                    let at = |h: usize| i / ext.c * strides[0] + i % ext.c * strides[1] + h * strides[2];
                    let elements = (0..ext.h).flat_map(|h| &data[at(h)..][..ext.w]);
                    fold.of(elements.map(|x| Exact::canonicalize(x.to_f32())))
                };
                let mut wanted: Vec<Exact> = (0..ext.g * ext.c).map(plane).collect();
                let mut settled = vec![f16::ZERO; wanted.len()];
                ending.apply(&mut wanted);
                Exact::settle_line(rules, &wanted, &mut settled);
                let wanted = bits(settled);
                assert_eq!(bits(Exact::reduce(&workers, &lines, &fold, ext)), wanted, "{ext:?} {strides:?}");
            }
        }
    }
}
