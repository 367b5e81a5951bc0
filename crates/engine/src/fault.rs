//! Faults: every error that can occur while a program executes, with its location.

use anemone_facts::Field;
use anemone_kernels::tensor::SizeError;
use anemone_program::StreamError;

/// Error that ends the execution of a program, and its location.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{kind}", place(*.task, *.offset))]
pub struct Fault {
    /// Position of the task in the chain; `None` before the first task.
    pub task: Option<usize>,
    /// Byte offset of its descriptor in the stream.
    pub offset: u32,
    /// Cause.
    pub kind: FaultKind,
}

fn place(task: Option<usize>, offset: u32) -> String {
    task.map_or(String::new(), |t| format!("task {t} at {offset:#x}: "))
}

impl From<SizeError> for FaultKind {
    fn from(SizeError { elements, limit }: SizeError) -> FaultKind {
        FaultKind::TooLarge { elements, limit }
    }
}

/// Cause of a fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultKind {
    /// The stream is not a chain of descriptors.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The engine does not execute descriptors of this generation; they can only be listed and assembled.
    #[error("programs of {generation} are listed and not executed")]
    Generation {
        /// Generation name.
        generation: &'static str,
    },
    /// Set bits that no row explains.
    #[error("unexplained bits {bits:#010x} are set in {space} {addr:#x}")]
    Unexplained {
        /// `header word` or `register`.
        space: &'static str,
        /// Its address.
        addr: u32,
        /// The bits.
        bits: u32,
    },
    /// Field value that the engine does not execute.
    #[error("{field:?} = {value:#x} is not executed: {reason}")]
    NotHonoured {
        /// The field.
        field: Field,
        /// Raw value found.
        value: u32,
        /// Values that the engine executes.
        reason: &'static str,
    },
    /// Fields contradict each other.
    #[error("{field:?} = {value:#x} does not fit the task: {reason}")]
    Inconsistent {
        /// The field.
        field: Field,
        /// Raw value found.
        value: u32,
        /// Expectation that does not hold.
        reason: String,
    },
    /// A base register in use has no memory behind it.
    #[error("{field:?} names BAR {bar}, which has no memory bound")]
    Unbound {
        /// The base field.
        field: Field,
        /// The base register.
        bar: u8,
    },
    /// An access leaves its region.
    #[error("{field:?}: access of {bytes} bytes at {address:#x} leaves {region} of {limit:#x} bytes")]
    Stray {
        /// Stride or base field of the access.
        field: Field,
        /// `BAR n` or `L2`.
        region: String,
        /// Byte address within the region.
        address: u64,
        /// Bytes of the access.
        bytes: u64,
        /// Bytes of the region.
        limit: u64,
    },
    /// An operand of a host operation that replaces several tasks leaves its region.
    #[error("{operation}: operand {operand} leaves its region of {limit:#x} bytes")]
    Outside {
        /// Kind of computation.
        operation: &'static str,
        /// The operand: base, strides and row, in bytes.
        operand: String,
        /// Bytes of the region.
        limit: u64,
    },
    /// A read of memory that neither the caller nor an earlier task wrote.
    #[error("{field:?}: reads {bytes} bytes at {address:#x} of {region} that nothing has written")]
    Unwritten {
        /// The base field of the source.
        field: Field,
        /// `BAR n` or `L2`.
        region: String,
        /// Byte address within the region.
        address: u64,
        /// Bytes of the access.
        bytes: u64,
    },
    /// A task reads a chained source, but the task before it left no chained result.
    #[error("source 1 is chained, but the task before left no chained result")]
    NothingChained,
    /// A chained result has another shape than the task declares.
    #[error("chained source has {found:?} (groups, channels, rows, columns), the task declares {declared:?}")]
    ChainShape {
        /// Shape of the chained result.
        found: [usize; 4],
        /// Shape that the task declares.
        declared: [usize; 4],
    },
    /// The activation table is malformed.
    #[error("activation table: halfword {halfword} = {value:#06x} {reason}")]
    Table {
        /// Position in the record.
        halfword: usize,
        /// Value found.
        value: u16,
        /// Reason.
        reason: &'static str,
    },
    /// A tensor exceeds the largest size.
    #[error("a tensor of {elements} elements exceeds the engine's limit of {limit}")]
    TooLarge {
        /// Requested number of elements.
        elements: u64,
        /// Limit.
        limit: u64,
    },
}
