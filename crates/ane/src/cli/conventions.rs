//! Names of compilers, conventions and lowerings in flags.

use anemone_compile::{Activations, Compat, Convention};
use anemone_facts::formats::dialects::{self, Dialect};
use clap::ValueEnum;

/// Compiler whose conventions a flag selects.
#[derive(Clone, Copy, ValueEnum)]
pub enum CompatName {
    /// zin_ane_compiler v4.2.1
    #[value(name = "zin-4.2.1")]
    Zin421,
    /// Apple's compiler of 2026
    #[value(name = "zin-9.509")]
    Zin9509,
}

/// Source that is followed in conflicts.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ConventionName {
    /// The bytes of Apple's programs
    #[default]
    Samples,
    /// The book's chapters
    Book,
}

impl ConventionName {
    /// The corresponding option of the compiler.
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
    /// Tables if their errors are small
    #[default]
    Auto,
}

impl ActivationsName {
    /// The corresponding option of the compiler.
    pub fn activations(self) -> Activations {
        match self {
            ActivationsName::Fused => Activations::Fused,
            ActivationsName::Accurate => Activations::Accurate,
            ActivationsName::Auto => Activations::Auto,
        }
    }
}

impl CompatName {
    /// The corresponding option of the compiler.
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
