//! Benchmarks against other libraries. The crate has no items: its benchmarks are programs.
//!
//! ```sh
//! cargo bench -p anemone-bench --features peers --bench engine     # matrix products and convolutions, compared with faer
//! cargo bench -p anemone-bench --features peers --bench exact      # the exact accumulator
//! ```
//!
//! The peer is faer, a matrix library. It takes long to build, so it is behind a feature that no other command
//! enables.
