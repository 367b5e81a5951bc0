//! A compiled program and its ports.

use crate::task::{StreamError, Task, decode_stream};
use anemone_facts::{Field, Layout};
use bytes::Bytes;
use std::ops::Range;

/// Number of base address registers of the machine.
pub const BAR_COUNT: usize = 32;

/// Extents of a tensor in elements, in the form of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nchw {
    /// Batch.
    pub n: u32,
    /// Channels.
    pub c: u32,
    /// Rows.
    pub h: u32,
    /// Columns.
    pub w: u32,
}

impl Nchw {
    /// Number of elements, saturating at `u64::MAX`.
    pub fn elements(&self) -> u64 {
        [self.c, self.h, self.w].iter().fold(self.n as u64, |all, &e| all.saturating_mul(e as u64))
    }
}

/// Byte distances between neighbours along each axis of a tensor in memory; W neighbours are adjacent elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// Between batches.
    pub batch_bytes: u64,
    /// Between channels.
    pub plane_bytes: u64,
    /// Between rows.
    pub row_bytes: u64,
}

impl Strides {
    /// The compiler's default: rows padded to 64 bytes, planes and batches dense.
    pub fn dense(shape: Nchw, element_bytes: u64) -> Strides {
        let row_bytes = (shape.w as u64 * element_bytes).next_multiple_of(64);
        let plane_bytes = row_bytes * shape.h as u64;
        Strides { batch_bytes: plane_bytes * shape.c as u64, plane_bytes, row_bytes }
    }

    /// Bytes from the first to one past the last element, saturating at `u64::MAX`.
    pub fn tight_bytes(&self, shape: Nchw, element_bytes: u64) -> u64 {
        let axes = [(shape.n, self.batch_bytes), (shape.c, self.plane_bytes), (shape.h, self.row_bytes)];
        axes.iter().fold((shape.w as u64).saturating_mul(element_bytes), |bytes, &(extent, stride)| {
            bytes.saturating_add((extent as u64).saturating_sub(1).saturating_mul(stride))
        })
    }
}

/// Element type of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 8-bit unsigned.
    Uint8,
    /// 8-bit signed.
    Int8,
    /// IEEE half precision.
    Float16,
}

impl Element {
    /// Size in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Element::Uint8 | Element::Int8 => 1,
            Element::Float16 => 2,
        }
    }
}

/// Direction of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The program reads it.
    Input,
    /// The program writes it.
    Output,
}

/// A tensor that the caller binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name in the network.
    pub name: String,
    /// Input or output.
    pub direction: Direction,
    /// Base address register that the task descriptors use for it.
    pub bar: u8,
    /// Extents. Of five axes, batches and channels are merged in `n`, and `c` is the depth.
    pub shape: Nchw,
    /// Channels of a tensor with five axes; `None` for one with four.
    pub volume_channels: Option<u32>,
    /// Memory layout.
    pub strides: Strides,
    /// Element type.
    pub element: Element,
    /// Size of the bound buffer in bytes.
    pub bytes: u64,
}

impl Port {
    /// Extents as in the network: batch, channels, rows and columns, with the depth behind the channels if there is one.
    pub fn extents(&self) -> Vec<u32> {
        let s = self.shape;
        match self.volume_channels {
            Some(channels) => vec![s.n / channels.max(1), channels, s.c, s.h, s.w],
            None => vec![s.n, s.c, s.h, s.w],
        }
    }

    /// Extents as numbers of elements in memory.
    pub fn dims(&self) -> Vec<usize> {
        self.extents().into_iter().map(|n| n as usize).collect()
    }

    /// Returns true for five axes with contiguous planes: a container's record has no stride between depths.
    pub fn has_dense_volumes(&self) -> bool {
        self.volume_channels.is_some()
            && self.strides.batch_bytes == self.strides.plane_bytes.saturating_mul(u64::from(self.shape.c))
    }
}

/// A compiled network: the task stream, its kernel data and its ports. Containers are written from it and
/// read into it; the engine executes it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Procedure name.
    pub name: String,
    /// Register layout of the generation it is compiled for.
    pub layout: &'static Layout,
    /// The task stream, byte for byte as DMA reads it (BAR [`Program::STREAM_BAR`]).
    pub stream: Vec<u8>,
    /// Number of words of the first task descriptor.
    pub first_task_words: u32,
    /// Kernel data: coefficients and tables (BAR [`Program::KERNEL_BAR`]).
    pub kernel: Bytes,
    /// Size of the intermediate region in bytes, 0 if there is none.
    pub scratch_bytes: u64,
    /// Ports: inputs, then outputs.
    pub ports: Vec<Port>,
}

impl Program {
    /// Edits kernel data, copying it first if it is shared.
    pub fn edit_kernel<T>(&mut self, edit: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut kernel = Vec::from(std::mem::take(&mut self.kernel));
        let result = edit(&mut kernel);
        self.kernel = kernel.into();
        result
    }

    /// Base address register of the task stream.
    pub const STREAM_BAR: u8 = 0;
    /// Base address register of kernel data.
    pub const KERNEL_BAR: u8 = 1;
    /// Base address register of the intermediate region.
    pub const SCRATCH_BAR: u8 = 3;
    /// First base address register of ports.
    pub const FIRST_PORT_BAR: u8 = 4;

    /// The stream decoded into task descriptors, following the chain.
    pub fn tasks(&self) -> Result<Vec<Task>, StreamError> {
        decode_stream(self.layout, &self.stream, self.first_task_words)
    }

    /// Partitions of the tasks, in order: positions of consecutive tasks that one request to the engine executes. Each ends at a task
    /// whose header lets the engine switch to another program, and the last at the end of the program.
    ///
    /// Errors: a stream that is no chain of descriptors.
    pub fn partitions(&self) -> Result<Vec<Range<usize>>, StreamError> {
        Ok(partitions(self.layout, &self.tasks()?))
    }

    /// Ports of one direction, in order.
    pub fn ports_of(&self, direction: Direction) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(move |p| p.direction == direction)
    }
}

/// Partitions of tasks; see [`Program::partitions`].
pub(crate) fn partitions(layout: &Layout, tasks: &[Task]) -> Vec<Range<usize>> {
    let ends = |&at: &usize| at + 1 == tasks.len() || tasks[at].get(layout, Field::Tsr) == Some(1);
    let mut begin = 0;
    let partition = |at: usize| {
        let range = begin..at + 1;
        begin = at + 1;
        range
    };
    (0..tasks.len()).filter(ends).map(partition).collect()
}
