use crate::samples::{nothing, used};
use anemone_kernels::epilogue::Activation;
use anemone_kernels::isa;
use anemone_kernels::map::{
    Combination, ExactCombination, Map, MapInput, MapKind, MapStage, key, map, table_of, with_tables,
};
use anemone_kernels::num::wide::{Exact, Wide};
use anemone_kernels::num::{self, elementwise};
use anemone_kernels::params::{BinaryOp, Curve, Rounding};
use anemone_kernels::reduce::{ElementwiseEpilogue, Operation};
use anemone_kernels::table::Table;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::TensorView;
use anemone_kernels::workers::{Workers, arches};
use half::f16;

fn combine(op: BinaryOp, inputs: &[MapInput], relu: bool) -> MapStage {
    let operation = Operation { op, first: 1.0, sign: 1.0 };
    let ending = ElementwiseEpilogue { relu, ..nothing() };
    let kind = MapKind::Combine(Box::new(Combination { pre: None, operation, ending }));
    MapStage { inputs: inputs.to_vec(), relus: [false; 2], kind }
}

/// `relu((x + s) * f) * x + y`, each step rounded, from rows with gaps, broadcast rows, and in place.
#[test]
fn stages_round_what_they_leave() {
    // Long rows, short ones, and rows of one element.
    for (h, w) in [(5, 37), (37, 5), (185, 1)] {
        stages_at(Extents { g: 1, c: 3, h, w });
    }
}

fn stages_at(ext: Extents) {
    use MapInput::{Operand, Value};
    let (rows, gap) = (ext.w, ext.w + 13);
    let (strides, gaps) = ([0, 185, rows], [0, ext.h * gap, gap]);
    let numbers = |n: usize, by: usize| (0..n).map(|i| f16::from_f32((i * by % 211) as f32 / 31.0 - 3.0)).collect();
    let [x, y, pairs]: [Vec<f16>; 3] = [numbers(3 * ext.h * gap, 7), numbers(3 * 185, 11), numbers(6, 5)];
    let table: Vec<f16> = (0..=u16::MAX).map(|i| f16::from_bits(i ^ 1)).collect();
    let table = Activation::Table(std::sync::Arc::new(anemone_kernels::table::Table::of(table, None)));
    let stages = [
        combine(BinaryOp::Add, &[Operand(0), Operand(1), Operand(2)], true),
        combine(BinaryOp::Mul, &[Value(0), Operand(0)], false),
        MapStage {
            inputs: vec![Value(1)],
            relus: [false; 2],
            kind: MapKind::Activate { bias: 0.5, scale: 2.0, activation: table },
        },
        combine(BinaryOp::Add, &[Value(2), Operand(3)], false),
    ];
    let mut wanted = y.clone();
    for (i, to) in wanted.iter_mut().enumerate() {
        let (c, h, w) = (i / 185, i / rows % ext.h, i % rows);
        let (x, s, f) = (x[c * ext.h * gap + h * gap + w].to_f32(), pairs[c].to_f32(), pairs[3 + c].to_f32());
        let a = num::round(((x + s) * f).max(0.0)).to_f32();
        let b = num::round(a * x).to_f32();
        let c = f16::from_bits(num::round((b + 0.5) * 2.0).to_bits() ^ 1).to_f32();
        *to = num::round(c + to.to_f32());
    }
    for arch in arches() {
        let mut found = y.clone();
        let pair = |row: usize| TensorView { data: &pairs[3 * row..], strides: [0, 1, 0] };
        let from = TensorView { data: &x, strides: gaps };
        let operands = [Some((from, false)), Some((pair(0), true)), Some((pair(1), true)), None];
        map(&used(arch), Map { stages: &stages, operands: &operands }, &mut found, ext, strides);
        let bits = |of: &[f16]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&wanted));
    }
}

/// `relu(x + s) * x` in an exact model, in fp32 and in [`Exact`] numbers, NaN and ties included.
#[test]
fn exact_stages_round_by_their_rules() {
    use MapInput::{Operand, Value};
    let ext = Extents { g: 1, c: 3, h: 5, w: 37 };
    let numbers: Vec<f16> = (0..555u32).map(|i| f16::from_bits((i * 2477 % 65536) as u16)).collect();
    let shifts: Vec<f16> = [0.5, f32::NAN, -1e-7].map(f16::from_f32).to_vec();
    let combination = |op, inputs: &[MapInput], relu, narrow: bool| {
        let one = Exact::canonicalize(1.0);
        let operation = Operation { op, first: one, sign: one };
        let ending = ElementwiseEpilogue { relu, ..nothing() };
        let of = Combination { pre: None, operation, ending };
        let MapKind::Combine(fp32) = combine(op, inputs, relu).kind else { unreachable!() };
        let narrow = narrow.then_some(*fp32);
        let kind = MapKind::CombineExactly(Box::new(ExactCombination { rules: &Rounding::AWAY, of, narrow }));
        MapStage { inputs: inputs.to_vec(), relus: [false; 2], kind }
    };
    let settled = |x: f64| elementwise::round_result(&Rounding::AWAY, if x.is_nan() { 0.0 } else { x });
    let canonicalize = |x: f16| f64::from(elementwise::canonicalize(x.to_f32()));
    let at = |i: usize, narrow: bool| {
        let (x, sum) = (canonicalize(numbers[i]), canonicalize(numbers[i]) + canonicalize(shifts[i / 185]));
        let sum = settled(if sum > 0.0 { sum } else { 0.0 }).to_f64();
        // A zero computed in fp32 has no sign.
        settled(if narrow { sum * x + 0.0 } else { sum * x }).to_bits()
    };
    for (arch, narrow) in arches().into_iter().flat_map(|arch| [(arch, false), (arch, true)]) {
        let stages = [
            combination(BinaryOp::Add, &[Operand(0), Operand(1)], true, narrow),
            combination(BinaryOp::Mul, &[Value(0), Operand(0)], false, narrow),
        ];
        let from = TensorView { data: &numbers, strides: [0, 185, 37] };
        let shift = TensorView { data: &shifts, strides: [0, 1, 0] };
        let operands = [Some((from, false)), Some((shift, true))];
        let mut found = vec![f16::ONE; 555];
        let of = Map { stages: &stages, operands: &operands };
        map(&used(arch), of, &mut found, ext, [0, 185, 37]);
        let wanted: Vec<u16> = (0..555).map(|i| at(i, narrow)).collect();
        assert_eq!(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), wanted, "{narrow}");
    }
}

/// `silu(x) * y`: the stages that depend on `x` alone become a table, unless a table is slower.
#[test]
fn stages_of_one_operand_become_a_table() {
    use MapInput::{Operand, Value};
    let workers = Workers::new();
    let values: Vec<f16> = (0..=u16::MAX).map(|i| f16::from_bits(i.rotate_left(3))).collect();
    let activation = Activation::Table(std::sync::Arc::new(Table::of(values, None)));
    let activate = |input| MapStage {
        inputs: vec![input],
        relus: [false; 2],
        kind: MapKind::Activate { bias: 0.0, scale: 0.5, activation: activation.clone() },
    };
    let stages = [
        activate(Operand(1)),
        combine(BinaryOp::Mul, &[Operand(1), Value(0)], true),
        combine(BinaryOp::Add, &[Value(1), Operand(0)], false),
    ];
    let mut parts = Vec::new();
    let found = with_tables(&stages, false, |part| {
        parts.push(part.len());
        std::sync::Arc::new(table_of(&workers, &part))
    });
    let found = found.expect("two stages take longer than a look-up");
    assert_eq!((parts, found.len()), (vec![2], 2));
    assert!(with_tables(&stages[2..], false, |_| unreachable!()).is_none());
    let ext = Extents { g: 1, c: 1, h: 64, w: 1024 };
    let x: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let y: Vec<f16> = (0..=u16::MAX).map(|i| f16::from_bits(i.wrapping_mul(2477))).collect();
    let run = |stages: &[MapStage]| {
        let operands = [&y, &x].map(|data| Some((TensorView { data, strides: [0, 0, 1024] }, false)));
        let mut to = vec![f16::ZERO; x.len()];
        map(&workers, Map { stages, operands: &operands }, &mut to, ext, [0, 0, 1024]);
        to.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(run(&found), run(&stages));
    assert_eq!(key(&stages), key(&stages.clone()));
    assert_ne!(key(&stages[..1]), key(&stages[1..2]));
}

/// Rows of any length with gaps: elements in the gaps are neither used nor written.
#[test]
fn gaps_between_rows_stay() {
    use MapInput::{Operand, Value};
    let workers = Workers::new();
    let stages = [
        combine(BinaryOp::Add, &[Operand(0), Operand(1)], false),
        combine(BinaryOp::Mul, &[Value(0), Operand(2)], true),
    ];
    for (columns, stride) in [(7, 8), (14, 16), (14, 40), (30, 32), (1, 2), (112, 120)] {
        let ext = Extents { g: 1, c: 3, h: 50, w: columns };
        let (whole, short) = ([150 * stride, 50 * stride, stride], [150 * stride, 50 * stride, columns]);
        let data = |seed: u32| -> Vec<f16> {
            (0..150 * stride as u32).map(|i| f16::from_f32((i * seed % 251) as f32 / 64.0 - 2.0)).collect()
        };
        let [x, y, z] = [7, 11, 13].map(data);
        let operand = |data, strides, one| Some((TensorView { data, strides }, one));
        for second in [operand(&y, whole, false), operand(&y, short, false), operand(&y, whole, true)] {
            let operands = [operand(&x, whole, false), second, operand(&z, whole, false)];
            let mut to = vec![f16::ONE; 150 * stride];
            map(&workers, Map { stages: &stages, operands: &operands }, &mut to, ext, whole);
            for (i, found) in to.iter().enumerate() {
                let (plane, row, column) = (i / (50 * stride), i / stride % 50, i % stride);
                let at = |of: Option<(TensorView, bool)>| {
                    let (view, one) = of.expect("an operand");
                    view.from(0, plane, row)[if one { 0 } else { column }].to_f32()
                };
                let sum = || f16::from_f32(at(operands[0]) + at(operands[1])).to_f32();
                let wanted =
                    if column < columns { f16::from_f32((sum() * at(operands[2])).max(0.0)) } else { f16::ONE };
                assert_eq!(found.to_f32(), wanted.to_f32(), "{columns} {stride} {i}");
            }
        }
    }
}

/// A gate, `x * (curve(x) / 2 + 1 / 2)`, as one formula: rows of any length, with gaps, from another tensor and in place.
#[test]
fn a_formula_has_the_values_of_its_stages() {
    use MapInput::{Operand, Value};
    let workers = Workers::new();
    let curve = Curve {
        knots: std::array::from_fn(|i| f16::from_f32((i as f32 / 8.0).tanh()).to_f32()),
        knots_per_unit: 8.0,
        origin: 0.0,
        is_exponential: false,
        tails: [[0.0, 0.0], [2e-4, 0.9985]],
        limits: [0.0, 5.0],
        constants: [0.0, 1.0],
        is_odd: true,
        is_zero_below_zero: false,
    };
    let value = |x: f16| {
        let (wide, magnitude) = (f64::from(x.to_f32()), f64::from(x.to_f32()).abs());
        let i = (magnitude * 8.0).min(31.0) as usize;
        let (low, rise) = (curve.knots[i], curve.knots[i + 1] - curve.knots[i]);
        let y = match magnitude {
            _ if wide.is_nan() => wide,
            x if x >= 5.0 => 1.0,
            x if x > 4.0 => f64::from(curve.tails[1][0]) * x + f64::from(curve.tails[1][1]),
            x => f64::from(low) + f64::from(rise) * (x * 8.0 - i as f64),
        };
        f16::from_f32((if x.is_sign_negative() && !x.is_nan() { -y } else { y }) as f32)
    };
    let values = (0..=u16::MAX).map(|bits| value(f16::from_bits(bits))).collect();
    let activation = Activation::Table(std::sync::Arc::new(Table::of(values, Some(&curve))));
    let kind = MapKind::Activate { bias: 0.0, scale: 1.0, activation };
    let half = Combination {
        pre: None,
        operation: Operation { op: BinaryOp::Add, first: 1.0, sign: 1.0 },
        ending: ElementwiseEpilogue { plain: false, last: 0.5, bias: 0.5, ..nothing() },
    };
    let stages = [
        MapStage { inputs: vec![Operand(0)], relus: [false; 2], kind },
        MapStage { inputs: vec![Value(0)], relus: [false; 2], kind: MapKind::Combine(Box::new(half)) },
        combine(BinaryOp::Mul, &[Operand(0), Value(1)], false),
    ];
    let made = with_tables(&stages, true, |part| {
        let table = std::sync::Arc::new(table_of(&workers, &part));
        assert_eq!(table.is_computed(), isa::name() == "v4");
        table
    });
    let Some(made) = made else { return assert_ne!(isa::name(), "v4") };
    for (columns, stride) in [(1, 4), (3, 4), (7, 8), (14, 16), (14, 40), (28, 32), (30, 30), (37, 64), (112, 128)] {
        let ext = Extents { g: 1, c: 3, h: 50, w: columns };
        let strides = [150 * stride, 50 * stride, stride];
        let x: Vec<f16> =
            (0..150 * stride as u32).map(|i| f16::from_bits((i.wrapping_mul(40503) >> 3) as u16)).collect();
        let from = [Some((TensorView { data: &x, strides }, false))];
        let run = |stages: &[MapStage], operands: &[_], to: &[f16]| {
            let mut to = to.to_vec();
            map(&workers, Map { stages, operands }, &mut to, ext, strides);
            to.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let ones = vec![f16::ONE; x.len()];
        assert_eq!(run(&made, &from, &ones), run(&stages, &from, &ones), "{columns} {stride}");
        assert_eq!(run(&made, &[None], &x), run(&stages, &[None], &x), "{columns} {stride} in place");
    }
}
