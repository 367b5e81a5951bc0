//! Findings of `ane check` and the validators that check, compiler and load share.

mod allocation;
mod lint;
mod passes;
mod validators;
