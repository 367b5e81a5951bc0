//! Tests of `src/ir`.

mod parse;
mod reads;
mod verify;
