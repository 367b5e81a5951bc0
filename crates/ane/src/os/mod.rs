//! The user's files and folders: one file per system, with the same functions. No other file of this crate depends on the
//! system.

#[cfg(feature = "system")]
mod whole;

#[cfg(all(feature = "system", unix, not(target_os = "macos")))]
mod linux;
#[cfg(all(feature = "system", unix, not(target_os = "macos")))]
use linux as system;

#[cfg(all(feature = "system", target_os = "macos"))]
mod macos;
#[cfg(all(feature = "system", target_os = "macos"))]
use macos as system;

#[cfg(all(feature = "system", windows))]
mod windows;
#[cfg(all(feature = "system", windows))]
use windows as system;

#[cfg(not(all(feature = "system", any(unix, windows))))]
mod none;
#[cfg(not(all(feature = "system", any(unix, windows))))]
use none as system;

pub use system::{ACCELERATOR, FileBytes, cache_folder, open, reader_left, runtime_folder, unnamed, write_all};

/// The system's error in words, without its number.
pub fn reason(error: &std::io::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.find(" (os error").unwrap_or(text.len()));
    text
}

/// A folder from an environment variable; relative paths are ignored.
#[cfg(feature = "system")]
fn named(variable: &str) -> Option<std::path::PathBuf> {
    std::env::var_os(variable).map(std::path::PathBuf::from).filter(|path| path.is_absolute())
}
