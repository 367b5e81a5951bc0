//! macOS.

use std::path::{Path, PathBuf};

pub use super::whole::{reader_left, unnamed, write_all};
pub use anemone_runtime::os::shared::FileBytes;

/// The device of the open driver, which exists on Linux only.
pub const ACCELERATOR: Option<&str> = None;

/// The user's cache folder. Errors: the environment variable that would define it.
pub fn cache_folder() -> Result<PathBuf, &'static str> {
    super::named("HOME").map(|home| home.join("Library/Caches")).ok_or("HOME is not set")
}

/// The user's folder for sockets. Errors: the environment variable that would define it.
pub fn runtime_folder() -> Result<PathBuf, &'static str> {
    super::named("TMPDIR").ok_or("TMPDIR is not set")
}

/// Gives a temporary file the default mode of new files.
pub(super) fn mode<'b, 'a, 's>(builder: &'b mut tempfile::Builder<'a, 's>) -> &'b mut tempfile::Builder<'a, 's> {
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
}

/// The bytes of a file, mapped if it is large.
pub fn open(path: &Path) -> std::io::Result<FileBytes> {
    FileBytes::open(path)
}
