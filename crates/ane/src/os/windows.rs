//! Windows.

use std::path::{Path, PathBuf};

pub use super::whole::{unnamed, write_all};
pub use anemone_runtime::os::shared::FileBytes;

/// The device of the open driver, which exists on Linux only.
pub const ACCELERATOR: Option<&str> = None;

/// The user's cache folder. Errors: the environment variable that would define it.
pub fn cache_folder() -> Result<PathBuf, &'static str> {
    super::named("LOCALAPPDATA").ok_or("LOCALAPPDATA is not set")
}

/// The user's folder for sockets, which does not exist.
pub fn runtime_folder() -> Result<PathBuf, &'static str> {
    Err("the broker does not run on windows")
}

/// Does nothing: access rights follow the folder.
pub(super) fn mode<'b, 'a, 's>(builder: &'b mut tempfile::Builder<'a, 's>) -> &'b mut tempfile::Builder<'a, 's> {
    builder
}

/// The bytes of a file, mapped if it is large.
pub fn open(path: &Path) -> std::io::Result<FileBytes> {
    FileBytes::open(path)
}

/// Returns true if a write failed because nobody reads the pipe any more.
pub fn reader_left(error: &std::io::Error) -> bool {
    // The standard library gives this code, which Wine returns, no kind.
    const PIPE_NOT_CONNECTED: i32 = 233;
    super::whole::reader_left(error) || error.raw_os_error() == Some(PIPE_NOT_CONNECTED)
}
