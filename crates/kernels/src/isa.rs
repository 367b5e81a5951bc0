//! Instruction sets of the host. Kernels use the best one unless the process forces another. All give the same bits.

use crate::host;
use pulp::{Arch, WithSimd};
use std::fmt;
use std::sync::OnceLock;

/// Names of all instruction sets, of every kind of host: portable code, x86-64-v3 (AVX2, FMA, F16C), x86-64-v4 (AVX-512), and NEON.
pub const NAMES: [&str; 4] = ["scalar", "v3", "v4", "neon"];

/// An instruction set that the host has.
#[derive(Clone, Copy, Debug)]
pub struct Isa(Arch);

impl Isa {
    /// Runs work compiled for the instruction set.
    pub fn dispatch<W: WithSimd>(self, work: W) -> W::Output {
        host::dispatch(self.0, work)
    }
}

/// The instruction set that the process forces.
static FORCED: OnceLock<Isa> = OnceLock::new();
/// The best instruction set of the host.
static BEST: OnceLock<Isa> = OnceLock::new();

/// Failure to force an instruction set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsaError {
    /// Requested name.
    pub name: String,
    /// Names of the instruction sets that this host has.
    pub available: Vec<&'static str>,
    /// Name of the instruction set that was forced earlier, if any.
    pub in_use: Option<&'static str>,
}

impl fmt::Display for IsaError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let IsaError { name, available, in_use } = self;
        match in_use {
            Some(in_use) => write!(f, "instruction set `{in_use}` is in use, and cannot become `{name}`"),
            None if NAMES.contains(&name.as_str()) => {
                write!(f, "this host has no instruction set `{name}`; it has ")?;
                list(f, available)
            }
            None => {
                write!(f, "`{name}` is no instruction set; ")?;
                list(f, &NAMES)?;
                f.write_str(" are")
            }
        }
    }
}

/// Writes names with commas between them.
fn list(f: &mut fmt::Formatter, names: &[&str]) -> fmt::Result {
    let mut between = "";
    for name in names {
        write!(f, "{between}{name}")?;
        between = ", ";
    }
    Ok(())
}

impl std::error::Error for IsaError {}

/// Instruction sets of this host with their names, portable code first.
pub fn available() -> Vec<(&'static str, Isa)> {
    let mut all = vec![("scalar", Isa(Arch::Scalar))];
    for (name, arch) in host::vectors() {
        all.push((name, Isa(arch)));
    }
    all
}

/// The instruction set in use: the forced one, or the best that the host has.
pub fn arch() -> Isa {
    let best = || available().last().map_or(Isa(Arch::Scalar), |(_, best)| *best);
    FORCED.get().copied().unwrap_or_else(|| *BEST.get_or_init(best))
}

/// Name of the instruction set in use.
pub fn name() -> &'static str {
    name_of(arch())
}

/// Name of an instruction set.
pub fn name_of(Isa(arch): Isa) -> &'static str {
    let is = |Isa(other): &Isa| std::mem::discriminant(other) == std::mem::discriminant(&arch);
    available().iter().find(|(_, other)| is(other)).map_or("scalar", |(name, _)| name)
}

/// Forces an instruction set for the whole process, before its first plan. An error if the host does not have it, or if a different one
/// has been forced.
pub fn force(name: &str) -> Result<(), IsaError> {
    let all = available();
    let refused = |in_use| {
        let available = all.iter().map(|(name, _)| *name).collect();
        IsaError { name: name.to_string(), available, in_use }
    };
    let arch = all.iter().find(|(known, _)| *known == name).map(|(_, arch)| *arch).ok_or_else(|| refused(None))?;
    let in_use = name_of(*FORCED.get_or_init(|| arch));
    if in_use == name { Ok(()) } else { Err(refused(Some(in_use))) }
}
