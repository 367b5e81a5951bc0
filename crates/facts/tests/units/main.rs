//! Tests of single modules, and of the build of wrong rows; the tree mirrors that of `src/`.

mod code;
mod kernel;
mod legal {
    mod words;
}
mod numerics;
mod overlap;
mod silicon;
mod weights;
