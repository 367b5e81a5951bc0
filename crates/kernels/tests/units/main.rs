//! Unit tests of the kernels.

mod arena;
mod axes;
mod copy;
mod epilogue;
mod exact;
mod filter;
mod host;
mod interleave;
mod isa;
mod line;
mod map;
mod num;
mod par;
mod rows;
mod samples;
mod simd;
mod table;
mod view;
