//! macOS.

use std::path::{Path, PathBuf};

pub use super::whole::{unnamed, write_all};
pub use anemone_runtime::os::shared::FileBytes;

/// The device of the open driver: Linux alone has one.
pub const ACCELERATOR: Option<&str> = None;

/// The user's folder of caches, or the variable that would name it.
pub fn cache_folder() -> Result<PathBuf, &'static str> {
    super::named("HOME").map(|home| home.join("Library/Caches")).ok_or("HOME is not set")
}

/// The user's folder of sockets, or the variable that would name it.
pub fn runtime_folder() -> Result<PathBuf, &'static str> {
    super::named("TMPDIR").ok_or("TMPDIR is not set")
}

/// A temporary file gets the mode of any new file.
pub(super) fn mode<'b, 'a, 's>(builder: &'b mut tempfile::Builder<'a, 's>) -> &'b mut tempfile::Builder<'a, 's> {
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
}

/// The bytes of a file; mapped where it is large.
pub fn open(path: &Path) -> std::io::Result<FileBytes> {
    FileBytes::open(path)
}
