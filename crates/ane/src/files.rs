//! File access: reading with a place in the error, and atomic writing.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::os::{FileBytes, reason};
use anemone_compile::{Log, Progress, Stage};
use anemone_net::read::Bytes;
use anemone_program::hwx::Container;
use anemone_program::order;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| unreadable(path, &e))
}

/// Error for a path that cannot be read: the name, the reason, and advice on existing files.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    let refusal = format!("cannot read `{}`: {}", path.display(), reason(error));
    let refusal = Diagnostic::new(Code::Unreadable, refusal);
    let absent = error.kind() == std::io::ErrorKind::NotFound;
    let help = elsewhere(path).map(String::from).or_else(|| absent.then(|| present(path)));
    let refusal = match std::path::absolute(path) {
        Ok(whole) if whole != path => refusal.at(whole.display()),
        _ => refusal.at(path.display()),
    };
    help.map_or(refusal.clone(), |help| refusal.help(help))
}

/// Advice on a path that does not exist: its first missing folder, a similar name, or models in its folder.
fn present(path: &Path) -> String {
    const MOST_NAMES: usize = 4;
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = whole.ancestors().skip(1).find(|folder| folder.is_dir());
    let Some(folder) = folder else { return "check the path".into() };
    let missing = whole.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
    let name = missing.map_or(String::new(), |part| part.as_os_str().to_string_lossy().into_owned());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    order::by(&mut names, Ord::cmp);
    let near = crate::reference::nearest(&name, names.iter().map(String::as_str));
    let model = |name: &&String| {
        let extension = Path::new(name.as_str()).extension().and_then(|e| e.to_str());
        extension.is_some_and(|e| matches!(e, "mlpackage" | "mlmodelc" | "mlmodel" | "onnx" | "mil" | "hwx" | "plist"))
    };
    let models: Vec<&str> = names.iter().filter(model).take(MOST_NAMES).map(String::as_str).collect();
    let there = match models.as_slice() {
        [] => String::new(),
        models => format!("; models there: {}", models.join(", ")),
    };
    format!(
        "{near}the folder {} has no `{name}`{}",
        folder.display(),
        if near.is_empty() { there } else { String::new() }
    )
}

/// Suggestion for a name that is not a file path: a URL, or a Windows share that is not connected.
fn elsewhere(path: &Path) -> Option<&'static str> {
    let text = path.to_string_lossy();
    if text.contains("://") {
        return Some("this is a URL: fetch the file first, and give its path");
    }
    let share = text.starts_with("\\\\") || text.starts_with("//");
    share.then_some("a network share: connect or mount it, and give the path that this system has for it")
}

/// The container in a file, without reading the contents of its sections; `None` if the whole file is needed to
/// determine its form.
pub fn outline(path: &Path) -> Result<Option<Container>> {
    let fail = |e: std::io::Error| unreadable(path, &e);
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

/// Writes several files, all or none; see [`write_pieces`].
pub fn write_all(files: &[(&Path, &[u8])]) -> Result<()> {
    let pieces: Vec<[&[u8]; 1]> = files.iter().map(|&(_, bytes)| [bytes]).collect();
    let files: Vec<(&Path, &[&[u8]])> = files.iter().zip(&pieces).map(|(&(path, _), p)| (path, &p[..])).collect();
    write_pieces(&files)
}

pub use crate::os::write_all as write_pieces;

/// Files opened by [`Folder`] that are still in use.
static OPEN: Mutex<Vec<Weak<FileBytes>>> = Mutex::new(Vec::new());

/// Releases memory of opened model files that was read so far, if it is mapped; later accesses read it
/// again.
pub fn release() {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|file| file.upgrade().inspect(|file| file.release()).is_some());
}

/// Bytes read from mapped files since the last [`release`]; 32 MiB cause one.
#[derive(Default)]
pub struct Pending(usize);

impl Pending {
    /// Bytes between two releases.
    const BYTES: usize = 32 << 20;

    /// Counts bytes that were read and are not needed soon.
    pub fn add(&mut self, bytes: usize) {
        self.0 += bytes;
        if self.0 >= Pending::BYTES {
            self.release();
        }
    }

    /// Releases the counted bytes, if there are any.
    pub fn release(&mut self) {
        if std::mem::take(&mut self.0) > 0 {
            release();
        }
    }
}

/// The bytes of a whole file, mapped if it is large: [`release`] frees their memory.
pub fn mapped(path: &Path) -> Result<Bytes> {
    let file = Arc::new(crate::os::open(path).map_err(|e| unreadable(path, &e))?);
    Ok(register(file))
}

/// The bytes of a file, registered for [`release`].
fn register(file: Arc<FileBytes>) -> Bytes {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&file));
    Bytes::from_owner(Opened(file))
}

/// Smallest size in bytes of data moved to a file.
const ASIDE_BYTES: usize = 16 << 20;

/// The same bytes in a separate file, mapped and removed with its last holder, so that [`release`] frees their memory. Small data,
/// and data for which no file can be written, stay in memory.
pub fn set_aside(bytes: &Bytes) -> Bytes {
    if bytes.len() < ASIDE_BYTES {
        return bytes.clone();
    }
    let Ok(file) = crate::os::unnamed(&[bytes]) else { return bytes.clone() };
    register(Arc::new(file))
}

/// Concatenates pieces: if they are large, in a file as by [`set_aside`].
#[cfg(feature = "system")]
pub(crate) fn joined(pieces: &[Bytes]) -> Bytes {
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    match (bytes >= ASIDE_BYTES).then(|| crate::os::unnamed(&pieces)) {
        Some(Ok(file)) => register(Arc::new(file)),
        _ => pieces.concat().into(),
    }
}

/// The bytes of an open file.
struct Opened(Arc<FileBytes>);

impl AsRef<[u8]> for Opened {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// Releases memory of files during a compilation, and forwards its events to another log.
pub struct Releasing<'a> {
    /// Log that receives the same events.
    pub log: &'a mut dyn Log,
    /// Bytes of weights packed since the last release.
    pending: Pending,
}

impl<'a> Releasing<'a> {
    /// A log that forwards to another.
    pub fn new(log: &'a mut dyn Log) -> Releasing<'a> {
        Releasing { log, pending: Pending::default() }
    }
}

impl Log for Releasing<'_> {
    fn wants(&self) -> bool {
        self.log.wants()
    }

    fn stage(&mut self, stage: Stage) {
        self.log.stage(stage);
    }

    fn pass(&mut self) {
        self.log.pass();
        release();
    }

    fn tasks(&mut self, names: Vec<String>) {
        self.log.tasks(names);
    }

    fn progress(&mut self, progress: Progress) {
        self.log.progress(progress);
        self.pending.add(progress.bytes as usize);
    }

    fn stopped(&self) -> bool {
        self.log.stopped()
    }
}

/// Files below a folder, for readers that request further files by name. Names outside of the folder are refused. Large files
/// are mapped if the system supports it.
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
        let whole = crate::os::open(&self.root.join(relative)).map_err(|e| reason(&e))?;
        Ok(register(Arc::new(whole)))
    }
}
