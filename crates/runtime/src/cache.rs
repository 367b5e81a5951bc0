//! On-disk cache of compiled programs by content: entries are written atomically, verified when read, and compiled once per key.
//!
//! `ROOT/com.apple.e5rt.e5bundlecache/BUILD/KEY/` contains `model.hwx` (the program image; further ones are `model_1.hwx` and so
//! on), `main.e5` (the dispatch descriptor), `function.json` (ports with the network's types), `model.anehash` (double SHA-256
//! of each image) and `seal` (SHA-256 over the images' digests, descriptor and function).

use crate::error::{Error, Result};
use crate::os::shared::FileBytes;
pub use crate::words::hex;
use anemone_program::order;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Folder between root and build.
const FAMILY: &str = "com.apple.e5rt.e5bundlecache";
/// Name in place of the operating system's build.
const BUILD: &str = concat!("anemone-", env!("CARGO_PKG_VERSION"));
/// Largest file of an entry in bytes.
const MAX_FILE_BYTES: u64 = 1 << 32;
const DESCRIPTOR: &str = "main.e5";
const FUNCTION: &str = "function.json";
/// Most images of an entry.
const MAX_IMAGES: usize = 1024;
const HASH: &str = "model.anehash";
const SEAL: &str = "seal";
const EXPORT_MAGIC: &[u8; 8] = b"ANEBNDL1";

/// A tensor of the function with the network's type: dense, row-major.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortInfo {
    /// Name.
    pub name: String,
    /// Code of the element type, 0 to 10.
    pub dtype: u8,
    /// Extents.
    pub shape: Vec<u64>,
    /// True for an output.
    pub output: bool,
}

/// Signature of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Name.
    pub name: String,
    /// Ports.
    pub ports: Vec<PortInfo>,
    /// Further functions: procedures of the first image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Function>,
}

/// A program image. Its digest is computed at most once.
#[derive(Clone, Debug, Default)]
pub struct Image {
    bytes: Bytes,
    digest: OnceLock<[u8; 32]>,
}

impl Image {
    /// SHA-256.
    pub fn digest(&self) -> [u8; 32] {
        *self.digest.get_or_init(|| Sha256::digest(&self.bytes).into())
    }

    /// SHA-256 of the digest, which links a descriptor to the image.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.digest()).into()
    }
}

impl<B: Into<Bytes>> From<B> for Image {
    fn from(bytes: B) -> Image {
        Image { bytes: bytes.into(), digest: OnceLock::new() }
    }
}

impl std::ops::Deref for Image {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

impl AsRef<[u8]> for Image {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Image) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Image {}

/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Program images in the order of their calls; empty if all of it runs on the host.
    pub images: Vec<Image>,
    /// Dispatch descriptor.
    pub descriptor: Vec<u8>,
    /// Function.
    pub function: Function,
}

/// A cache key: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The key of named parts. Every part is hashed with its name and length, so that the encoding is unambiguous.
    pub fn of(parts: &[(&str, &[u8])]) -> Key {
        let mut hash = Sha256::new();
        for (name, bytes) in parts {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        Key(hex(&hash.finalize()))
    }

    /// A key by its digits.
    pub fn parse(text: &str) -> Result<Key> {
        let digits = text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if digits { Ok(Key(text.into())) } else { Err(Error::Unknown { what: "cache entry", name: text.into() }) }
    }

    /// The digits.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// An entry in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: Key,
    /// Total size of its files in bytes.
    pub bytes: u64,
    /// Time of last use.
    pub used: SystemTime,
}

/// A cache folder.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit_bytes: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Lock on a key while its entry is made; released when dropped, and by the system when the process dies.
#[derive(Debug)]
pub struct Claim(#[allow(dead_code)] File);

impl Cache {
    /// Another handle of the same folder with its own counters.
    pub(crate) fn reopened(&self) -> Cache {
        let (folder, limit_bytes) = (self.folder.clone(), self.limit_bytes);
        Cache { folder, limit_bytes, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// A cache below `root` of at most `limit_bytes`. Nothing is written before the first entry is stored.
    pub fn new(root: &Path, limit_bytes: u64) -> Cache {
        let folder = root.join(FAMILY).join(BUILD);
        Cache { folder, limit_bytes, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Folder of the entries.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Hits and misses of this handle.
    pub fn counts(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }

    /// Locks a key: waits while another thread or process makes its entry. `None` if the folder cannot be written; the
    /// caller then works without a lock.
    pub fn claim(&self, key: &Key) -> Option<Claim> {
        let locks = self.folder.join("locks");
        fs::create_dir_all(&locks).ok()?;
        let file = File::options().create(true).truncate(false).write(true).open(locks.join(&key.0)).ok()?;
        file.lock().ok()?;
        Some(Claim(file))
    }

    /// The entry of a key. An entry that fails verification is removed and counts as a miss, with a warning.
    pub fn fetch(&self, key: &Key) -> Option<Bundle> {
        let folder = self.folder.join(&key.0);
        if !folder.is_dir() {
            self.misses.fetch_add(1, Relaxed);
            return None;
        }
        match read_entry(&folder, key) {
            Ok(bundle) => {
                self.hits.fetch_add(1, Relaxed);
                // Update the time of last use; a read-only cache keeps the old one.
                if let Ok(seal) = File::options().append(true).open(folder.join(SEAL)) {
                    let _ = seal.set_modified(SystemTime::now());
                }
                Some(bundle)
            }
            Err(error) => {
                tracing::warn!(%error, "a cache entry that does not verify is skipped");
                let _ = fs::remove_dir_all(&folder);
                self.misses.fetch_add(1, Relaxed);
                None
            }
        }
    }

    /// Stores an entry: all files in a temporary folder, then one rename. Least recently used entries are evicted above the limit.
    pub fn store(&self, key: &Key, bundle: &Bundle) -> Result<()> {
        let fail = |what, path: &Path| {
            let path = path.display().to_string();
            move |e: std::io::Error| Error::System { what, path, error: e }
        };
        fs::create_dir_all(&self.folder).map_err(fail("create", &self.folder))?;
        let prefix = format!(".tmp-{}-", key.0);
        let temporary =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.folder).map_err(fail("create", &self.folder))?;
        let json = serde_json::to_vec(&bundle.function).unwrap_or_default();
        for (at, image) in bundle.images.iter().enumerate() {
            write_synced(&temporary.path().join(image_name(at)), image)?;
        }
        write_synced(&temporary.path().join(DESCRIPTOR), &bundle.descriptor)?;
        write_synced(&temporary.path().join(FUNCTION), &json)?;
        write_synced(&temporary.path().join(HASH), &hashes_of(&bundle.images))?;
        write_synced(&temporary.path().join(SEAL), &seal_of(&bundle.images, &bundle.descriptor, &json))?;
        let place = self.folder.join(&key.0);
        if place.exists() {
            let old = tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.folder);
            let old = old.map_err(fail("create", &self.folder))?;
            // Another process may have removed it meanwhile; then there is nothing to move.
            let _ = fs::rename(&place, old.path().join("old"));
        }
        fs::rename(temporary.path(), &place).map_err(fail("rename", &place))?;
        drop(temporary.keep());
        self.evict(Some(key));
        Ok(())
    }

    /// Entries, least recently used first.
    pub fn list(&self) -> Vec<Entry> {
        let mut out: Vec<Entry> = entries_of(&self.folder)
            .filter_map(|(key, folder)| {
                let files = fs::read_dir(&folder).ok()?.filter_map(|f| f.ok()?.metadata().ok());
                let bytes = files.map(|m| m.len()).sum();
                let used = fs::metadata(folder.join(SEAL)).and_then(|m| m.modified());
                Some(Entry { key, bytes, used: used.unwrap_or(SystemTime::UNIX_EPOCH) })
            })
            .collect();
        order::by(&mut out, |a, b| (a.used, &a.key).cmp(&(b.used, &b.key)));
        out
    }

    /// Folders of other versions beside this one's, with their number of entries. They are not read.
    pub fn of_others(&self) -> Vec<(PathBuf, usize)> {
        let beside = self.folder.parent().and_then(|family| fs::read_dir(family).ok()).into_iter().flatten().flatten();
        let others = beside.map(|e| e.path()).filter(|path| path.is_dir() && *path != self.folder);
        let mut out: Vec<_> = others.map(|path| (path.clone(), entries_of(&path).count())).collect();
        order::by(&mut out, Ord::cmp);
        out
    }

    fn evict(&self, keep: Option<&Key>) -> usize {
        let entries = self.list();
        let mut all: u64 = entries.iter().map(|e| e.bytes).sum();
        let mut gone = 0;
        for e in entries.iter().filter(|e| Some(&e.key) != keep) {
            if all <= self.limit_bytes {
                break;
            }
            if fs::remove_dir_all(self.folder.join(&e.key.0)).is_ok() {
                all -= e.bytes;
                gone += 1;
            }
        }
        gone
    }

    /// Verification errors of all entries.
    pub fn verify(&self) -> Vec<Error> {
        self.list().iter().filter_map(|e| read_entry(&self.folder.join(&e.key.0), &e.key).err()).collect()
    }

    /// Removes invalid entries, leftovers of interrupted writers, and entries beyond the size limit. Returns the number
    /// removed.
    pub fn collect(&self) -> usize {
        let mut gone = 0;
        for e in self.list() {
            let folder = self.folder.join(&e.key.0);
            gone += (read_entry(&folder, &e.key).is_err() && fs::remove_dir_all(&folder).is_ok()) as usize;
        }
        for e in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = e.file_name();
            let Some(key) = name.to_str().and_then(|n| n.strip_prefix(".tmp-")?.get(..64)) else { continue };
            // A live writer holds the lock of its key.
            let lock =
                File::options().create(true).truncate(false).write(true).open(self.folder.join("locks").join(key));
            let free = lock.is_ok_and(|f| f.try_lock().is_ok());
            let age = e.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            // Stores without a claim are short.
            if free && age.is_none_or(|a| a > Duration::from_secs(1)) {
                gone += fs::remove_dir_all(e.path()).is_ok() as usize;
            }
        }
        gone + self.evict(None)
    }

    /// Removes an entry.
    pub fn remove(&self, key: &Key) -> bool {
        fs::remove_dir_all(self.folder.join(&key.0)).is_ok()
    }

    /// An entry as a single file, for another machine.
    pub fn export(&self, key: &Key) -> Result<Vec<u8>> {
        let bundle = self.fetch(key).ok_or_else(|| Error::Unknown { what: "cache entry", name: key.0.clone() })?;
        let json = serde_json::to_vec(&bundle.function).unwrap_or_default();
        let none = Image::default();
        let (first, more) = bundle.images.split_first().unwrap_or((&none, &[]));
        let parts: [&[u8]; 4] = [key.0.as_bytes(), first, &bundle.descriptor, &json];
        let parts = parts.into_iter().chain(more.iter().map(|image| image.as_ref()));
        let mut out = EXPORT_MAGIC.to_vec();
        for part in parts {
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
            out.extend_from_slice(part);
        }
        out.extend_from_slice(&Sha256::digest(&out));
        Ok(out)
    }

    /// Imports an exported entry and returns its key.
    pub fn import(&self, file: &[u8]) -> Result<Key> {
        let (key, bundle) = Cache::open_export(file)?;
        self.store(&key, &bundle)?;
        Ok(key)
    }

    /// Reads an exported entry.
    pub fn open_export(file: &[u8]) -> Result<(Key, Bundle)> {
        let corrupt = |what| Error::Corrupt { key: String::new(), what };
        let split = file.len().checked_sub(32).ok_or(corrupt("too short"))?;
        let (body, digest) = file.split_at(split);
        if Sha256::digest(body).as_slice() != digest {
            return Err(corrupt("the digest at the end does not match"));
        }
        let mut rest = body.strip_prefix(EXPORT_MAGIC).ok_or(corrupt("no exported entry"))?;
        let mut part = || {
            let (bytes, after) = take_part(rest)?;
            rest = after;
            Some(bytes)
        };
        let (Some(key), Some(image), Some(descriptor), Some(json)) = (part(), part(), part(), part()) else {
            return Err(corrupt("a part reaches past the end"));
        };
        let key = Key::parse(std::str::from_utf8(key).unwrap_or_default())?;
        let function = serde_json::from_slice(json).map_err(|_| corrupt("function"))?;
        let bytes = |image: &[u8]| Image::from(Bytes::copy_from_slice(image));
        let mut images: Vec<Image> = Some(bytes(image)).filter(|i| !i.is_empty()).into_iter().collect();
        while !rest.is_empty() {
            let (image, after) = take_part(rest).ok_or(corrupt("a part reaches past the end"))?;
            images.push(bytes(image));
            rest = after;
        }
        Ok((key, Bundle { images, descriptor: descriptor.to_vec(), function }))
    }
}

/// Keys and folders of the entries below a build's folder, unordered.
fn entries_of(build: &Path) -> impl Iterator<Item = (Key, PathBuf)> {
    let inside = fs::read_dir(build).into_iter().flatten().flatten();
    inside.filter_map(|e| Some((Key::parse(e.file_name().to_str()?).ok()?, e.path())))
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let written =
        File::create(path).and_then(|mut f| std::io::Write::write_all(&mut f, bytes).and_then(|()| f.sync_data()));
    written.map_err(|e| Error::system("write", path.display(), e))
}

/// Splits off a part: a 64-bit length and as many bytes.
fn take_part(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = from.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// Name of an image's file.
fn image_name(at: usize) -> String {
    if at == 0 { "model.hwx".into() } else { format!("model_{at}.hwx") }
}

/// Double SHA-256 of each image.
fn hashes_of(images: &[Image]) -> Vec<u8> {
    images.iter().flat_map(Image::hash).collect()
}

fn seal_of(images: &[Image], descriptor: &[u8], json: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for image in images {
        hash.update((image.len() as u64).to_le_bytes());
        hash.update(image.digest());
    }
    for bytes in [descriptor, json] {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.finalize().into()
}

fn read_entry(folder: &Path, key: &Key) -> Result<Bundle> {
    let corrupt = |what| Error::Corrupt { key: key.0.clone(), what };
    let read = |name: &str| {
        let mut bytes = Vec::new();
        let file = File::open(folder.join(name)).map_err(|_| corrupt("a file is missing"))?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|_| corrupt("a file cannot be read"))?;
        Ok::<_, Error>(bytes)
    };
    let [descriptor, json, hashes] = [read(DESCRIPTOR)?, read(FUNCTION)?, read(HASH)?];
    let count = hashes.len() / 32;
    if count > MAX_IMAGES {
        return Err(corrupt("it has too many images"));
    }
    // Large images are mapped, so that readers of the same entry share their pages.
    let image = |at: usize| {
        let path = folder.join(image_name(at));
        let bytes = path.metadata().map_err(|_| corrupt("a file is missing"))?.len();
        if bytes > MAX_FILE_BYTES {
            return Err(corrupt("a file is too large"));
        }
        FileBytes::open(&path)
            .map(|file| Image::from(Bytes::from_owner(file)))
            .map_err(|_| corrupt("a file cannot be read"))
    };
    let images = (0..count).map(image).collect::<Result<Vec<_>>>()?;
    if read(SEAL)? != seal_of(&images, &descriptor, &json) {
        return Err(corrupt("the seal does not match"));
    }
    if hashes != hashes_of(&images) {
        return Err(corrupt("the hash of the program does not match"));
    }
    let function = serde_json::from_slice(&json).map_err(|_| corrupt("function.json cannot be parsed"))?;
    Ok(Bundle { images, descriptor, function })
}
