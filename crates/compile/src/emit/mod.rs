//! Emission: placed layers become task descriptors, every field by name, with Apple's values where those are known.
//!
//! Fields without functional effect (cache hints, patch shapes, tile heights, staging addresses) follow rules found
//! in Apple's programs; for shapes that those do not contain, they are extrapolated and not tested on silicon.

mod aliases;
mod extension;
mod header;
mod kernel;
mod operands;
mod shapes;
mod units;
mod zin421;
mod zin9509;

pub(crate) use extension::name_family;

use kernel::Kernel;

use crate::error::{Error, Result};
use crate::ir::*;
use crate::memory::{Address, Place, Placed};
use crate::options::{Conventions, Options};
use crate::remarks::{Log, Progress};
use crate::stream::pack::{Packing, engines_for};
use anemone_facts::chips::Chip;
use anemone_facts::code::*;
use anemone_facts::{Field, Field::*, Layout};
use anemone_program::{Direction, Element, FieldError, Nchw, Port, Program, Strides, Task, task::encode_stream};
use half::f16;
use std::sync::Arc;

/// Emits the program.
pub fn emit(mut placed: Placed, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Program> {
    let layout = chip.layout.ok_or(Error::NoLayout { chip: chip.target })?;
    let mut kernel = Kernel::of(&placed);
    let hints = zin421::Hints::of(&placed, layout, options.conventions());
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
        // The coefficients are in the kernel section now: dropping them keeps a large model from being in memory twice.
        if let Kind::Conv { weights, .. } = &mut placed.graph.layers[i].kind {
            let bytes = weights.values.len() as u64 * ELEMENT_BYTES;
            *weights = Arc::new(weights.with(Vec::new()));
            log.progress(Progress { done: i + 1, layers: placed.graph.layers.len(), bytes });
        }
        if log.stopped() {
            return Err(Error::Stopped);
        }
    }
    if tasks.is_empty() {
        return Err(Error::Net("the network computes nothing: every output is an input or a constant".into()));
    }
    let stream = encode_stream(layout, &mut tasks)
        .map_err(|source| Error::Field { layer: placed.graph.name.clone(), source })?;
    let first_task_words = tasks[0].word_count();
    Ok(Program {
        name: placed.graph.name.clone(),
        layout,
        stream,
        first_task_words,
        kernel: kernel.into_bytes().into(),
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
            let volume_channels = volume_channels(view);
            let Some(v) = merged(view).nchw() else {
                return Err(Error::Net(format!("{}: a port has at most four axes", buffer.name)));
            };
            let shape = Nchw { n: v.groups() as u32, c: v.channels() as u32, h: v.height() as u32, w: v.width as u32 };
            let row_bytes = (v.width as u64 * buffer.element_bytes).next_multiple_of(ROW_ALIGN);
            let or = |stride: u64, default: u64| if stride == 0 { default } else { stride };
            let row_bytes = or(v.axes[2].stride_bytes, row_bytes);
            let plane_bytes = or(v.axes[1].stride_bytes, row_bytes * shape.h as u64);
            let batch_bytes = or(v.axes[0].stride_bytes, plane_bytes * shape.c as u64);
            ports.push(Port {
                name: buffer.name.clone(),
                direction,
                bar: address.bar,
                shape,
                volume_channels,
                strides: Strides { batch_bytes, plane_bytes, row_bytes },
                element: if buffer.element_bytes == 1 { Element::Uint8 } else { Element::Float16 },
                bytes: buffer.bytes,
            });
        }
    }
    Ok(ports)
}

/// Channels of a view with a depth behind them: the third axis from the outside of five, with more axes joined to the batches.
fn volume_channels(view: &View) -> Option<u32> {
    let [.., _, channels, depth, _] = view.lead.as_slice() else { return None };
    (depth.extent > 1).then_some(channels.extent as u32)
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
            // Eight elements are transposed at a time.
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

    /// Second source of the planar engine; the second source of a product is its coefficients.
    fn second_source(&self) -> Option<View4> {
        self.layer.sources.get(1).copied().filter(|_| !self.is_neural())
    }

    /// Bytes of an element of a view.
    fn element_bytes(&self, view: &View4) -> u64 {
        self.placed.graph.buffer(view.buffer).element_bytes
    }

    /// Format of the elements of a view.
    fn format(&self, view: &View4) -> u32 {
        if self.element_bytes(view) == 1 { format::UINT8 } else { format::FP16 }
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
            self.neural(&packing)?;
            self.category_of_products()?
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

    /// Extents as the unit computes them, before an output transpose.
    fn computed(&self) -> (usize, usize, usize) {
        let r = &self.layer.result;
        if self.layer.transpose { (r.width, r.height(), r.channels()) } else { (r.channels(), r.height(), r.width) }
    }

    /// Source extents after broadcast.
    fn input(&self) -> (usize, usize, usize) {
        let (c, h, w) = self.computed();
        match self.layer.kind {
            Kind::Planar { .. } | Kind::ChannelAffine { .. } => (c, h, w),
            Kind::Pool { .. } if self.layer.repeats_rows() => (c, h, w),
            Kind::Deviation { .. } => {
                let s = &self.layer.sources[1];
                (s.channels(), s.height(), s.width)
            }
            _ => {
                let s = &self.layer.sources[0];
                match self.layer.turned[0] {
                    true => (s.width, s.height(), s.channels()),
                    false => (s.channels(), s.height(), s.width),
                }
            }
        }
    }

    fn common(&mut self, packing: &Packing) -> Set {
        let (cin, mut hin, win) = self.input();
        let (cout, mut hout, mut wout) = self.computed();
        let (mut task_class, mut mask) = (class::NEURAL, source_mask::USUAL);
        match self.layer.kind {
            Kind::Planar { .. } => {
                task_class = class::PLANAR_TWO;
                mask = match [0, 1].map(|s| self.source_place(s).is_none()) {
                    [true, true] => source_mask::BOTH,
                    [false, true] => source_mask::SECOND,
                    _ => source_mask::USUAL,
                };
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
            Kind::Reduce { .. } | Kind::InverseRms { .. } => {
                task_class = class::PLANAR_REDUCE;
                (hout, wout) = (hin, win);
            }
            _ => {}
        }
        let mut depth = 1;
        if let Some((rows, planes)) = self.reduced_planes() {
            (hin, hout, depth) = (rows, rows, planes);
            // The mean is that of all planes.
            self.set(Src1BroadcastD, u32::from(self.second_source().is_some()))?;
        }
        let sizes =
            [(Win, win), (Hin, hin), (Din, depth), (Cin, cin), (Cout, cout), (Wout, wout), (Hout, hout), (Dout, depth)];
        for (field, value) in sizes {
            self.set_size(field, value)?;
        }
        let formats = [&self.layer.sources[0], &self.layer.result].map(|view| self.format(view));
        self.set_all(&[(InFmt, formats[0]), (OutFmt, formats[1]), (TaskClass, task_class), (SourceMask, mask)])?;
        if let Some(second) = self.second_source() {
            self.set(Src2Fmt, self.format(&second))?;
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
            // A single output channel is unicast too, with all channels as its own.
            Kind::Conv { connect: Connect::Dense, .. } if cout == 1 && cin > 1 => (1, cin),
            Kind::Conv { connect: Connect::Dense, .. } => (0, 1),
            Kind::Conv { connect: Connect::Unicast { per_output }, .. } => (1, *per_output),
            Kind::MaxChannels => (1, cin),
            Kind::MulChannels { .. } => (1, 2),
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
            self.set(OcgSize, self.stated_lanes(packing).next_power_of_two().ilog2())?;
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
}

/// Returns true if an operand has an address in memory, for streaming or saving. `place` is its place in tile memory.
fn in_memory(place: Option<Place>) -> bool {
    place.is_none_or(|p| p.crosses)
}
