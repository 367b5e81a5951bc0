//! No operating system: models come from memory, and no files are written.

use crate::diagnostic::{Code, Diagnostic, Result};
use std::path::{Path, PathBuf};

/// Reason why no files are written.
const NO_FILES: &str = "this build has no file access";

/// The device of the open driver.
pub const ACCELERATOR: Option<&str> = None;

/// The user's folder of caches.
pub fn cache_folder() -> std::result::Result<PathBuf, &'static str> {
    Err(NO_FILES)
}

/// The user's folder of sockets.
pub fn runtime_folder() -> std::result::Result<PathBuf, &'static str> {
    Err(NO_FILES)
}

/// The bytes of a file.
pub struct FileBytes(Vec<u8>);

impl FileBytes {
    /// Does nothing: the bytes are in memory.
    pub fn release(&self) {}
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Always fails: no files are written.
pub fn unnamed(_: &[&[u8]]) -> std::io::Result<FileBytes> {
    Err(std::io::Error::other(NO_FILES))
}

/// The bytes of a file.
pub fn open(path: &Path) -> std::io::Result<FileBytes> {
    std::fs::read(path).map(FileBytes)
}

/// Writes several files, all or none.
pub fn write_all(files: &[(&Path, &[&[u8]])]) -> Result<()> {
    match files.first() {
        None => Ok(()),
        Some((path, _)) => Err(Diagnostic::new(Code::Unwritable, NO_FILES).at(path.display())),
    }
}

/// Always false: there are no pipes.
pub fn reader_left(_: &std::io::Error) -> bool {
    false
}
