//! Basis of a statement about a chip.

/// Ground of a limit, a capability or a verdict, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Basis {
    /// Measured on silicon by someone who published the method.
    Measured,
    /// Answer of Apple's compiler or segmenter to a given program.
    Compiler,
    /// Read from tables or code of Apple's binaries.
    Decoded,
    /// Inferred from other statements by a rule of this project, or from a single case.
    Inferred,
}

impl Basis {
    /// All variants, best first.
    pub const ALL: [Basis; 4] = [Basis::Measured, Basis::Compiler, Basis::Decoded, Basis::Inferred];

    /// Name, one word.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Compiler => "compiler",
            Basis::Decoded => "decoded",
            Basis::Inferred => "inferred",
        }
    }

    /// Phrase for messages.
    pub const fn phrase(self) -> &'static str {
        match self {
            Basis::Measured => "measured on silicon",
            Basis::Compiler => "from Apple's compiler's output",
            Basis::Decoded => "decoded limits",
            Basis::Inferred => "inferred",
        }
    }
}
