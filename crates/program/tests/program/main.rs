//! Containers and task streams of every dialect: read, written, damaged.

#[path = "../common/mod.rs"]
mod common;

mod dialects;
mod forms;
mod generations;
mod golden;
mod image;
mod malformed;
mod properties;
mod tasks;
