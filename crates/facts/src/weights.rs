//! Compressed forms of constant weights, and the capabilities by which a chip reads each of them as it is: the streaming
//! gate. A form that does not pass it becomes fp16 while a program is compiled, and saves no bandwidth.
//!
//! Source: the book, chapter 7 (tables of what streams where, and of the HAL bytes) and chapter 25
//! (`docs/evidence.md`, key `book-streams`).

use crate::hal::Hal;

/// A compressed form of constant weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightForm {
    /// Indices into one table of fp16 values.
    Palette,
    /// Masks and the values that are not zero.
    Sparse,
    /// 8-bit integers with one scale, or one for each output channel.
    Int8,
    /// Integers with a scale for each block.
    Block,
}

/// Capability that a form needs of a chip.
pub struct Gate {
    /// The form.
    pub form: WeightForm,
    /// Its name in messages.
    pub name: &'static str,
    /// Name of the HAL row that is its gate, beside [`Hal::kernel_streaming`].
    pub row: &'static str,
    /// Reads that row.
    pub get: fn(&Hal) -> Option<u64>,
}

/// A row for each form, in the order of [`WeightForm`].
pub static GATES: [Gate; 4] = [
    Gate {
        form: WeightForm::Palette,
        name: "a palette",
        row: "palette_kernel_stride",
        get: |hal| hal.palette_kernel_stride,
    },
    Gate { form: WeightForm::Sparse, name: "sparse weights", row: "kernel_streaming", get: |hal| hal.kernel_streaming },
    Gate { form: WeightForm::Int8, name: "int8 weights", row: "stream_gate_0x528", get: |hal| hal.stream_gate_0x528 },
    Gate {
        form: WeightForm::Block,
        name: "block-wise weights",
        row: "stream_gate_0x520",
        get: |hal| hal.stream_gate_0x520,
    },
];

impl WeightForm {
    /// The form's row of [`GATES`].
    pub fn gate(self) -> &'static Gate {
        &GATES[self as usize]
    }
}

impl Gate {
    /// Returns true if a chip streams the form; `None` if the chip's capabilities are not known.
    pub fn open(&self, hal: &Hal) -> Option<bool> {
        Some(hal.kernel_streaming? == 1 && (self.get)(hal)? == 1)
    }
}

/// A width of palette indices in a kernel stream.
pub struct PaletteWidth {
    /// Bits of an index.
    pub bits: u32,
    /// True if a compiler emits it for the M1: narrower ones are rejected, and those between are of later chips (chapter 25).
    /// Indices of other widths are widened.
    pub given: bool,
}

/// A row for each width, narrowest first.
pub static PALETTE_WIDTHS: [PaletteWidth; 4] = [
    PaletteWidth { bits: 2, given: false },
    PaletteWidth { bits: 4, given: true },
    PaletteWidth { bits: 6, given: false },
    PaletteWidth { bits: 8, given: true },
];

/// Widths that a compiler emits for the M1, in bits, narrowest first.
pub fn given_palette_bits() -> impl DoubleEndedIterator<Item = u32> {
    PALETTE_WIDTHS.iter().filter(|width| width.given).map(|width| width.bits)
}

/// A stored form of weights on which a chip's compiler fails, so that the whole model runs off the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The form.
    pub form: FailingForm,
    /// Families of chips whose compiler was observed to fail.
    pub families: &'static [&'static str],
    /// Form to store instead.
    pub fix: &'static str,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

/// Stored forms on which compilers fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FailingForm {
    /// 4-bit integers with a scale for each block of an output channel.
    Int4Blocks,
    /// A palette whose entries are vectors.
    VectorPalette,
}

/// Compiles that failed for the M6 (three records: int4 in blocks of 32, 4-bit palettes of vectors of 2 and of 4), while int8,
/// palettes of 2, 3, 4 and 6 bits and those in 16 groups compiled.
pub static FAILING: &[Failing] = &[
    Failing {
        form: FailingForm::Int4Blocks,
        families: &["A18"],
        fix: "one scale for each output channel of int8 weights, or a 4-bit palette",
        source: "m6-study",
    },
    Failing {
        form: FailingForm::VectorPalette,
        families: &["A18"],
        fix: "a palette of single values (cluster_dim 1), in groups of channels where it needs more",
        source: "m6-study",
    },
];
