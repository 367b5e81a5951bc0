//! Findings of `ane check` and the validators that check, compiler and load share.

mod lint;
mod validators;
