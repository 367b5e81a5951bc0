//! Tests of the compiler: allocation states and the effect of each pass, and the modules of `src/`, each in a module of the same name.

mod allocation;
mod functions;
mod fuse;
mod ir;
mod legalize;
mod lower;
mod lut;
mod native;
mod passes;
mod rewrite;
mod segments;
mod tile;
