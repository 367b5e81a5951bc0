//! Signatures of program images, and the trust cache.

use crate::cache::Image;
use crate::driver::client::Create;
use crate::driver::task::lock;
use crate::error::{Code, Result};
use bytes::Bytes;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const MAGIC: &[u8; 8] = b"ANESIG01";
const TAG_BYTES: usize = 32;
/// Size of a signature at the end of an image, in bytes.
pub const TRAILER_BYTES: usize = MAGIC.len() + TAG_BYTES;
/// Largest number of trusted digests.
const MAX_TRUSTED: usize = 1 << 16;

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of bytes that are handed over in pieces of any length.
pub fn sha256_of(feed: impl FnOnce(&mut dyn FnMut(&[u8]))) -> [u8; 32] {
    /// Small pieces, such as single elements, are hashed together.
    const BUFFER_BYTES: usize = 1 << 14;
    let (mut hash, mut buffer) = (Sha256::new(), Vec::with_capacity(BUFFER_BYTES));
    feed(&mut |bytes| {
        if buffer.len() + bytes.len() > BUFFER_BYTES {
            hash.update(&buffer);
            buffer.clear();
        }
        match bytes.len() {
            0..BUFFER_BYTES => buffer.extend_from_slice(bytes),
            _ => hash.update(bytes),
        }
    });
    hash.update(&buffer);
    hash.finalize().into()
}

/// Digest of a file from the digest of its image and its signature.
fn file_digest(image: &[u8; 32], trailer: &[u8]) -> [u8; 32] {
    sha256(&[image, trailer].concat())
}

/// State of trust: the signing key, and the digests of trusted files.
#[derive(Clone)]
pub(crate) struct Trust {
    key: [u8; 32],
    cache: Arc<Mutex<BTreeSet<[u8; 32]>>>,
}

/// Signer of images. Its holder, which is only the broker, can make programs that the driver loads.
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

    /// MAC over the image's digest.
    fn tag(&self, digest: &[u8; 32]) -> Hmac<Sha256> {
        // HMAC accepts keys of any length, so the error cannot occur.
        let mut mac = match <Hmac<Sha256> as Mac>::new_from_slice(&self.key) {
            Ok(mac) => mac,
            Err(_) => <Hmac<Sha256> as Mac>::new(&Default::default()),
        };
        mac.update(digest);
        mac
    }

    /// Refuses an image unless its signature and the trust cache match these exact bytes.
    pub(crate) fn check(&self, image: &Image, trailer: &[u8]) -> std::result::Result<(), Code> {
        let (magic, tag) = trailer.split_at_checked(MAGIC.len()).ok_or(Code::NOT_PERMITTED)?;
        let digest = image.digest();
        let signed = magic == MAGIC && self.tag(&digest).verify_slice(tag).is_ok();
        let trusted = signed && lock(&self.cache).contains(&file_digest(&digest, trailer));
        if trusted { Ok(()) } else { Err(Code::NOT_PERMITTED) }
    }
}

impl Signer {
    /// Signs an image and adds the file to the trust cache; returns a create request with an empty name. The image is not copied.
    pub fn signed(&self, image: &Image) -> Create<'static> {
        let signature = Bytes::from(self.trailer(&image.digest()));
        Create { image: image.clone(), signature, ..Create::default() }
    }

    /// As [`Signer::signed`], returning a copy of the image with the signature at its end.
    pub fn sign(&self, image: &[u8]) -> Bytes {
        [image, &self.trailer(&sha256(image))].concat().into()
    }

    fn trailer(&self, digest: &[u8; 32]) -> Vec<u8> {
        let trailer = [MAGIC, self.0.tag(digest).finalize().into_bytes().as_slice()].concat();
        let mut cache = lock(&self.0.cache);
        if cache.len() >= MAX_TRUSTED {
            cache.pop_first();
        }
        cache.insert(file_digest(digest, &trailer));
        trailer
    }

    /// A signer with another key, like that of a client that signs its own programs.
    pub fn foreign() -> Result<Signer> {
        Ok(Trust::new()?.1)
    }
}
