//! Default paths of the runtime: the broker's socket, the cache.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::os;
use anemone_runtime::cache::Cache;
use anemone_runtime::e5rt::cache_root;
use anemone_runtime::os::NAME;
use anemone_runtime::os::support::{FEATURES, Support};
use std::path::PathBuf;

/// Default size limit of the cache in bytes.
pub const CACHE_BYTES: u64 = 4 << 30;

/// The broker's socket: the given path, or in the user's runtime folder. An error on a system without the broker.
pub fn socket(given: Option<PathBuf>) -> Result<PathBuf> {
    need_broker(NAME)?;
    let found = given.map_or_else(|| os::runtime_folder().map(|d| d.join("anemone").join("aned.sock")), Ok);
    let message = |why| format!("the broker's socket has no default path: {why}");
    found.map_err(|why| Diagnostic::new(Code::Usage, message(why)).help("--socket PATH"))
}

/// Refuses a system without the broker, with the reason from its row.
pub fn need_broker(system: &str) -> Result<()> {
    match FEATURES.iter().find(|f| f.name == "broker").and_then(|f| f.on(system)) {
        Some(Support::Absent(why)) => {
            let message = format!("there is no broker on {system}: {}", why.trim_start_matches("refused: "));
            Err(Diagnostic::new(Code::Usage, message)
                .help("`ane run --via inprocess` compiles, caches and runs in one process"))
        }
        _ => Ok(()),
    }
}

/// The cache's folder: the given path, or in the user's cache folder.
pub fn cache_folder(given: Option<PathBuf>) -> Result<PathBuf> {
    let found = given.map_or_else(|| os::cache_folder().map(|base| cache_root(&base)), Ok);
    let message = |why| format!("the cache has no default folder: {why}");
    found.map_err(|why| Diagnostic::new(Code::Usage, message(why)).help("--cache FOLDER"))
}

/// The cache.
pub fn cache(given: Option<PathBuf>) -> Result<Cache> {
    Ok(Cache::new(&cache_folder(given)?, CACHE_BYTES))
}

/// Warning that a program was not cached, so that the next run compiles it again.
pub fn not_kept(why: impl std::fmt::Display) -> String {
    format!("warning: the compiled program is not cached: {why}; --cache FOLDER sets another folder")
}

/// Diagnostic for an error of the runtime.
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
