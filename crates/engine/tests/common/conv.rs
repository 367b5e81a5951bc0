//! Convolutions of small integers, with their streams and a plain reference.

use super::*;
use anemone_facts::code::constant;
use anemone_facts::kernel::zero_skip;
use half::f16;

pub const ROW: u64 = 64;

/// A convolution of small extents.
#[derive(Clone, Copy)]
pub struct Conv {
    pub groups: usize,
    pub cin: usize,
    pub cout: usize,
    pub side: usize,
    pub kernel: [usize; 2],
    pub stride: usize,
    pub lanes: usize,
    pub unicast: bool,
    pub scale: bool,
    pub bias: bool,
}

pub const PLAIN: Conv = Conv {
    groups: 1,
    cin: 3,
    cout: 16,
    side: 6,
    kernel: [3, 3],
    stride: 1,
    lanes: 1,
    unicast: false,
    scale: false,
    bias: false,
};

impl Conv {
    /// Input channels that an output channel reads.
    pub fn per_output(&self) -> usize {
        if self.unicast { self.cin / self.cout } else { self.cin }
    }

    pub fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    pub fn taps(&self) -> usize {
        self.per_output() * self.window()
    }

    pub fn engines(&self) -> usize {
        (self.cout / self.lanes).next_power_of_two().min(16)
    }

    /// Rows and columns of the result; no padding.
    pub fn out(&self) -> [usize; 2] {
        self.kernel.map(|k| (self.side - k) / self.stride + 1)
    }

    /// Small integers, about half of them 0.
    pub fn weights(&self) -> Vec<f32> {
        noise(self.groups * self.cout * self.taps(), 7).map(|x| if x < 0 { 0.0 } else { x as f32 - 2.0 }).collect()
    }

    pub fn biases(&self) -> Vec<f32> {
        (0..self.groups * self.cout).map(|i| i as f32 - 5.0).collect()
    }

    /// Powers of two.
    pub fn scales(&self) -> Vec<f32> {
        (0..self.groups * self.cout).map(|i| [0.5, 1.0, -2.0][i % 3]).collect()
    }

    pub fn source(&self) -> Vec<f32> {
        noise(self.groups * self.cin * self.side * self.side, 3).map(|x| x as f32).collect()
    }

    pub fn task(&self) -> Task {
        let plane = ROW * self.side as u64;
        let out_plane = ROW * self.out()[0] as u64;
        let own = [
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
            (Kw, self.kernel[1] as u32),
            (Kh, self.kernel[0] as u32),
            (Sx, self.stride as u32),
            (Sy, self.stride as u32),
            (OcgSize, self.lanes.ilog2()),
            (ActiveNe, self.engines().ilog2()),
            (NumGroups, self.groups as u32),
            (UnicastEn, u32::from(self.unicast)),
            (UnicastCin, self.per_output() as u32),
            (KernelFmt, format::FP16),
            (PalettizedBits, constant::NO_PALETTE_BITS),
            (PostScaleMode, u32::from(self.scale)),
            (BiasMode, u32::from(self.bias)),
            (PostScale, 0x3c00),
            (KernelDmaMaster, 1),
        ];
        let strides = [
            (Src1RowStride, ROW),
            (Src1PlaneStride, plane),
            (Src1GroupStride, plane * self.cin as u64),
            (DstRowStride, ROW),
            (DstPlaneStride, out_plane),
            (DstGroupStride, out_plane * self.cout as u64),
        ];
        with(task(&FROM_MEMORY, &strides), &own)
    }

    /// Streams from what stores one pass: group, first output channel of the pass.
    pub fn streams(&self, head: &[u8], pass: impl Fn(usize, usize) -> Vec<u8>) -> Vec<Vec<u8>> {
        (0..self.engines())
            .map(|engine| {
                let mut stream = head.to_vec();
                for g in 0..self.groups {
                    for first in (engine * self.lanes..self.cout).step_by(self.engines() * self.lanes) {
                        for (_, values) in [(self.scale, self.scales()), (self.bias, self.biases())]
                            .into_iter()
                            .filter(|(inline, _)| *inline)
                        {
                            stream.extend((0..self.lanes).flat_map(|l| half(values[g * self.cout + first + l])));
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
    pub fn rows(&self, weights: &[f32], g: usize, first: usize) -> Vec<f32> {
        (0..self.taps() * self.lanes)
            .map(|i| weights[(g * self.cout + first + i % self.lanes) * self.taps() + i / self.lanes])
            .collect()
    }

    /// A pass without zeros, written from the description in `docs/evidence.md`.
    pub fn without_zeros(&self, weights: &[f32], g: usize, first: usize) -> Vec<u8> {
        let order = zero_skip::order(self.kernel, [self.stride; 2]);
        let least = if self.out().into_iter().max() <= Some(8) { 4 } else { 2 };
        let bits = self.lanes.max(least);
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

    pub fn run(&self, task: Task, streams: Vec<Vec<u8>>) -> Result<Vec<f32>, FaultKind> {
        self.run_with(task, streams, vec![])
    }

    /// Runs with extra streams behind the engines'.
    pub fn run_with(
        &self,
        task: Task,
        streams: Vec<Vec<u8>>,
        extras: Vec<(u32, Vec<u8>)>,
    ) -> Result<Vec<f32>, FaultKind> {
        self.run_on(vec![], task, streams, extras, &self.source(), 1)
    }

    /// Runs over so many planes of result, after other tasks.
    pub fn run_on(
        &self,
        mut before: Vec<Task>,
        mut task: Task,
        streams: Vec<Vec<u8>>,
        extras: Vec<(u32, Vec<u8>)>,
        source: &[f32],
        planes: usize,
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
        let rows = self.groups * self.cout * h * planes;
        let source = rows_of(source, self.side);
        before.push(task);
        // Small integers are the same in every model.
        let run = |model| {
            let bytes = execute_in(model, before.clone(), kernel.clone(), &[(SOURCE, &source)], rows * ROW as usize)?;
            Ok(from_rows(&bytes, rows, w))
        };
        let fast = run(Model::Fast);
        // A trace changes nothing, and counts every product and every plane that is read or written.
        let options = Options { trace: true, ..Options::default() };
        if let Ok((traced, bytes)) =
            outcome(options, before.clone(), kernel.clone(), &[(SOURCE, &source)], rows * ROW as usize)
        {
            let get = |field| before.last().and_then(|t| t.get(&H13, field)).unwrap_or(0).max(1) as usize;
            let outputs = get(Dout) * self.groups * self.cout * h * w;
            let read = get(Din) * self.groups * self.cin * self.side * self.side;
            let last = traced.trace.last().expect("a task");
            assert_eq!(last.macs, (outputs * get(Kd) * self.taps()) as u64);
            assert_eq!(last.moved.destination, 2 * outputs as u64);
            assert_eq!(last.moved.source1, if before.len() == 1 { 2 * read as u64 } else { 0 });
            assert_eq!(from_rows(&bytes, rows, w), fast.clone().expect("runs"));
        }
        Model::ALL.into_iter().for_each(|model| assert_eq!(run(model), fast, "{model:?}"));
        fast
    }

    pub fn reference(&self, weights: &[f32]) -> Vec<f32> {
        self.reference_on(&self.source(), weights)
    }

    pub fn reference_on(&self, x: &[f32], weights: &[f32]) -> Vec<f32> {
        let ([h, w], n) = (self.out(), self.side);
        let mut y = Vec::new();
        for co in 0..self.groups * self.cout {
            let first = co / self.cout * self.cin + if self.unicast { co % self.cout * self.per_output() } else { 0 };
            for (oh, ow) in (0..h * w).map(|i| (i / w, i % w)) {
                let mut sum = 0.0;
                for tap in 0..self.taps() {
                    let (ci, kh, kw) =
                        (tap / self.window(), tap % self.window() / self.kernel[1], tap % self.kernel[1]);
                    let at = ((first + ci) * n + oh * self.stride + kh) * n + ow * self.stride + kw;
                    sum += weights[co * self.taps() + tap] * x[at];
                }
                let scale = if self.scale { self.scales()[co] } else { 1.0 };
                y.push(scale * sum + if self.bias { self.biases()[co] } else { 0.0 });
            }
        }
        y
    }
}

pub fn noise(n: usize, spread: i32) -> impl Iterator<Item = i32> {
    let mut state = 0x2545_f491u32;
    (0..n).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as i32 % (2 * spread + 1) - spread
    })
}

pub fn half(x: f32) -> [u8; 2] {
    f16::from_f32(x).to_le_bytes()
}

/// Rows of fp16 elements, 64 bytes each.
pub fn rows_of(values: &[f32], width: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in values.chunks(width) {
        bytes.extend(row.iter().flat_map(|&x| half(x)));
        bytes.resize(bytes.len().next_multiple_of(ROW as usize), 0);
    }
    bytes
}

pub fn from_rows(bytes: &[u8], rows: usize, width: usize) -> Vec<f32> {
    (0..rows * width)
        .map(|i| &bytes[i / width * ROW as usize + i % width * 2..][..2])
        .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
        .collect()
}

/// One channel of 2 x 5 elements through the planar engine.
pub fn planar(from: u32, to: u32) -> Task {
    let mut task = with(planar_task(from, to), &[(Win, 5), (Hin, 2), (Wout, 5), (Hout, 2), (Cin, 1), (Cout, 1)]);
    for field in [Src1RowStride, DstRowStride] {
        task.set_bytes(&H13, field, ROW).expect("fits");
    }
    task
}
