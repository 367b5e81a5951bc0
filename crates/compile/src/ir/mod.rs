//! The layer graph: one layer per task, on tensors with a memory layout but no address yet.
//!
//! A [`Buffer`] is rows of 64-byte-aligned memory. A [`View`] reads or writes part of it with any strides between rows;
//! columns are always contiguous, because that is all the DMA can do. Transposes of the leading axes, slices and most
//! reshapes are therefore views, not layers.

mod dialect;
mod dot;
mod epilogue;
mod own;
mod parse;
mod print;
mod reads;
mod verify;
mod weights;

use crate::lut::Table;
use std::collections::HashMap;
use std::sync::Arc;

pub use epilogue::Epilogue;
pub use own::Own;
pub use print::Datum;
pub use reads::reads;
pub use weights::{StreamForm, Weights};

/// Rows start on this boundary.
pub const ROW_ALIGN: u64 = 64;
/// Bytes of an fp16 element.
pub const ELEMENT_BYTES: u64 = 2;

/// Position of a buffer in [`Graph::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// Role of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// The caller's input.
    Input,
    /// The caller's output.
    Output,
    /// Written and read by layers only.
    Scratch,
    /// Constant elements, fp16 bytes with rows padded: part of the kernel section.
    Constant(Arc<Vec<u8>>),
}

/// A contiguous piece of memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Name of the network value it holds.
    pub name: String,
    /// Role, with the data of a constant.
    pub role: Role,
    /// Size in bytes.
    pub bytes: u64,
    /// Extents and strides as a port describes them; inputs and outputs only.
    pub port: Option<View>,
    /// Bytes of an element: one at ports of booleans in the dialects that have such, else [`ELEMENT_BYTES`].
    pub element_bytes: u64,
    /// Layout of the elements of a constant; bytes between them are padding.
    pub constant: Option<View>,
}

/// A leading axis of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of elements along it.
    pub extent: usize,
    /// Distance between them in bytes.
    pub stride_bytes: u64,
}

/// Part of a buffer: leading axes with strides, then contiguous columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// Offset of the first element in bytes.
    pub offset_bytes: u64,
    /// All axes but the last, outermost first.
    pub lead: Vec<Axis>,
    /// Extent of the last axis.
    pub width: usize,
}

impl View {
    /// Extents, outermost first.
    pub fn shape(&self) -> Vec<usize> {
        self.lead.iter().map(|a| a.extent).chain([self.width]).collect()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape().iter().product()
    }

    /// The view as groups, channels, rows and columns; leading axes of extent 1 are added.
    ///
    /// `None` when more than three leading axes remain.
    pub fn nchw(&self) -> Option<View4> {
        let missing = 3usize.checked_sub(self.lead.len())?;
        let mut axes = [Axis { extent: 1, stride_bytes: 0 }; 3];
        axes[missing..].copy_from_slice(&self.lead);
        Some(View4 { buffer: self.buffer, offset_bytes: self.offset_bytes, axes, width: self.width })
    }
}

/// A view with exactly groups, channels and rows before its columns: what one task can address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View4 {
    /// The buffer.
    pub buffer: BufferId,
    /// Offset of the first element in bytes.
    pub offset_bytes: u64,
    /// Groups, channels, rows.
    pub axes: [Axis; 3],
    /// Columns.
    pub width: usize,
}

impl View4 {
    /// The elements that the view accesses, in order: equal for views that differ only in strides of single-element axes.
    pub fn elements(&self) -> (BufferId, u64, [(usize, u64); 3], usize) {
        let axes = self.axes.map(|a| (a.extent, if a.extent > 1 { a.stride_bytes } else { 0 }));
        (self.buffer, self.offset_bytes, axes, self.width)
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.axes.iter().map(|a| a.extent).product::<usize>() * self.width
    }

    /// The groups as further channels, if they follow each other.
    pub fn groups_as_channels(&self) -> Option<View4> {
        let [groups, channels, rows] = self.axes;
        let one = channels.extent == 1;
        let stride_bytes = if one { groups.stride_bytes } else { channels.stride_bytes };
        let all = Axis { extent: groups.extent * channels.extent, stride_bytes };
        let axes = [Axis { extent: 1, stride_bytes: 0 }, all, rows];
        let follow = one || groups.stride_bytes == channels.extent as u64 * channels.stride_bytes;
        follow.then_some(View4 { axes, ..*self })
    }

    /// Groups.
    pub fn groups(&self) -> usize {
        self.axes[0].extent
    }

    /// Channels.
    pub fn channels(&self) -> usize {
        self.axes[1].extent
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.axes[2].extent
    }
}

/// Activation of the neural engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Nonlinear {
    /// None.
    None,
    /// `max(x, 0)`.
    Relu,
    /// An activation table.
    Table(Arc<Table>),
}

impl Nonlinear {
    /// The table, where there is one.
    pub fn table(&self) -> Option<&Table> {
        if let Nonlinear::Table(table) = self { Some(table) } else { None }
    }

    /// Addend of the argument that a table requires and the task states; see [`Table::addend`].
    pub fn addend(&self) -> f32 {
        self.table().map_or(0.0, Table::addend)
    }
}

/// Two-source operations of the planar engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PlanarOp {
    Add,
    /// Second source negated, then added.
    Sub,
    Mul,
    Max,
    Min,
}

/// Reductions and windows of the planar engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PoolOp {
    Sum,
    Max,
}

/// Sliding window; rows first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Kernel extents.
    pub kernel: [usize; 2],
    /// Strides.
    pub stride: [usize; 2],
    /// Leading padding; trailing padding follows from the result's extents.
    pub pad: [usize; 2],
}

impl Window {
    /// A 1x1 window.
    pub const UNIT: Window = Window { kernel: [1, 1], stride: [1, 1], pad: [0, 0] };
}

/// Channel connectivity of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Every output channel of a group reads every input channel of it; groups are the view's groups.
    Dense,
    /// Output channel `c` reads input channels `c * per_output ..`.
    Unicast {
        /// Input channels per output channel.
        per_output: usize,
    },
}

/// The affine part of a planar task: `(x * final_scale) * scale + bias`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// Multiplies source 1 before the operation, fp16.
    pub pre_scale: f32,
    /// fp32 factor on the operation's result.
    pub final_scale: f32,
    /// fp16 factor.
    pub scale: f32,
    /// fp16 addend.
    pub bias: f32,
}

impl Affine {
    /// The identity.
    pub const UNIT: Affine = Affine { pre_scale: 1.0, final_scale: 1.0, scale: 1.0, bias: 0.0 };
}

/// Operation of a layer. One layer is one task.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Neural engine: convolution with constant coefficients.
    Conv {
        /// Geometry.
        window: Window,
        /// Channel connectivity.
        connect: Connect,
        /// Coefficients.
        weights: Arc<Weights>,
        /// One bias per output channel of each group, or one number for all ([`Layer::bias_number`]).
        bias: Option<Arc<Vec<f32>>>,
        /// Multiplies the biased sum, fp16.
        post_scale: f32,
        /// Applied last.
        nonlinear: Nonlinear,
    },
    /// Neural engine without coefficients: `nonlinear((x + add) * post_scale)`.
    Neuron {
        /// fp16 addend.
        add: f32,
        /// fp16 factor.
        post_scale: f32,
        /// Applied last.
        nonlinear: Nonlinear,
    },
    /// Neural engine: a product with coefficients computed at run time. The second source contains them, laid out as streams:
    /// its channels are planes of `lanes` interleaved output channels.
    Product {
        /// Output channels per engine.
        lanes: usize,
        /// Multiplies the sum, fp16.
        post_scale: f32,
    },
    /// Neural engine: maximum over all channels; the result has one.
    MaxChannels,
    /// Neural engine: sum of all channels, without coefficients; the result has one.
    SumChannels {
        /// Applied last.
        nonlinear: Nonlinear,
    },
    /// Neural engine: products of channels 0 and 1, 2 and 3, and so on, without coefficients.
    MulChannels {
        /// Applied last.
        nonlinear: Nonlinear,
    },
    /// Planar engine, two sources.
    Planar {
        /// The operation.
        op: PlanarOp,
        /// Scales and bias.
        affine: Affine,
        /// ReLU on the result.
        relu: bool,
    },
    /// Planar engine: `(x + s) * f * scale` with an addend and a factor for each channel. The second source has two rows, addends
    /// and factors.
    ChannelAffine {
        /// The addend is subtracted.
        subtract: bool,
        /// Factor of the result.
        scale: f32,
    },
    /// Planar engine: `1 / sqrt(mean + epsilon)`, where the mean is that of the squares of the scaled differences, over rows and columns,
    /// between the first source and the second, which has one number per channel.
    Deviation {
        /// fp16 addend.
        epsilon: f32,
        /// Factor of the differences.
        scale: f32,
    },
    /// Planar engine: `1 / sqrt(mean + epsilon)`, where the mean is that of the squares over rows and columns.
    InverseRms {
        /// fp16 addend.
        epsilon: f32,
    },
    /// Planar engine, one source: absolute value, scales, window.
    Pool {
        /// Window function; ignored by a unit window.
        op: PoolOp,
        /// Geometry.
        window: Window,
        /// Absolute value first.
        abs: bool,
        /// Scales and bias.
        affine: Affine,
        /// ReLU on the result.
        relu: bool,
    },
    /// Planar engine: reduction over rows and columns.
    Reduce {
        /// The reduction.
        op: PoolOp,
        /// Absolute value first.
        abs: bool,
        /// Scales and bias.
        affine: Affine,
        /// Reciprocal of the result.
        reciprocal: bool,
    },
    /// A native layer in this project's own encoding, executed by no unit of Apple's.
    Own(Arc<Own>),
}

impl Kind {
    /// Returns true for a plain copy by the neural engine: no addend, factor or function.
    pub fn is_copy(&self) -> bool {
        *self == Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None }
    }
}

/// A layer: a future task.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Name of the operation that it was lowered from.
    pub name: String,
    /// Operation, with its parameters.
    pub kind: Kind,
    /// Sources; one, or two for planar kinds that combine and for [`Kind::Product`].
    pub sources: Vec<View4>,
    /// Axes along which each source has extent 1 and is repeated: channels, rows, columns.
    pub broadcast: Vec<[bool; 3]>,
    /// Result as written: with `transpose`, its channels are the computed columns and its columns the channels.
    pub result: View4,
    /// True if channels and columns of the result are exchanged when it is stored.
    pub transpose: bool,
    /// Interleave of the result: channels are stored in sets of this size. The view has the extents without interleave, with the stride
    /// of a set per channel.
    pub interleave: usize,
    /// Interleave of the first source, and of the second one of an elementwise planar task.
    pub source_interleave: usize,
    /// The second source is read through a ReLU (planar engine only).
    pub second_relu: bool,
    /// Sources whose channels and columns are exchanged (planar engine only).
    pub turned: [bool; 2],
}

impl Layer {
    /// The number that a convolution with several output channels adds to all sums; `None` if it has biases by channel, or none.
    pub fn bias_number(&self) -> Option<f32> {
        let Kind::Conv { bias: Some(bias), .. } = &self.kind else { return None };
        let outputs = if self.transpose { self.result.width } else { self.result.channels() * self.result.groups() };
        match bias.as_slice() {
            &[number] if outputs > 1 => Some(number),
            _ => None,
        }
    }

    /// Returns true for a native layer that reads or writes a ring buffer, its first operand.
    pub fn holds_ring_buffer(&self) -> bool {
        matches!(&self.kind, Kind::Own(own) if own.tag.starts_with("RingBuffer"))
    }

    /// Returns true for a function of each element by a table, without coefficients.
    pub fn is_table(&self) -> bool {
        matches!(self.kind, Kind::Neuron { nonlinear: Nonlinear::Table(_), .. })
    }

    /// Returns true for a planar task with one source that repeats its rows.
    pub fn repeats_rows(&self) -> bool {
        matches!((&self.kind, self.broadcast.as_slice()), (Kind::Pool { .. }, [[false, true, false]]))
    }

    /// Returns true for a task of the neural engine, false for one of the planar engine.
    pub fn is_neural(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Planar { .. }
                | Kind::ChannelAffine { .. }
                | Kind::Deviation { .. }
                | Kind::InverseRms { .. }
                | Kind::Pool { .. }
                | Kind::Reduce { .. }
                | Kind::Own(_)
        )
    }

    /// Returns true if the layer multiplies with coefficients: a convolution or a product.
    pub fn convolves(&self) -> bool {
        matches!(self.kind, Kind::Conv { .. } | Kind::Product { .. })
    }
}

/// Layers in an order in which every buffer is written before it is read.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Network name.
    pub name: String,
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// All layers.
    pub layers: Vec<Layer>,
    /// Usual size of the elements of some buffers, for the choice between tables and steps: a hint from lowering to that pass alone,
    /// without text form.
    pub usual: HashMap<BufferId, f32>,
    /// Inputs in the network's order.
    pub inputs: Vec<BufferId>,
    /// Outputs in the network's order.
    pub outputs: Vec<BufferId>,
}

impl Graph {
    /// The buffer with that id.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// Adds scratch memory for fp16 elements.
    pub fn add_scratch(&mut self, name: String, bytes: u64) -> BufferId {
        self.add_buffer(Buffer {
            name,
            role: Role::Scratch,
            bytes,
            port: None,
            element_bytes: ELEMENT_BYTES,
            constant: None,
        })
    }

    /// Adds a buffer.
    pub fn add_buffer(&mut self, buffer: Buffer) -> BufferId {
        self.buffers.push(buffer);
        BufferId(self.buffers.len() as u32 - 1)
    }
}

/// Dense strides for extents: rows padded to 64 bytes. Returns the leading axes and the size in bytes.
pub fn dense_axes(shape: &[usize]) -> (Vec<Axis>, u64) {
    dense_axes_of(shape, ELEMENT_BYTES)
}

/// [`dense_axes`] for elements of some bytes.
pub fn dense_axes_of(shape: &[usize], element_bytes: u64) -> (Vec<Axis>, u64) {
    let width = shape.last().copied().unwrap_or(1);
    let mut stride_bytes = (width as u64 * element_bytes).next_multiple_of(ROW_ALIGN);
    let mut lead: Vec<Axis> = shape[..shape.len().saturating_sub(1)]
        .iter()
        .rev()
        .map(|&extent| {
            let axis = Axis { extent, stride_bytes };
            stride_bytes *= extent as u64;
            axis
        })
        .collect();
    lead.reverse();
    (lead, stride_bytes)
}
