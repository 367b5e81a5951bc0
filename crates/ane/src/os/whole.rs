//! Atomic writing of files.

use super::system::{FileBytes, mode};
use crate::diagnostic::{Code, Diagnostic, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes several files, all or none: each to a temporary file beside its destination, which is then renamed. Special
/// files (devices, pipes) are written directly. A file is given in pieces.
pub fn write_all(files: &[(&Path, &[&[u8]])]) -> Result<()> {
    let mut ready = Vec::new();
    for &(path, pieces) in files {
        let fail = |e: std::io::Error| unwritable(path, &e);
        // A rename would replace a link or device by a file.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match std::fs::metadata(&target) {
            Ok(found) if found.is_dir() => {
                return Err(
                    Diagnostic::new(Code::Unwritable, "cannot write: a folder has this name").at(path.display())
                );
            }
            Ok(found) if !found.is_file() => {
                let mut file = std::fs::File::options().write(true).open(&target).map_err(fail)?;
                pieces.iter().try_for_each(|bytes| file.write_all(bytes)).map_err(fail)?;
            }
            _ => {
                let mut file = temporary(&target).map_err(fail)?;
                pieces.iter().try_for_each(|bytes| file.write_all(bytes)).map_err(fail)?;
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

/// Temporary file in the folder of `target`, with the default mode of new files.
fn temporary(target: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    mode(builder.prefix(".ane-")).tempfile_in(folder)
}

/// The bytes in an unnamed file, in the user's cache folder or the folder of temporary files. Errors: a system that keeps the
/// name of a mapped file.
pub fn unnamed(pieces: &[&[u8]]) -> std::io::Result<FileBytes> {
    let own = super::cache_folder().map(|folder| folder.join("anemone"));
    let own = own.ok().filter(|folder| std::fs::create_dir_all(folder).is_ok());
    let mut builder = tempfile::Builder::new();
    let mut file = builder.prefix(".ane-").tempfile_in(own.unwrap_or_else(std::env::temp_dir))?;
    pieces.iter().try_for_each(|bytes| file.write_all(bytes))?;
    let (kept, name) = file.into_parts();
    drop(kept);
    let mapped = FileBytes::open(&name)?;
    // Removed while it is mapped; otherwise when the map is dropped.
    match std::fs::remove_file(&name) {
        Ok(()) => Ok(mapped),
        Err(error) => {
            drop(mapped);
            Err(error)
        }
    }
}

/// Returns true if a write failed because nobody reads the pipe any more.
pub fn reader_left(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

fn unwritable(path: &Path, error: &std::io::Error) -> Diagnostic {
    // The message of a temporary file's error ends in a name that the user did not give.
    let text = super::reason(error);
    let plain = text.split(" at path ").next().unwrap_or_default();
    let diagnostic = Diagnostic::new(Code::Unwritable, format!("cannot write: {plain}")).at(path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => diagnostic.help("make the folder first"),
        _ => diagnostic,
    }
}
