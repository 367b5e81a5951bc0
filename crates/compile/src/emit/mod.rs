//! Emission: placed layers become task descriptors, every field by name, with Apple's values where those are known.
//!
//! Fields without functional effect (cache hints, patch shapes, tile heights, staging addresses) follow the rules found
//! in Apple's programs; outside those shapes they are a reading, not yet seen on silicon.

mod extension;
mod zin421;
mod zin9509;

pub(crate) use extension::name_family;

use crate::error::{Error, Result};
use crate::ir::*;
use crate::lut::Table;
use crate::memory::{Address, Place, Placed};
use crate::options::{Convention, Conventions, Options};
use crate::remarks::{Log, Progress};
use crate::stream::pack::{Packing, engines_for};
use crate::tile::copies;
use anemone_facts::chips::Chip;
use anemone_facts::code::*;
use anemone_facts::kernel::ENGINES;
use anemone_facts::{Field, Field::*, Layout, lut};
use anemone_program::{Direction, Element, FieldError, Nchw, Port, Program, Run, Strides, Task, task::encode_stream};
use half::f16;
use std::collections::HashMap;
use std::sync::Arc;

/// Emits the program.
pub fn emit(mut placed: Placed, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Program> {
    let layout = chip.layout.ok_or(Error::NoLayout { chip: chip.target })?;
    let mut kernel = Kernel { bytes: Vec::with_capacity(kernel_bytes(&placed)), blocks: HashMap::new() };
    kernel.bytes.extend_from_slice(&placed.constants);
    let hints = zin421::Hints::of(&placed, layout);
    let mut tasks = Vec::new();
    for i in 0..placed.graph.layers.len() {
        let layer = &placed.graph.layers[i];
        if let Kind::Own(own) = &layer.kind {
            let task = extension::task(layout, own, layer, &placed, i, placed.graph.layers.len());
            tasks.push(task.map_err(|source| Error::Field { layer: layer.name.clone(), source })?);
            continue;
        }
        let emitter = Emitter { layout, chip, index: i, layer, placed: &placed, options, task: Task::full(layout) };
        let task = emitter
            .emit(&mut kernel, placed.graph.layers.len(), &hints)
            .map_err(|source| Error::Field { layer: layer.name.clone(), source })?;
        tasks.push(task);
        // They stand in the kernel section now: the whole model is not held twice.
        if let Kind::Conv { weights, .. } = &mut placed.graph.layers[i].kind {
            let bytes = weights.values.len() as u64 * ELEMENT_BYTES;
            *weights = Arc::new(weights.with(Vec::new()));
            log.progress(Progress { done: i + 1, layers: placed.graph.layers.len(), bytes });
        }
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
        kernel: kernel.bytes.into(),
        scratch_bytes: placed.scratch_bytes,
        ports: ports(&placed)?,
    })
}

/// Bytes that the kernel section takes at most, but for tables of layers without coefficients.
fn kernel_bytes(placed: &Placed) -> usize {
    let of_layer = |layer: &Layer| match &layer.kind {
        Kind::Conv { .. } => Packing::of(layer).total_bytes().next_multiple_of(ROW_ALIGN) as usize,
        _ => 0,
    };
    placed.constants.len() + placed.graph.layers.iter().map(of_layer).sum::<usize>()
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
    /// Offsets of blocks, by a cheap key: their length and the bytes in their middle.
    blocks: HashMap<(usize, Vec<u8>), Vec<usize>>,
}

impl Kernel {
    /// Offset of a block of streams, which `put` appends, and its size.
    fn place<T>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> T) -> (u64, u64, T) {
        const TELLING_BYTES: usize = 64;
        let before = self.bytes.len();
        self.bytes.resize(before.next_multiple_of(ROW_ALIGN as usize), 0);
        let start = self.bytes.len();
        let told = put(&mut self.bytes);
        let (known, block) = self.bytes.split_at(start);
        let middle = block.len() / 2;
        let key = (block.len(), block[middle..block.len().min(middle + TELLING_BYTES)].to_vec());
        let (bytes, alike) = (block.len() as u64, self.blocks.entry(key).or_default());
        if let Some(&at) = alike.iter().find(|&&at| known[at..].starts_with(block)) {
            self.bytes.truncate(before);
            return (at as u64, bytes, told);
        }
        alike.push(start);
        (start as u64, bytes, told)
    }
}

struct Emitter<'a> {
    layout: &'static Layout,
    chip: &'static Chip,
    /// Position of the layer.
    index: usize,
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

    fn conventions(&self) -> &'static Conventions {
        self.options.conventions()
    }

    fn is_neural(&self) -> bool {
        self.layer.is_neural()
    }

    fn convolves(&self) -> bool {
        self.layer.convolves()
    }

    /// Number of active engines.
    fn engines(&self, packing: &Packing) -> usize {
        match &self.layer.kind {
            _ if self.convolves() => packing.engines,
            // A granule of eight elements is turned at a time.
            _ if self.conventions().transposes_by_eight && self.layer.transpose => {
                engines_for(self.layer.result.channels().max(8))
            }
            _ => engines_for(self.computed().0),
        }
    }

    /// Address of a resident source in tile memory.
    fn source_place(&self, source: usize) -> Option<Place> {
        self.placed.residency.source(self.index, source, self.layer.sources.get(source)?)
    }

    /// Address of the resident second source of a planar task.
    fn second_place(&self) -> Option<Place> {
        self.second_source().and_then(|_| self.source_place(1))
    }

    /// Address of a resident result.
    fn result_place(&self) -> Option<Place> {
        self.placed.residency.resident(&self.layer.result)
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
        count: usize,
        hints: &zin421::Hints,
    ) -> std::result::Result<Task, FieldError> {
        let (index, packing) = (self.index, Packing::of(self.layer));
        let kernel_bytes = self.coefficients(kernel, &packing)?;
        self.header(index, count, kernel_bytes)?;
        self.common(&packing)?;
        self.sources(hints, index)?;
        self.destination(hints, index)?;
        self.staging(index)?;
        if self.is_neural() {
            self.neural(&packing)?
        } else {
            self.planar()?
        }
        if self.conventions().idle_streams_left_out && kernel_bytes == 0 && !self.convolves() {
            self.leave_out_streams();
        }
        Ok(self.task)
    }

    /// Sources that the DMA loads.
    fn streamed_sources(&self) -> impl Iterator<Item = &View4> {
        let sources = self.layer.sources.iter().enumerate().filter(|(i, _)| self.source_place(*i).is_none());
        sources.map(|(_, v)| v)
    }

    /// Operands that the DMA moves.
    fn streamed(&self) -> impl Iterator<Item = &View4> {
        self.streamed_sources().chain(Some(&self.layer.result).filter(|_| self.result_place().is_none()))
    }

    /// Tasks of a chain overlap.
    fn overlap(&mut self) -> Set {
        let allocations = self.placed.residency.allocations();
        let (first, second) = (allocations.chains(self.index), self.index > 0 && allocations.chains(self.index - 1));
        let bits = [(OverlapFirst, first), (OverlapSecond, second), (DisallowAbort, first)];
        bits.into_iter().try_for_each(|(field, on)| self.set(field, u32::from(on)))
    }

    /// Without coefficients, bases and sizes of the streams are not written.
    fn leave_out_streams(&mut self) {
        let (Some(from), Some(to)) = (self.layout.row(CoeffBase), self.layout.row(ExtraEn)) else { return };
        let Some(at) =
            self.task.runs.iter().position(|r| (r.addr..r.addr + 4 * r.words.len() as u32).contains(&from.addr))
        else {
            return;
        };
        let run = &mut self.task.runs[at];
        let rest = run.words.split_off((to.addr - run.addr) as usize / 4);
        run.words.truncate((from.addr - run.addr) as usize / 4);
        self.task.runs.insert(at + 1, Run::consecutive(to.addr, rest));
    }

    fn header(&mut self, index: usize, count: usize, kernel_bytes: u64) -> Set {
        let (first, last) = (index == 0, index + 1 == count);
        self.set_all(&[(Tid, index as u32), (Lnid, u32::from(!first)), (Eon, u32::from(last))])?;
        let moved: u64 = self.streamed().map(dma_bytes).sum::<u64>() + kernel_bytes;
        let moving = moved * ESTIMATE_BYTES.1 / ESTIMATE_BYTES.0;
        let planes: u64 = self.streamed_sources().map(|v| (v.groups() * v.channels()) as u64).sum();
        let estimate = if self.conventions().estimates_count_planes {
            moving.max(planes / ESTIMATE_PLANES).max(self.computing())
        } else {
            moving
        };
        self.set(ExeCycles, estimate.min(0xffff) as u32)?;
        let log_first = if first && self.conventions().first_task_logged { constant::LOG_FIRST } else { 0 };
        self.set(LogEvents, constant::LOG_ALWAYS | log_first | if last { constant::LOG_LAST } else { 0 })?;
        let begins = match self.options.convention {
            Convention::Samples => constant::DEBUG_FIRST,
            Convention::Book => constant::DEBUG_FIRST_BOOK,
        };
        let mut debug = if first { begins } else { 0 } | if last { constant::DEBUG_LAST } else { 0 };
        debug |= match &self.layer.kind {
            Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None } => 0,
            Kind::Neuron { nonlinear: Nonlinear::Table(t), .. }
            | Kind::SumChannels { nonlinear: Nonlinear::Table(t) }
                if uses_mantissa(t) =>
            {
                constant::DEBUG_COMPUTE_MANTISSA
            }
            _ => constant::DEBUG_COMPUTE,
        };
        self.set(DebugLogEvents, debug)?;
        let (opens, closes) = self.placed.residency.opens_and_closes(index);
        self.set_all(&[(Spl, u32::from(opens)), (Tsr, u32::from(closes)), (Tse, u32::from(closes))])?;
        let (source, result) = (self.layer.sources[0], self.layer.result);
        let places = [self.source_place(0), self.second_place(), self.result_place()];
        let crosses = places.map(|p| p.is_some_and(|p| p.crosses));
        self.set_all(&[
            (SrcLoc, u32::from(places[0].is_none())),
            (DstLoc, u32::from(places[2].is_none())),
            (Spc, u32::from(crosses[0] || crosses[1])),
            (Dpc, u32::from(crosses[2])),
        ])?;
        self.overlap()?;
        if in_memory(places[0]) {
            self.set_all(&[(RBase0, self.address(&source).bar as u32), (Rbe0, 1)])?;
        }
        if let Some(second) = self.second_source().filter(|_| places[1].is_none()) {
            let bar = self.address(&second).bar;
            self.set_all(&[(RBase1, bar as u32), (Rbe1, 1)])?;
        }
        if in_memory(places[2]) {
            self.set_all(&[(WBase, self.address(&result).bar as u32), (Wbe, 1)])?;
        }
        self.set_all(&[(TBase, Program::STREAM_BAR as u32), (Tbe, u32::from(!last))])?;
        if let Kind::Product { .. } = self.layer.kind {
            let bar = self.address(&self.layer.sources[1]).bar;
            let staged = self.conventions().products_wait_for_staging && bar == Program::SCRATCH_BAR;
            self.set_all(&[(KBase0, bar as u32), (Kbe0, 1), (Tde, u32::from(staged))])?;
            let planes = self.layer.sources[1].buffer;
            let writer = self.placed.graph.layers[..index].iter().rposition(|l| l.result.buffer == planes);
            if let Some(writer) = writer.filter(|_| staged) {
                // The word after the fixed ones.
                self.task.header.push(0);
                self.set(Dtid, writer as u32)?;
            }
        } else if kernel_bytes > 0 {
            self.set_all(&[(KBase0, Program::KERNEL_BAR as u32), (Kbe0, 1)])?;
        }
        Ok(())
    }

    /// Cost of a task without coefficients, in units of [`ExeCycles`].
    fn computing(&self) -> u64 {
        let elements = |least: u64, most: u64| {
            let count =
                |v: &View4| (v.groups() * v.channels() * v.height()) as u64 * (v.width as u64).clamp(least, most);
            self.layer.sources.iter().map(count).max().unwrap_or(0)
        };
        let (planar, rows, columns) = ESTIMATE_PLANAR;
        match self.layer.kind {
            Kind::Reduce { .. } | Kind::Deviation { .. } => {
                let side = self.input().1 as u64;
                elements(ESTIMATE_COLUMNS_LEAST, columns) * rows / side.clamp(1, rows) / planar
            }
            Kind::Planar { .. } | Kind::ChannelAffine { .. } => elements(1, u64::MAX) / planar,
            Kind::Neuron { .. } => elements(1, u64::MAX) / ESTIMATE_NEURAL,
            _ => 0,
        }
    }

    /// Kernel DMA: places the streams and points the engines at them. Returns the bytes they move.
    fn coefficients(&mut self, kernel: &mut Kernel, packing: &Packing) -> std::result::Result<u64, FieldError> {
        if !self.is_neural() && !self.conventions().planar_streams_declared {
            return Ok(0);
        }
        for i in 0..ENGINES as u32 {
            self.task.set_at(self.layout, CoeffCacheHint, i, hint::NO_ALLOC)?;
            self.task.set_bytes_at(self.layout, CoeffSize, i, constant::IDLE_STREAM_BYTES)?;
        }
        for i in 0..4 {
            self.task.set_at(self.layout, ExtraCacheHint, i, hint::NO_ALLOC)?;
            if self.conventions().extra_streams_sized {
                self.task.set_bytes_at(self.layout, ExtraSize, i, constant::IDLE_STREAM_BYTES)?;
            }
        }
        let (mut offset, bytes, sizes, apart) = match &self.layer.kind {
            Kind::Conv { weights, bias, nonlinear, .. } => {
                let bias = bias.as_ref().map(|b| b.as_slice());
                let (offset, bytes, sizes) =
                    kernel.place(|to| packing.put_streams(weights, bias, nonlinear.table(), to));
                (offset, bytes, sizes, true)
            }
            // All engines read the same table.
            Kind::Neuron { nonlinear: Nonlinear::Table(table), .. }
            | Kind::SumChannels { nonlinear: Nonlinear::Table(table) } => {
                let (mut block, streams) = (table.stream(), self.engines(packing).min(self.computed().0));
                if self.conventions().tables_per_engine {
                    // Space for a table each, though one is enough.
                    block.resize(block.len() * streams, 0);
                }
                let (offset, ..) = kernel.place(|to| to.extend(block));
                // One table is loaded, for all engines.
                (offset, lut::STREAM_BYTES as u64, vec![lut::STREAM_BYTES as u64; streams], false)
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
            Kind::Planar { .. } | Kind::ChannelAffine { .. } => (c, h, w),
            Kind::Deviation { .. } => {
                let s = &self.layer.sources[1];
                (s.channels(), s.height(), s.width)
            }
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
            Kind::Planar { .. } => {
                task_class = class::PLANAR_TWO;
                let streamed = (0..2).all(|s| self.source_place(s).is_none());
                mask = if streamed { source_mask::BOTH } else { source_mask::USUAL };
            }
            Kind::ChannelAffine { .. } => task_class = class::PLANAR_AFFINE,
            Kind::Deviation { .. } => {
                if self.source_place(0).is_some() && self.source_place(1).is_none() {
                    mask = source_mask::SECOND;
                }
                task_class = class::PLANAR_REDUCE_TWO;
                (hout, wout) = (hin, win);
            }
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
            let engines = self.engines(packing);
            self.set(ActiveNe, engines.ilog2())?;
            self.set(Ene, engines.ilog2() + 1)?;
            self.set(OcgSize, packing.lanes.ilog2())?;
            self.set(TaskNid, 1)?;
            self.set(NeTranspose, u32::from(self.layer.transpose))?;
        } else {
            self.set(Src2InputRelu, u32::from(self.layer.second_relu))?;
            let [first, second] = self.layer.turned;
            let turned = [(ResultTranspose, self.layer.transpose), (Src1Transpose, first), (Src2Transpose, second)];
            turned.into_iter().try_for_each(|(field, on)| self.set(field, u32::from(on)))?;
        }
        Ok(())
    }

    fn sources(&mut self, hints: &zin421::Hints, index: usize) -> Set {
        let first = self.layer.sources[0];
        let place = self.source_place(0);
        let streamed = place.is_none();
        let [hint, reuse, no_reuse] = if streamed { hints.source(index, 0) } else { [hint::NO_ALLOC; 3] };
        self.set_all(&[
            (Src1En, u32::from(streamed)),
            (Src1CacheHint, hint),
            (Src1CacheHintReuse, reuse),
            (Src1CacheHintNoReuse, no_reuse),
        ])?;
        self.set_size(Src1Interleave, self.layer.source_interleave)?;
        if in_memory(place) {
            let fields = [Src1Base, Src1RowStride, Src1PlaneStride, Src1DepthStride, Src1GroupStride];
            self.set(DependencyMode, u32::from(hints.depends(index)))?;
            self.strides(&first, self.layer.source_interleave, fields)?;
            self.set_all(&[(Src1FmtMode, 1), (Src1Truncate, constant::TRUNCATE), (Src1MemFmt, format::FP16)])?;
        }
        let second = self.second_source();
        let [hint, reuse, no_reuse] = match second {
            Some(_) if self.second_place().is_none() => hints.source(index, 1),
            _ => [hint::NO_ALLOC; 3],
        };
        self.set_all(&[(Src2CacheHint, hint), (Src2CacheHintReuse, reuse), (Src2CacheHintNoReuse, no_reuse)])?;
        if let Some(second) = second.filter(|_| self.second_place().is_none()) {
            let fields = [Src2Base, Src2RowStride, Src2PlaneStride, Src2DepthStride, Src2GroupStride];
            self.strides(&second, 1, fields)?;
            self.set_all(&[(Src2Truncate, constant::TRUNCATE), (Src2MemFmt, format::FP16), (Src2Type, 1)])?;
        }
        let bit8 = self.is_neural() || self.conventions().planar_sources_flagged;
        let from = match streamed {
            true if self.placed.residency.keeps(index) => residency::DMA_KEEP,
            true => residency::DMA,
            false => residency::L2,
        };
        self.set_all(&[(SrcType, from), (Unk13840Bit8, u32::from(bit8))])
    }

    fn destination(&mut self, hints: &zin421::Hints, index: usize) -> Set {
        let result = self.layer.result;
        self.set_size(DstInterleave, self.layer.interleave)?;
        if in_memory(self.result_place()) {
            let fields = [DstBase, DstRowStride, DstPlaneStride, DstDepthStride, DstGroupStride];
            self.strides(&result, self.layer.interleave, fields)?;
            self.set_all(&[(DstFmtMode, 1), (DstTruncate, constant::TRUNCATE), (DstMemFmt, format::FP16)])?;
            // 4.2.1 leaves the padding of planar results alone.
            let zero_pad = u32::from(self.is_neural() || self.conventions().planar_results_padded);
            self.set_all(&[(ZeroPadFirst, zero_pad), (ZeroPadLast, zero_pad)])?;
        }
        if self.result_place().is_some() {
            return self.set_all(&[(DstCacheHint, hint::DST_EXTERNAL), (ResType, residency::L2)]);
        }
        let external = self.address(&result).bar != Program::SCRATCH_BAR;
        let hint = if external { hint::DST_EXTERNAL } else { hint::DST_INTERMEDIATE };
        if !self.is_neural() && self.layer.transpose {
            return self.set_all(&[(DstEn, 1), (DstCacheHint, hint), (ResType, residency::DMA_KEEP)]);
        }
        // Results pass through one simple buffer: in 4.2.1 those that do not come from coefficients, in 9.509 all but
        // plain copies from memory.
        let copied = copies(self.layer) && self.source_place(0).is_none();
        let simple = if self.conventions().copies_bypass_buffer { !copied } else { !self.convolves() };
        self.set_all(&[(DstEn, 1), (DstCacheHint, hint), (L2BfrMode, u32::from(simple))])?;
        if let Some((distance, kernel)) = hints.hazard(index) {
            let by = if kernel { HazardKernel } else { HazardEn };
            self.set_all(&[(by, 1), (HazardDistance, distance)])?;
        }
        self.set_all(&[(ResType, residency::DMA), (ResBfrMode, if simple { constant::SIMPLE_BUFFER } else { 0 })])
    }

    /// Base and strides of one DMA engine; axes of a single element get the stride a dense tensor would have.
    fn strides(&mut self, view: &View4, interleave: usize, [base, row, plane, depth, group]: [Field; 5]) -> Set {
        let address = self.address(view);
        let [g, c, h] = view.axes;
        let or =
            |axis: Axis, dense: u64| if axis.extent == 1 && axis.stride_bytes == 0 { dense } else { axis.stride_bytes };
        let row_bytes = or(h, ((view.width * interleave) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN));
        let plane_bytes = or(c, row_bytes * h.extent as u64);
        let sets = if self.conventions().depths_by_set { c.extent.div_ceil(interleave) } else { c.extent };
        let whole = zin421::whole_planes(self.placed, view).max(sets) as u64;
        // Folded rows lie further apart than the planes: a depth holds all of them.
        let rows = if self.conventions().depths_by_set { row_bytes.saturating_mul(h.extent as u64) } else { 0 };
        let whole_bytes = plane_bytes.saturating_mul(whole).max(rows).min(u32::MAX as u64 & !63);
        let merged = self.merged_rows(view).filter(|_| self.conventions().depths_by_set);
        let depth_bytes = merged.unwrap_or(whole_bytes);
        self.set_bytes(base, address.offset_bytes)?;
        self.set_bytes(row, row_bytes)?;
        self.set_bytes(plane, plane_bytes)?;
        self.set_bytes(depth, depth_bytes)?;
        // A single group needs no stride: 4.2.1 writes none, 9.509 that of a whole depth.
        let idle = if self.conventions().single_groups_have_stride { whole_bytes } else { 0 };
        self.set_bytes(group, if g.extent > 1 { g.stride_bytes } else { idle })
    }

    /// Distance of the rows of a port whose channels and rows a view has as its rows: the depth they stand for.
    fn merged_rows(&self, view: &View4) -> Option<u64> {
        let port = self.placed.graph.buffer(view.buffer).port.as_ref()?.nchw()?;
        let whole = port.channels() > 1 && view.height() == port.channels() * port.height();
        let alone = view.channels() == 1 && view.groups() == 1 && port.groups() == 1;
        let row_bytes = (port.width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        (whole && alone).then_some(row_bytes)
    }

    fn neural(&mut self, packing: &Packing) -> Set {
        let palette = packing.palette_bits();
        self.set_all(&[
            (Unkc804Bit20, 1),
            (PalettizedEn, u32::from(palette.is_some())),
            (PalettizedBits, palette.unwrap_or(constant::NO_PALETTE_BITS)),
        ])?;
        if self.conventions().format_of_kernels_stated {
            self.set_all(&[(KernelFmt, format::FP16), (BinaryPoint, constant::BINARY_POINT_FP16)])?;
        }
        self.set_half(PostScale, 1.0)?;
        let function = match &self.layer.kind {
            Kind::Conv { bias, post_scale, nonlinear, .. } => {
                self.set_all(&[(KernelFmt, format::FP16), (BinaryPoint, constant::BINARY_POINT_FP16)])?;
                self.set(BiasMode, u32::from(bias.is_some()))?;
                self.set_half(PostScale, *post_scale)?;
                if nonlinear.addend() != 0.0 {
                    self.set_half(AccBias, nonlinear.addend())?;
                }
                nonlinear
            }
            Kind::Neuron { add, post_scale, nonlinear } => {
                self.set(KernelMode, kernel::UNITY)?;
                self.set_half(PostScale, *post_scale)?;
                let add = add + nonlinear.addend();
                if add == 0.0 {
                    self.set(NeOpMode, neural::BYPASS)?;
                } else {
                    self.set_half(AccBias, add)?;
                    self.set(DpeCategory, 1)?;
                }
                nonlinear
            }
            Kind::SumChannels { nonlinear } => {
                self.set_all(&[(KernelMode, kernel::UNITY), (DpeCategory, 1)])?;
                nonlinear
            }
            Kind::Product { post_scale, .. } => {
                self.set_half(PostScale, *post_scale)?;
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
        if self.conventions().planar_palette_stated {
            self.set_all(&[(Unkc804Bit20, 1), (PalettizedBits, constant::NO_PALETTE_BITS)])?;
        }
        let mean;
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
            Kind::ChannelAffine { subtract } => {
                let operand = if *subtract { second::NEGATED } else { second::SOURCE };
                self.set_all(&[(PeOp, planar::ADD), (PeSecond, operand)])?;
                (&Affine::UNIT, false)
            }
            Kind::Deviation { epsilon } => {
                self.set_all(&[(PeOp, planar::SQUARE_SUM), (PeFirst, first::NEGATED), (PeSecond, second::SOURCE)])?;
                self.set(PeNonlinear, planar_nonlinear::RSQRT)?;
                self.set_half(PeEpsilon, *epsilon)?;
                let (_, h, w) = self.input();
                mean = Affine { final_scale: 1.0 / (h * w) as f32, ..Affine::UNIT };
                (&mean, false)
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

/// Returns true if an operand has an address in memory, to be streamed from or saved to. `place` is its place in tile memory.
fn in_memory(place: Option<Place>) -> bool {
    place.is_none_or(|p| p.crosses)
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
