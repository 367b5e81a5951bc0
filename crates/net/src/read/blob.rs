//! Weight files of ML Programs: records with the position of their data.

use super::Files;
use crate::build::Budget;
use crate::error::Error;
use crate::graph::Data;
use crate::mil::proto::{ELEMENTS, blob_number};
use crate::stored::{Element, Form, Stored};
use bytes::Bytes;
use std::collections::HashMap;

/// First word of every record.
const SENTINEL: u32 = 0xdead_beef;

/// Size of a record's header: sentinel, element type (4 bytes each), data size in bytes, data offset (8 bytes each).
/// Padding in bits follows, and reserved bytes up to 64, which not every writer adds.
const RECORD_BYTES: u64 = 24;

/// Constants with at most so many elements, mostly attributes, are decoded immediately.
const MADE_ELEMENTS: usize = 1024;

/// Weight files of one model, each read once.
pub struct Blobs<'a> {
    files: &'a dyn Files,
    read: HashMap<String, Bytes>,
    /// True if only the data offset of a record with an unknown element type is used, as Apple's compiler does for every record.
    offset_alone: bool,
    /// Notes for the caller on such records.
    pub notes: Vec<String>,
}

impl<'a> Blobs<'a> {
    pub fn new(files: &'a dyn Files) -> Self {
        Blobs { files, read: HashMap::new(), offset_alone: false, notes: Vec::new() }
    }

    /// As [`Blobs::new`]; if no writer knows the element type of a record, its data begin at the stated offset and have the type
    /// and length that the program declares. Apple's compiler reads every record like this: `docs/evidence.md`, key `h13-oracles`.
    pub fn as_compiler(files: &'a dyn Files) -> Self {
        Blobs { offset_alone: true, ..Blobs::new(files) }
    }

    fn file(&mut self, path: &str, budget: &mut Budget) -> Result<Bytes, Error> {
        if let Some(bytes) = self.read.get(path) {
            return Ok(bytes.clone());
        }
        let bytes = self.files.read(path).map_err(|reason| Error::File { path: path.to_string(), reason })?;
        budget.add_file(bytes.len());
        self.read.insert(path.to_string(), bytes.clone());
        Ok(bytes)
    }

    /// `count` elements of the record at `offset`.
    pub fn elements(
        &mut self,
        path: &str,
        offset: u64,
        element: Element,
        count: usize,
        budget: &mut Budget,
    ) -> Result<Data, Error> {
        let bytes = self.file(path, budget)?;
        let place = || format!("{path} at {offset:#x}");
        let record = part(&bytes, offset, RECORD_BYTES, &place, "record")?;
        let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        if word(0) != SENTINEL {
            let (found, expected) = (word(0).into(), SENTINEL.into());
            return Err(Error::Magic { place: place(), what: "sentinel", found, expected });
        }
        // A record of another form may have the number of a type by chance, but its data size exceeds the file then.
        let known = |number: u32| ELEMENTS.iter().any(|row| blob_number(row.1) == Some(number));
        let size_fits = long(8) <= bytes.len() as u64;
        if self.offset_alone && !(known(word(4)) && size_fits) {
            let size = (count as u64).saturating_mul(element.bits() as u64).div_ceil(8);
            let data = part(&bytes, long(16), size, &place, "data")?;
            self.notes.push(format!(
                "{}: the record's element type {} and size {} are not those of a record; {size} bytes are read from its data \
                 offset {:#x}, as Apple's compiler does",
                place(),
                word(4),
                long(8),
                long(16)
            ));
            return decode(bytes.slice_ref(data), element, count, &place());
        }
        if let Some(expected) = blob_number(element)
            && expected != word(4)
        {
            let (found, expected) = (word(4).into(), expected.into());
            return Err(Error::Magic { place: place(), what: "element type", found, expected });
        }
        let data = part(&bytes, long(16), long(8), &place, "data")?;
        decode(bytes.slice_ref(data), element, count, &place())
    }
}

/// Bytes `offset..offset + size`, if they exist.
pub fn part<'b>(
    bytes: &'b [u8],
    offset: u64,
    size: u64,
    place: &dyn Fn() -> String,
    what: &'static str,
) -> Result<&'b [u8], Error> {
    let end = offset.saturating_add(size);
    let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
    range.and_then(|(from, to)| bytes.get(from..to)).ok_or_else(|| {
        let available = bytes.len() as u64;
        Error::OutOfBounds { place: place(), what, offset, end, available }
    })
}

/// `count` elements from packed bytes: kept as they are stored, or decoded immediately if they are few.
///
/// Errors: 64-bit or unsigned 32-bit integers that do not fit an `i32`.
pub fn decode(bytes: Bytes, element: Element, count: usize, place: &str) -> Result<Data, Error> {
    let needed = (count as u64).saturating_mul(element.bits() as u64).div_ceil(8);
    part(&bytes, 0, needed, &|| place.to_string(), "elements")?;
    let fits = |found: i64| {
        let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let key = "element".to_string();
        i32::try_from(found).map_err(|_| Error::OutOfRange { place: place.to_string(), key, found, least, most })
    };
    let whole = &bytes[..needed as usize];
    let wide = |word: &[u8; 8]| {
        let value = u64::from_le_bytes(*word);
        if element == Element::UInt(64) { fits(i64::try_from(value).unwrap_or(i64::MAX)) } else { fits(value as i64) }
    };
    match element {
        Element::UInt(32) => {
            let values = whole.as_chunks().0.iter().map(|&b| fits(u32::from_le_bytes(b).into()));
            return Ok(Data::I32(values.collect::<Result<_, _>>()?));
        }
        Element::Int(64) | Element::UInt(64) => {
            return Ok(Data::I32(whole.as_chunks().0.iter().map(wide).collect::<Result<_, _>>()?));
        }
        Element::Int(1..=8 | 16 | 32) | Element::UInt(1..=8 | 16) => {}
        Element::Bool | Element::Float16 | Element::Float32 | Element::Float64 | Element::BFloat16 => {}
        Element::String | Element::Int(_) | Element::UInt(_) => {
            return Err(Error::Syntax { place: place.to_string(), reason: format!("{element:?} as tensor data") });
        }
    }
    let data = Stored::tensor(Form::Plain { element, bytes }, vec![count])?.data;
    Ok(if count <= MADE_ELEMENTS { data.dense().into_owned() } else { data })
}
