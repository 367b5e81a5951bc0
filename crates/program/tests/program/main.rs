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
mod units {
    //! Tests of single modules; the tree mirrors that of `src/`.

    mod cost;
    mod order;
    mod e5 {
        mod repeat;
        mod write;
    }
    mod hwx {
        mod symbols;
    }
    mod text {
        mod lex;
    }
}
