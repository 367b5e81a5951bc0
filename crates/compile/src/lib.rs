//! The compiler: a network becomes a program for one chip.
//!
//! This crate may use `facts`, `net` and `program`. It calls neither engine nor runtime, prints nothing and reads no
//! file. [`pipeline::ALL`] is the contents page; each stage is a type with a text form and a verifier.
//!
//! Dependencies: `half` rounds constants to fp16, `libm` gives the error function behind two activation tables,
//! `thiserror` words the refusals.
//!
//! A ReLU is one task; the log `()` takes no dumps of stages:
//!
//! ```
//! use anemone_compile::{Options, compile};
//! use anemone_facts::silicon;
//! use anemone_net::text;
//!
//! let source = "net \"main\" {\n  input %x: f16[1, 4, 1, 8]\n  %y: f16[1, 4, 1, 8] = relu(%x)\n  output %y\n}\n";
//! let net = text::parse(source, &[]).expect("a network");
//! let m1 = silicon::by_name("m1").expect("a chip");
//! let program = compile(&net, m1, &Options::default(), &mut ())?;
//! assert_eq!(program.tasks().expect("a task stream").len(), 1);
//! # Ok::<(), anemone_compile::Error>(())
//! ```

pub mod accuracy;
pub mod check;
mod emit;
mod error;
pub mod functions;
mod fuse;
mod ir;
mod legalize;
mod lower;
pub mod lut;
mod memory;
pub mod native;
mod options;
pub mod pipeline;
mod proof;
mod remarks;
mod rewrite;
mod schedule;
pub mod segments;
mod stream;
mod target;
mod tile;

use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::Program;

pub use error::{Error, Refused, Result};
pub use lower::PORTS;
pub use options::{Activations, Compat, Convention, Disabled, Options};
pub use remarks::{Log, Progress, Stage};

/// Compiles a checked network for a chip.
pub fn compile(net: &Net, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Program> {
    target::gate(net, chip)?;
    // Native layers for a chip whose registers are not known are written in the form of one whose are, and say so.
    let carrier = target::carrier(net, chip);
    let placed = pipeline::run(net, carrier, options, log, None)?;
    let placed = placed.ok_or_else(|| Error::Net("compilation stopped before its end".into()))?;
    // Every task reads inside its operands.
    ir::reads(&placed.graph)?;
    log.tasks(placed.graph.layers.iter().map(|layer| layer.name.clone()).collect());
    let program = emit::emit(placed, carrier, options, log)?;
    if std::ptr::eq(carrier, chip) { Ok(program) } else { emit::name_family(program, chip) }
}

/// As [`compile`], only so far as to a pass of [`pipeline::ALL`], for the log's sake.
pub fn compile_until(
    net: &Net,
    chip: &'static Chip,
    options: &Options,
    log: &mut dyn Log,
    pass: &'static pipeline::Pass,
) -> Result<()> {
    target::gate(net, chip)?;
    pipeline::run(net, target::carrier(net, chip), options, log, Some(pass)).map(|_| ())
}
