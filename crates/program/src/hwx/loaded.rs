//! The loaded program image as a file: a container at the addresses of one load, signed over its bytes.
//!
//! The signature is a plain digest, as for an unsigned program: it shows that the bytes are those that were loaded. The driver decides
//! which signer it requires. No sample of a signature is known; the trailer is this project's own.

use super::defs::{Container, Error};
use super::image::{Image, MapError};
use anemone_facts::formats::hwx as rows;
use sha2::{Digest, Sha256};

/// First bytes of the trailer.
pub const SIGNATURE: &[u8; 8] = b"ANELOAD1";
/// Size of the trailer in bytes: magic and digest.
pub const TRAILER_BYTES: usize = SIGNATURE.len() + 32;

/// Error for a file that is not a loaded image, or not the signed one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadedError {
    /// The digest differs from that of the bytes.
    #[error("the signature is of other bytes: {found} where {stated} is stated")]
    Signature {
        /// First digits of the digest of the bytes.
        found: String,
        /// First digits of the stated digest.
        stated: String,
    },
    /// The trailer is missing.
    #[error("no signature: the file does not end in {TRAILER_BYTES} bytes that begin with ANELOAD1")]
    Unsigned,
    /// The container under it cannot be read.
    #[error(transparent)]
    Container(#[from] Error),
    /// Its addresses are not those of a load.
    #[error(transparent)]
    Addresses(#[from] MapError),
    /// It has no section.
    #[error("the image has no section")]
    Empty,
}

/// Returns true if bytes end in a signature, valid or not.
pub fn is_loaded(bytes: &[u8]) -> bool {
    let at = bytes.len().checked_sub(TRAILER_BYTES);
    at.is_some_and(|at| bytes[at..].starts_with(SIGNATURE))
}

fn digits(digest: &[u8]) -> String {
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}

impl Image {
    /// The signed file.
    pub fn sign(&self) -> Vec<u8> {
        let mut bytes = self.write();
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(SIGNATURE);
        bytes.extend_from_slice(&digest);
        bytes
    }

    /// Reads a signed file: checks the signature, then reads the container, whose addresses are those of the load.
    pub fn read_signed(bytes: &[u8]) -> Result<Image, LoadedError> {
        if !is_loaded(bytes) {
            return Err(LoadedError::Unsigned);
        }
        let (image, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        let (stated, found) = (&trailer[SIGNATURE.len()..], Sha256::digest(image));
        if stated != found.as_slice() {
            return Err(LoadedError::Signature { found: digits(&found), stated: digits(stated) });
        }
        let container = Container::read(image)?;
        let lowest = container.segments().filter(|s| !s.sections.is_empty()).map(|s| s.address).min();
        let base = lowest.ok_or(LoadedError::Empty)?;
        Ok(Image::of_loaded(container, base - base % rows::PAGE))
    }

    /// The container with the addresses of files.
    pub fn to_file(&self) -> Result<Container, MapError> {
        Image::moved(&self.container, self.base, rows::VM_BASE)
    }
}
