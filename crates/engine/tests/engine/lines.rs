//! Planar tasks whose rows go from memory to memory, against the same tasks with whole tensors between: the same bits in
//! every model.

use crate::common;

use anemone_engine::FaultKind;
use anemone_facts::Field;
use anemone_facts::Field::*;
use anemone_facts::code::{class, format, padding, planar_nonlinear, pool, second};
use anemone_facts::layout::H13;
use anemone_facts::numerics::Model;
use anemone_program::Task;
use common::*;
use half::f16;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Choices that proptest made, so that it can make them smaller, then numbers of a generator.
struct Draw {
    choices: std::vec::IntoIter<u32>,
    state: u64,
}

impl Draw {
    fn new(choices: Vec<u32>) -> Draw {
        Draw { choices: choices.into_iter(), state: 0 }
    }

    fn below(&mut self, n: u32) -> u32 {
        self.choices.next().unwrap_or_else(|| {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.state >> 33) as u32
        }) % n
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    fn flag(&mut self) -> u32 {
        self.below(2)
    }

    /// Mostly usual numbers, or any pattern.
    fn halves(&mut self, n: usize, any: bool) -> Vec<u8> {
        let special = [0, 0x8000, 1, 0x8001, 0x3ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01];
        let mut half = || match self.below(if any { 6 } else { u32::MAX }) {
            0 => special[self.below(special.len() as u32) as usize],
            _ => f16::from_f32(self.below(4001) as f32 / 500.0 - 4.0).to_bits(),
        };
        (0..n).flat_map(|_| half().to_le_bytes()).collect()
    }
}

fn half(x: f32) -> u32 {
    f16::from_f32(x).to_bits().into()
}

/// A task, what its sources hold, and the bytes of its result.
fn draw(choices: Vec<u32>) -> (Task, Vec<u8>, Vec<u8>, usize) {
    let mut draw = Draw::new(choices);
    let class = draw.one_of(&[
        class::PLANAR_ONE,
        class::PLANAR_TWO,
        class::PLANAR_AFFINE,
        class::PLANAR_REDUCE,
        class::PLANAR_REDUCE_TWO,
    ]);
    let two = [class::PLANAR_TWO, class::PLANAR_AFFINE, class::PLANAR_REDUCE_TWO].contains(&class);
    let (g, c, h) = (1 + draw.below(3), 1 + draw.below(20), 1 + draw.below(5));
    let w = 1 + draw.one_of(&[4, 20, 150]).min(draw.below(200));
    let mut fields = vec![(NumGroups, g), (Cin, c), (Cout, c), (Hin, h), (Hout, h), (Win, w), (Wout, w)];
    if two {
        let op = if class == class::PLANAR_AFFINE { 0 } else { draw.below(5) };
        fields.extend(two_sources(op));
        fields.push((PeSecond, draw.one_of(&[second::SOURCE, second::NEGATED])));
        fields.push((PeFirst, if class == class::PLANAR_AFFINE { 0 } else { draw.flag() }));
    }
    let nonlinear = draw.one_of(&[planar_nonlinear::NONE, planar_nonlinear::RECIPROCAL, planar_nonlinear::RSQRT]);
    let epsilon = if nonlinear == planar_nonlinear::RSQRT { draw.one_of(&[0.0, 0.25]) } else { 0.0 };
    let (pooling, padded) = draw.one_of(&[(pool::SUM, 0), (pool::MAX, padding::NEGATIVE)]);
    let flags: Vec<(Field, u32)> = [
        Src1BroadcastW,
        Src1BroadcastH,
        Src1BroadcastC,
        Src2BroadcastW,
        Src2BroadcastH,
        Src2BroadcastC,
        InputRelu,
        Src2InputRelu,
        PeReluEn,
        PeCond,
    ]
    .into_iter()
    .map(|field| (field, u32::from(draw.below(4) == 0)))
    .collect();
    fields.extend(flags);
    fields.extend([
        (TaskClass, class),
        (PePool, pooling),
        (PaddingMode, padded),
        (PeNonlinear, nonlinear),
        (PeEpsilon, half(epsilon)),
        (PePreScale, half(draw.one_of(&[1.0, -1.0, 0.3]))),
        (PeScale, half(draw.one_of(&[1.0, 1.0, -0.7]))),
        (PeBias, half(draw.one_of(&[0.0, 0.0, 0.5]))),
        (PeFinalScale, draw.one_of(&[1.0f32, 1.0, 0.1]).to_bits()),
    ]);
    let row = (2 * u64::from(w)).next_multiple_of(64);
    let plane = row * u64::from(h.max(2));
    let group = plane * u64::from(c);
    let mut task = with(planar_task(format::FP16, format::FP16), &fields);
    for [r, p, n] in [
        [Src1RowStride, Src1PlaneStride, Src1GroupStride],
        [Src2RowStride, Src2PlaneStride, Src2GroupStride],
        [DstRowStride, DstPlaneStride, DstGroupStride],
    ] {
        for (field, bytes) in [(r, row), (p, plane), (n, group)] {
            task.set_bytes(&H13, field, bytes).expect("fits");
        }
    }
    // Pairs as the compiler stores them: channels are columns.
    if class == class::PLANAR_AFFINE && draw.flag() == 1 {
        let row = (2 * u64::from(c)).next_multiple_of(64);
        task = with(task, &[(Src2Transpose, 1)]);
        for (field, bytes) in [(Src2RowStride, row), (Src2PlaneStride, 2 * row), (Src2GroupStride, 2 * row)] {
            task.set_bytes(&H13, field, bytes).expect("fits");
        }
    }
    let bytes = group as usize * g as usize;
    let any = draw.flag() == 1;
    (task, draw.halves(bytes / 2, any), draw.halves(bytes / 2, any), bytes)
}

/// The task with its result exchanged, which it has whole tensors for; and that result as the task would have stored it.
fn by_tensors(task: &Task, run: impl Fn(Task, usize) -> Vec<u8>, bytes: usize) -> Vec<u8> {
    let get = |field| task.get(&H13, field).expect("set") as usize;
    let reduces = [class::PLANAR_REDUCE, class::PLANAR_REDUCE_TWO].contains(&(get(TaskClass) as u32));
    let [g, c, mut h, mut w] = [NumGroups, Cin, Hin, Win].map(get);
    if reduces {
        (h, w) = (1, 1);
    }
    let row = (2 * c).next_multiple_of(64);
    let strides = [row * h * w, row * h, row];
    let mut turned = with(task.clone(), &[(ResultTranspose, 1)]);
    for (field, stride) in [DstGroupStride, DstPlaneStride, DstRowStride].into_iter().zip(strides) {
        turned.set_bytes(&H13, field, stride as u64).expect("fits");
    }
    let found = run(turned, g * strides[0]);
    let own = [DstGroupStride, DstPlaneStride, DstRowStride].map(|f| task.bytes_at(&H13, f, 0) as usize);
    let mut stored = vec![0; bytes];
    for g in 0..g {
        for (c, h, w) in (0..c).flat_map(|c| (0..h).flat_map(move |h| (0..w).map(move |w| (c, h, w)))) {
            let from = g * strides[0] + w * strides[1] + h * strides[2] + 2 * c;
            let to = g * own[0] + c * own[1] + h * own[2] + 2 * w;
            stored[to..to + 2].copy_from_slice(&found[from..from + 2]);
        }
    }
    stored
}

/// The same cases on every run.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() }
}

/// More choices than a task has.
fn choices() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 64)
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn rows_and_tensors_have_the_same_bits(choices in choices()) {
        let (task, x, y, bytes) = draw(choices);
        let inputs = [(SOURCE, &x[..]), (SECOND, &y[..])];
        for model in Model::ALL {
            let run = |task, bytes| execute_in(model, vec![task], vec![], &inputs, bytes).expect("runs");
            let (found, wanted) = (run(task.clone(), bytes), by_tensors(&task, run, bytes));
            // Which of two NaN a sum has is the host's choice.
            let same = |a: f16, b: f16| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let at = |bytes: &[u8], i| f16::from_le_bytes([bytes[i], bytes[i + 1]]);
            let differ = (0..bytes).step_by(2).find(|&i| !same(at(&found, i), at(&wanted, i)));
            let values = differ.map(|i| (i, at(&found, i), at(&wanted, i)));
            prop_assert_eq!(values, None, "{:?}: place, value by rows, value by tensors", model);
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Sums and maxima over windows, with padding and strides, against sums and maxima of what each window meets.
    #[test]
    fn windows_meet_what_lies_inside(choices in choices()) {
        let mut draw = Draw::new(choices);
        let [h, w] = [1 + draw.below(9), 1 + draw.below(40)];
        let [kh, kw] = [1 + draw.below(4), 2 + draw.below(4)];
        let [sy, sx] = [1 + draw.below(3), 1 + draw.below(3)];
        let [py, px] = [draw.below(kh), draw.below(kw)];
        // As many windows as begin inside of the source.
        let [oh, ow] = [(h + py - 1) / sy + 1, (w + px - 1) / sx + 1];
        let max = draw.flag() == 1;
        let (pooling, padded) = if max { (pool::MAX, padding::NEGATIVE) } else { (pool::SUM, 0) };
        // A scale keeps the exact models from the way in fp32.
        let scale = draw.one_of(&[1.0, 0.5]);
        let extents = [(Cin, 1), (Cout, 1), (Hin, h), (Win, w), (Hout, oh), (Wout, ow), (PeScale, half(scale))];
        let window = [(Kh, kh), (Kw, kw), (Sy, sy), (Sx, sx), (Py, py), (Px, px), (PePool, pooling)];
        let mut task = with(with(planar_task(format::FP16, format::FP16), &extents), &window);
        task = with(task, &[(PaddingMode, padded)]);
        for field in [Src1RowStride, DstRowStride] {
            task.set_bytes(&H13, field, 128).expect("fits");
        }
        let x: Vec<f32> = (0..h * w).map(|_| draw.below(65) as f32 - 32.0).collect();
        let mut source = vec![0; 128 * h as usize];
        for (row, x) in source.chunks_mut(128).zip(x.chunks(w as usize)) {
            row.chunks_mut(2).zip(x).for_each(|(to, x)| to.copy_from_slice(&f16::from_f32(*x).to_le_bytes()));
        }
        for model in Model::ALL {
            let bytes = execute_in(model, vec![task.clone()], vec![], &[(SOURCE, &source)], 128 * oh as usize);
            let bytes = bytes.expect("runs");
            for (y, x_at) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                let met = (0..kh).flat_map(|i| (0..kw).map(move |j| (y * sy + i, x_at * sx + j)));
                let met = met.filter_map(|(i, j)| Some((i.checked_sub(py)?, j.checked_sub(px)?)));
                let met = met.filter(|&(i, j)| i < h && j < w).map(|(i, j)| x[(i * w + j) as usize]);
                let wanted = scale * if max { met.fold(f32::NEG_INFINITY, f32::max) } else { met.sum() };
                let at = (128 * y + 2 * x_at) as usize;
                let found = f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32();
                prop_assert_eq!(found, wanted, "{:?}, {} {}", model, y, x_at);
            }
        }
    }
}

/// Sources whose rows all lie at one place are within their region however many they are.
#[test]
fn extents_are_bounded_before_rows_are_looked_at() {
    let extents =
        [(NumGroups, 8000), (Cin, 100_000), (Cout, 100_000), (Hin, 32_000), (Hout, 32_000), (Win, 1), (Wout, 1)];
    let two = two_sources(anemone_facts::code::planar::ADD);
    let alone: &[(Field, u32)] = &[];
    for (class, more) in [(class::PLANAR_REDUCE, alone), (class::PLANAR_TWO, &two), (class::PLANAR_ONE, alone)] {
        let task = with(planar_task(format::FP16, format::FP16), &[&extents, more, &[(TaskClass, class)]].concat());
        let inputs = [(SOURCE, &[0; 64][..]), (SECOND, &[0; 64])];
        let fault = execute_in(Model::Fast, vec![task], vec![], &inputs, 64);
        assert!(matches!(fault, Err(FaultKind::TooLarge { .. })), "{fault:?}");
    }
}
