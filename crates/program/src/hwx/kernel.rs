//! Kernel data of a procedure over all its sections: `__KERN_0`, `__KERN_1` and so on.

use std::borrow::Cow;

use anemone_facts::formats::hwx as rows;
use bytes::Bytes;

use super::defs::{Container, RunState, Section};

/// Kernel data as streams address it, and its positions in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelData<'a> {
    /// The bytes. Sections begin on pages, with zeros between them.
    pub bytes: Cow<'a, [u8]>,
    /// First byte of each section: here, and in the file.
    pub places: Vec<(u64, u64)>,
}

impl<'a> KernelData<'a> {
    /// Kernel data in one piece at an offset of the file.
    pub fn whole(bytes: &'a [u8], file_offset: u64) -> KernelData<'a> {
        KernelData { bytes: Cow::Borrowed(bytes), places: vec![(0, file_offset)] }
    }

    /// Concatenated sections.
    pub(crate) fn of(sections: &[&'a Section]) -> KernelData<'a> {
        let [first, ..] = sections else { return KernelData::default() };
        let start = |s: &Section| s.address.saturating_sub(first.address);
        let places = sections.iter().map(|s| (start(s), u64::from(s.file_offset))).collect();
        let bytes = match sections {
            [only] => Cow::Borrowed(only.data.as_ref()),
            several => {
                let mut all = Vec::new();
                for section in several {
                    all.resize((all.len() as u64).next_multiple_of(rows::PAGE) as usize, 0);
                    all.extend_from_slice(&section.data);
                }
                Cow::Owned(all)
            }
        };
        KernelData { bytes, places }
    }

    /// Offset of a byte in the file.
    pub fn file_offset(&self, at: u64) -> u64 {
        let place = self.places.iter().rev().find(|(start, _)| *start <= at);
        place.map_or(at, |(start, offset)| offset.saturating_add(at - start))
    }
}

impl Container {
    /// Bytes of a procedure's kernel data: shared with the container if it has one section.
    pub(super) fn kernel_bytes(&self, run: RunState) -> Bytes {
        match self.kernel_sections_of(Some(run)).as_slice() {
            [only] => only.data.clone(),
            several => KernelData::of(several).bytes.into_owned().into(),
        }
    }

    /// Kernel data of a procedure; by default of the first.
    pub fn kernel_data<'a>(&'a self, run: Option<RunState<'a>>) -> KernelData<'a> {
        KernelData::of(&self.kernel_sections_of(run.or(self.run_state().map(|(_, run)| run))))
    }
}
