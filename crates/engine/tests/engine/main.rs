//! The engine on programs made word by word, and its arithmetic against the evidence.

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod lines;
mod numerics_fingerprint;
mod numerics_mac;
mod operands;
mod pairs;
mod streams;
mod written;
