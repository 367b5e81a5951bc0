//! Linux, and other Unix systems: folders by the XDG base directory specification.

use std::path::{Path, PathBuf};

pub use super::whole::{reader_left, unnamed, write_all};
pub use anemone_runtime::os::shared::FileBytes;

/// The device of the open driver.
pub const ACCELERATOR: Option<&str> = Some("/dev/accel/accel0");

/// The user's cache folder. Errors: the environment variables that would define it.
pub fn cache_folder() -> Result<PathBuf, &'static str> {
    let home = || super::named("HOME").map(|home| home.join(".cache"));
    super::named("XDG_CACHE_HOME").or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")
}

/// The user's folder for sockets. Errors: the environment variable that would define it.
pub fn runtime_folder() -> Result<PathBuf, &'static str> {
    super::named("XDG_RUNTIME_DIR").ok_or("XDG_RUNTIME_DIR is not set")
}

/// Gives a temporary file the default mode of new files.
pub(super) fn mode<'b, 'a, 's>(builder: &'b mut tempfile::Builder<'a, 's>) -> &'b mut tempfile::Builder<'a, 's> {
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
}

/// The bytes of a file, mapped if it is large.
pub fn open(path: &Path) -> std::io::Result<FileBytes> {
    FileBytes::open(path)
}
