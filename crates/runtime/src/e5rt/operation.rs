//! Operations: a function with memory for its ports, and its dispatch.

use super::device::{Loaded, Submission};
use super::surfaces::Surfaces;
use super::turns::Turns;
use super::{Buffer, HostSegment, Runtime, cast, trace};
use crate::cache::PortInfo;
use crate::clock::Stages;
use crate::driver::task::lock;
use crate::error::{Error, Result};
use crate::os::shared::Shared;
use anemone_program::{Direction, Port};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

struct Scratch {
    strided: Vec<u8>,
    /// Dense bytes of the tensor on the device.
    sent: Vec<u8>,
}

/// A port of a program, with its memory on the device.
pub(super) struct DevicePort {
    info: PortInfo,
    /// Tensor that it reads or writes.
    slot: usize,
    port: Port,
    memory: Arc<Shared>,
    surface: u32,
    /// True if the memory is that of the program that writes the tensor, without a cast.
    chained: bool,
    /// True if a dense tensor has the layout of the port, so that a buffer may be its memory.
    alike: bool,
    scratch: Mutex<Scratch>,
}

impl DevicePort {
    pub(super) fn new(
        (info, slot): (PortInfo, usize),
        port: Port,
        (memory, surface): (Arc<Shared>, u32),
        chained: bool,
    ) -> DevicePort {
        let dense = cast::dense_bytes(&info).unwrap_or(0) as usize;
        let bytes = if chained { 0 } else { port.bytes as usize };
        let scratch = Mutex::new(Scratch { strided: vec![0; bytes], sent: vec![0; dense] });
        let alike = cast::lies_alike(&info, &port);
        DevicePort { info, slot, port, memory, surface, chained, alike, scratch }
    }

    fn is(&self, direction: Direction) -> bool {
        self.port.direction == direction
    }
}

/// One call of a dispatch.
pub(super) enum Call {
    /// A program of the engine.
    Engine {
        /// The loaded program.
        loaded: Arc<dyn Loaded>,
        /// Number of the procedure of its image.
        procedure: u8,
        /// Ports in the order of the program's.
        ports: Vec<DevicePort>,
        /// Modelled stages of one submission.
        stages: Stages,
        /// True if another call reads an output in place.
        keeps: bool,
        /// Surfaces of the caller's buffers that it uses in place.
        surfaces: Surfaces,
    },
    /// A host segment.
    Host {
        /// Name.
        name: String,
        /// Code of the segment, prepared.
        segment: Arc<dyn HostSegment>,
        /// Tensors that it reads.
        inputs: Vec<usize>,
        /// Tensors that it writes, with their size in bytes.
        outputs: Vec<(usize, usize)>,
    },
    /// Begin of a loop's iterations.
    Begin(Arc<Turns>),
    /// End of the iterations of the innermost loop.
    End,
}

impl Call {
    /// Memory in which this call writes a tensor, if its layout is that of `reader`.
    pub(super) fn maker(&self, slot: usize, reader: &Port) -> Option<Arc<Shared>> {
        let Call::Engine { ports, .. } = self else { return None };
        let port = ports.iter().find(|p| p.slot == slot && p.is(Direction::Output))?;
        alike(&port.port, reader).then(|| Arc::clone(&port.memory))
    }

    /// Marks the output of a tensor's writer as read in place by another call.
    pub(super) fn keep(&mut self, slot: usize, reader: &Port) {
        let made = self.maker(slot, reader).is_some();
        if let Call::Engine { keeps, .. } = self {
            *keeps |= made;
        }
    }
}

/// A port of the function.
pub(super) struct End {
    info: PortInfo,
    slot: usize,
    bound: Mutex<Option<Arc<Buffer>>>,
}

impl End {
    pub(super) fn new(info: PortInfo, slot: usize) -> End {
        End { info, slot, bound: Mutex::new(None) }
    }
}

/// An operation: a function with ports.
pub struct Operation {
    runtime: Arc<Runtime>,
    ends: Vec<End>,
    calls: Vec<Call>,
    prepared: AtomicBool,
    /// Tensors, locked during a run: runs of one operation exclude each other.
    tensors: Mutex<Tensors>,
}

/// Tensors of an operation, by slot.
struct Tensors {
    /// Dense bytes.
    dense: Vec<Vec<u8>>,
    /// Buffers of ends that the last run wrote in place, by end.
    written: Vec<Option<Weak<Buffer>>>,
}

/// Location of a tensor's current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The dense bytes.
    Dense,
    /// Memory of a device port.
    Device,
    /// The buffer of an end.
    Buffer(usize),
}

/// A port of an operation.
#[derive(Clone)]
pub struct IoPort {
    operation: Arc<Operation>,
    index: usize,
}

impl IoPort {
    /// Binds a buffer; its size must be at least the tensor's.
    pub fn bind(&self, buffer: &Arc<Buffer>) -> Result<()> {
        let end = &self.operation.ends[self.index];
        let expected = cast::dense_bytes(&end.info).unwrap_or(0);
        let found = buffer.shared.len() as u64;
        if found < expected {
            return Err(Error::Size { what: format!("buffer for {}", end.info.name), found, expected });
        }
        *lock(&end.bound) = Some(Arc::clone(buffer));
        Ok(())
    }

    /// Name, element type and extents of the port.
    pub fn info(&self) -> &PortInfo {
        &self.operation.ends[self.index].info
    }
}

/// State of one dispatch.
struct Dispatching<'a> {
    /// Buffers of the ends, in order.
    bound: &'a [Arc<Buffer>],
    tensors: &'a mut [Vec<u8>],
    places: Vec<Place>,
}

impl Operation {
    pub(super) fn new(
        runtime: Arc<Runtime>,
        ends: Vec<End>,
        calls: Vec<Call>,
        bytes: impl Iterator<Item = usize>,
    ) -> Operation {
        let written = vec![None; ends.len()];
        let tensors = Mutex::new(Tensors { dense: bytes.map(|n| vec![0; n]).collect(), written });
        Operation { runtime, ends, calls, prepared: AtomicBool::new(false), tensors }
    }

    /// A port by name and direction.
    pub fn port(self: &Arc<Self>, name: &str, output: bool) -> Result<IoPort> {
        let found = self.ends.iter().position(|end| end.info.name == name && end.info.output == output);
        let index = found.ok_or_else(|| Error::Unknown { what: "port", name: name.into() })?;
        Ok(IoPort { operation: Arc::clone(self), index })
    }

    /// Prepares for encoding; otherwise the first encoding does.
    pub fn prepare(&self) {
        self.prepared.store(true, Relaxed);
    }

    /// Checks the outputs of the last run: an infinity or NaN is [`Error::NotFinite`], for the first output that has one. A
    /// network in fp16 gives them where a number exceeds 65504.
    pub fn check_numbers(&self) -> Result<()> {
        let tensors = lock(&self.tensors);
        for (end, written) in self.ends.iter().zip(&tensors.written).filter(|(end, _)| end.info.output) {
            let bytes = match written {
                None => Cow::Borrowed(&tensors.dense[end.slot]),
                // A dropped buffer has no reader any more.
                Some(buffer) => Cow::Owned(buffer.upgrade().map_or_else(Vec::new, |buffer| buffer.shared.to_vec())),
            };
            let bytes = bytes.get(..tensors.dense[end.slot].len()).unwrap_or(&[]);
            if let Some([count, elements, first]) = cast::not_finite(bytes, end.info.dtype) {
                return Err(Error::NotFinite { port: end.info.name.clone(), count, elements, first });
            }
        }
        Ok(())
    }

    /// Checks that every port has a buffer.
    pub(crate) fn check_bound(&self) -> Result<()> {
        match self.ends.iter().find(|end| lock(&end.bound).is_none()) {
            None => Ok(()),
            Some(end) => Err(unbound(end)),
        }
    }

    /// One dispatch: every call with its casts in and out, and the host segments between them.
    pub(crate) fn run(&self, limit: Option<Duration>) -> Result<()> {
        let mut tensors = lock(&self.tensors);
        let Tensors { dense, written } = &mut *tensors;
        let begin = Instant::now();
        let all = self.now();
        let bound = self.ends.iter().map(|end| lock(&end.bound).clone().ok_or_else(|| unbound(end)));
        let bound = bound.collect::<Result<Vec<_>>>()?;
        let mut work = Dispatching { bound: &bound, places: vec![Place::Dense; dense.len()], tensors: dense };
        for (at, end) in self.ends.iter().enumerate().filter(|(_, end)| !end.info.output) {
            work.places[end.slot] = Place::Buffer(at);
        }
        let mut open: Vec<(usize, &Turns, u64)> = Vec::new();
        let mut at = 0;
        while let Some(call) = self.calls.get(at) {
            at += 1;
            match call {
                Call::Begin(turns) => {
                    self.fetch(&turns.sources(), &mut work);
                    turns.begin(work.tensors);
                    turns.turn(0, work.tensors);
                    open.push((at, turns, 0));
                }
                Call::End => {
                    let Some((first, turns, turn)) = open.last_mut() else { continue };
                    self.fetch(&turns.written(), &mut work);
                    turns.end(*turn, work.tensors);
                    *turn += 1;
                    if turns.goes_on(*turn) {
                        turns.turn(*turn, work.tensors);
                        at = *first;
                    } else {
                        open.pop();
                    }
                }
                Call::Engine { .. } => {
                    let left = limit.map(|l| l.saturating_sub(begin.elapsed()));
                    self.on_engine((call, at == self.calls.len()), &mut work, left)?;
                }
                Call::Host { name, segment, inputs, outputs } => {
                    let begin = self.now();
                    self.fetch(inputs, &mut work);
                    on_host((name, segment.as_ref()), inputs, outputs, &mut work)?;
                    self.runtime.counts.host_segments.fetch_add(1, Relaxed);
                    self.span(&format!("HOST_SEGMENT {name}"), begin);
                }
            }
        }
        let begin = self.now();
        for (at, (end, buffer)) in self.ends.iter().zip(&bound).enumerate().filter(|(_, (end, _))| end.info.output) {
            if work.places[end.slot] == Place::Buffer(at) {
                written[at] = Some(Arc::downgrade(buffer));
                continue;
            }
            written[at] = None;
            self.fetch(&[end.slot], &mut work);
            buffer.shared.write(&work.tensors[end.slot]);
        }
        self.span("DRIVER_REQUEST cast out", begin);
        self.span("EVAL", all);
        self.runtime.counts.dispatches.fetch_add(1, Relaxed);
        Ok(())
    }

    fn now(&self) -> Option<Instant> {
        self.runtime.trace.as_ref().map(|_| Instant::now())
    }

    fn span(&self, name: &str, begin: Option<Instant>) {
        if let Some((trace, begin)) = self.runtime.trace.as_ref().zip(begin) {
            trace.span(trace::Lane::Host, name, begin);
        }
    }

    /// The end whose buffer is a port's memory in this call; `None` if the port has memory of its own.
    ///
    /// Only outputs of the last call are written in place, so that a failure between two calls changes no buffer. A buffer on
    /// an input and an output is overwritten while other calls may still read it, so this requires a single call.
    fn end_of(&self, port: &DevicePort, last: bool, work: &Dispatching) -> Option<usize> {
        if !port.alike || port.chained {
            return None;
        }
        let output = port.is(Direction::Output);
        let at = self.ends.iter().position(|end| end.slot == port.slot && end.info.output == output)?;
        let also = |output: bool| {
            let ends = self.ends.iter().zip(work.bound).enumerate();
            ends.filter(|(_, (end, _))| end.info.output == output)
                .any(|(other, (_, buffer))| other != at && Arc::ptr_eq(buffer, &work.bound[at]))
        };
        let free = match output {
            true => last && !also(true) && (self.calls.len() == 1 || !also(false)),
            false => work.places[port.slot] == Place::Buffer(at) && (self.calls.len() == 1 || !also(true)),
        };
        free.then_some(at)
    }

    /// A call of a program: casts of inputs, one submission. Outputs stay on the device until they are read. Buffers with
    /// a port's layout are its memory.
    fn on_engine(&self, (call, last): (&Call, bool), work: &mut Dispatching, limit: Option<Duration>) -> Result<()> {
        let Call::Engine { loaded, procedure, ports, stages, keeps, surfaces } = call else { return Ok(()) };
        let (loaded, counts) = (loaded.as_ref(), &self.runtime.counts);
        let begin = self.now();
        let mut in_place: Vec<Option<u32>> = Vec::with_capacity(ports.len());
        let mut ends: Vec<Option<usize>> = Vec::with_capacity(ports.len());
        for port in ports {
            let end = self.end_of(port, last, work);
            in_place.push(end.map(|at| surfaces.of(&work.bound[at], loaded)).transpose()?);
            ends.push(end);
        }
        let sent = ports.iter().zip(&in_place).filter(|(p, own)| p.is(Direction::Input) && !p.chained && own.is_none());
        let wanted: Vec<usize> = sent.map(|(p, _)| p.slot).collect();
        self.fetch(&wanted, work);
        let (mut inputs, mut outputs) = (Vec::with_capacity(8), Vec::with_capacity(8));
        for (port, own) in ports.iter().zip(&in_place) {
            let side = if port.is(Direction::Output) { &mut outputs } else { &mut inputs };
            if let Some(surface) = own {
                side.push(*surface);
                counts.in_place_bytes.fetch_add(port.port.bytes, Relaxed);
                continue;
            }
            if port.is(Direction::Output) {
                side.push(port.surface);
                continue;
            }
            let state = self.state_of(port, ports, work.bound);
            let held = state.unwrap_or(port);
            side.push(held.surface);
            if port.chained {
                continue;
            }
            let dense = &work.tensors[port.slot];
            let mut scratch = lock(&held.scratch);
            let Scratch { strided, sent } = &mut *scratch;
            if state.is_some() && dense == sent {
                continue;
            }
            cast::to_device(dense, port.info.dtype, &held.port, strided);
            held.memory.write(strided);
            let count = if state.is_some() { &counts.state_bytes } else { &counts.input_bytes };
            count.fetch_add(dense.len() as u64, Relaxed);
        }
        self.span("DRIVER_REQUEST cast in", begin);
        let begin = self.now();
        let keeps = *keeps || ports.iter().any(|p| p.chained) || inputs.iter().any(|i| outputs.contains(i));
        let (sequence, procedure) = (self.runtime.next_submission(), *procedure);
        loaded.submit(&Submission { sequence, procedure, inputs: &inputs, outputs: &outputs, keeps, limit })?;
        self.span("DRIVER_REQUEST inference", begin);
        if let Some((trace, begin)) = self.runtime.trace.as_ref().zip(begin) {
            trace.stages(begin, *stages);
        }
        for (port, end) in ports.iter().zip(ends).filter(|(p, _)| p.is(Direction::Output)) {
            work.places[port.slot] = end.map_or(Place::Device, Place::Buffer);
        }
        Ok(())
    }

    /// Updates the dense bytes of tensors: from the buffer of their end, or by a cast from the device.
    fn fetch(&self, wanted: &[usize], work: &mut Dispatching) {
        for &slot in wanted {
            match std::mem::replace(&mut work.places[slot], Place::Dense) {
                Place::Dense => continue,
                Place::Buffer(end) => {
                    work.bound[end].shared.read(&mut work.tensors[slot]);
                    continue;
                }
                Place::Device => {}
            }
            let ports = self.calls.iter().rev().filter_map(|call| match call {
                Call::Engine { ports, .. } => Some(ports),
                Call::Host { .. } | Call::Begin(_) | Call::End => None,
            });
            let port = ports.flatten().find(|p| p.slot == slot && p.is(Direction::Output));
            let Some(port) = port else { continue };
            let mut scratch = lock(&port.scratch);
            let Scratch { strided, sent } = &mut *scratch;
            let dense = &mut work.tensors[slot];
            port.memory.read(strided);
            cast::to_host(strided, &port.port, port.info.dtype, dense);
            sent.copy_from_slice(dense);
        }
    }

    /// The output port whose memory an input port shares, because one buffer is bound to both. The device keeps the value.
    fn state_of<'p>(
        &self,
        input: &DevicePort,
        ports: &'p [DevicePort],
        bound: &[Arc<Buffer>],
    ) -> Option<&'p DevicePort> {
        let buffer = |port: &DevicePort, output: bool| {
            let at = self.ends.iter().position(|end| end.slot == port.slot && end.info.output == output)?;
            bound.get(at)
        };
        let held = buffer(input, false)?;
        ports.iter().find(|p| {
            p.is(Direction::Output)
                && buffer(p, true).is_some_and(|b| Arc::ptr_eq(b, held))
                && (&p.info.shape, p.info.dtype) == (&input.info.shape, input.info.dtype)
                && alike(&p.port, &input.port)
        })
    }
}

/// Runs a host segment on dense tensors.
fn on_host(
    (name, segment): (&str, &dyn HostSegment),
    inputs: &[usize],
    outputs: &[(usize, usize)],
    work: &mut Dispatching,
) -> Result<()> {
    let read: Vec<&[u8]> = inputs.iter().map(|&slot| work.tensors[slot].as_slice()).collect();
    let made = segment.run(&read).map_err(Error::Host)?;
    if made.len() != outputs.len() {
        let (found, expected) = (made.len() as u64, outputs.len() as u64);
        return Err(Error::Size { what: format!("results of {name}"), found, expected });
    }
    for (bytes, &(slot, expected)) in made.into_iter().zip(outputs) {
        if bytes.len() != expected {
            let found = bytes.len() as u64;
            return Err(Error::Size { what: format!("result of {name}"), found, expected: expected as u64 });
        }
        work.tensors[slot] = bytes;
    }
    Ok(())
}

fn unbound(end: &End) -> Error {
    Error::Unknown { what: "buffer bound to port", name: end.info.name.clone() }
}

/// Returns true if two ports have the same layout: shape, strides, element type and size.
fn alike(x: &Port, y: &Port) -> bool {
    (x.shape, x.strides, x.element, x.bytes) == (y.shape, y.strides, y.element, y.bytes)
}

impl Drop for Operation {
    fn drop(&mut self) {
        for call in &self.calls {
            if let Call::Engine { loaded, ports, surfaces, .. } = call {
                surfaces.release(loaded.as_ref());
                ports.iter().for_each(|p| loaded.remove_surface(p.surface));
            }
        }
    }
}
