//! Tests of `src/lut`.

mod fit;
