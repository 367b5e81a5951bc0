//! How a verdict about a chip is known.

/// How sure we are of a limit, a capability or a verdict, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Basis {
    /// Somebody measured it on silicon and published how.
    Measured,
    /// What Apple's compiler or segmenter answered for a given program.
    Compiler,
    /// Read from tables or code of Apple's binaries.
    Decoded,
    /// Follows from the others by a rule of ours, or from one case only.
    Inferred,
}

impl Basis {
    /// Every level, best first.
    pub const ALL: [Basis; 4] = [Basis::Measured, Basis::Compiler, Basis::Decoded, Basis::Inferred];

    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Compiler => "compiler",
            Basis::Decoded => "decoded",
            Basis::Inferred => "inferred",
        }
    }

    /// For people.
    pub const fn phrase(self) -> &'static str {
        match self {
            Basis::Measured => "measured on silicon",
            Basis::Compiler => "from Apple's compiler's output",
            Basis::Decoded => "decoded limits",
            Basis::Inferred => "inferred",
        }
    }
}
