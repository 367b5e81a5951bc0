//! Files: reading with a place in the error, and writing that leaves either the whole file or none.

use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_net::read::Bytes;
use anemone_program::hwx::Container;
use anemone_runtime::os::shared::FileBytes;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Diagnostic::new(Code::Unreadable, format!("cannot read: {e}")).at(path.display()))
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

/// Writes several files, all or none: each into a temporary file beside its place, then renames. What is no regular
/// file (a device, a pipe) is written to directly.
pub fn write_all(files: &[(&Path, &[u8])]) -> Result<()> {
    let mut ready = Vec::new();
    for &(path, bytes) in files {
        let fail = |e: std::io::Error| unwritable(path, &e);
        // A rename would put a file in place of the link or device.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match std::fs::metadata(&target) {
            Ok(found) if found.is_dir() => {
                return Err(
                    Diagnostic::new(Code::Unwritable, "cannot write: a folder has this name").at(path.display())
                );
            }
            Ok(found) if !found.is_file() => std::fs::write(&target, bytes).map_err(fail)?,
            _ => {
                let mut file = temporary(&target).map_err(fail)?;
                file.write_all(bytes).map_err(fail)?;
                ready.push((file, target, path));
            }
        }
    }
    let mut renamed: Vec<PathBuf> = Vec::new();
    for (file, target, path) in ready {
        if let Err(e) = file.persist(&target) {
            renamed.iter().for_each(|done| drop(std::fs::remove_file(done)));
            return Err(unwritable(path, &e.error));
        }
        renamed.push(target);
    }
    Ok(())
}

/// A temporary file in the folder of `target`, readable by whoever may read files made here.
fn temporary(target: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ane-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Diagnostic {
    // Errors of temporary files end in a name that the user never gave.
    let text = error.to_string();
    let plain = text.split(" at path ").next().unwrap_or_default();
    let diagnostic = Diagnostic::new(Code::Unwritable, format!("cannot write: {plain}")).at(path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => diagnostic.help("make the folder first"),
        _ => diagnostic,
    }
}

/// Files below a folder, for readers that ask for more by name. Names that climb out of the folder are refused. Large files
/// are mapped: see [`FileBytes`].
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
        let whole = FileBytes::open(&self.root.join(relative)).map_err(|e| e.to_string())?;
        Ok(Bytes::from_owner(whole))
    }
}
