//! Forms of coefficient streams and of operands, one program by hand each, against a plain reference.
//!
//! Values are small integers, so every result is exact and must be equal.

use anemone_engine::{FaultKind, Memory, Options, run};
use anemone_facts::Field::{self, *};
use anemone_facts::code::*;
use anemone_facts::kernel::{extra, zero_skip};
use anemone_facts::layout::H13;
use anemone_facts::lut::{STREAM_BYTES, place};
use anemone_program::{Program, Task, task::encode_stream};
use half::f16;

const RESULT: u8 = 4;
const SOURCE: u8 = 5;
const SECOND: u8 = 6;
const ROW: u64 = 64;

/// A task with these fields, and byte quantities, set.
fn task(fields: &[(Field, u32)], bytes: &[(Field, u64)]) -> Task {
    let mut task = Task::full(&H13);
    for &(field, value) in fields {
        task.set(&H13, field, value).unwrap_or_else(|e| panic!("{field:?}: {e}"));
    }
    for &(field, value) in bytes {
        task.set_bytes(&H13, field, value).unwrap_or_else(|e| panic!("{field:?}: {e}"));
    }
    task
}

fn with(mut task: Task, fields: &[(Field, u32)]) -> Task {
    fields.iter().for_each(|&(field, value)| task.set(&H13, field, value).expect("fits"));
    task
}

fn execute(mut tasks: Vec<Task>, kernel: Vec<u8>, inputs: &[(u8, &[u8])], out: usize) -> Result<Vec<u8>, FaultKind> {
    let first_task_words = tasks[0].word_count();
    let stream = encode_stream(&H13, &mut tasks).expect("encodes");
    let program =
        Program { name: "t".into(), layout: &H13, stream, first_task_words, kernel, scratch_bytes: 0, ports: vec![] };
    let mut memory = Memory::for_program(&program);
    inputs.iter().for_each(|(bar, bytes)| memory.bind(*bar, bytes));
    memory.bind(RESULT, &vec![0; out]);
    run(&program, &mut memory, Options::default()).map_err(|fault| fault.kind)?;
    Ok(memory.region(RESULT).expect("bound").bytes().to_vec())
}

/// A convolution of small extents.
#[derive(Clone, Copy)]
struct Conv {
    groups: usize,
    cin: usize,
    cout: usize,
    side: usize,
    kernel: [usize; 2],
    stride: usize,
    lanes: usize,
    unicast: bool,
    bias: bool,
}

const PLAIN: Conv =
    Conv { groups: 1, cin: 3, cout: 16, side: 6, kernel: [3, 3], stride: 1, lanes: 1, unicast: false, bias: false };

impl Conv {
    /// Input channels that an output channel reads.
    fn per_output(&self) -> usize {
        if self.unicast { self.cin / self.cout } else { self.cin }
    }

    fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    fn taps(&self) -> usize {
        self.per_output() * self.window()
    }

    fn engines(&self) -> usize {
        (self.cout / self.lanes).next_power_of_two().min(16)
    }

    /// Rows and columns of the result; no padding.
    fn out(&self) -> [usize; 2] {
        self.kernel.map(|k| (self.side - k) / self.stride + 1)
    }

    /// Small integers, about half of them 0.
    fn weights(&self) -> Vec<f32> {
        noise(self.groups * self.cout * self.taps(), 7).map(|x| if x < 0 { 0.0 } else { x as f32 - 2.0 }).collect()
    }

    fn biases(&self) -> Vec<f32> {
        (0..self.groups * self.cout).map(|i| i as f32 - 5.0).collect()
    }

    fn source(&self) -> Vec<f32> {
        noise(self.groups * self.cin * self.side * self.side, 3).map(|x| x as f32).collect()
    }

    fn task(&self) -> Task {
        let plane = ROW * self.side as u64;
        let out_plane = ROW * self.out()[0] as u64;
        task(
            &[
                (RBase0, SOURCE as u32),
                (Rbe0, 1),
                (WBase, RESULT as u32),
                (Wbe, 1),
                (KBase0, Program::KERNEL_BAR as u32),
                (Kbe0, 1),
                (Win, self.side as u32),
                (Hin, self.side as u32),
                (Cin, self.cin as u32),
                (Cout, self.cout as u32),
                (Wout, self.out()[1] as u32),
                (Hout, self.out()[0] as u32),
                (Din, 1),
                (Dout, 1),
                (InFmt, format::FP16),
                (OutFmt, format::FP16),
                (Src1MemFmt, format::FP16),
                (DstMemFmt, format::FP16),
                (Kw, self.kernel[1] as u32),
                (Kh, self.kernel[0] as u32),
                (Sx, self.stride as u32),
                (Sy, self.stride as u32),
                (OcgSize, self.lanes.ilog2()),
                (ActiveNe, self.engines().ilog2()),
                (NumGroups, self.groups as u32),
                (UnicastEn, u32::from(self.unicast)),
                (UnicastCin, self.per_output() as u32),
                (SrcType, residency::DMA),
                (ResType, residency::DMA),
                (KernelFmt, format::FP16),
                (PalettizedBits, constant::NO_PALETTE_BITS),
                (BiasMode, u32::from(self.bias)),
                (PostScale, 0x3c00),
                (DstEn, 1),
                (KernelDmaMaster, 1),
            ],
            &[
                (Src1RowStride, ROW),
                (Src1PlaneStride, plane),
                (Src1GroupStride, plane * self.cin as u64),
                (DstRowStride, ROW),
                (DstPlaneStride, out_plane),
                (DstGroupStride, out_plane * self.cout as u64),
            ],
        )
    }

    /// Streams from what stores one pass: group, first output channel of the pass.
    fn streams(&self, head: &[u8], pass: impl Fn(usize, usize) -> Vec<u8>) -> Vec<Vec<u8>> {
        (0..self.engines())
            .map(|engine| {
                let mut stream = head.to_vec();
                for g in 0..self.groups {
                    for first in (engine * self.lanes..self.cout).step_by(self.engines() * self.lanes) {
                        if self.bias {
                            let biases = self.biases();
                            stream.extend((0..self.lanes).flat_map(|l| half(biases[g * self.cout + first + l])));
                        }
                        stream.extend(pass(g, first));
                    }
                    stream.resize(stream.len().next_multiple_of(64), 0);
                }
                stream
            })
            .collect()
    }

    /// Coefficients of a pass, a row of lanes for each tap.
    fn rows(&self, weights: &[f32], g: usize, first: usize) -> Vec<f32> {
        (0..self.taps() * self.lanes)
            .map(|i| weights[(g * self.cout + first + i % self.lanes) * self.taps() + i / self.lanes])
            .collect()
    }

    /// A pass without zeros, written from the description in `docs/evidence.md`.
    fn without_zeros(&self, weights: &[f32], g: usize, first: usize) -> Vec<u8> {
        let order = zero_skip::order(self.kernel, [self.stride; 2]);
        let bits = self.lanes.max(4);
        let mut body = Vec::new();
        for input in 0..self.per_output() {
            let mut slots = vec![0.0; order.len() * bits];
            for (place, tap) in order.iter().enumerate() {
                for lane in 0..self.lanes {
                    let row = (g * self.cout + first + lane) * self.taps() + input * self.window();
                    slots[place * bits + lane] = tap.map_or(0.0, |tap| weights[row + tap]);
                }
            }
            for eight in slots.chunks(8) {
                body.push((0..eight.len()).map(|i| u8::from(eight[i] != 0.0) << i).sum());
                body.extend(eight.iter().filter(|&&v| v != 0.0).flat_map(|&v| half(v)));
            }
        }
        let mut pass = (body.len() as u32).to_le_bytes()[..3].to_vec();
        pass.extend(body);
        pass
    }

    fn run(&self, task: Task, streams: Vec<Vec<u8>>) -> Result<Vec<f32>, FaultKind> {
        self.run_with(task, streams, vec![])
    }

    /// Runs with extra streams behind the engines'.
    fn run_with(
        &self,
        mut task: Task,
        streams: Vec<Vec<u8>>,
        extras: Vec<(u32, Vec<u8>)>,
    ) -> Result<Vec<f32>, FaultKind> {
        let mut kernel = Vec::new();
        let mut put = |task: &mut Task, [en, base, size]: [Field; 3], i: u32, stream: &[u8]| {
            kernel.resize(kernel.len().next_multiple_of(64), 0);
            task.set_at(&H13, en, i, 1).expect("fits");
            task.set_bytes_at(&H13, base, i, kernel.len() as u64).expect("fits");
            task.set_bytes_at(&H13, size, i, stream.len().next_multiple_of(64) as u64).expect("fits");
            kernel.extend_from_slice(stream);
        };
        for (i, stream) in streams.iter().enumerate() {
            put(&mut task, [CoeffEn, CoeffBase, CoeffSize], i as u32, stream);
        }
        for (i, stream) in &extras {
            put(&mut task, [ExtraEn, ExtraBase, ExtraSize], *i, stream);
        }
        kernel.resize(kernel.len().next_multiple_of(64), 0);
        let [h, w] = self.out();
        let rows = self.groups * self.cout * h;
        let source = rows_of(&self.source(), self.side);
        let bytes = execute(vec![task], kernel, &[(SOURCE, &source)], rows * ROW as usize)?;
        Ok(from_rows(&bytes, rows, w))
    }

    fn reference(&self, weights: &[f32]) -> Vec<f32> {
        let (x, [h, w], n) = (self.source(), self.out(), self.side);
        let mut y = Vec::new();
        for co in 0..self.groups * self.cout {
            let first = co / self.cout * self.cin + if self.unicast { co % self.cout * self.per_output() } else { 0 };
            for (oh, ow) in (0..h * w).map(|i| (i / w, i % w)) {
                let mut sum = if self.bias { self.biases()[co] } else { 0.0 };
                for tap in 0..self.taps() {
                    let (ci, kh, kw) =
                        (tap / self.window(), tap % self.window() / self.kernel[1], tap % self.kernel[1]);
                    let at = ((first + ci) * n + oh * self.stride + kh) * n + ow * self.stride + kw;
                    sum += weights[co * self.taps() + tap] * x[at];
                }
                y.push(sum);
            }
        }
        y
    }
}

fn noise(n: usize, spread: i32) -> impl Iterator<Item = i32> {
    let mut state = 0x2545_f491u32;
    (0..n).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as i32 % (2 * spread + 1) - spread
    })
}

fn half(x: f32) -> [u8; 2] {
    f16::from_f32(x).to_le_bytes()
}

/// Rows of fp16 elements, 64 bytes each.
fn rows_of(values: &[f32], width: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in values.chunks(width) {
        bytes.extend(row.iter().flat_map(|&x| half(x)));
        bytes.resize(bytes.len().next_multiple_of(ROW as usize), 0);
    }
    bytes
}

fn from_rows(bytes: &[u8], rows: usize, width: usize) -> Vec<f32> {
    (0..rows * width)
        .map(|i| &bytes[i / width * ROW as usize + i % width * 2..][..2])
        .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
        .collect()
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
    for (fmt, low) in [(format::INT8, -7.0), (format::UINT8, 0.0)] {
        let conv = Conv { cout: 64, lanes: 4, groups: 2, bias: true, ..PLAIN };
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
    for bits in [2, 4, 6, 8] {
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

/// One channel of 2 x 5 elements through the planar engine.
fn planar(from: u32, to: u32) -> Task {
    task(
        &[
            (RBase0, SOURCE as u32),
            (Rbe0, 1),
            (WBase, RESULT as u32),
            (Wbe, 1),
            (TaskClass, class::PLANAR_ONE),
            (Win, 5),
            (Hin, 2),
            (Wout, 5),
            (Hout, 2),
            (Cin, 1),
            (Cout, 1),
            (NumGroups, 1),
            (Kw, 1),
            (Kh, 1),
            (Sx, 1),
            (Sy, 1),
            (InFmt, from),
            (Src1MemFmt, from),
            (OutFmt, to),
            (DstMemFmt, to),
            (SrcType, residency::DMA),
            (ResType, residency::DMA),
            (PeScale, 0x3c00),
            (PePreScale, 0x3c00),
            (PeFinalScale, 1f32.to_bits()),
            (DstEn, 1),
        ],
        &[(Src1RowStride, ROW), (DstRowStride, ROW)],
    )
}

/// What makes a planar task one of two sources.
fn two_sources(op: u32) -> [(Field, u32); 8] {
    [
        (TaskClass, class::PLANAR_TWO),
        (PeOp, op),
        (PeSecond, second::SOURCE),
        (RBase1, SECOND as u32),
        (Rbe1, 1),
        (Src2Type, 1),
        (Src2Fmt, format::FP16),
        (Src2MemFmt, format::FP16),
    ]
}

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

/// The planar task over two planes, one behind the other; the result leaves room for one between them.
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
    let refused = |task: Task| match run(vec![task], &[(SOURCE, &source)]).expect_err("must be refused") {
        FaultKind::NotHonoured { field, .. } => field,
        fault => panic!("{fault}"),
    };
    assert_eq!(refused(with(volume(format::FP16), &[(Dout, 1)])), Dout);
    assert_eq!(refused(with(volume(format::FP16), &[(TaskClass, class::PLANAR_REDUCE)])), Din);
    assert_eq!(refused(with(volume(format::FP16), &[(ResType, residency::CHAIN)])), ResType);
    assert_eq!(refused(with(volume(format::FP16), &[(Kd, 2)])), Kd);
    let fault = run(vec![with(volume(format::FP16), &[(Win, 32000), (Wout, 32000), (Din, 32000), (Dout, 32000)])], &[]);
    assert!(matches!(fault, Err(FaultKind::TooLarge { .. })), "{fault:?}");
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
    assert_eq!(refused(&[(PostScaleMode, 1)]), PostScaleMode);
    assert_eq!(refused(&[(Ox, 2)]), Ox);
    assert_eq!(refused(&[(InFmt, 3)]), InFmt);
    assert_eq!(refused(&[(ElemMultMode, 1)]), ElemMultMode);
    let extras = vec![(extra::POST_SCALE, vec![0; 64])];
    let fault = conv.run_with(conv.task(), conv.streams(&[], dense), extras).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::NotHonoured { field: ExtraEn, .. }), "{fault}");
    let extras = vec![(extra::BIAS, vec![0; 64])];
    let fault = conv.run_with(conv.task(), conv.streams(&[], dense), extras).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::Inconsistent { field: BiasMode, .. }), "{fault}");
    let source = rows_of(&[1.0; 10], 5);
    let task = with(planar(format::FP16, format::FP16), &[(PeCond, 2)]);
    let fault = execute(vec![task], vec![], &[(SOURCE, &source)], 128).expect_err("must be refused");
    assert!(matches!(fault, FaultKind::NotHonoured { field: PeCond, value: 2, .. }), "{fault}");
}
