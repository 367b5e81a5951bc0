//! Unit tests of convolution, pooling and binary operations.

mod convolution;
mod elementwise;
#[path = "../../../kernels/tests/units/samples.rs"]
mod samples;
