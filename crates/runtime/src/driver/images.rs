//! Program images and adapters in the form that clients pass.

use super::Form;
use super::resident::Patch;
use crate::error::Code;
use crate::words::{u32_at, u64_at};
use anemone_facts::formats::{firmware as rows_of_packages, hwx};
use anemone_program::hwx::Container;
use anemone_program::{Program, firmware};
use bytes::Bytes;

/// The programs of an image's procedures, from either representation.
pub(super) fn read_programs(image: &Bytes) -> Option<(Form, Vec<Program>)> {
    match u32_at(image, 0) {
        hwx::MAGIC => {
            let container = Container::read_shared(image).ok()?;
            let refused = container.load_findings();
            if let Some(first) = refused.first() {
                tracing::warn!(function = first.function, offset = first.offset, why = %first.message, "refused at load");
                return None;
            }
            Some((Form::Image, container.programs().ok()?))
        }
        rows_of_packages::PACKAGE_MAGIC => {
            let package = firmware::Package::read(image).ok().filter(|p| p.check().is_empty())?;
            match package.programs.as_slice() {
                [entry] => Some((Form::Operations, vec![entry.program().ok()?])),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Largest number of pieces of an adapter.
const MAX_PATCHES: usize = 4096;

/// Pieces of an adapter: u64 offset, u64 length, bytes, consecutively.
pub(super) fn read_patches(mut rest: &[u8]) -> Result<Vec<Patch>, Code> {
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (at, length) = (u64_at(rest, 0), u64_at(rest, 8));
        let end = usize::try_from(length).ok().and_then(|n| n.checked_add(16)).ok_or(Code::BAD_ARGUMENT)?;
        let bytes = rest.get(16..end).ok_or(Code::BAD_ARGUMENT)?;
        if out.len() == MAX_PATCHES {
            return Err(Code::BAD_ARGUMENT);
        }
        out.push((at, bytes.to_vec()));
        rest = &rest[end..];
    }
    Ok(out)
}
