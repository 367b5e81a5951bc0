//! Coefficients written by other tasks, as strided boxes of their streams.

use super::Store;
use crate::machine::Machine;
use crate::memory::Home;
use anemone_facts::Field::*;
use anemone_facts::kernel::ALIGN_BYTES;
use anemone_kernels::copy::CopyAxis;

/// Part of a coefficient matrix: its position in the dense matrix and in the region, and the axes of the copy between them.
pub(crate) struct StreamPart {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) axes: [CopyAxis; 5],
}

impl Machine<'_> {
    /// Parts of the uncompressed fp16 coefficients of `groups` groups, and their region: full passes, and a last pass that not all engines
    /// take part in. `None` for other coefficients, and if the engines' streams are not equally spaced.
    pub(crate) fn coefficient_parts(
        &self,
        outputs: usize,
        taps: usize,
        groups: usize,
    ) -> Option<(Home, Vec<StreamPart>)> {
        let form = self.form(outputs, taps).ok()?;
        let plain = matches!(form.store, Store::Fp16) && form.lead_bytes() == 0 && self.get(BiasMode) != 1;
        if !plain {
            return None;
        }
        let home = Home::Bar(self.bar(KBase0, Kbe0).ok()?);
        let lanes = form.lanes;
        let (whole, rest) = (outputs / form.per_pass(), outputs % form.per_pass());
        let engines = (0..form.engines).filter(|&e| form.passes(e) > 0);
        let streams = engines.map(|e| form.streams[e]).collect::<Option<Vec<_>>>()?;
        let group_bytes = (form.pass_bytes() * form.passes(0) as u64).next_multiple_of(ALIGN_BYTES);
        let end =
            |e: usize| form.head_bytes + group_bytes * (groups as u64 - 1) + form.pass_bytes() * form.passes(e) as u64;
        let first = streams.first()?[0];
        let apart = streams.get(1).map_or(0, |[base, _]| base.wrapping_sub(first));
        let regular = streams
            .iter()
            .enumerate()
            .all(|(e, [base, size])| *base == first.wrapping_add(e as u64 * apart) && end(e) <= *size && base % 2 == 0);
        if !regular || apart > i64::MAX as u64 || rest % lanes != 0 {
            return None;
        }
        let elements = |bytes: u64| (bytes / 2) as usize;
        let part = |pass: usize, passes: usize, engines: usize| {
            let axes = [
                CopyAxis { count: groups, to: outputs * taps, from: elements(group_bytes) },
                CopyAxis { count: passes, to: form.per_pass() * taps, from: lanes * taps },
                CopyAxis { count: engines, to: lanes * taps, from: elements(apart) },
                CopyAxis { count: lanes, to: taps, from: 1 },
                CopyAxis { count: taps, to: 1, from: lanes },
            ];
            let from = elements(first + form.head_bytes) + pass * lanes * taps;
            StreamPart { to: pass * form.per_pass() * taps, from, axes }
        };
        let mut parts = Vec::new();
        if whole > 0 {
            parts.push(part(0, whole, form.engines));
        }
        if rest > 0 {
            parts.push(part(whole, 1, rest / lanes));
        }
        Some((home, parts))
    }
}
