//! Counted loops: copies between dense tensors before, between and after iterations.

use crate::error::{Error, Result};
use anemone_facts::driver::IO_TYPES;
use anemone_program::e5::{HostTensor, Repeat, Scanned, Source};

/// A loop over the tensors of an operation, by index.
pub(super) struct Turns {
    repeat: Repeat,
    /// Initial value (unless constant); current value, next value, and result.
    carried: Vec<(Option<usize>, [usize; 3])>,
    /// Whole tensor (unless constant), and slice.
    scanned: Vec<(Option<usize>, usize)>,
    /// Slice and whole tensor.
    collected: Vec<(usize, usize)>,
}

impl Turns {
    /// `slot` returns the index of a tensor by name.
    pub fn new(repeat: Repeat, slot: impl Fn(&str) -> Result<usize>) -> Result<Turns> {
        let source = |from: &Source| match from {
            Source::Tensor(name) => slot(name).map(Some),
            Source::Constant(_) => Ok(None),
        };
        let carried = repeat.carried.iter().map(|value| {
            let places = [slot(&value.now.name)?, slot(&value.next)?, slot(&value.last)?];
            Ok((source(&value.start)?, places))
        });
        let carried = carried.collect::<Result<_>>()?;
        let scanned = repeat.scanned.iter().map(|scan| Ok((source(&scan.whole)?, slot(&scan.part.name)?)));
        let scanned = scanned.collect::<Result<_>>()?;
        let collected = repeat.collected.iter().map(|scan| {
            let none = || Error::Unknown { what: "tensor", name: scan.part.name.clone() };
            Ok((slot(&scan.part.name)?, source(&scan.whole)?.ok_or_else(none)?))
        });
        let collected = collected.collect::<Result<_>>()?;
        Ok(Turns { repeat, carried, scanned, collected })
    }

    /// Tensors that the loop reads at its start.
    pub fn sources(&self) -> Vec<usize> {
        let starts = self.carried.iter().filter_map(|(start, _)| *start);
        starts.chain(self.scanned.iter().filter_map(|(whole, _)| *whole)).collect()
    }

    /// Tensors that an iteration writes.
    pub fn written(&self) -> Vec<usize> {
        self.carried.iter().map(|(_, places)| places[1]).chain(self.collected.iter().map(|(part, _)| *part)).collect()
    }

    /// Returns true if there is an iteration of this number.
    pub fn goes_on(&self, turn: u64) -> bool {
        turn < self.repeat.turns
    }

    /// Sets the initial values.
    pub fn begin(&self, tensors: &mut [Vec<u8>]) {
        for (value, (start, [now, ..])) in self.repeat.carried.iter().zip(&self.carried) {
            tensors[*now] = match (&value.start, start) {
                (Source::Constant(bytes), _) => bytes.clone(),
                (_, Some(start)) => tensors[*start].clone(),
                (_, None) => continue,
            };
        }
    }

    /// Sets the slices that an iteration reads.
    pub fn turn(&self, turn: u64, tensors: &mut [Vec<u8>]) {
        for (scan, (whole, part)) in self.repeat.scanned.iter().zip(&self.scanned) {
            let mut own = std::mem::take(&mut tensors[*part]);
            let from = match (&scan.whole, whole) {
                (Source::Constant(bytes), _) => bytes,
                (_, Some(whole)) => &tensors[*whole],
                (_, None) => continue,
            };
            self.copy(scan, turn, |there, here| {
                if let (Some(to), Some(from)) = (own.get_mut(here), from.get(there)) {
                    to.copy_from_slice(from);
                }
            });
            tensors[*part] = own;
        }
    }

    /// Stores the results of an iteration: slices of collected tensors, and carried values for the next one. After the last iteration
    /// these are results too.
    pub fn end(&self, turn: u64, tensors: &mut [Vec<u8>]) {
        for (scan, (part, whole)) in self.repeat.collected.iter().zip(&self.collected) {
            let mut all = std::mem::take(&mut tensors[*whole]);
            self.copy(scan, turn, |there, here| {
                if let (Some(to), Some(from)) = (all.get_mut(there), tensors[*part].get(here)) {
                    to.copy_from_slice(from);
                }
            });
            tensors[*whole] = all;
        }
        let next: Vec<Vec<u8>> = self.carried.iter().map(|(_, [_, next, _])| tensors[*next].clone()).collect();
        let last = !self.goes_on(turn + 1);
        for (value, (_, [now, _, result])) in next.into_iter().zip(&self.carried) {
            tensors[if last { *result } else { *now }] = value;
        }
    }

    /// Visits the byte ranges of an iteration's slice, in the whole tensor and in the slice.
    fn copy(&self, scan: &Scanned, turn: u64, mut visit: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>)) {
        let bytes = element_bytes(&scan.part);
        for (there, here, length) in scan.runs(turn, self.repeat.turns) {
            let range = |at: usize| at * bytes..(at + length) * bytes;
            visit(range(there), range(here));
        }
    }
}

fn element_bytes(tensor: &HostTensor) -> usize {
    IO_TYPES.get(tensor.storage as usize).map_or(1, |t| t.1.div_ceil(8) as usize)
}
