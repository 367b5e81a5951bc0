//! Files: reading with a place in the error, and writing that leaves either the whole file or none.

use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_net::read::Bytes;
use anemone_program::hwx::Container;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| {
        let refusal = Diagnostic::new(Code::Unreadable, format!("cannot read: {e}")).at(path.display());
        elsewhere(path).map_or(refusal.clone(), |help| refusal.help(help))
    })
}

/// Suggestion for a name that is no path of a file: a URL, or a share of Windows that is not connected.
fn elsewhere(path: &Path) -> Option<&'static str> {
    let text = path.to_string_lossy();
    if text.contains("://") {
        return Some("this is a URL: fetch the file first, and give its path");
    }
    let share = text.starts_with("\\\\") || text.starts_with("//");
    share.then_some("a network share: connect or mount it, and give the path that this system has for it")
}

/// The container in a file, without reading the contents of its sections; `None` where the whole file must be read to know
/// what it is.
pub fn outline(path: &Path) -> Result<Option<Container>> {
    let fail = |e: std::io::Error| Diagnostic::new(Code::Unreadable, format!("cannot read: {e}")).at(path.display());
    if !path.is_file() {
        return Ok(None);
    }
    let mut file = std::fs::File::open(path).map_err(fail)?;
    let bytes = file.metadata().map_err(fail)?.len();
    let fetch = |at: u64, into: &mut [u8]| {
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(into)
    };
    Container::outline(bytes, fetch).map_err(fail)
}

/// Writes a whole file; see [`write_all`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_all(&[(path, bytes)])
}

pub use crate::os::write_all;

/// Files below a folder, for readers that ask for more by name. Names that climb out of the folder are refused. Large files
/// are mapped where the system can.
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Folder {
        Folder { root: root.into() }
    }
}

impl anemone_net::read::Files for Folder {
    fn read(&self, path: &str) -> std::result::Result<Bytes, String> {
        let relative = Path::new(path);
        let inside =
            relative.components().all(|c| matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir));
        if !inside {
            return Err("the path leaves the model's folder".into());
        }
        let whole = crate::os::open(&self.root.join(relative)).map_err(|e| e.to_string())?;
        Ok(Bytes::from_owner(whole))
    }
}
