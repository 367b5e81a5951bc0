//! Signatures of program images, and the trust cache.

use crate::driver::task::lock;
use crate::error::{Code, Result};
use bytes::Bytes;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const MAGIC: &[u8; 8] = b"ANESIG01";
const TAG_BYTES: usize = 32;
/// Bytes that a signature adds at the end of an image.
pub const TRAILER_BYTES: usize = MAGIC.len() + TAG_BYTES;
/// Most digests that are trusted at once.
const MAX_TRUSTED: usize = 1 << 16;

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Trust in signed images: the signing key, and the digests of trusted files.
#[derive(Clone)]
pub(crate) struct Trust {
    key: [u8; 32],
    cache: Arc<Mutex<BTreeSet<[u8; 32]>>>,
}

/// Signer of images. Its holder can make programs that the driver loads: the broker, and nobody else.
#[derive(Clone)]
pub struct Signer(Trust);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer")
    }
}

impl Trust {
    pub(crate) fn new() -> Result<(Trust, Signer)> {
        let trust = Trust { key: crate::os::random()?, cache: Arc::default() };
        Ok((trust.clone(), Signer(trust)))
    }

    fn tag(&self, image: &[u8]) -> Hmac<Sha256> {
        // A key of any length is taken; the error cannot occur for 32 bytes.
        let mut mac = match <Hmac<Sha256> as Mac>::new_from_slice(&self.key) {
            Ok(mac) => mac,
            Err(_) => <Hmac<Sha256> as Mac>::new(&Default::default()),
        };
        mac.update(image);
        mac
    }

    /// The image of a signed file, if signature and trust cache agree on these very bytes.
    pub(crate) fn check<'a>(&self, file: &'a [u8]) -> std::result::Result<&'a [u8], Code> {
        let split = file.len().checked_sub(TRAILER_BYTES).ok_or(Code::NOT_PERMITTED)?;
        let (image, trailer) = file.split_at(split);
        let (magic, tag) = trailer.split_at(MAGIC.len());
        let signed = magic == MAGIC && self.tag(image).verify_slice(tag).is_ok();
        if signed && lock(&self.cache).contains(&sha256(file)) { Ok(image) } else { Err(Code::NOT_PERMITTED) }
    }
}

impl Signer {
    /// Signs an image and puts the file into the trust cache.
    pub fn sign(&self, image: &[u8]) -> Bytes {
        let mut file = Vec::with_capacity(image.len() + TRAILER_BYTES);
        file.extend_from_slice(image);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&self.0.tag(image).finalize().into_bytes());
        let mut cache = lock(&self.0.cache);
        if cache.len() >= MAX_TRUSTED {
            cache.pop_first();
        }
        cache.insert(sha256(&file));
        file.into()
    }

    /// A key of its own: what a client that signs itself would have.
    pub fn foreign() -> Result<Signer> {
        Ok(Trust::new()?.1)
    }
}
