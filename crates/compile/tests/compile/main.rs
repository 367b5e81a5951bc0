//! Allocation states and the effect of each pass.

mod allocation;
mod passes;
