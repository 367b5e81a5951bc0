//! Files: reading with a place in the error, and writing that leaves either the whole file or none.

use crate::diagnostic::{Code, Diagnostic, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Diagnostic::new(Code::Unreadable, format!("cannot read: {e}")).at(path.display()))
}

/// Writes a whole file: into a temporary file beside it, then a rename.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |e: std::io::Error| Diagnostic::new(Code::Unwritable, format!("cannot write: {e}")).at(path.display());
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    file.persist(path).map_err(|e| fail(e.error))?;
    Ok(())
}

/// Files below a folder, for readers that ask for more by name. Names that climb out of the folder are refused.
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
    fn read(&self, path: &str) -> std::result::Result<Vec<u8>, String> {
        let relative = Path::new(path);
        let inside = relative.components().all(|c| matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir));
        if !inside {
            return Err("the path leaves the model's folder".into());
        }
        std::fs::read(self.root.join(relative)).map_err(|e| e.to_string())
    }
}
