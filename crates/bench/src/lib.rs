//! Benchmarks beside other libraries: `cargo bench -p anemone-bench --features peers [--bench engine|exact]`.
//!
//! The peer is faer, a matrix library. It takes long to build, so that it stands behind a feature that no other command
//! enables.
