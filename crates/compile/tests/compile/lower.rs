//! Tests of `src/lower`.

mod around;
mod joined;
mod roots;
mod strided;
