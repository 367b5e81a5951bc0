//! Zero-skipping streams: masks and values in place of rows of coefficients.

use super::{Form, Pass};
use crate::fault::FaultKind;
use crate::machine::Machine;
use anemone_facts::Field::*;
use anemone_facts::kernel::{ALIGN_BYTES, zero_skip};
use half::f16;

impl Machine<'_> {
    /// Locates the passes of a group; earlier groups are skipped by the lengths that their passes state.
    pub(super) fn zero_skipping_passes<'a>(
        &'a self,
        form: &Form,
        engine: usize,
        g: usize,
        passes: &mut Vec<Pass<'a>>,
    ) -> Result<(), FaultKind> {
        let lead_bytes = form.lead_bytes() + zero_skip::COUNT_BYTES as u64;
        let mut at = form.head_bytes;
        for group in 0..=g {
            at = at.next_multiple_of(ALIGN_BYTES);
            for i in 0..form.passes(engine) {
                let (lead, count) = self.stream(engine, at, lead_bytes)?.split_at(form.lead_bytes() as usize);
                let count = count.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
                // A pass has at least its masks, so that the size of the stream bounds the allocation.
                let masks = form.mask_bytes();
                if count < masks {
                    let region = format!("a pass without zeros of engine {engine}");
                    return Err(FaultKind::Stray { field: CoeffSize, region, address: 0, bytes: masks, limit: count });
                }
                if group == g {
                    let body = self.stream(engine, at + lead_bytes, count)?;
                    passes.push(form.pass(form.first(engine, i), lead, body));
                }
                at += lead_bytes + count;
            }
        }
        Ok(())
    }

    /// Expands a zero-skipping pass: for each input channel the mask bits of all kernel elements, eight to a byte, each
    /// byte followed by the values of its set bits.
    pub(super) fn scatter(
        &self,
        form: &Form,
        order: &[Option<usize>],
        pass: &Pass,
        weights: &mut [f16],
    ) -> Result<(), FaultKind> {
        let short = |at: usize, bytes| FaultKind::Stray {
            field: CoeffSize,
            region: "a pass without zeros".into(),
            address: at as u64,
            bytes,
            limit: pass.body.len() as u64,
        };
        let mask_bits = form.mask_bits;
        let elements = order.iter().flatten().count().max(1);
        let mut at = 0;
        for input in 0..form.taps / elements {
            for first_bit in (0..order.len() * mask_bits).step_by(8) {
                let mask = *pass.body.get(at).ok_or_else(|| short(at, 1))?;
                at += 1;
                for bit in (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit| first_bit + bit) {
                    let value = pass.body.get(at..at + 2).ok_or_else(|| short(at, 2))?;
                    at += 2;
                    let lane = bit % mask_bits;
                    let Some(tap) = order.get(bit / mask_bits).copied().flatten().filter(|_| lane < form.lanes) else {
                        return Err(self.inconsistent(SparseFmt, "a mask bit beyond the kernel or the lanes is set"));
                    };
                    weights[(pass.first + lane) * form.taps + input * elements + tap] =
                        f16::from_le_bytes([value[0], value[1]]);
                }
            }
        }
        if at != pass.body.len() {
            return Err(self.inconsistent(SparseFmt, "a pass without zeros is longer than its masks say"));
        }
        Ok(())
    }
}
