//! Choices of the caller: whose conventions the program follows, and which passes run.

/// Which compiler's conventions the program follows, where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// Apple's compiler of 2026, zin 9.509: its words where they are known, and tables of two steps for precision.
    #[default]
    Zin9509,
    /// `zin_ane_compiler v4.2.1`: the same task stream and constants for the same netplist.
    Zin421,
}

/// What the caller may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Conventions.
    pub compat: Compat,
    /// How many of the optional passes are run, in order; all where it is `None`. For finding the pass that is at fault.
    pub pass_limit: Option<usize>,
    /// Weights that the model has compressed become fp16 also where the chip streams their form: no sample of Apple's
    /// shows a palette on the M1, so how it stands in the streams is a reading (`docs/evidence.md`, key `book-streams`).
    pub expand_weights: bool,
}

impl Options {
    /// Whether zin 9.509 is followed.
    pub(crate) fn modern(&self) -> bool {
        self.compat == Compat::Zin9509
    }
}
