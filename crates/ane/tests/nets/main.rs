//! Networks compiled and executed in this process: operations, forms, number models, plans and predictions.

#[path = "../common/mod.rs"]
mod common;

mod at_once;
mod booleans;
mod check_and_compile;
mod check_packages;
mod conversions;
mod decode;
mod dialect_tiles;
mod dialect_words;
mod dialects;
mod differential;
mod epilogues;
mod extended;
mod few_tasks;
mod fingerprint;
mod fixes;
mod floors;
mod forms;
mod functions;
mod images;
mod native;
mod networks;
mod ops;
mod plans;
mod probes;
mod quantized;
mod quotients;
mod random;
mod robustness;
mod small_terms;
mod snapshots;
mod softmaxes;
mod trace;
mod values;
mod weights;
