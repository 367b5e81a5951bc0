//! One file per generation: where each field of the vocabulary stands.

mod h13;

pub use h13::H13;
