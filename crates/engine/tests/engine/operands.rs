//! Forms of operands: bytes, volumes, interleaved and chained ones, and what is done as they are read.
//!
//! Values are small integers, so every result is exact and must be equal.

use crate::common;

use anemone_engine::FaultKind;
use anemone_facts::Field::{self, *};
use anemone_facts::code::*;
use anemone_facts::layout::H13;
use anemone_program::Task;
use common::conv::*;
use common::*;

#[test]
fn operands_are_bytes() {
    let rows: Vec<u8> = [[0u8, 1, 127, 128, 255], [7, 200, 3, 90, 129]]
        .iter()
        .flat_map(|row| row.iter().copied().chain([0; 59]))
        .collect();
    let bytes = execute(vec![planar(format::UINT8, format::FP16)], vec![], &[(SOURCE, &rows)], 128).expect("runs");
    assert_eq!(from_rows(&bytes, 2, 5), [0.0, 1.0, 127.0, 128.0, 255.0, 7.0, 200.0, 3.0, 90.0, 129.0]);
    let bytes = execute(vec![planar(format::INT8, format::FP16)], vec![], &[(SOURCE, &rows)], 128).expect("runs");
    assert_eq!(from_rows(&bytes, 2, 5), [0.0, 1.0, 127.0, -128.0, -1.0, 7.0, -56.0, 3.0, 90.0, -127.0]);
    // Results: to nearest even, held at the ends.
    let values = [0.5, 1.5, 2.5, 300.0, -300.0, f32::NAN, -1.0, -0.5, 254.6, f32::INFINITY];
    let source = rows_of(&values, 5);
    let stored = |to| {
        let bytes = execute(vec![planar(format::FP16, to)], vec![], &[(SOURCE, &source)], 128).expect("runs");
        [&bytes[..5], &bytes[64..69]].concat()
    };
    assert_eq!(stored(format::UINT8), [0, 2, 2, 255, 0, 0, 0, 0, 255, 255]);
    assert_eq!(stored(format::INT8), [0, 2, 2, 127, 128, 0, 255, 0, 127, 127]);
    // DMA converts nothing.
    let mixed = with(planar(format::FP16, format::FP16), &[(Src1MemFmt, format::UINT8)]);
    let fault = execute(vec![mixed], vec![], &[(SOURCE, &source)], 128).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::Inconsistent { field: Src1MemFmt, value: 0, .. }), "{fault}");
}

#[test]
fn bytes_stay_bytes_in_tile_memory() {
    let rows: Vec<u8> = (0..128).map(|i| 3 * i as u8).collect();
    let mut keep = with(planar(format::UINT8, format::UINT8), &[(ResType, residency::L2)]);
    let mut read = with(planar(format::UINT8, format::FP16), &[(SrcType, residency::L2)]);
    keep.set_bytes(&H13, ResL2RowStride, 16).expect("fits");
    read.set_bytes(&H13, SrcL2RowStride, 16).expect("fits");
    let chain = [
        with(planar(format::UINT8, format::UINT8), &[(ResType, residency::CHAIN)]),
        with(planar(format::UINT8, format::FP16), &[(SrcType, residency::CHAIN)]),
    ];
    let wanted: Vec<f32> = (0..10).map(|i| f32::from(rows[i / 5 * 64 + i % 5])).collect();
    for tasks in [vec![keep, read], chain.to_vec()] {
        let bytes = execute(tasks, vec![], &[(SOURCE, &rows)], 128).expect("runs");
        assert_eq!(from_rows(&bytes, 2, 5), wanted);
    }
}

/// The planar task over two planes, one behind the other; the result leaves space for one between them.
fn volume(from: u32) -> Task {
    let mut task = with(planar(from, format::FP16), &[(Din, 2), (Dout, 2)]);
    task.set_bytes(&H13, Src1DepthStride, 2 * ROW).expect("fits");
    task.set_bytes(&H13, DstDepthStride, 4 * ROW).expect("fits");
    task
}

#[test]
fn volumes_go_plane_by_plane() {
    let x: Vec<f32> = noise(20, 5).map(|x| x as f32).collect();
    let source = rows_of(&x, 5);
    let run = |tasks: Vec<Task>, inputs: &[(u8, &[u8])]| execute(tasks, vec![], inputs, 6 * ROW as usize);
    let planes = |bytes: &[u8]| [from_rows(bytes, 2, 5), from_rows(&bytes[4 * ROW as usize..], 2, 5)].concat();
    let found = run(vec![with(volume(format::FP16), &[(PeBias, 0x4000)])], &[(SOURCE, &source)]).expect("runs");
    assert_eq!(planes(&found), x.iter().map(|x| x + 2.0).collect::<Vec<_>>());
    assert!(found[2 * ROW as usize..4 * ROW as usize].iter().all(|&b| b == 0));
    // A second source whose only plane is repeated, and one that has its own.
    let mut both = with(volume(format::FP16), &two_sources(anemone_facts::code::planar::ADD));
    both.set_bytes(&H13, Src2RowStride, ROW).expect("fits");
    both.set_bytes(&H13, Src2DepthStride, 2 * ROW).expect("fits");
    let y: Vec<f32> = noise(40, 5).skip(20).map(|y| y as f32).collect();
    let second = rows_of(&y, 5);
    for repeated in [0, 1] {
        let task = with(both.clone(), &[(Src2BroadcastD, repeated)]);
        let found = run(vec![task], &[(SOURCE, &source), (SECOND, &second)]).expect("runs");
        let of = |i: usize| if repeated == 1 { i % 10 } else { i };
        assert_eq!(planes(&found), (0..20).map(|i| x[i] + y[of(i)]).collect::<Vec<_>>(), "{repeated}");
    }
    // By way of tile memory.
    let mut keep = with(volume(format::FP16), &[(ResType, residency::L2)]);
    let mut read = with(volume(format::FP16), &[(SrcType, residency::L2)]);
    for (task, row, depth) in
        [(&mut keep, ResL2RowStride, ResL2DepthStride), (&mut read, SrcL2RowStride, SrcL2DepthStride)]
    {
        task.set_bytes(&H13, row, 16).expect("fits");
        task.set_bytes(&H13, depth, 48).expect("fits");
    }
    let found = run(vec![keep, read], &[(SOURCE, &source)]).expect("runs");
    assert_eq!(planes(&found), x);
    // All planes of a convolution share its kernel.
    let conv = PLAIN;
    let weights = conv.weights();
    let streams = conv.streams(&[], |g, first| conv.rows(&weights, g, first).iter().flat_map(|&w| half(w)).collect());
    let wanted = conv.reference(&weights);
    let mut task = with(conv.task(), &[(Din, 3), (Dout, 3), (Src1BroadcastD, 1)]);
    task.set_bytes(&H13, DstDepthStride, 0).expect("fits");
    assert_eq!(conv.run(task, streams.clone()).expect("runs"), wanted);
    // By way of the chain.
    let give = with(volume(format::FP16), &[(ResType, residency::CHAIN), (PeBias, 0x4000)]);
    let on = with(volume(format::FP16), &[(SrcType, residency::CHAIN), (ResType, residency::CHAIN), (PeScale, 0x4000)]);
    let take = with(volume(format::FP16), &[(SrcType, residency::CHAIN)]);
    let found = run(vec![give.clone(), on, take.clone()], &[(SOURCE, &source)]).expect("runs");
    assert_eq!(planes(&found), x.iter().map(|x| 2.0 * (x + 2.0)).collect::<Vec<_>>());
    // What was taken is gone.
    let fault = run(vec![give, take.clone(), take], &[(SOURCE, &source)]).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::NothingChained), "{fault}");
    let refused = |task: Task| match run(vec![task], &[(SOURCE, &source)]).expect_err("must be refused") {
        FaultKind::NotHonoured { field, .. } => field,
        fault => panic!("{fault}"),
    };
    assert_eq!(refused(with(volume(format::FP16), &[(Dout, 1)])), Dout);
    for field in [Kd, Sz, Oz] {
        assert_eq!(refused(with(volume(format::FP16), &[(field, 2)])), field);
    }
    assert_eq!(refused(with(volume(format::FP16), &[(Pz, 1)])), Pz);
    let fault = run(vec![with(volume(format::FP16), &[(Win, 32000), (Wout, 32000), (Din, 32000), (Dout, 32000)])], &[]);
    assert!(matches!(fault, Err(FaultKind::TooLarge { .. })), "{fault:?}");
}

/// Three axes of window: each plane of the result is a convolution of the planes that it meets, as channels.
#[test]
fn kernels_have_a_depth() {
    let cases = [
        (Conv { cin: 2, cout: 4, side: 5, kernel: [2, 3], bias: true, ..PLAIN }, [5, 3, 2, 1]),
        (Conv { cin: 2, cout: 32, side: 4, kernel: [1, 1], lanes: 2, groups: 2, ..PLAIN }, [4, 2, 1, 0]),
        (Conv { cin: 8, cout: 4, side: 5, stride: 2, unicast: true, ..PLAIN }, [6, 1, 3, 0]),
        (Conv { cin: 3, cout: 8, side: 3, kernel: [3, 3], ..PLAIN }, [2, 5, 1, 3]),
    ];
    for (conv, [din, kd, sz, pz]) in cases {
        // The same padding behind the last plane as before the first.
        let dout = (din + 2 * pz - kd) / sz + 1;
        let planes = conv.groups * conv.cin;
        let plane = conv.side * conv.side;
        let x: Vec<f32> = noise(din * planes * plane, 3).map(|x| x as f32).collect();
        let flat = Conv { cin: conv.cin * kd, ..conv };
        let weights = flat.weights();
        let wanted: Vec<f32> = (0..dout)
            .flat_map(|d| {
                let mut met = vec![0.0; planes * kd * plane];
                for (i, met) in met.chunks_exact_mut(plane).enumerate() {
                    let at = (d * sz + i % kd).checked_sub(pz).filter(|&at| at < din);
                    at.iter().for_each(|at| met.copy_from_slice(&x[(at * planes + i / kd) * plane..][..plane]));
                }
                flat.reference_on(&met, &weights)
            })
            .collect();
        let dense = |g, first| flat.rows(&weights, g, first).iter().flat_map(|&w| half(w)).collect();
        let depth = [(Din, din), (Dout, dout), (Kd, kd), (Sz, sz), (Pz, pz)].map(|(f, n)| (f, n as u32));
        let mut task = with(conv.task(), &depth);
        let [h, _] = conv.out();
        let (source_bytes, result_bytes) = (planes * conv.side * ROW as usize, conv.groups * conv.cout * h * 64);
        task.set_bytes(&H13, Src1DepthStride, source_bytes as u64).expect("fits");
        task.set_bytes(&H13, DstDepthStride, result_bytes as u64).expect("fits");
        let run = |before, task| conv.run_on(before, task, flat.streams(&[], dense), vec![], &x, dout);
        assert_eq!(run(vec![], task.clone()).expect("runs"), wanted, "{din} {kd} {sz} {pz}");
        // From a chain, which windows meet several times.
        let mut copy = with(
            conv.task(),
            &[
                (NeOpMode, neural::BYPASS),
                (KernelMode, kernel::UNITY),
                (ResType, residency::CHAIN),
                (BiasMode, 0),
                (UnicastEn, 1),
                (UnicastCin, 1),
                (Cout, conv.cin as u32),
                (Din, din as u32),
                (Dout, din as u32),
                (Hout, conv.side as u32),
                (Wout, conv.side as u32),
                (Kw, 1),
                (Kh, 1),
                (Sx, 1),
                (Sy, 1),
            ],
        );
        copy.set_bytes(&H13, Src1DepthStride, source_bytes as u64).expect("fits");
        let chained = with(task.clone(), &[(SrcType, residency::CHAIN)]);
        assert_eq!(run(vec![copy], chained).expect("runs"), wanted, "{din} {kd} {sz} {pz}");
        let refused = |fields: &[(Field, u32)]| match run(vec![], with(task.clone(), fields)).expect_err("is refused") {
            FaultKind::NotHonoured { field, .. } | FaultKind::Inconsistent { field, .. } => field,
            fault => panic!("{fault}"),
        };
        assert_eq!(refused(&[(Dout, 40)]), Dout);
        assert_eq!(refused(&[(SparseFmt, 1), (KernelDmaSparse, 1)]), SparseFmt);
    }
}

#[test]
fn a_convolution_of_nothing_is_refused() {
    let source = rows_of(&PLAIN.source(), PLAIN.side);
    let task = with(PLAIN.task(), &[(Cin, 0)]);
    let fault = execute(vec![task], vec![], &[(SOURCE, &source)], 4096).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::Inconsistent { field: Cin, value: 0, .. }), "{fault}");
}

#[test]
fn a_descriptor_can_be_skipped() {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
    let source = rows_of(&x, 5);
    let run = |skipped: [u32; 2]| {
        let tasks = [0x4000, 0x4200]
            .iter()
            .zip(skipped)
            .map(|(&bias, skip)| with(planar(format::FP16, format::FP16), &[(PeBias, bias), (TdSkip, skip)]));
        let bytes = execute(tasks.collect(), vec![], &[(SOURCE, &source)], 128).expect("runs");
        from_rows(&bytes, 2, 5)
    };
    assert_eq!(run([0, 0]), x.map(|x| x + 3.0));
    assert_eq!(run([0, 1]), x.map(|x| x + 2.0));
    assert_eq!(run([1, 1]), [0.0; 10]);
}

#[test]
fn channels_of_a_second_source_stand_side_by_side() {
    let channels = 4;
    let x: Vec<f32> = noise(10 * channels, 5).map(|x| x as f32).collect();
    let y: Vec<f32> = noise(20 * channels, 5).skip(10 * channels).map(|y| y as f32).collect();
    // Two channels to a row of ten elements.
    let interleaved: Vec<f32> = (0..10 * channels)
        .map(|i| {
            let (pair, row, column) = (i / 20, i / 10 % 2, i % 10);
            y[((2 * pair + column % 2) * 2 + row) * 5 + column / 2]
        })
        .collect();
    let inputs = [(SOURCE, &rows_of(&x, 5)[..]), (SECOND, &rows_of(&interleaved, 10)[..])];
    let fields = two_sources(anemone_facts::code::planar::ADD);
    let mut task = with(planar(format::FP16, format::FP16), &fields);
    task = with(task, &[(Cin, channels as u32), (Cout, channels as u32), (Src2Interleave, 2)]);
    for field in [Src2RowStride, Src1PlaneStride, Src2PlaneStride, DstPlaneStride] {
        task.set_bytes(&H13, field, if field == Src2RowStride { ROW } else { 2 * ROW }).expect("fits");
    }
    let bytes = execute(vec![task.clone()], vec![], &inputs, channels * 128).expect("runs");
    assert_eq!(from_rows(&bytes, 2 * channels, 5), x.iter().zip(&y).map(|(x, y)| x + y).collect::<Vec<_>>());
    let fault = execute(vec![with(task, &[(Src2Interleave, 3)])], vec![], &inputs, channels * 128);
    assert!(matches!(fault, Err(FaultKind::Inconsistent { field: Src2Interleave, .. })), "{fault:?}");
}

#[test]
fn the_input_passes_a_relu() {
    let source = rows_of(&[-2.0, -0.5, 0.0, 1.0, 3.0, 4.0, -7.0, 0.25, -0.0, 9.0], 5);
    let task = with(planar(format::FP16, format::FP16), &[(InputRelu, 1), (PeBias, 0xbc00)]);
    let bytes = execute(vec![task], vec![], &[(SOURCE, &source)], 128).expect("runs");
    assert_eq!(from_rows(&bytes, 2, 5), [-1.0, -1.0, -1.0, 0.0, 2.0, 3.0, -1.0, -0.75, -1.0, 8.0]);
    // Of two sources each has its own; with and without rows that go from memory to memory.
    let x: Vec<f32> = noise(10, 9).map(|x| x as f32).collect();
    let y: Vec<f32> = noise(20, 9).skip(10).map(|y| y as f32).collect();
    let inputs = [(SOURCE, &rows_of(&x, 5)[..]), (SECOND, &rows_of(&y, 5)[..])];
    let mut both = with(planar(format::FP16, format::FP16), &two_sources(anemone_facts::code::planar::ADD));
    both.set_bytes(&H13, Src2RowStride, ROW).expect("fits");
    both.set_bytes(&H13, DstPlaneStride, 2 * ROW).expect("fits");
    for (first, second) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let relu = |on: u32, v: f32| if on == 1 { v.max(0.0) } else { v };
        let wanted: Vec<f32> = x.iter().zip(&y).map(|(&x, &y)| 2.0 * (relu(first, x) + relu(second, y))).collect();
        let flags = [(InputRelu, first), (Src2InputRelu, second), (PeScale, 0x4000)];
        for through_tensors in [0, 1] {
            let task = with(with(both.clone(), &flags), &[(ResultTranspose, through_tensors)]);
            let bytes = execute(vec![task], vec![], &inputs, 5 * 2 * 64).expect("runs");
            let found = match through_tensors {
                0 => from_rows(&bytes, 2, 5),
                // Rows and columns of one channel exchange with it: a column a plane.
                _ => (0..10).map(|i| from_rows(&bytes[i % 5 * 128 + i / 5 * 64..], 1, 1)[0]).collect(),
            };
            assert_eq!(found, wanted, "{first} {second} {through_tensors}");
        }
    }
}
