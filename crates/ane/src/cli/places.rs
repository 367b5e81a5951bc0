//! Default places of the runtime: the broker's socket, the cache.

use anemone::{Code, Diagnostic, Result};
use anemone_runtime::cache::Cache;
use anemone_runtime::e5rt::cache_root;
use std::path::PathBuf;

/// Most bytes of the cache, unless asked for otherwise.
pub const CACHE_BYTES: u64 = 4 << 30;

/// The broker's socket: as given, or in the user's runtime folder.
pub fn socket(given: Option<PathBuf>) -> Result<PathBuf> {
    let folder = || std::env::var_os("XDG_RUNTIME_DIR").map(|d| PathBuf::from(d).join("anemone").join("aned.sock"));
    let message = "where the broker's socket is, is not known: XDG_RUNTIME_DIR is not set";
    given.or_else(folder).ok_or_else(|| Diagnostic::new(Code::Usage, message).help("--socket PATH"))
}

/// The cache's folder: as given, or in the user's cache folder.
pub fn cache_folder(given: Option<PathBuf>) -> Result<PathBuf> {
    let base = || {
        let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        own.or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"))).map(|b| cache_root(&b))
    };
    let message = "where the cache is, is not known: neither XDG_CACHE_HOME nor HOME is set";
    given.or_else(base).ok_or_else(|| Diagnostic::new(Code::Usage, message).help("--cache FOLDER"))
}

/// The cache.
pub fn cache(given: Option<PathBuf>) -> Result<Cache> {
    Ok(Cache::new(&cache_folder(given)?, CACHE_BYTES))
}

/// A refusal of the runtime.
pub fn refused(error: anemone_runtime::Error) -> Diagnostic {
    use anemone_runtime::Error;
    let code = match &error {
        Error::System { .. } => Code::Unreadable,
        Error::Unknown { .. } | Error::Policy(_) | Error::Taken { .. } => Code::Usage,
        Error::Corrupt { .. } => Code::Malformed,
        _ => Code::Fault,
    };
    Diagnostic::new(code, error.to_string())
}
