//! Placed layers become task descriptors: every field by name, Apple's values where Apple's are known.
//!
//! Fields without functional effect (cache hints, patch shapes, tile heights, staging addresses) follow the rules found
//! in Apple's programs; outside those shapes they are a reading, not yet seen on silicon.

mod stage;

use crate::anec::*;
use crate::error::{Error, Result};
use crate::lut::Table;
use crate::pack::{Packing, engines_for};
use crate::place::{Address, Placed};
use crate::{Compat, Options};
use anemone_facts::chips::Chip;
use anemone_facts::code::*;
use anemone_facts::kernel::ENGINES;
use anemone_facts::{Field, Field::*, Layout, lut};
use anemone_program::{Direction, Element, FieldError, Nchw, Port, Program, Strides, Task, task::encode_stream};
use half::f16;
use std::collections::HashMap;

/// Emits the program.
pub fn emit(placed: Placed, chip: &'static Chip, options: &Options) -> Result<Program> {
    let layout = chip.layout.ok_or(Error::NoLayout { chip: chip.target })?;
    let mut kernel = Kernel { bytes: placed.constants.clone(), blocks: HashMap::new() };
    let hints = stage::Hints::of(&placed);
    let mut tasks = Vec::new();
    for (i, layer) in placed.graph.layers.iter().enumerate() {
        let emitter = Emitter { layout, chip, layer, placed: &placed, options, task: Task::full(layout) };
        let task = emitter
            .emit(&mut kernel, i, placed.graph.layers.len(), &hints)
            .map_err(|source| Error::Field { layer: layer.name.clone(), source })?;
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(Error::Net("the network computes nothing: every output is an input or a constant".into()));
    }
    let stream = encode_stream(layout, &mut tasks)
        .map_err(|source| Error::Field { layer: placed.graph.name.clone(), source })?;
    let first_task_words = tasks[0].word_count();
    if kernel.bytes.is_empty() {
        kernel.bytes.resize(constant::EMPTY_KERNEL_BYTES, 0);
    }
    Ok(Program {
        name: placed.graph.name.clone(),
        layout,
        stream,
        first_task_words,
        kernel: kernel.bytes,
        scratch_bytes: placed.scratch_bytes,
        ports: ports(&placed)?,
    })
}

fn ports(placed: &Placed) -> Result<Vec<Port>> {
    let sides = [(&placed.graph.inputs, Direction::Input), (&placed.graph.outputs, Direction::Output)];
    let mut ports = Vec::new();
    for (ids, direction) in sides {
        for &id in ids {
            let buffer = placed.graph.buffer(id);
            let (Some(view), Some(address)) = (&buffer.port, placed.addresses[id.0 as usize]) else { continue };
            let Some(v) = merged(view).nchw() else {
                return Err(Error::Net(format!("{}: a port has at most four axes", buffer.name)));
            };
            let shape = Nchw { n: v.groups() as u32, c: v.channels() as u32, h: v.height() as u32, w: v.width as u32 };
            let row_bytes = (v.width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
            let or = |stride: u64, default: u64| if stride == 0 { default } else { stride };
            let row_bytes = or(v.axes[2].stride_bytes, row_bytes);
            let plane_bytes = or(v.axes[1].stride_bytes, row_bytes * shape.h as u64);
            let batch_bytes = or(v.axes[0].stride_bytes, plane_bytes * shape.c as u64);
            ports.push(Port {
                name: buffer.name.clone(),
                direction,
                bar: address.bar,
                shape,
                strides: Strides { batch_bytes, plane_bytes, row_bytes },
                element: Element::Float16,
                bytes: buffer.bytes,
            });
        }
    }
    Ok(ports)
}

/// Leading axes beyond three merged from the outside in; ports are dense, so this never fails for them.
fn merged(view: &View) -> View {
    let mut view = view.clone();
    while view.lead.len() > 3 {
        let outer = view.lead.remove(0);
        view.lead[0].extent *= outer.extent;
    }
    view
}

/// The kernel section as it grows; equal blocks are stored once.
struct Kernel {
    bytes: Vec<u8>,
    blocks: HashMap<Vec<u8>, u64>,
}

impl Kernel {
    /// Offset of a block of streams.
    fn place(&mut self, block: Vec<u8>) -> u64 {
        if let Some(&offset) = self.blocks.get(&block) {
            return offset;
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ROW_ALIGN as usize), 0);
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&block);
        self.blocks.insert(block, offset);
        offset
    }
}

struct Emitter<'a> {
    layout: &'static Layout,
    chip: &'static Chip,
    layer: &'a Layer,
    placed: &'a Placed,
    options: &'a Options,
    task: Task,
}

type Set = std::result::Result<(), FieldError>;

impl Emitter<'_> {
    fn set(&mut self, field: Field, value: u32) -> Set {
        self.task.set(self.layout, field, value)
    }

    fn set_all(&mut self, fields: &[(Field, u32)]) -> Set {
        fields.iter().try_for_each(|&(f, v)| self.set(f, v))
    }

    fn set_size(&mut self, field: Field, value: usize) -> Set {
        let value =
            u32::try_from(value).map_err(|_| FieldError::Range { field, value: value as u64, max: u32::MAX })?;
        self.set(field, value)
    }

    fn set_half(&mut self, field: Field, value: f32) -> Set {
        self.set(field, f16::from_f32(value).to_bits() as u32)
    }

    fn set_bytes(&mut self, field: Field, value: u64) -> Set {
        self.task.set_bytes(self.layout, field, value)
    }

    fn is_neural(&self) -> bool {
        !matches!(self.layer.kind, Kind::Planar { .. } | Kind::Pool { .. } | Kind::Reduce { .. })
    }

    /// Whether the task multiplies with coefficients.
    fn convolves(&self) -> bool {
        matches!(self.layer.kind, Kind::Conv { .. } | Kind::Product { .. })
    }

    /// The planar engine's second source; the second source of a product is its coefficients.
    fn second_source(&self) -> Option<View4> {
        self.layer.sources.get(1).copied().filter(|_| !self.is_neural())
    }

    fn address(&self, view: &View4) -> Address {
        let base = self.placed.addresses[view.buffer.0 as usize].unwrap_or(Address { bar: 0, offset_bytes: 0 });
        Address { offset_bytes: base.offset_bytes + view.offset_bytes, ..base }
    }

    fn emit(
        mut self,
        kernel: &mut Kernel,
        index: usize,
        count: usize,
        hints: &stage::Hints,
    ) -> std::result::Result<Task, FieldError> {
        let packing = Packing::of(self.layer);
        let kernel_bytes = self.coefficients(kernel, &packing)?;
        self.header(index, count, kernel_bytes)?;
        self.common(&packing)?;
        self.sources(hints, index)?;
        self.destination(hints, index)?;
        self.staging(index)?;
        if self.is_neural() {
            self.neural()?
        } else {
            self.planar()?
        }
        Ok(self.task)
    }

    fn header(&mut self, index: usize, count: usize, kernel_bytes: u64) -> Set {
        let (first, last) = (index == 0, index + 1 == count);
        self.set_all(&[(Tid, index as u32), (Lnid, u32::from(!first)), (Eon, u32::from(last))])?;
        let moved: u64 =
            self.layer.sources.iter().chain([&self.layer.result]).map(dma_bytes).sum::<u64>() + kernel_bytes;
        self.set(ExeCycles, (moved * ESTIMATE_BYTES.1 / ESTIMATE_BYTES.0).min(0xffff) as u32)?;
        self.set(LogEvents, constant::LOG_ALWAYS | if last { constant::LOG_LAST } else { 0 })?;
        let mut debug = if first { constant::DEBUG_FIRST } else { 0 } | if last { constant::DEBUG_LAST } else { 0 };
        debug |= match &self.layer.kind {
            Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None } => 0,
            Kind::Neuron { nonlinear: Nonlinear::Table(t), .. } if uses_mantissa(t) => constant::DEBUG_COMPUTE_MANTISSA,
            _ => constant::DEBUG_COMPUTE,
        };
        self.set(DebugLogEvents, debug)?;
        // Groups of tasks between switch points: the first alone, then two by two.
        let (opens, closes) = (first || index % 2 == 1, first || index.is_multiple_of(2) || last);
        self.set_all(&[(Spl, u32::from(opens)), (Tsr, u32::from(closes)), (Tse, u32::from(closes))])?;
        self.set_all(&[(SrcLoc, 1), (DstLoc, 1)])?;
        let source = self.address(&self.layer.sources[0]);
        self.set_all(&[(RBase0, source.bar as u32), (Rbe0, 1)])?;
        if let Some(second) = self.second_source() {
            let bar = self.address(&second).bar;
            self.set_all(&[(RBase1, bar as u32), (Rbe1, 1)])?;
        }
        let result = self.address(&self.layer.result);
        self.set_all(&[(WBase, result.bar as u32), (Wbe, 1)])?;
        self.set_all(&[(TBase, Program::STREAM_BAR as u32), (Tbe, u32::from(!last))])?;
        if let Kind::Product { .. } = self.layer.kind {
            let bar = self.address(&self.layer.sources[1]).bar;
            self.set_all(&[(KBase0, bar as u32), (Kbe0, 1)])?;
        } else if kernel_bytes > 0 {
            self.set_all(&[(KBase0, Program::KERNEL_BAR as u32), (Kbe0, 1)])?;
        }
        Ok(())
    }

    /// Kernel DMA: places the streams and points the engines at them. Returns the bytes they move.
    fn coefficients(&mut self, kernel: &mut Kernel, packing: &Packing) -> std::result::Result<u64, FieldError> {
        if !self.is_neural() {
            return Ok(0);
        }
        for i in 0..ENGINES as u32 {
            self.task.set_at(self.layout, CoeffCacheHint, i, hint::NO_ALLOC)?;
            self.task.set_bytes_at(self.layout, CoeffSize, i, constant::IDLE_STREAM_BYTES)?;
        }
        for i in 0..4 {
            self.task.set_at(self.layout, ExtraCacheHint, i, hint::NO_ALLOC)?;
        }
        let (block, sizes, apart) = match &self.layer.kind {
            Kind::Conv { weights, bias, .. } => {
                let (block, sizes) = packing.streams(weights, bias.as_ref().map(|b| b.as_slice()));
                (block, sizes, true)
            }
            // All engines read the same table.
            Kind::Neuron { nonlinear: Nonlinear::Table(table), .. } => {
                (table.stream(), vec![lut::STREAM_BYTES as u64; packing.active()], false)
            }
            // The streams are in memory already: a plane each.
            Kind::Product { .. } => {
                let planes = self.layer.sources[1];
                let base = self.address(&planes).offset_bytes;
                self.set(KernelDmaMaster, 1)?;
                for i in 0..planes.channels() {
                    let at = base + i as u64 * planes.axes[1].stride_bytes;
                    self.task.set_at(self.layout, CoeffEn, i as u32, 1)?;
                    self.task.set_bytes_at(self.layout, CoeffBase, i as u32, at)?;
                    self.task.set_bytes_at(self.layout, CoeffSize, i as u32, packing.stream_bytes())?;
                }
                return Ok(0);
            }
            _ => return Ok(0),
        };
        let bytes = block.len() as u64;
        let mut offset = kernel.place(block);
        self.set(KernelDmaMaster, 1)?;
        self.set(KernelDmaSparse, u32::from(packing.skips_zeros()))?;
        self.set(SparseFmt, u32::from(packing.skips_zeros()))?;
        for (i, size) in (0..).zip(sizes) {
            self.task.set_at(self.layout, CoeffEn, i, 1)?;
            self.task.set_bytes_at(self.layout, CoeffBase, i, offset)?;
            self.task.set_bytes_at(self.layout, CoeffSize, i, size)?;
            offset += if apart { size } else { 0 };
        }
        Ok(bytes)
    }

    /// Extents as the unit computes them, before a transpose on the way out.
    fn computed(&self) -> (usize, usize, usize) {
        let r = &self.layer.result;
        if self.layer.transpose { (r.width, r.height(), r.channels()) } else { (r.channels(), r.height(), r.width) }
    }

    /// Source extents with broadcast axes at full size.
    fn input(&self) -> (usize, usize, usize) {
        let (c, h, w) = self.computed();
        match self.layer.kind {
            Kind::Planar { .. } => (c, h, w),
            _ => {
                let s = &self.layer.sources[0];
                (s.channels(), s.height(), s.width)
            }
        }
    }

    fn common(&mut self, packing: &Packing) -> Set {
        let (cin, hin, win) = self.input();
        let (cout, mut hout, mut wout) = self.computed();
        let (mut task_class, mut mask) = (class::NEURAL, source_mask::USUAL);
        match self.layer.kind {
            Kind::Planar { .. } => (task_class, mask) = (class::PLANAR_TWO, source_mask::BOTH),
            Kind::Pool { .. } => task_class = class::PLANAR_ONE,
            Kind::Reduce { .. } => {
                task_class = class::PLANAR_REDUCE;
                (hout, wout) = (hin, win);
            }
            _ => {}
        }
        let sizes = [(Win, win), (Hin, hin), (Din, 1), (Cin, cin), (Cout, cout), (Wout, wout), (Hout, hout), (Dout, 1)];
        for (field, value) in sizes {
            self.set_size(field, value)?;
        }
        self.set_all(&[(InFmt, format::FP16), (OutFmt, format::FP16), (TaskClass, task_class), (SourceMask, mask)])?;
        if self.second_source().is_some() {
            self.set(Src2Fmt, format::FP16)?;
        }
        let window = match &self.layer.kind {
            Kind::Conv { window, .. } | Kind::Pool { window, .. } => *window,
            _ => Window::UNIT,
        };
        let axes = [(Kh, Sy, Py), (Kw, Sx, Px)];
        for (axis, (k, s, p)) in axes.into_iter().enumerate() {
            self.set_size(k, window.kernel[axis])?;
            self.set_size(s, window.stride[axis])?;
            self.set_size(p, window.pad[axis])?;
        }
        self.set_all(&[(Ox, 1), (Oy, 1), (Kd, 1), (Sz, 1), (Oz, 1)])?;
        self.set_size(NumGroups, self.layer.result.groups())?;
        let (unicast, per_output) = match &self.layer.kind {
            // A single output channel is a unicast too: it reads all channels by itself.
            Kind::Conv { connect: Connect::Dense, .. } if cout == 1 && cin > 1 => (1, cin),
            Kind::Conv { connect: Connect::Dense, .. } => (0, 1),
            Kind::Conv { connect: Connect::Unicast { per_output }, .. } => (1, *per_output),
            Kind::MaxChannels => (1, cin),
            Kind::Neuron { .. } => (1, 1),
            _ => (0, 1),
        };
        self.set(UnicastEn, unicast)?;
        self.set_size(UnicastCin, per_output)?;
        for (i, fields) in
            [[Src1BroadcastC, Src1BroadcastH, Src1BroadcastW], [Src2BroadcastC, Src2BroadcastH, Src2BroadcastW]]
                .into_iter()
                .enumerate()
                .take(self.layer.broadcast.len())
        {
            for (field, on) in fields.into_iter().zip(self.layer.broadcast[i]) {
                self.set(field, u32::from(on))?;
            }
        }
        if self.is_neural() {
            let engines = if self.convolves() { packing.engines } else { engines_for(cout) };
            self.set(ActiveNe, engines.ilog2())?;
            self.set(Ene, engines.ilog2() + 1)?;
            self.set(OcgSize, packing.lanes.ilog2())?;
            self.set(TaskNid, 1)?;
            self.set(NeTranspose, u32::from(self.layer.transpose))?;
        }
        Ok(())
    }

    fn sources(&mut self, hints: &stage::Hints, index: usize) -> Set {
        let first = self.layer.sources[0];
        let address = self.address(&first);
        self.set(Src1En, 1)?;
        let [hint, reuse, no_reuse] = hints.source(index, 0);
        self.set_all(&[(Src1CacheHint, hint), (Src1CacheHintReuse, reuse), (Src1CacheHintNoReuse, no_reuse)])?;
        self.set(DependencyMode, u32::from(hints.depends(index)))?;
        self.strides(&first, address, [Src1Base, Src1RowStride, Src1PlaneStride, Src1DepthStride, Src1GroupStride])?;
        self.set_all(&[
            (Src1FmtMode, 1),
            (Src1Truncate, constant::TRUNCATE),
            (Src1MemFmt, format::FP16),
            (Src1Interleave, 1),
        ])?;
        let second = self.second_source();
        let [hint, reuse, no_reuse] = match second {
            Some(_) => hints.source(index, 1),
            None => [hint::NO_ALLOC; 3],
        };
        self.set_all(&[(Src2CacheHint, hint), (Src2CacheHintReuse, reuse), (Src2CacheHintNoReuse, no_reuse)])?;
        if let Some(second) = second {
            let address = self.address(&second);
            self.strides(
                &second,
                address,
                [Src2Base, Src2RowStride, Src2PlaneStride, Src2DepthStride, Src2GroupStride],
            )?;
            self.set_all(&[(Src2Truncate, constant::TRUNCATE), (Src2MemFmt, format::FP16), (Src2Type, 1)])?;
        }
        self.set_all(&[(SrcType, residency::DMA), (Unk13840Bit8, u32::from(self.is_neural()))])
    }

    fn destination(&mut self, hints: &stage::Hints, index: usize) -> Set {
        let result = self.layer.result;
        let address = self.address(&result);
        let external = address.bar != Program::SCRATCH_BAR;
        let hint = if external { hint::DST_EXTERNAL } else { hint::DST_INTERMEDIATE };
        // Memory-to-memory tasks that do not convolve pass results through one simple buffer.
        let simple = !self.convolves();
        self.set_all(&[(DstEn, 1), (DstCacheHint, hint), (L2BfrMode, u32::from(simple))])?;
        if let Some(distance) = hints.hazard(index) {
            self.set_all(&[(HazardEn, 1), (HazardDistance, distance)])?;
        }
        self.strides(&result, address, [DstBase, DstRowStride, DstPlaneStride, DstDepthStride, DstGroupStride])?;
        self.set_all(&[(DstFmtMode, 1), (DstTruncate, constant::TRUNCATE), (DstMemFmt, format::FP16)])?;
        self.set_size(DstInterleave, self.layer.interleave)?;
        // 4.2.1 leaves the padding of planar results alone.
        let zero_pad = u32::from(self.is_neural() || self.options.compat != Compat::Zin421);
        self.set_all(&[(ZeroPadFirst, zero_pad), (ZeroPadLast, zero_pad)])?;
        self.set_all(&[(ResType, residency::DMA), (ResBfrMode, if simple { constant::SIMPLE_BUFFER } else { 0 })])
    }

    /// Base and strides of one DMA engine; axes of a single element get the stride a dense tensor would have.
    fn strides(&mut self, view: &View4, address: Address, [base, row, plane, depth, group]: [Field; 5]) -> Set {
        let [g, c, h] = view.axes;
        let or =
            |axis: Axis, dense: u64| if axis.extent == 1 && axis.stride_bytes == 0 { dense } else { axis.stride_bytes };
        let row_bytes = or(h, (view.width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN));
        let plane_bytes = or(c, row_bytes * h.extent as u64);
        let whole = stage::whole_planes(self.placed, view).max(c.extent) as u64;
        let depth_bytes = plane_bytes.saturating_mul(whole).min(u32::MAX as u64 & !63);
        self.set_bytes(base, address.offset_bytes)?;
        self.set_bytes(row, row_bytes)?;
        self.set_bytes(plane, plane_bytes)?;
        self.set_bytes(depth, depth_bytes)?;
        // A single group needs no stride, and 4.2.1 writes none.
        self.set_bytes(group, if g.extent > 1 { g.stride_bytes } else { 0 })
    }

    fn neural(&mut self) -> Set {
        self.set_all(&[(Unkc804Bit20, 1), (PalettizedBits, constant::NO_PALETTE_BITS)])?;
        self.set_half(PostScale, 1.0)?;
        let function = match &self.layer.kind {
            Kind::Conv { bias, post_scale, nonlinear, .. } => {
                self.set_all(&[(KernelFmt, format::FP16), (BinaryPoint, constant::BINARY_POINT_FP16)])?;
                self.set(BiasMode, u32::from(bias.is_some()))?;
                self.set_half(PostScale, *post_scale)?;
                nonlinear
            }
            Kind::Neuron { add, post_scale, nonlinear } => {
                self.set(KernelMode, kernel::UNITY)?;
                self.set_half(PostScale, *post_scale)?;
                if *add == 0.0 {
                    self.set(NeOpMode, neural::BYPASS)?;
                } else {
                    self.set_half(AccBias, *add)?;
                    self.set(DpeCategory, 1)?;
                }
                nonlinear
            }
            Kind::Product { .. } => {
                self.set_all(&[
                    (KernelFmt, format::FP16),
                    (BinaryPoint, constant::BINARY_POINT_FP16),
                    (RuntimeWeights, 1),
                ])?;
                &Nonlinear::None
            }
            _ => {
                self.set_all(&[
                    (NeOpMode, neural::MAX),
                    (KernelMode, kernel::UNITY),
                    (PaddingMode, padding::NEGATIVE),
                ])?;
                &Nonlinear::None
            }
        };
        let mode = match function {
            Nonlinear::None => nonlinear::NONE,
            Nonlinear::Relu => nonlinear::RELU,
            Nonlinear::Table(_) => nonlinear::LUT,
        };
        self.set(NonlinearMode, mode)
    }

    fn planar(&mut self) -> Set {
        let (affine, relu) = match &self.layer.kind {
            Kind::Planar { op, affine, relu } => {
                let (op, operand) = match op {
                    PlanarOp::Add => (planar::ADD, second::SOURCE),
                    PlanarOp::Sub => (planar::ADD, second::NEGATED),
                    PlanarOp::Mul => (planar::MUL, second::SOURCE),
                    PlanarOp::Max => (planar::MAX, second::SOURCE),
                    PlanarOp::Min => (planar::MIN, second::SOURCE),
                };
                self.set_all(&[(PeOp, op), (PeSecond, operand)])?;
                (affine, *relu)
            }
            Kind::Pool { op, abs, affine, relu, .. } => {
                self.pool_op(*op, *abs)?;
                (affine, *relu)
            }
            Kind::Reduce { op, abs, affine, reciprocal } => {
                self.pool_op(*op, *abs)?;
                self.set(PeNonlinear, u32::from(*reciprocal))?;
                (affine, false)
            }
            _ => return Ok(()),
        };
        self.set(PeReluEn, u32::from(relu))?;
        self.set_half(PePreScale, affine.pre_scale)?;
        self.set_half(PeScale, affine.scale)?;
        self.set_half(PeBias, affine.bias)?;
        self.set(PeFinalScale, affine.final_scale.to_bits())
    }

    fn pool_op(&mut self, op: PoolOp, abs: bool) -> Set {
        if op == PoolOp::Max {
            self.set_all(&[(PePool, pool::MAX), (PaddingMode, padding::NEGATIVE)])?;
        }
        self.set(PeCond, u32::from(abs))
    }
}

/// Bytes that DMA moves for a view: whole 64-byte granules per row.
fn dma_bytes(view: &View4) -> u64 {
    let rows: u64 = view.axes.iter().map(|a| a.extent as u64).product();
    rows * (view.width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN)
}

/// Tables that work on an argument's mantissa log fewer events.
fn uses_mantissa(table: &Table) -> bool {
    use lut::Mode::*;
    matches!(table.mode, Sqrt | Rsqrt | Reciprocal | Log2)
}
