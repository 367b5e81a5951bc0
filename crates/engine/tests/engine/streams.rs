//! Forms of coefficient streams, one program by hand each, against a plain reference.
//!
//! Values are small integers, so every result is exact and must be equal.

use crate::common;

use anemone_engine::FaultKind;
use anemone_facts::Field::{self, *};
use anemone_facts::code::*;
use anemone_facts::kernel::extra;
use anemone_facts::layout::H13;
use anemone_facts::lut::{STREAM_BYTES, place};
use anemone_facts::weights::PALETTE_WIDTHS;
use common::conv::*;
use common::*;
use half::f16;

#[test]
fn zeros_are_skipped() {
    let cases = [
        Conv { stride: 2, kernel: [1, 1], cout: 64, lanes: 4, ..PLAIN },
        Conv { stride: 2, side: 7, cout: 128, lanes: 4, bias: true, ..PLAIN },
        Conv { stride: 2, kernel: [3, 2], groups: 3, bias: true, ..PLAIN },
        Conv { stride: 2, side: 9, kernel: [5, 5], cout: 32, lanes: 2, ..PLAIN },
        Conv { stride: 3, side: 9, kernel: [4, 4], cout: 16, lanes: 1, ..PLAIN },
        Conv { stride: 1, cout: 256, lanes: 16, ..PLAIN },
        // 15 places of four bits do not fill bytes.
        Conv { stride: 1, kernel: [5, 3], cout: 20, ..PLAIN },
        Conv { stride: 2, unicast: true, cin: 40, cout: 40, groups: 2, bias: true, ..PLAIN },
        // Places of two bits, in results of more than eight columns.
        Conv { stride: 2, side: 19, unicast: true, cin: 40, cout: 40, groups: 2, bias: true, ..PLAIN },
        Conv { stride: 2, side: 19, kernel: [3, 3], cout: 20, ..PLAIN },
    ];
    for conv in cases {
        let weights = conv.weights();
        let task = with(conv.task(), &[(SparseFmt, 1), (KernelDmaSparse, 1)]);
        let streams = conv.streams(&[], |g, first| conv.without_zeros(&weights, g, first));
        assert_eq!(conv.run(task, streams).expect("runs"), conv.reference(&weights));
    }
}

#[test]
fn damaged_zero_skipping_streams_are_named() {
    let conv = Conv { stride: 2, ..PLAIN };
    let weights = conv.weights();
    let task = with(conv.task(), &[(SparseFmt, 1), (KernelDmaSparse, 1)]);
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut streams = conv.streams(&[], |g, first| conv.without_zeros(&weights, g, first));
        change(&mut streams[3]);
        conv.run(task.clone(), streams).expect_err("must be refused")
    };
    // A count beyond the stream, one short of its masks, a body that ends early, one that goes on, a bit beyond a lane.
    assert!(matches!(damaged(&|s| s[2] = 1), FaultKind::Stray { field: CoeffSize, .. }));
    assert!(matches!(damaged(&|s| s[0] = 3), FaultKind::Stray { field: CoeffSize, .. }));
    assert!(matches!(damaged(&|s| s[0] -= 1), FaultKind::Stray { field: CoeffSize, .. }));
    assert!(matches!(damaged(&|s| s[0] += 1), FaultKind::Inconsistent { field: SparseFmt, .. }));
    assert!(matches!(damaged(&|s| s[3] |= 2), FaultKind::Inconsistent { field: SparseFmt, .. }));
    let one_side = with(conv.task(), &[(SparseFmt, 1)]);
    let streams = conv.streams(&[], |g, first| conv.without_zeros(&weights, g, first));
    assert!(matches!(conv.run(one_side, streams), Err(FaultKind::Inconsistent { field: KernelDmaSparse, .. })));
}

#[test]
fn coefficients_are_bytes() {
    for (fmt, low, scale) in [(format::INT8, -7.0, false), (format::INT8, -7.0, true), (format::UINT8, 0.0, false)] {
        let conv = Conv { cout: 64, lanes: 4, groups: 2, bias: true, scale, ..PLAIN };
        let weights: Vec<f32> = conv.weights().iter().map(|w| f32::max(*w, low)).collect();
        let streams =
            conv.streams(&[], |g, first| conv.rows(&weights, g, first).iter().map(|&w| w as i8 as u8).collect());
        // One scale for all channels.
        let task = with(conv.task(), &[(KernelFmt, fmt), (PostScale, f16::from_f32(0.5).to_bits().into())]);
        let wanted: Vec<f32> = conv.reference(&weights).iter().map(|y| 0.5 * y).collect();
        assert_eq!(conv.run(task, streams).expect("runs"), wanted);
    }
}

/// Indices of so many bits, the first in the low bits.
fn packed(indices: &[usize], bits: usize) -> Vec<u8> {
    let mut bytes = vec![0; (indices.len() * bits).div_ceil(8)];
    for (i, &index) in indices.iter().enumerate() {
        (0..bits).for_each(|b| bytes[(i * bits + b) / 8] |= ((index >> b & 1) as u8) << ((i * bits + b) % 8));
    }
    bytes
}

#[test]
fn coefficients_come_from_a_palette() {
    for bits in PALETTE_WIDTHS.iter().map(|width| width.bits as usize) {
        let conv = Conv { cout: 64, lanes: 4, groups: 2, bias: true, ..PLAIN };
        let palette: Vec<f32> = (0..1 << bits).map(|i| (i * 37 % 41) as f32 - 20.0).collect();
        let indices: Vec<usize> =
            noise(conv.weights().len(), 1 << 12).map(|x| x.unsigned_abs() as usize % (1 << bits)).collect();
        let weights: Vec<f32> = indices.iter().map(|&i| palette[i]).collect();
        let by_index: Vec<f32> = indices.iter().map(|&i| i as f32).collect();
        let values: Vec<u8> = palette.iter().flat_map(|&v| half(v)).collect();
        let mut head = values.clone();
        head.resize(head.len().next_multiple_of(64), 0);
        let pass = |g, first| {
            let row: Vec<usize> = conv.rows(&by_index, g, first).iter().map(|&i| i as usize).collect();
            packed(&row, bits)
        };
        let task = with(conv.task(), &[(PalettizedEn, 1), (PalettizedBits, bits as u32)]);
        let wanted = conv.reference(&weights);
        assert_eq!(conv.run(task.clone(), conv.streams(&head, pass)).expect("runs"), wanted, "{bits} bits");
        // The same with the palette in a stream of its own.
        let extras = vec![(extra::PALETTE, values)];
        assert_eq!(conv.run_with(task, conv.streams(&[], pass), extras).expect("runs"), wanted, "{bits} bits");
    }
}

/// A step: `low` at and below the smallest negative number, 0 above.
fn step(low: f32) -> Vec<u8> {
    let mut halves = [0u16; STREAM_BYTES / 2];
    let low = f16::from_f32(low).to_bits();
    (halves[place::X_LOW], halves[place::X_HIGH], halves[place::Y_LOW]) = (0x8001, 1, low);
    (halves[place::LEFT + 1], halves[place::SHIFT], halves[place::MODE]) = (low, 64, 1);
    halves.iter().flat_map(|h| h.to_le_bytes()).collect()
}

#[test]
fn a_table_leads_the_coefficients() {
    let conv = Conv { cout: 32, lanes: 2, bias: true, ..PLAIN };
    let weights = conv.weights();
    let task = with(conv.task(), &[(NonlinearMode, nonlinear::LUT)]);
    let wanted: Vec<f32> = conv.reference(&weights).iter().map(|&y| if y < 0.0 { 3.0 } else { 0.0 }).collect();
    assert!(wanted.contains(&3.0) && wanted.contains(&0.0));
    let dense = |g, first| conv.rows(&weights, g, first).iter().flat_map(|&w| half(w)).collect();
    assert_eq!(conv.run(task.clone(), conv.streams(&step(3.0), dense)).expect("runs"), wanted);
    let skipping = with(task.clone(), &[(SparseFmt, 1), (KernelDmaSparse, 1)]);
    let streams = conv.streams(&step(3.0), |g, first| conv.without_zeros(&weights, g, first));
    assert_eq!(conv.run(skipping, streams).expect("runs"), wanted);
    // Table and biases in streams of their own.
    let inline = Conv { bias: false, ..conv };
    let biases = conv.biases().iter().flat_map(|&b| half(b)).collect();
    let extras = vec![(extra::TABLE, step(3.0)), (extra::BIAS, biases)];
    assert_eq!(inline.run_with(task, inline.streams(&[], dense), extras).expect("runs"), wanted);
}

/// Apple's comparison: both operands side by side in tile memory, subtracted by bytes +1 and -1, then a step.
#[test]
fn less_is_a_difference_and_a_step() {
    let channels = 24usize;
    let copy = |bar: u8, to: u64| {
        task(
            &[
                (RBase0, bar as u32),
                (Rbe0, 1),
                (Win, 1),
                (Hin, 1),
                (Wout, 1),
                (Hout, 1),
                (Cin, channels as u32),
                (Cout, channels as u32),
                (InFmt, format::FP16),
                (OutFmt, format::FP16),
                (Src1MemFmt, format::FP16),
                (Kw, 1),
                (Kh, 1),
                (Sx, 1),
                (Sy, 1),
                (NumGroups, 1),
                (UnicastEn, 1),
                (UnicastCin, 1),
                (SrcType, residency::DMA),
                (ResType, residency::L2),
                (NeOpMode, neural::BYPASS),
                (KernelMode, kernel::UNITY),
                (PostScale, 0x3c00),
            ],
            &[(Src1RowStride, ROW), (Src1PlaneStride, ROW), (ResL2Base, to), (ResL2ChannelStride, 0x20)],
        )
    };
    let conv = Conv { cin: 2 * channels, cout: channels, side: 1, kernel: [1, 1], unicast: true, ..PLAIN };
    let mut compare = with(
        conv.task(),
        &[
            (SrcType, residency::L2),
            (OutFmt, format::UINT8),
            (DstMemFmt, format::UINT8),
            (KernelFmt, format::INT8),
            (NonlinearMode, nonlinear::LUT),
        ],
    );
    compare.set_bytes(&H13, SrcL2ChannelStride, 0x10).expect("fits");
    let mut kernel = Vec::new();
    for (i, stream) in conv.streams(&step(1.0), |_, _| vec![0x01, 0xff]).iter().enumerate() {
        compare.set_at(&H13, CoeffEn, i as u32, 1).expect("fits");
        compare.set_bytes_at(&H13, CoeffBase, i as u32, kernel.len() as u64).expect("fits");
        compare.set_bytes_at(&H13, CoeffSize, i as u32, stream.len() as u64).expect("fits");
        kernel.extend_from_slice(stream);
    }
    let x: Vec<f32> = noise(channels, 2).map(|v| v as f32).collect();
    let y: Vec<f32> = noise(2 * channels, 2).skip(channels).map(|v| v as f32).collect();
    let inputs = [(SOURCE, &rows_of(&x, 1)[..]), (SECOND, &rows_of(&y, 1)[..])];
    let tasks = vec![copy(SECOND, 0x10), copy(SOURCE, 0), compare];
    let bytes = execute(tasks, kernel, &inputs, channels * ROW as usize).expect("runs");
    let found: Vec<bool> = bytes.chunks(ROW as usize).map(|row| row[0] == 1).collect();
    let wanted: Vec<bool> = x.iter().zip(&y).map(|(x, y)| x < y).collect();
    assert_eq!(found, wanted);
    assert!(wanted.contains(&true) && wanted.contains(&false));
    assert!(bytes.chunks(ROW as usize).all(|row| row[0] <= 1 && row[1..] == [0; 63]));
}

/// Each channel's sum times its factor, plus its bias: in the streams, or in streams of their own.
#[test]
fn channels_have_factors() {
    let cases = [
        Conv { scale: true, ..PLAIN },
        Conv { scale: true, bias: true, cout: 64, lanes: 4, groups: 2, ..PLAIN },
        Conv { scale: true, bias: true, cin: 8, cout: 8, unicast: true, stride: 2, side: 7, ..PLAIN },
    ];
    for conv in cases {
        let weights = conv.weights();
        let wanted = conv.reference(&weights);
        let streams = |conv: &Conv| {
            let dense = |g, first| conv.rows(&weights, g, first).iter().flat_map(|&w| half(w)).collect();
            conv.streams(&[], dense)
        };
        assert_eq!(conv.run(conv.task(), streams(&conv)).expect("runs"), wanted);
        // What follows every sum still does.
        let more = [(AccBias, 3.0), (PostScale, 0.5)].map(|(f, x)| (f, u32::from(f16::from_f32(x).to_bits())));
        let relu = with(with(conv.task(), &more), &[(NonlinearMode, nonlinear::RELU)]);
        let then: Vec<f32> = wanted.iter().map(|y| f32::max(0.5 * (y + 3.0), 0.0)).collect();
        assert_eq!(conv.run(relu, streams(&conv)).expect("runs"), then);
        let apart = Conv { scale: false, bias: false, ..conv };
        let halves = |values: Vec<f32>| values.into_iter().flat_map(half).collect::<Vec<u8>>();
        let mut extras = vec![(extra::POST_SCALE, halves(conv.scales()))];
        extras.extend(conv.bias.then(|| (extra::BIAS, halves(conv.biases()))));
        assert_eq!(conv.run_with(conv.task(), streams(&apart), extras).expect("runs"), wanted);
    }
    // Zeros are skipped behind them.
    let conv = Conv { scale: true, bias: true, stride: 2, ..PLAIN };
    let weights = conv.weights();
    let task = with(conv.task(), &[(SparseFmt, 1), (KernelDmaSparse, 1)]);
    let streams = conv.streams(&[], |g, first| conv.without_zeros(&weights, g, first));
    assert_eq!(conv.run(task, streams).expect("runs"), conv.reference(&weights));
    let source = rows_of(&[1.0; 10], 5);
    let unity = with(
        planar(format::FP16, format::FP16),
        &[
            (TaskClass, class::NEURAL),
            (NeOpMode, neural::BYPASS),
            (KernelMode, kernel::UNITY),
            (UnicastEn, 1),
            (PostScaleMode, 1),
        ],
    );
    let fault = execute(vec![unity], vec![], &[(SOURCE, &source)], 128).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::Inconsistent { field: PostScaleMode, .. }), "{fault}");
}

#[test]
fn bias_and_scale_have_exponents() {
    let conv = Conv { bias: true, ..PLAIN };
    let weights = conv.weights();
    let dense = |g, first| conv.rows(&weights, g, first).iter().flat_map(|&w| half(w)).collect();
    let numbers = [(AccBias, 3.0), (PostScale, 0.5)].map(|(f, x)| (f, u32::from(f16::from_f32(x).to_bits())));
    let run = |fields: &[(Field, u32)]| conv.run(with(with(conv.task(), &numbers), fields), conv.streams(&[], dense));
    let wanted =
        |bias: f32, scale: f32| conv.reference(&weights).iter().map(|y| (y + bias) * scale).collect::<Vec<_>>();
    assert_eq!(run(&[]).expect("runs"), wanted(3.0, 0.5));
    assert_eq!(run(&[(AccBiasShift, 3), (PostRightShift, 2)]).expect("runs"), wanted(24.0, 0.125));
    for field in [AccBiasShift, PostRightShift] {
        let fault = run(&[(field, 16)]);
        assert!(matches!(fault, Err(FaultKind::NotHonoured { field: f, .. }) if f == field), "{fault:?}");
    }
}

/// Cross-correlation: a convolution whose kernel is a runtime tensor.
#[test]
fn a_runtime_tensor_is_a_kernel() {
    let conv = Conv { cin: 4, cout: 4, unicast: true, ..PLAIN };
    let weights = conv.weights();
    let streams = conv.streams(&[], |g, first| conv.rows(&weights, g, first).iter().flat_map(|&w| half(w)).collect());
    let mut task = with(conv.task(), &[(KBase0, SECOND as u32), (RuntimeWeights, 1)]);
    for i in 0..4 {
        task.set_at(&H13, CoeffEn, i, 1).expect("fits");
        task.set_bytes_at(&H13, CoeffBase, i, 64 * u64::from(i)).expect("fits");
        task.set_bytes_at(&H13, CoeffSize, i, 64).expect("fits");
    }
    let [h, w] = conv.out();
    let inputs = [(SOURCE, &rows_of(&conv.source(), conv.side)[..]), (SECOND, &streams.concat()[..])];
    let bytes = execute(vec![task], vec![], &inputs, 4 * h * ROW as usize).expect("runs");
    assert_eq!(from_rows(&bytes, 4 * h, w), conv.reference(&weights));
}

#[test]
fn what_has_no_source_is_refused_by_name() {
    let conv = PLAIN;
    let weights = conv.weights();
    let dense = |g, first| conv.rows(&weights, g, first).iter().flat_map(|&w| half(w)).collect();
    let refused = |fields: &[(Field, u32)]| {
        let fault = conv.run(with(conv.task(), fields), conv.streams(&[], dense)).expect_err("must be refused");
        match fault {
            FaultKind::NotHonoured { field, .. } | FaultKind::Inconsistent { field, .. } => field,
            fault => panic!("{fault}"),
        }
    };
    assert_eq!(refused(&[(KernelFmt, 3)]), KernelFmt);
    assert_eq!(refused(&[(KernelFmt, format::INT8), (SparseFmt, 1), (KernelDmaSparse, 1)]), SparseFmt);
    assert_eq!(refused(&[(PalettizedEn, 1), (SparseFmt, 1), (KernelDmaSparse, 1)]), SparseFmt);
    assert_eq!(refused(&[(PalettizedEn, 1), (PalettizedBits, 3)]), PalettizedBits);
    assert_eq!(refused(&[(PalettizedEn, 1), (PalettizedBits, 4), (KernelFmt, format::INT8)]), KernelFmt);
    assert_eq!(refused(&[(Ox, 2)]), Ox);
    assert_eq!(refused(&[(InFmt, 3)]), InFmt);
    assert_eq!(refused(&[(ElemMultMode, 1)]), ElemMultMode);
    for (stream, mode) in [(extra::POST_SCALE, PostScaleMode), (extra::BIAS, BiasMode)] {
        let extras = vec![(stream, vec![0; 64])];
        let fault = conv.run_with(conv.task(), conv.streams(&[], dense), extras).expect_err("must be refused");
        assert!(matches!(fault, FaultKind::Inconsistent { field, .. } if field == mode), "{fault}");
    }
    let source = rows_of(&[1.0; 10], 5);
    let task = with(planar(format::FP16, format::FP16), &[(PeCond, 2)]);
    let fault = execute(vec![task], vec![], &[(SOURCE, &source)], 128).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::NotHonoured { field: PeCond, value: 2, .. }), "{fault}");
    let task = with(planar(format::FP16, format::FP16), &[(PeOp, 1)]);
    let fault = execute(vec![task], vec![], &[(SOURCE, &source)], 128).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::NotHonoured { field: PeOp, value: 1, .. }), "{fault}");
}
