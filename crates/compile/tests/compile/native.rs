//! Tests of `src/native`.

mod attention;
