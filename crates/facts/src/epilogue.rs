//! Slots of the epilogue of an engine layer, and their form in a task of each unit.
//!
//! Source: the book, listing 22.3 (`ZinNEBypassLayer`) for the slots and their order; the columns of the M1 are register
//! contents, as samples and records of Apple's compilers have them (`docs/evidence.md`, keys `h13-fusion` and `h13-planar`).

/// Form of a slot in a task of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Not available: the layer stays a task of its own.
    Nothing,
    /// One number for all elements.
    Scalar,
    /// One number for each channel.
    Channels,
    /// ReLU alone.
    Relu,
    /// ReLU or a table of 33 knots.
    Table,
    /// A bit of the task.
    Flag,
}

/// One slot.
#[derive(Debug)]
pub struct Slot {
    /// Name.
    pub name: &'static str,
    /// Class of the constructor's argument.
    pub class: &'static str,
    /// Function of the slot.
    pub meaning: &'static str,
    /// Form in a task of the neural engine with coefficients.
    pub convolution: Holds,
    /// Form in a task of the neural engine without coefficients.
    pub neural: Holds,
    /// Form in a task of the planar engine.
    pub planar: Holds,
}

macro_rules! slots {
    ( $( $name:literal $class:literal $conv:ident $neural:ident $planar:ident, $meaning:literal; )* ) => {
        /// The slots in the order of the constructor's arguments.
        pub static SLOTS: &[Slot] = &[ $( Slot {
            name: $name, class: $class, meaning: $meaning,
            convolution: Holds::$conv, neural: Holds::$neural, planar: Holds::$planar,
        } ),* ];
    };
}

slots! {
    "texture" "ZinTextureLayer" Nothing Nothing Nothing, "remaps places in space; the M1 has no texture engine";
    "broadcast" "ZinBroadcastLayer" Nothing Nothing Flag, "repeats an operand that the layer combines";
    "pre-activation" "ZinActivationLayer" Nothing Nothing Relu, "before gain and offset; the planar engine's second source alone";
    "offset" "ZinGOCLayer" Channels Scalar Scalar, "addend: biases in the coefficient stream, or a register";
    "gain" "ZinGOCLayer" Scalar Scalar Scalar, "factor: fp16 in the neural engine, fp32 in the planar one";
    "post-activation" "ZinActivationLayer" Table Table Relu, "after gain and offset";
    "transpose" "ZinTransposeLayer" Flag Flag Flag, "channels and columns exchanged on the way out";
    "requantization" "ZinQuantLayer" Nothing Nothing Nothing, "results of other element types; no M1 program writes any";
}

/// The slot of a name.
pub fn slot(name: &str) -> Option<&'static Slot> {
    SLOTS.iter().find(|s| s.name == name)
}
