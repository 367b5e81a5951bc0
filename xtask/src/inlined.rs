//! Vector instructions of kernels are inlined: `cargo xtask inlined [PROGRAM...]`.
//!
//! Kernels are generic over instruction sets and call the intrinsics of `core::arch`. A build that keeps an intrinsic as a function of its own
//! calls it for each vector, and takes 2 to 12 times as long to run; `lto = "off"` had that effect. No result shows it, so the symbols of
//! the built command line are read.

use crate::{Outcome, conclude, repo};
use object::{Object, ObjectSymbol};
use rustc_demangle::demangle;
use std::collections::BTreeSet;
use std::fs;

/// Path of the intrinsics of x86, before the module of an extension.
const INTRINSICS: &str = "core::core_arch::x86::";
/// Prefixes of the extensions that kernels use, as `core` names its modules.
const EXTENSIONS: [&str; 3] = ["avx", "fma", "f16c"];

/// Reads the programs, by default the command line of the release profile.
pub fn run(arguments: &[String]) -> Outcome {
    let own = [repo::root().join("target/release/ane").display().to_string()];
    let programs = if arguments.is_empty() { &own } else { arguments };
    let mut findings = Vec::new();
    for program in programs {
        match outlined(program) {
            Ok(names) => findings.extend(names.iter().map(|n| format!("{program}: {n} is not inlined"))),
            Err(e) => findings.push(format!("{program}: {e}")),
        }
    }
    conclude(findings, format!("vector instructions are inlined in {} programs", programs.len()))
}

/// Intrinsics that are functions of their own.
fn outlined(program: &str) -> Result<BTreeSet<String>, String> {
    let bytes = fs::read(program).map_err(|e| e.to_string())?;
    let program = object::File::parse(&*bytes).map_err(|e| e.to_string())?;
    let mut symbols = program.symbols().peekable();
    symbols.peek().ok_or("no symbols: stripped")?;
    let names = symbols.filter_map(|s| s.name().ok().map(|name| format!("{:#}", demangle(name))));
    Ok(names.filter(|name| is_vector(name)).collect())
}

fn is_vector(name: &str) -> bool {
    let name = name.split_once(INTRINSICS).map(|(_, rest)| rest);
    name.is_some_and(|rest| EXTENSIONS.iter().any(|extension| rest.starts_with(extension)))
}

#[cfg(test)]
mod tests {
    use super::is_vector;

    #[test]
    fn intrinsics_of_kernels_are_told_from_others() {
        assert!(is_vector("core::core_arch::x86::avx512f::_mm512_fmadd_ps"));
        assert!(is_vector("core::core_arch::x86::f16c::_mm256_cvtph_ps"));
        assert!(!is_vector("core::core_arch::x86::xsave::_xgetbv"));
        assert!(!is_vector("core::core_arch::x86::pclmulqdq::_mm_clmulepi64_si128"));
        assert!(!is_vector("anemone_kernels::simd::widen"));
    }
}
