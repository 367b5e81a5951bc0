//! Windows.

use std::path::{Path, PathBuf};

pub use super::whole::{unnamed, write_all};
pub use anemone_runtime::os::shared::FileBytes;

/// The device of the open driver: Linux alone has one.
pub const ACCELERATOR: Option<&str> = None;

/// The user's folder of caches, or the variable that would name it.
pub fn cache_folder() -> Result<PathBuf, &'static str> {
    super::named("LOCALAPPDATA").ok_or("LOCALAPPDATA is not set")
}

/// The user's folder of sockets: there is none.
pub fn runtime_folder() -> Result<PathBuf, &'static str> {
    Err("the broker does not run on windows")
}

/// Access follows the folder.
pub(super) fn mode<'b, 'a, 's>(builder: &'b mut tempfile::Builder<'a, 's>) -> &'b mut tempfile::Builder<'a, 's> {
    builder
}

/// The bytes of a file; mapped where it is large.
pub fn open(path: &Path) -> std::io::Result<FileBytes> {
    FileBytes::open(path)
}
