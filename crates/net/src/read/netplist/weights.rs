//! Weight files of a netplist.

use crate::build::Budget;
use crate::error::Error;
use crate::graph::{DType, Data};
use crate::read::blob::{decode, part};
use crate::read::{Bytes, Files};
use crate::stored::Element;
use std::collections::HashMap;

/// The weight files of the network, each read once.
pub(super) struct Weights<'a> {
    pub(super) files: &'a dyn Files,
    pub(super) paths: Vec<&'a str>,
    pub(super) read: HashMap<usize, Bytes>,
    pub(super) budget: Budget,
}

impl Weights<'_> {
    /// The whole weight file with that index.
    pub(super) fn file(&mut self, index: usize, path: &str) -> Result<Bytes, Error> {
        if let Some(bytes) = self.read.get(&index) {
            return Ok(bytes.clone());
        }
        let base = path.rsplit('/').next().unwrap_or(path);
        let bytes = self.files.read(path).or_else(|_| self.files.read(base));
        let bytes = bytes.map_err(|reason| Error::File { path: path.to_string(), reason })?;
        self.budget.add_file(bytes.len());
        Ok(self.read.entry(index).or_insert(bytes).clone())
    }

    /// `count` elements at a byte offset of the weight file with that index.
    pub(super) fn elements(
        &mut self,
        unit: &str,
        index: usize,
        offset: usize,
        dtype: DType,
        count: usize,
    ) -> Result<Data, Error> {
        let place = || format!("unit `{unit}`");
        let path = *self.paths.get(index).ok_or_else(|| Error::OutOfRange {
            place: place(),
            key: "weight file index".to_string(),
            found: index as i64,
            least: 0,
            most: self.paths.len() as i64 - 1,
        })?;
        if path.ends_with("zero") {
            self.budget.spend(&[count])?;
            return Ok(Data::from_le_bytes(dtype, &vec![0; count * dtype.bytes()]));
        }
        let bytes = self.file(index, path)?;
        self.budget.spend(&[count])?;
        let size = (count as u64).saturating_mul(dtype.bytes() as u64);
        let place = || format!("{}, weight file {path}", place());
        let data = part(&bytes, offset as u64, size, &place, "data")?;
        decode(bytes.slice_ref(data), Element::of(dtype), count, &place())
    }
}
