//! Tests of `src/tile`.

mod banks;
