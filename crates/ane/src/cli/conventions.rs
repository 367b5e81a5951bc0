//! Names of compilers, readings and lowerings that can be asked for.

use anemone_compile::{Activations, Compat, Convention};
use anemone_facts::formats::dialects::{self, Dialect};
use clap::ValueEnum;

/// Compiler whose conventions can be asked for.
#[derive(Clone, Copy, ValueEnum)]
pub enum CompatName {
    /// zin_ane_compiler v4.2.1
    #[value(name = "zin-4.2.1")]
    Zin421,
    /// Apple's compiler of 2026
    #[value(name = "zin-9.509")]
    Zin9509,
}

/// Whose reading is followed.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ConventionName {
    /// The bytes of Apple's programs
    #[default]
    Samples,
    /// The book's chapters
    Book,
}

impl ConventionName {
    /// The compiler's own value for this name.
    pub fn convention(self) -> Convention {
        match self {
            ConventionName::Samples => Convention::Samples,
            ConventionName::Book => Convention::Book,
        }
    }
}

/// Lowering of activation functions other than ReLU.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum ActivationsName {
    /// One table each: fewest tasks
    Fused,
    /// Steps that are more precise
    Accurate,
    /// Tables while their errors stay small
    #[default]
    Auto,
}

impl ActivationsName {
    /// The compiler's own value for this name.
    pub fn activations(self) -> Activations {
        match self {
            ActivationsName::Fused => Activations::Fused,
            ActivationsName::Accurate => Activations::Accurate,
            ActivationsName::Auto => Activations::Auto,
        }
    }
}

impl CompatName {
    /// The compiler's own value for this name.
    pub fn compat(self) -> Compat {
        match self {
            CompatName::Zin421 => Compat::Zin421,
            CompatName::Zin9509 => Compat::Zin9509,
        }
    }

    /// Layout of its containers.
    pub fn dialect(self) -> Option<&'static Dialect> {
        self.to_possible_value().and_then(|value| dialects::by_name(value.get_name()))
    }
}
